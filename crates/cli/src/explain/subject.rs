//! What is asked about, as written on the command line.

/// An object to explain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    /// A pod; its namespace where one was given.
    Pod { namespace: Option<String>, name: String },
    /// A node, by its name or its NodeClaim's.
    Node { name: String },
}

const POD: [&str; 3] = ["pod", "pods", "po"];
const NODE: [&str; 5] = ["node", "nodes", "no", "nodeclaim", "nodeclaims"];

impl Subject {
    /// Reads `KIND/NAME`, `KIND NAME`, or `pod/NAMESPACE/NAME` as Kerf's own reports name pods.
    pub(super) fn parse(words: &[String], namespace: Option<&str>) -> Result<Self, String> {
        let parts: Vec<&str> = words.iter().flat_map(|word| word.split('/')).collect();
        let (kind, names) = parts.split_first().unwrap_or((&"", &[]));
        let lower = kind.to_ascii_lowercase();
        let is_pod = POD.contains(&lower.as_str());
        if !is_pod && !NODE.contains(&lower.as_str()) {
            return Err(format!(
                "cannot explain \"{}\": say pod/NAME or node/NAME",
                words.join(" ")
            ));
        }
        let (written, name) = match names {
            [name] => (None, *name),
            [namespace, name] if is_pod => (Some(*namespace), *name),
            _ => {
                return Err(format!(
                    "\"{}\" does not name one {kind}: say {kind}/NAME",
                    words.join(" ")
                ));
            }
        };
        if name.is_empty() || written == Some("") {
            return Err(format!("the name of the {kind} is missing: say {kind}/NAME"));
        }
        if let (Some(written), Some(flag)) = (written, namespace)
            && written != flag
        {
            return Err(format!("the {kind} is said to be in {written} and, with -n, in {flag}"));
        }
        let name = name.to_owned();
        if !is_pod {
            return Ok(Self::Node { name });
        }
        Ok(Self::Pod {
            namespace: written.or(namespace).map(str::to_owned),
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str], namespace: Option<&str>) -> Result<Subject, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Subject::parse(&words, namespace)
    }

    #[test]
    fn pods_are_named_as_for_kubectl() {
        let pod = |namespace: Option<&str>| {
            Ok(Subject::Pod {
                namespace: namespace.map(str::to_owned),
                name: "web-0".to_owned(),
            })
        };
        for words in [
            &["pod/web-0"][..],
            &["po/web-0"],
            &["pods/web-0"],
            &["Pod/web-0"],
            &["pod", "web-0"],
        ] {
            assert_eq!(parse(words, None), pod(None), "{words:?}");
            assert_eq!(parse(words, Some("shop")), pod(Some("shop")), "{words:?}");
        }
        assert_eq!(parse(&["pod/shop/web-0"], None), pod(Some("shop")));
        assert_eq!(parse(&["pod", "shop/web-0"], Some("shop")), pod(Some("shop")));
    }

    #[test]
    fn nodes_have_no_namespace() {
        let node = Ok(Subject::Node { name: "n1".to_owned() });
        for words in [&["node/n1"][..], &["no/n1"], &["nodes", "n1"], &["NodeClaim/n1"]] {
            assert_eq!(parse(words, None), node, "{words:?}");
        }
        assert!(parse(&["node/shop/n1"], None).is_err());
    }

    #[test]
    fn what_cannot_be_explained_is_refused() {
        for (words, part) in [
            (&["service/web"][..], "cannot explain \"service/web\""),
            (&["web-0"], "cannot explain \"web-0\""),
            (&["pod/"], "name of the pod is missing"),
            (&["pod"], "does not name one pod"),
            (&["pod/a/b/c"], "does not name one pod"),
            (&["pod/a", "b"], ""),
        ] {
            match parse(words, None) {
                Err(problem) => assert!(problem.contains(part), "{problem}"),
                Ok(subject) => assert_eq!(part, "", "{subject:?}"),
            }
        }
        let twice = parse(&["pod/shop/web-0"], Some("bank"));
        assert_eq!(
            twice,
            Err("the pod is said to be in shop and, with -n, in bank".to_owned())
        );
    }
}
