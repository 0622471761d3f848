//! In the end every instance has its claim, every claim its instance, and both their Node.

use std::collections::BTreeSet;

use super::Invariant;
use crate::view::View;

pub(crate) struct Pairs;

impl Invariant for Pairs {
    fn name(&self) -> &'static str {
        "claims, instances and nodes belong together"
    }

    fn quiet(&self, seen: &View) -> Vec<String> {
        let claims: BTreeSet<&str> = seen.claims.values().map(|claim| claim.provider_id.as_str()).collect();
        let nodes: BTreeSet<&str> = seen.nodes.values().map(|node| node.provider_id.as_str()).collect();
        let instances: BTreeSet<&str> = seen.instances.keys().map(String::as_str).collect();
        let mut wrong = Vec::new();
        for (what, these, other, those) in [
            ("instance", &instances, "claim", &claims),
            ("claim", &claims, "instance", &instances),
            ("node", &nodes, "claim", &claims),
            ("claim", &claims, "node", &nodes),
        ] {
            wrong.extend(
                these
                    .difference(those)
                    .map(|id| format!("{what} {id:?} has no {other}")),
            );
        }
        if seen.claims.len() != claims.len() {
            wrong.push("two claims have one instance".to_owned());
        }
        let unready = |claim: &&crate::view::Claim| !claim.is_true("Initialized");
        wrong.extend(
            seen.claims
                .values()
                .filter(unready)
                .map(|claim| format!("{} is not initialized", claim.name)),
        );
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Claim, Instance, Node};

    #[test]
    fn each_of_the_three_is_missed() {
        let mut seen = View::default();
        let claim = Claim {
            provider_id: "id".into(),
            conditions: [("Initialized".to_owned(), "True".to_owned())].into(),
            ..Claim::default()
        };
        let node = Node {
            provider_id: "id".into(),
            ..Node::default()
        };
        seen.claims.insert("c".into(), claim);
        seen.nodes.insert("n".into(), node);
        seen.instances.insert("id".into(), Instance::default());
        assert_eq!(Pairs.quiet(&seen), [""; 0]);
        let mut leaked = seen.clone();
        leaked.claims.clear();
        assert_eq!(Pairs.quiet(&leaked).len(), 2);
        let mut lost = seen.clone();
        lost.instances.clear();
        assert_eq!(Pairs.quiet(&lost).len(), 1);
        seen.nodes.clear();
        assert_eq!(Pairs.quiet(&seen).len(), 1);
    }
}
