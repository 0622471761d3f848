//! The marks of a node that is to go, in the API server: the taint on the Node and the reason on the claim.
//!
//! Each write is attempted several times (DIS-013), after a conflict with the newest version of the object. Missing objects need no mark.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use kerf_api::conditions::node_claim::DISRUPTION_REASON;
use kerf_api::status::Conditioned;
use kerf_api::{ConditionSet, NodeClaim, taints};
use kerf_model::budget::DisruptionReason;
use kerf_runtime::client::{ApiErrorKind, found};
use kerf_state::CommandNode;
use kerf_state::lean::LeanNode;
use kube::Api;

use crate::claim_writes::write_status;
use crate::context::Context;
use crate::node_writes::{edit_node, write_node};
use crate::retry::Retry;

/// Writes and removes marks.
#[derive(Clone)]
pub(super) struct DisruptionTaints {
    context: Context,
    retry: Retry,
}

impl DisruptionTaints {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            retry: Retry::new(context, "disruption-marks"),
            context: context.clone(),
        }
    }

    /// Marks a node that is to go (DIS-257, DIS-258).
    pub(super) async fn mark(&self, node: &CommandNode, reason: DisruptionReason) -> Result<(), kube::Error> {
        self.edit_node(node.node.as_deref(), add_disrupted).await?;
        self.edit_claim(node, Some(reason)).await
    }

    /// Removes the taint (DIS-011).
    pub(super) async fn untaint(&self, node: &CommandNode) -> Result<(), kube::Error> {
        self.edit_node(node.node.as_deref(), remove_disrupted).await
    }

    /// Removes all marks (DIS-011, DIS-012).
    pub(super) async fn unmark(&self, node: &CommandNode) -> Result<(), kube::Error> {
        self.untaint(node).await?;
        self.edit_claim(node, None).await
    }

    /// Changes the Node of a name; one that is gone needs no change.
    pub(super) async fn edit_node(
        &self,
        name: Option<&str>,
        edit: impl Fn(&mut Node) + Copy + Send + Sync,
    ) -> Result<(), kube::Error> {
        let Some(name) = name else { return Ok(()) };
        self.retry.run(|| self.edit_node_once(name, edit)).await
    }

    async fn edit_node_once(&self, name: &str, edit: impl Fn(&mut Node) + Send + Sync) -> Result<(), kube::Error> {
        if let Some(known) = self.context.cluster.node(name) {
            return edit_node(&self.context, &known, edit).await.map(drop);
        }
        let api: Api<Node> = Api::all(self.context.client.clone());
        let Some(before) = found(api.get(name).await)? else {
            return Ok(());
        };
        let mut after = before.clone();
        edit(&mut after);
        write_node(&self.context, &before, &after).await.map(drop)
    }

    async fn edit_claim(&self, node: &CommandNode, reason: Option<DisruptionReason>) -> Result<(), kube::Error> {
        self.retry.run(|| self.edit_claim_once(node, reason)).await
    }

    async fn edit_claim_once(&self, node: &CommandNode, reason: Option<DisruptionReason>) -> Result<(), kube::Error> {
        let api: Api<NodeClaim> = Api::all(self.context.client.clone());
        let cluster = &self.context.cluster;
        let ours = |claim: &NodeClaim| claim.metadata.uid.as_deref() == Some(&node.claim_uid);
        let unmarked = |claim: &Arc<NodeClaim>| ours(claim) && !bears_reason(claim);
        if let Some(known) = cluster.claim(&node.claim).filter(unmarked).filter(|_| reason.is_some()) {
            match self.write_reason(&known, reason).await {
                Err(error) if ApiErrorKind::of(&error) == ApiErrorKind::Conflict => {}
                answer => return answer,
            }
        }
        let Some(read) = found(api.get(&node.claim).await)?.filter(ours) else {
            return Ok(());
        };
        // A read that is older than the mirror could lack a mark that has to be removed.
        cluster.wrote_claim(read.clone());
        let newest = cluster.claim(&node.claim).filter(|known| ours(known));
        let before = newest.map_or(read, Arc::unwrap_or_clone);
        self.write_reason(&before, reason).await
    }

    async fn write_reason(&self, before: &NodeClaim, reason: Option<DisruptionReason>) -> Result<(), kube::Error> {
        let mut after = before.clone();
        set_reason(&mut after, reason, self.context.now());
        write_status(&self.context, before, &after).await.map(drop)
    }
}

/// Sets the condition that says why the claim goes, or removes it.
fn set_reason(claim: &mut NodeClaim, reason: Option<DisruptionReason>, now: Timestamp) {
    match reason.map(DisruptionReason::as_str) {
        Some(text) => {
            ConditionSet::new(claim, now).set_true_because(DISRUPTION_REASON, text, text);
        }
        None if bears_reason(claim) => {
            let removed = ConditionSet::new(claim, now).remove(DISRUPTION_REASON);
            debug_assert!(removed.is_ok(), "Ready does not depend on {DISRUPTION_REASON}");
        }
        None => {}
    }
}

/// Adds a taint, unless the node has one of its key and effect (DIS-259).
pub(super) fn add_taint(node: &mut Node, wanted: Taint) {
    let present = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if !present.iter().any(|taint| taints::matches(taint, &wanted)) {
        present.push(wanted);
    }
}

/// Removes the taints of this one's key and effect.
pub(super) fn remove_taint(node: &mut Node, unwanted: &Taint) {
    if let Some(present) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        present.retain(|taint| !taints::matches(taint, unwanted));
    }
}

fn add_disrupted(node: &mut Node) {
    add_taint(node, taints::disrupted());
}

/// A Node that is being deleted keeps the taint (DIS-011).
fn remove_disrupted(node: &mut Node) {
    if node.metadata.deletion_timestamp.is_some() {
        return;
    }
    remove_taint(node, &taints::disrupted());
}

/// Whether a Node carries the taint and could lose it.
pub(super) fn bears_taint(node: &LeanNode) -> bool {
    let disrupted = taints::disrupted();
    let mut present = node.spec.taints.iter();
    node.metadata.deletion_timestamp.is_none()
        && present.any(|taint| taint.key == disrupted.key && taint.effect == disrupted.effect)
}

/// Whether a claim carries the reason.
pub(super) fn bears_reason(claim: &NodeClaim) -> bool {
    claim.condition(DISRUPTION_REASON).is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::Taint;
    use kerf_cloud::FAKE_NODE_CLASS;
    use serde_json::json;

    use super::*;
    use crate::cluster::{Cluster, Watched};

    fn texts(node: &Node) -> Vec<String> {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints
            .map(|taint| {
                format!(
                    "{}={}:{}",
                    taint.key,
                    taint.value.as_deref().unwrap_or_default(),
                    taint.effect
                )
            })
            .collect()
    }

    fn node(value: &str, effect: &str) -> Node {
        let mut node = Node::default();
        node.spec.get_or_insert_default().taints = Some(vec![Taint {
            key: taints::DISRUPTED.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        }]);
        node
    }

    // DIS-259
    #[test]
    fn the_taint_is_known_by_key_and_effect_and_has_no_value() {
        let mut bare = Node::default();
        add_disrupted(&mut bare);
        add_disrupted(&mut bare);
        assert_eq!(texts(&bare), ["karpenter.sh/disrupted=:NoSchedule"]);
        let mut valued = node("x", "NoSchedule");
        add_disrupted(&mut valued);
        assert_eq!(texts(&valued), ["karpenter.sh/disrupted=x:NoSchedule"]);
        remove_disrupted(&mut valued);
        assert_eq!(texts(&valued), [""; 0]);
        let mut other = node("", "NoExecute");
        remove_disrupted(&mut other);
        assert_eq!(texts(&other), ["karpenter.sh/disrupted=:NoExecute"]);
    }

    // API-118
    #[test]
    fn the_reason_of_a_disruption_is_reason_and_message_until_it_is_removed() {
        let (mut claim, now) = (NodeClaim::default(), Timestamp::UNIX_EPOCH);
        for (reason, text) in [
            (DisruptionReason::Underutilized, "Underutilized"),
            (DisruptionReason::Empty, "Empty"),
            (DisruptionReason::Drifted, "Drifted"),
        ] {
            set_reason(&mut claim, Some(reason), now);
            let condition = claim.condition(DISRUPTION_REASON).expect("a reason");
            assert!(condition.is_true());
            assert_eq!((condition.reason(), condition.message()), (text, text));
        }
        set_reason(&mut claim, None, now);
        assert!(!bears_reason(&claim));
    }

    fn claim(version: &str, conditions: &serde_json::Value) -> serde_json::Value {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "web-1", "uid": "web-1", "resourceVersion": version},
            "spec": {"requirements": [], "nodeClassRef": {"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"}},
            "status": {"providerID": "p://1", "conditions": conditions},
        })
    }

    // DIS-011
    #[tokio::test]
    async fn a_read_that_is_behind_hides_no_mark() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        let count = move |_: &Cluster| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let context = Context::answering(&claim("1", &json!([])), count);
        let reason = json!([{"type": DISRUPTION_REASON, "status": "True", "reason": "Drifted", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let marked = serde_json::from_value::<NodeClaim>(claim("2", &reason)).expect("a claim");
        context.cluster.notify(Watched::apply(&context.cluster, marked));
        let node = CommandNode {
            node: None,
            claim: "web-1".into(),
            claim_uid: "web-1".into(),
            provider_id: "p://1".into(),
        };
        DisruptionTaints::new(&context).unmark(&node).await.expect("answered");
        assert_eq!(calls.load(Ordering::Relaxed), 2, "it is read and written");
    }

    // DIS-258
    #[tokio::test]
    async fn a_namesake_of_the_claim_gets_no_reason() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        let count = move |_: &Cluster| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let context = Context::answering(&claim("1", &json!([])), count);
        let node = |uid: &str| CommandNode {
            node: None,
            claim: "web-1".into(),
            claim_uid: uid.into(),
            provider_id: "p://1".into(),
        };
        let taints = DisruptionTaints::new(&context);
        let reason = DisruptionReason::Drifted;
        taints.mark(&node("before"), reason).await.expect("answered");
        assert_eq!(calls.load(Ordering::Relaxed), 1, "it is read");
        taints.mark(&node("web-1"), reason).await.expect("answered");
        assert_eq!(calls.load(Ordering::Relaxed), 3, "it is read and written");
    }

    // DIS-011
    #[test]
    fn a_node_that_is_deleted_keeps_the_taint() {
        let mut going = node("", "NoSchedule");
        going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            jiff::Timestamp::UNIX_EPOCH,
        ));
        remove_disrupted(&mut going);
        assert_eq!(texts(&going), ["karpenter.sh/disrupted=:NoSchedule"]);
    }
}
