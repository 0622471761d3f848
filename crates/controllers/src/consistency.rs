//! Checks that nodes have the capacity of their claims, and that each machine has one claim and one Node (the controller
//! `nodeclaim.consistency`; LIF-133 to LIF-136). It only reports.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_api::conditions::node_claim::{
    CONSISTENCY_CHECK_FAILED, CONSISTENCY_CHECK_FAILED_MESSAGE, CONSISTENT_STATE_FOUND, INITIALIZED, REGISTERED,
};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, ConditionSet, NodeClaim};
use kerf_runtime::client::uid_of;
use kerf_runtime::{Event, EventType, ObjectRef, Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;
use kerf_units::quantity::Quantity;
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::write_status;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.consistency";
/// Parallel reconciliations, as upstream has it: at least and at most (LIF-223).
const WORKERS: (usize, usize) = (10, 1000);
/// The time between two checks of a claim (LIF-133).
const CHECK_EVERY: Duration = Duration::from_secs(600);
/// The least share of the promise that is good enough, in percent (LIF-133).
const ENOUGH_PERCENT: f64 = 90.0;

/// The differences between a claim and its node (LIF-133, LIF-134); none if the claim is not initialized or is being deleted (LIF-135).
fn issues(claim: &NodeClaim, node: &LeanNode) -> Vec<String> {
    if claim_facts::is_deleting(claim) || !claim.condition_is_true(INITIALIZED) {
        return Vec::new();
    }
    let requests = claim.spec.resources.iter().flat_map(|resources| &resources.requests);
    let promised = claim.status.as_ref().map(|status| &status.capacity);
    let issue = |(name, requested): (&String, &Quantity)| {
        let expected = promised?
            .get(name)
            .filter(|expected| !expected.is_zero() && !requested.is_zero())?;
        let amount = node.status.capacity.get(name).and_then(|amount| amount.0.as_ref().ok());
        let found = amount.cloned().unwrap_or(Quantity::ZERO);
        let percent = found.to_f64() / expected.to_f64() * 100.0;
        (percent < ENOUGH_PERCENT)
            .then(|| format!("expected {expected} of resource {name}, but found {found} ({percent:.1}% of expected)"))
    };
    requests.filter_map(issue).collect()
}

/// The messages for a machine that has several claims or Nodes: a provider id was written to the wrong object. It is unknown which one is
/// right, so the controller only reports it (LIF-082).
fn doubles(claim: &NodeClaim, claims: &[Arc<NodeClaim>], nodes: &[Arc<LeanNode>]) -> Vec<String> {
    let Some(id) = claim_facts::provider_id(claim).filter(|_| !claim_facts::is_deleting(claim)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let others = claims
        .iter()
        .filter(|other| claim_facts::uid(other) != claim_facts::uid(claim));
    let others: Vec<&str> = others.filter_map(|other| claim_facts::name(other)).collect();
    if !others.is_empty() {
        found.push(format!(
            "provider id {id} is also that of NodeClaim {}: give each its own in status.providerID; deleting one of them ends the \
             machine under all",
            others.join(", ")
        ));
    }
    if nodes.len() > 1 {
        let names = nodes.iter().filter_map(|node| node.metadata.name.as_deref());
        found.push(format!(
            "provider id {id} is that of several Nodes, {}: delete the NodeClaim to have the machine replaced",
            names.collect::<Vec<_>>().join(", ")
        ));
    }
    found
}

/// The last check of a claim.
#[derive(Clone, Copy)]
struct Checked {
    at: Instant,
    doubled: bool,
}

/// Compares claims with their nodes every ten minutes.
pub(crate) struct Consistency {
    context: Context,
    work: WorkLoop<String>,
    /// By uid.
    checked: Mutex<FxHashMap<String, Checked>>,
}

impl Consistency {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::DEFAULT)
                .for_kind::<NodeClaim>()
                .workers(context.workers(WORKERS.0, WORKERS.1)),
            checked: Mutex::default(),
        })
    }

    /// How long until the claim may be checked again; a change of `doubled` does not wait.
    fn not_before(&self, uid: &str, doubled: bool) -> Option<Duration> {
        let checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let last = checked.get(uid).filter(|last| last.doubled == doubled)?;
        let left = CHECK_EVERY.checked_sub(last.at.elapsed())?;
        (!left.is_zero()).then_some(left)
    }

    /// The names of all claims with that provider id.
    fn claims_of(&self, id: &str) -> Vec<String> {
        let claims = self.context.cluster.claims_by_provider_id(id);
        claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect()
    }

    async fn report(&self, claim: &NodeClaim, issues: &[String]) -> Result<(), kube::Error> {
        let object = ObjectRef::of(claim);
        for issue in issues {
            if let Some(object) = object.clone() {
                self.context.recorder.publish(Event {
                    dedupe: vec![object.uid.clone(), issue.clone()],
                    object,
                    kind: EventType::Warning,
                    reason: "FailedConsistencyCheck".into(),
                    message: issue.clone(),
                    dedupe_timeout: None,
                });
            }
            tracing::info!(
                NodeClaim = claim_facts::name(claim),
                "failed consistency check, {issue}"
            );
        }
        let mut after = claim.clone();
        let mut conditions = ConditionSet::new(&mut after, self.context.now());
        if issues.is_empty() {
            conditions.set_true(CONSISTENT_STATE_FOUND);
        } else {
            conditions.set_false(
                CONSISTENT_STATE_FOUND,
                CONSISTENCY_CHECK_FAILED,
                CONSISTENCY_CHECK_FAILED_MESSAGE,
            );
        }
        write_status(&self.context, claim, &after).await.map(drop)
    }
}

impl Reconciler for Consistency {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn observe(&self, change: &Change) {
        if let Some(gone) = change.gone_claim() {
            self.checked.lock().unwrap_or_else(PoisonError::into_inner).remove(gone);
        }
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Claim(claim) => {
                let own = (!claim.is_gone()).then(|| claim.name().to_owned());
                let moved = claim.differs(|claim| claim_facts::provider_id(claim).map(str::to_owned));
                let sides = [&claim.before, &claim.after].into_iter().flatten().filter(|_| moved);
                let others = sides.filter_map(|claim| claim_facts::provider_id(claim));
                own.into_iter()
                    .chain(others.flat_map(|id| self.claims_of(id)))
                    .collect()
            }
            Change::Node(node) => node
                .last()
                .map_or_else(Vec::new, |node| self.claims_of(&node.spec.provider_id)),
            Change::Pod(_) | Change::Pool(_) | Change::Overlay(_) | Change::Buffer(_) | Change::Class(_) => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let Some(claim) = cluster.claim(name) else {
            return Ok(Outcome::Done);
        };
        let Some(id) = claim_facts::provider_id(&claim) else {
            return Ok(Outcome::Done);
        };
        let uid = uid_of(&*claim)?;
        let nodes = cluster.nodes_by_provider_id(id);
        let mut wrong = doubles(&claim, &cluster.claims_by_provider_id(id), &nodes);
        let doubled = !wrong.is_empty();
        // Registration writes the condition of a claim that has nothing to be checked.
        let registers = claim.condition(REGISTERED).is_none_or(Condition::is_unknown);
        if registers && !doubled && !claim_facts::is_deleting(&claim) {
            return Ok(Outcome::Done);
        }
        if let Some(left) = self.not_before(uid, doubled) {
            return Ok(Outcome::RequeueAfter(left));
        }
        if let [node] = nodes.as_slice() {
            wrong.extend(issues(&claim, node));
        }
        if doubled || nodes.len() == 1 {
            self.report(&claim, &wrong).await?;
        }
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        // The event of its deletion, which removes the entry, may have arrived during the write.
        if cluster
            .claim(name)
            .is_some_and(|known| claim_facts::uid(&known) == Some(uid))
        {
            let at = Instant::now();
            checked.insert(uid.to_owned(), Checked { at, doubled });
        }
        Ok(Outcome::RequeueAfter(CHECK_EVERY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Watched};
    use jiff::Timestamp;
    use kerf_api::{NodeClaimSpec, ResourceRequests};
    use kerf_cloud::FAKE_NODE_CLASS;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn list(amounts: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
        amounts
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), amount.parse().expect("a quantity")))
            .collect()
    }

    fn found(memory: &str, initialized: bool) -> Vec<String> {
        let requests = list(&[("memory", "1Gi"), ("cpu", "1"), ("example.com/x", "0")]);
        let spec = NodeClaimSpec {
            resources: Some(ResourceRequests { requests }),
            ..NodeClaimSpec::default()
        };
        let mut claim = NodeClaim::new("web-1", spec);
        claim.status.get_or_insert_default().capacity =
            list(&[("memory", "128Gi"), ("cpu", "4"), ("example.com/x", "2")]);
        let mut conditions = ConditionSet::new(&mut claim, Timestamp::UNIX_EPOCH);
        if initialized {
            conditions.set_true(INITIALIZED);
        }
        let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"memory": memory, "cpu": "4"}}});
        issues(&claim, &serde_json::from_value(node).expect("a node"))
    }

    #[tokio::test]
    async fn a_claim_that_is_gone_before_the_answer_is_not_remembered() {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let answer = json!({
            "metadata": {"name": "web-1", "uid": "web-1", "resourceVersion": "1"},
            "spec": {"requirements": [], "nodeClassRef": class},
            "status": {"providerID": "p://1", "conditions": [{
                "type": "Registered", "status": "True", "reason": "Registered", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        let claim = serde_json::from_value::<NodeClaim>(answer.clone()).expect("a claim");
        let going = claim.clone();
        let gone_first = move |cluster: &Cluster| cluster.notify(Watched::delete(cluster, &going));
        let context = Context::answering(&answer, gone_first);
        let consistency = Consistency::new(&context);
        context.follow(&consistency);
        let node = json!({"metadata": {"name": "n", "uid": "n"}, "spec": {"providerID": "p://1"}});
        let node = serde_json::from_value::<LeanNode>(node).expect("a node");
        context.cluster.notify(Watched::apply(&context.cluster, node));
        context.cluster.notify(Watched::apply(&context.cluster, claim));
        let outcome = consistency.reconcile(&"web-1".to_owned()).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(context.cluster.claims().is_empty());
        let checked = consistency.checked.lock().expect("no panic");
        assert!(checked.is_empty());
    }

    // LIF-136
    #[tokio::test(start_paused = true)]
    async fn a_claim_without_a_node_is_looked_at_again_in_the_next_period() {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let written = |version: &str, conditions: &[&str]| {
            let condition = |type_: &&str| json!({"type": type_, "status": "True", "reason": type_, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let conditions: Vec<_> = conditions.iter().map(condition).collect();
            json!({
                "metadata": {"name": "web-1", "uid": "web-1", "resourceVersion": version},
                "spec": {"requirements": [], "nodeClassRef": class},
                "status": {"providerID": "p://1", "conditions": conditions},
            })
        };
        let context = Context::answering(&written("2", &["Registered", CONSISTENT_STATE_FOUND]), |_| {});
        let consistency = Consistency::new(&context);
        let claim = serde_json::from_value::<NodeClaim>(written("1", &["Registered"])).expect("a claim");
        context.cluster.notify(Watched::apply(&context.cluster, claim));
        let look = async || {
            consistency.reconcile(&"web-1".to_owned()).await.expect("looked at");
            let claim = context.cluster.claim("web-1").expect("a claim");
            claim.condition(CONSISTENT_STATE_FOUND).is_some()
        };
        assert!(!look().await, "there is no Node");
        let node = json!({"metadata": {"name": "n", "uid": "n"}, "spec": {"providerID": "p://1"}});
        let node = serde_json::from_value::<LeanNode>(node).expect("a node");
        context.cluster.notify(Watched::apply(&context.cluster, node));
        tokio::time::sleep(Duration::from_secs(599)).await;
        assert!(!look().await, "not in this period");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(look().await);
    }

    // OPS-202
    #[tokio::test(start_paused = true)]
    async fn a_node_that_falls_short_is_told_of_on_its_claim_once_for_each_finding() {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let answer = json!({
            "metadata": {"name": "web-1", "uid": "web-1", "resourceVersion": "1"},
            "spec": {"requirements": [], "nodeClassRef": class},
        });
        let claim = serde_json::from_value::<NodeClaim>(answer.clone()).expect("a claim");
        let (recorder, mut events) = kerf_runtime::Recorder::new();
        let context = Context {
            recorder,
            ..Context::answering(&answer, |_| {})
        };
        let consistency = Consistency::new(&context);
        let (half, none) = (found("64Gi", true), found("0", true));
        for issues in [&half, &half, &none] {
            consistency.report(&claim, issues).await.expect("written");
        }
        let told = std::iter::from_fn(|| events.try_recv().ok());
        let told: Vec<_> = told
            .map(|event| {
                (
                    event.kind,
                    event.reason.to_string(),
                    event.object.kind,
                    event.object.name,
                    event.message,
                )
            })
            .collect();
        let of = |message: &str| {
            let (reason, kind) = ("FailedConsistencyCheck".to_owned(), "NodeClaim".to_owned());
            (EventType::Warning, reason, kind, "web-1".to_owned(), message.to_owned())
        };
        assert_eq!(
            told,
            [
                of("expected 128Gi of resource memory, but found 64Gi (50.0% of expected)"),
                of("expected 128Gi of resource memory, but found 0 (0.0% of expected)"),
            ]
        );
    }

    #[test]
    fn a_machine_with_several_claims_or_nodes_is_reported() {
        let claim = |name: &str, id: &str| {
            let mut claim = NodeClaim::new(name, NodeClaimSpec::default());
            claim.metadata.uid = Some(format!("uid-{name}"));
            claim.status.get_or_insert_default().provider_id = Some(id.to_owned());
            Arc::new(claim)
        };
        let node = |name: &str| {
            let node = json!({"metadata": {"name": name}, "spec": {"providerID": "p://1"}});
            Arc::new(serde_json::from_value::<LeanNode>(node).expect("a node"))
        };
        let (one, two) = (claim("one", "p://1"), claim("two", "p://1"));
        assert!(doubles(&one, &[Arc::clone(&one)], &[node("a")]).is_empty());
        let found = doubles(&one, &[Arc::clone(&one), two], &[node("a"), node("b")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("provider id p://1 is also that of NodeClaim two: "),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("provider id p://1 is that of several Nodes, a, b: "),
            "{found:?}"
        );
    }

    #[test]
    fn a_node_must_have_nine_tenths_of_what_was_promised() {
        // LIF-134
        assert_eq!(
            found("64Gi", true),
            ["expected 128Gi of resource memory, but found 64Gi (50.0% of expected)"]
        );
        // LIF-133
        assert!(found("116Gi", true).is_empty());
        assert_eq!(found("115Gi", true).len(), 1);
        // LIF-135
        assert!(found("64Gi", false).is_empty());
    }
}
