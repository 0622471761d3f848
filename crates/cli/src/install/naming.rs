//! Names and labels of the objects, by the rules of Karpenter's chart (OPS-240).

use super::values::{Texts, Values};

/// The chart's name, and its version.
const CHART: &str = "kerf";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Longest name: some objects' names must be DNS labels.
const NAME_MAX: usize = 63;

/// The release: what `helm install NAME --namespace NAMESPACE` names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Release {
    pub(crate) name: String,
    pub(crate) namespace: String,
}

/// Names and labels of a release with its values.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Names {
    pub(super) namespace: String,
    pub(super) fullname: String,
    pub(super) service_account: String,
    /// The labels that select the pods.
    pub(super) selector: Texts,
    /// The labels of every object.
    pub(super) labels: Texts,
    /// The annotations of every object.
    pub(super) annotations: Option<Texts>,
}

impl Names {
    pub(super) fn new(release: &Release, values: &Values) -> Self {
        let name = if values.name_override.is_empty() {
            CHART
        } else {
            &values.name_override
        };
        let fullname = if !values.fullname_override.is_empty() {
            truncated(&values.fullname_override)
        } else if release.name.contains(name) {
            truncated(&release.name)
        } else {
            truncated(&format!("{}-{name}", release.name))
        };
        let account = &values.service_account;
        let service_account = match (account.name.as_str(), account.create) {
            ("", true) => fullname.clone(),
            ("", false) => "default".to_owned(),
            (name, _) => name.to_owned(),
        };
        let label = |key: &str, value: &str| (format!("app.kubernetes.io/{key}"), value.to_owned());
        let selector = Texts::from([label("name", &truncated(name)), label("instance", &release.name)]);
        let mut labels = selector.clone();
        labels.extend([label("version", VERSION), label("managed-by", "kerf")]);
        labels.extend(values.additional_labels.clone());
        Self {
            namespace: release.namespace.clone(),
            fullname,
            service_account,
            selector,
            labels,
            annotations: some_unless_empty(&values.additional_annotations),
        }
    }

    /// The objects' annotations and those of one kind of object.
    pub(super) fn annotations_and(&self, more: &Texts) -> Option<Texts> {
        let mut all = self.annotations.clone().unwrap_or_default();
        all.extend(more.clone());
        some_unless_empty(&all)
    }
}

/// `None` for an empty map, which is not written.
pub(super) fn some_unless_empty(texts: &Texts) -> Option<Texts> {
    (!texts.is_empty()).then(|| texts.clone())
}

/// At most the characters that a name may have, without a dash at the end.
fn truncated(name: &str) -> String {
    let name: String = name.chars().take(NAME_MAX).collect();
    name.strip_suffix('-').unwrap_or(&name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(release: &str, name: &str, fullname: &str) -> (String, String) {
        let release = Release {
            name: release.to_owned(),
            namespace: "ns".to_owned(),
        };
        let values = Values {
            name_override: name.to_owned(),
            fullname_override: fullname.to_owned(),
            ..Values::default()
        };
        let names = Names::new(&release, &values);
        let label = names.selector.get("app.kubernetes.io/name").cloned();
        (names.fullname, label.unwrap_or_default())
    }

    // OPS-240
    #[test]
    fn the_name_is_that_of_the_release_and_the_chart() {
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        assert_eq!(names("kerf", "", ""), pair("kerf", "kerf"));
        assert_eq!(names("my-kerf", "", ""), pair("my-kerf", "kerf"));
        assert_eq!(names("prod", "", ""), pair("prod-kerf", "kerf"));
        assert_eq!(names("karpenter", "karpenter", ""), pair("karpenter", "karpenter"));
        assert_eq!(names("karpenter", "", "other"), pair("other", "kerf"));
        let long = format!("{}-kerf", "a".repeat(62));
        assert_eq!(names(&long, "", ""), pair(&"a".repeat(62), "kerf"));
    }
}
