//! In the end nothing that was deleted still exists.

use super::Invariant;
use crate::view::View;

pub(crate) struct Finalizers;

impl Invariant for Finalizers {
    fn name(&self) -> &'static str {
        "what is deleted goes"
    }

    fn quiet(&self, seen: &View) -> Vec<String> {
        let pods = seen
            .pods
            .values()
            .filter(|pod| pod.deletion.is_some())
            .map(|pod| &pod.key);
        let nodes = seen.nodes.values().filter(|node| node.deleting).map(|node| &node.name);
        let claims = seen
            .claims
            .values()
            .filter(|claim| claim.deleting)
            .map(|claim| &claim.name);
        let pools = seen.pools.values().filter(|pool| pool.deleting).map(|pool| &pool.name);
        let all = pods.chain(nodes).chain(claims).chain(pools);
        all.map(|name| format!("{name} is deleted and still there")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Claim;

    #[test]
    fn what_is_held_is_told() {
        let mut seen = View::default();
        seen.claims.insert("c".into(), Claim::default());
        assert!(Finalizers.quiet(&seen).is_empty());
        let claim = Claim {
            deleting: true,
            ..Claim::default()
        };
        seen.claims.insert("c".into(), claim);
        assert_eq!(Finalizers.quiet(&seen).len(), 1);
    }
}
