//! Changes a Node in memory as registration wants it (LIF-028 to LIF-038); the controller writes it.

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kerf_api::{NodeClaim, finalizers, labels, taints};
use kube::Resource;

/// Whether the Node joined without the taint that keeps pods away until it is registered (LIF-030). When the registered label is there,
/// whatever its value, registration removed the taint, perhaps in an earlier run that could not store it in the claim.
pub(crate) fn lacks_unregistered_taint(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    let is_labelled = labels.is_some_and(|labels| labels.contains_key(labels::REGISTERED));
    !is_labelled
        && !node_taints(node)
            .iter()
            .any(|taint| taints::matches(taint, &taints::unregistered()))
}

/// Copies labels, annotations and taints of the claim to its Node (LIF-031, LIF-032). Repeating it changes nothing.
pub(crate) fn sync(claim: &NodeClaim, node: &mut Node) {
    let finalizers = node.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == finalizers::TERMINATION) {
        finalizers.push(finalizers::TERMINATION.to_owned());
    }
    own(claim, node);
    if let Some(annotations) = claim.metadata.annotations.clone() {
        node.metadata.annotations.get_or_insert_default().extend(annotations);
    }
    let keeps_own_taints = node
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::DO_NOT_SYNC_TAINTS))
        .is_some_and(|value| value == labels::TRUE);
    if let Some(labels) = claim.metadata.labels.clone() {
        node.metadata.labels.get_or_insert_default().extend(labels);
    }
    if !keeps_own_taints {
        let wanted = claim.spec.taints().iter().chain(claim.spec.startup_taints());
        let present = taints_mut(node);
        for taint in wanted {
            if !present.iter().any(|other| taints::matches(other, taint)) {
                present.push(taint.clone());
            }
        }
    }
}

/// Marks the Node as registered, which lets pods onto it: the last change of registration (LIF-038).
pub(crate) fn complete(node: &mut Node) {
    taints_mut(node).retain(|taint| !taints::matches(taint, &taints::unregistered()));
    let labels = node.metadata.labels.get_or_insert_default();
    labels.insert(labels::REGISTERED.to_owned(), labels::TRUE.to_owned());
}

/// Makes the claim an owner of the Node, so that the Node is deleted with it (LIF-031). A claim without name or unique id is not stored, so it
/// cannot own anything.
fn own(claim: &NodeClaim, node: &mut Node) {
    let (Some(name), Some(uid)) = (claim.metadata.name.clone(), claim.metadata.uid.clone()) else {
        return;
    };
    let owner = OwnerReference {
        api_version: NodeClaim::api_version(&()).into_owned(),
        kind: NodeClaim::kind(&()).into_owned(),
        name,
        uid,
        block_owner_deletion: Some(true),
        controller: None,
    };
    let same = |other: &OwnerReference| {
        other.api_version == owner.api_version && other.kind == owner.kind && other.uid == owner.uid
    };
    let owners = node.metadata.owner_references.get_or_insert_default();
    if !owners.iter().any(same) {
        owners.push(owner);
    }
}

pub(crate) fn node_taints(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

pub(crate) fn taints_mut(node: &mut Node) -> &mut Vec<Taint> {
    node.spec.get_or_insert_default().taints.get_or_insert_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_api::NodeClaimSpec;
    use std::collections::BTreeMap;

    fn taint(key: &str, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        }
    }

    fn claim() -> NodeClaim {
        let mut claim = NodeClaim::new(
            "web-1",
            NodeClaimSpec {
                taints: Some(vec![taint("team", "NoSchedule")]),
                startup_taints: Some(vec![taint("cni", "NoExecute"), taint("team", "NoExecute")]),
                ..NodeClaimSpec::default()
            },
        );
        claim.metadata.uid = Some("claim-uid".to_owned());
        claim.metadata.labels = Some(BTreeMap::from([("team".to_owned(), "a".to_owned())]));
        claim.metadata.annotations = Some(BTreeMap::from([("note".to_owned(), "claim".to_owned())]));
        claim
    }

    fn node(taints: Vec<Taint>) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some("node-1".to_owned());
        node.metadata.labels = Some(BTreeMap::from([
            ("team".into(), "b".into()),
            ("own".into(), "1".into()),
        ]));
        node.metadata.annotations = Some(BTreeMap::from([("note".to_owned(), "node".to_owned())]));
        *taints_mut(&mut node) = taints;
        node
    }

    fn keys(node: &Node) -> Vec<String> {
        node_taints(node)
            .iter()
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect()
    }

    // LIF-031, API-174
    #[test]
    fn the_claim_overwrites_the_node_and_owns_it_once() {
        let mut node = node(vec![taints::unregistered()]);
        sync(&claim(), &mut node);
        let once = node.clone();
        sync(&claim(), &mut node);
        assert_eq!(node, once, "a repetition changes nothing");
        let meta = node.metadata;
        assert_eq!(meta.finalizers, Some(vec!["karpenter.sh/termination".to_owned()]));
        let labels = meta.labels.unwrap_or_default();
        assert_eq!((labels["team"].as_str(), labels["own"].as_str()), ("a", "1"));
        assert_eq!(meta.annotations.unwrap_or_default()["note"], "claim");
        let owners = meta.owner_references.unwrap_or_default();
        assert_eq!(owners.len(), 1);
        assert_eq!(
            (owners[0].kind.as_str(), owners[0].uid.as_str()),
            ("NodeClaim", "claim-uid")
        );
        assert_eq!(
            (owners[0].block_owner_deletion, owners[0].controller),
            (Some(true), None)
        );
    }

    // LIF-032
    #[test]
    fn taints_are_appended_by_key_and_effect_unless_the_node_refuses_them() {
        let mut plain = node(vec![taint("team", "NoSchedule"), taints::unregistered()]);
        sync(&claim(), &mut plain);
        complete(&mut plain);
        assert_eq!(keys(&plain), ["team:NoSchedule", "cni:NoExecute", "team:NoExecute"]);

        for (value, expected) in [
            ("true", vec![]),
            ("false", vec!["team:NoSchedule", "cni:NoExecute", "team:NoExecute"]),
        ] {
            let mut stubborn = node(vec![taints::unregistered()]);
            let labels = stubborn.metadata.labels.get_or_insert_default();
            labels.insert(labels::DO_NOT_SYNC_TAINTS.to_owned(), value.to_owned());
            sync(&claim(), &mut stubborn);
            complete(&mut stubborn);
            assert_eq!(keys(&stubborn), expected, "{value}");
        }
    }

    // LIF-030
    #[test]
    fn a_node_without_the_taint_is_distinguished_from_a_registered_one() {
        assert!(lacks_unregistered_taint(&node(vec![])));
        assert!(!lacks_unregistered_taint(&node(vec![taints::unregistered()])));
        let mut done = node(vec![taints::unregistered()]);
        complete(&mut done);
        assert!(!lacks_unregistered_taint(&done));
    }
}
