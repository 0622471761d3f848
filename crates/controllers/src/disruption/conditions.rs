//! The claims' conditions `Drifted` and `Consolidatable` (the controller `nodeclaim.disruption`; DIS-215 to DIS-220, LIF-142 to LIF-144).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_api::{NodeClaim, NodePool};
use kerf_lifecycle::claim_conditions::Consolidatable;
use kerf_runtime::client::{name_of, uid_of};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use tokio::time::Instant;

use super::condition_rules::{self, Drift, Words};
use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::write_status;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.disruption";
/// The time until a claim is reconciled again although nothing changed.
const RECONCILE_AGAIN_AFTER: Duration = Duration::from_secs(5 * 60);

/// Keeps the conditions.
pub(crate) struct ClaimConditions {
    context: Context,
    work: WorkLoop<String>,
    /// When claims last passed the check against the catalogue, by unique id.
    passed: Mutex<BTreeMap<String, Instant>>,
}

impl ClaimConditions {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::DEFAULT)
                .for_kind::<NodeClaim>()
                .workers(context.workers(10, 1000)),
            passed: Mutex::default(),
        })
    }

    /// The first check that hits (DIS-218).
    async fn drift(&self, claim: &NodeClaim, pool: &NodePool) -> Result<Drift, ReconcileError> {
        if !condition_rules::is_launched(claim) {
            return Ok(Drift::NotLaunched);
        }
        let vocabulary = &self.context.provider.profile().vocabulary;
        let words = Words {
            rules: &vocabulary.labels,
            interner: &self.context.interner,
            reservation_key: vocabulary.reservation_id_label.as_deref(),
        };
        if let Some(reason) = condition_rules::template_drift(claim, pool, words) {
            return Ok(Drift::For(reason.to_owned()));
        }
        if let Some(reason) = self.type_drift(claim, pool, words)? {
            return Ok(Drift::For(reason.to_owned()));
        }
        match self.context.provider.is_drifted(claim).await {
            Ok(reason) => Ok(reason.map_or(Drift::None, |reason| Drift::For(reason.0.to_string()))),
            // DIS-219: the instance is gone; garbage collection deletes the claim.
            Err(error) if error.is_not_found() => Ok(Drift::None),
            Err(error) => Err(error.into()),
        }
    }

    /// DIS-237: only passes are remembered.
    fn type_drift(
        &self,
        claim: &NodeClaim,
        pool: &NodePool,
        words: Words<'_>,
    ) -> Result<Option<&'static str>, ReconcileError> {
        let uid = uid_of(claim)?;
        let passed = self.passed().get(uid).map(Instant::elapsed);
        if !condition_rules::type_check_is_due(claim, passed, self.context.now()) {
            return Ok(None);
        }
        let name = name_of(pool)?;
        let snapshot = self.context.cluster.snapshot(self.context.now());
        let Some(known) = snapshot.pools.iter().find(|known| *known.name == *name) else {
            return Ok(None);
        };
        let catalogue = known.catalogue.as_ref().map_err(Clone::clone)?;
        let drift = condition_rules::type_drift(claim, catalogue, words);
        if drift.is_none() {
            self.passed().insert(uid.to_owned(), Instant::now());
        }
        Ok(drift)
    }

    fn passed(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the claims that meet a condition.
    fn claims_where(&self, wanted: impl Fn(&NodeClaim) -> bool) -> Vec<String> {
        let claims = self.context.cluster.claims();
        let wanted = claims.iter().filter(|claim| wanted(claim));
        wanted.filter_map(|claim| claim.metadata.name.clone()).collect()
    }
}

impl Reconciler for ClaimConditions {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn observe(&self, change: &Change) {
        if let Some(gone) = change.gone_claim() {
            self.passed().remove(gone);
        }
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Claim(claim) if !claim.is_gone() => vec![claim.name().to_owned()],
            Change::Pool(pool) => {
                let says = |pool: &NodePool| (pool.metadata.generation, pool.metadata.annotations.clone());
                match pool.differs(says) {
                    true => self.claims_where(|claim| claim_facts::pool(claim) == Some(pool.name())),
                    false => Vec::new(),
                }
            }
            Change::Class(class) => match class.last() {
                Some(last) => self.claims_where(|claim| last.is(&claim.spec.node_class_ref)),
                None => Vec::new(),
            },
            // Pod events are written to their node's claim (LIF-137), and the change of that claim is handled above.
            Change::Claim(_) | Change::Pod(_) | Change::Node(_) | Change::Overlay(_) | Change::Buffer(_) => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let claim = cluster.claim(name).filter(|claim| !claim_facts::is_deleting(claim));
        let Some((claim, pool)) =
            claim.and_then(|claim| Some((Arc::clone(&claim), cluster.pool(claim_facts::pool(&claim)?)?)))
        else {
            return Ok(Outcome::Done);
        };
        let drift = self.drift(&claim, &pool).await;
        let now = self.context.now();
        let mut after = NodeClaim::clone(&claim);
        if let Ok(drift) = &drift {
            condition_rules::apply_drift(&mut after, drift, now)?;
        }
        let verdict = condition_rules::consolidatable(&claim, &pool, now);
        condition_rules::apply_consolidatable(&mut after, verdict, now)?;
        write_status(&self.context, &claim, &after).await?;
        drift?;
        Ok(Outcome::RequeueAfter(match verdict {
            Consolidatable::NotBefore(at) => self.context.clock.until(at).min(RECONCILE_AGAIN_AFTER),
            Consolidatable::Untouched
            | Consolidatable::Disabled
            | Consolidatable::Uninitialized
            | Consolidatable::Yes => RECONCILE_AGAIN_AFTER,
        }))
    }
}

#[cfg(test)]
mod tests {
    use kerf_api::ConditionSet;
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_state::lean::LeanNode;
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::cluster::Watched;

    /// A claim of a pool; an empty name stands for no pool.
    fn claim(name: &str, pool: &str, more: &Value) -> NodeClaim {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let mut metadata = json!({"name": name, "uid": name, "resourceVersion": "1"});
        if !pool.is_empty() {
            metadata["labels"] = json!({"karpenter.sh/nodepool": pool});
        }
        for (key, value) in more.as_object().into_iter().flatten() {
            metadata[key] = value.clone();
        }
        // A claim that is not launched cannot have drifted, so the controller removes this condition.
        let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"});
        from_value(json!({
            "metadata": metadata, "spec": {"requirements": [], "nodeClassRef": class}, "status": {"conditions": [drifted]},
        }))
        .expect("a claim")
    }

    fn pool(generation: i64) -> NodePool {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        from_value(json!({
            "metadata": {"name": "web", "uid": "web", "resourceVersion": generation.to_string(), "generation": generation},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
        }))
        .expect("a pool")
    }

    // DIS-216: pod events that count are recorded in the claim (LIF-137).
    #[tokio::test]
    async fn claims_are_examined_when_they_their_pool_or_their_class_change() {
        let context = Context::without_api();
        let (conditions, cluster) = (ClaimConditions::new(&context), &context.cluster);
        let examined = |changes: Vec<Change>| {
            let keys = changes.iter().flat_map(|change| conditions.keys_of(change));
            keys.collect::<Vec<_>>()
        };
        assert_eq!(
            examined(Watched::apply(cluster, claim("web-1", "web", &json!({})))),
            ["web-1"]
        );
        assert_eq!(
            examined(Watched::apply(cluster, claim("other-1", "other", &json!({})))),
            ["other-1"]
        );
        assert_eq!(examined(Watched::apply(cluster, pool(1))), ["web-1"]);
        assert_eq!(examined(Watched::apply(cluster, pool(2))), ["web-1"]);
        let class = |name: &str| {
            Change::Class(crate::changes::Diff {
                name: name.to_owned(),
                before: None,
                after: Some(Arc::new(kerf_state::NodeClass {
                    kind: FAKE_NODE_CLASS,
                    name: name.to_owned(),
                    uid: name.to_owned(),
                    resource_version: "1".to_owned(),
                    generation: 1,
                    deleting: false,
                    ready: None,
                    reported: kerf_state::ReportedClass::default(),
                })),
                listed: false,
            })
        };
        let mut both = examined(vec![class("default")]);
        both.sort();
        assert_eq!(both, ["other-1", "web-1"]);
        assert_eq!(examined(vec![class("another")]), [""; 0]);
        let node = json!({"metadata": {"name": "n", "uid": "n"}, "spec": {"providerID": "p://1"}});
        let node = from_value::<LeanNode>(node).expect("a node");
        assert_eq!(examined(Watched::apply(cluster, node)), [""; 0]);
        let gone = claim("web-1", "web", &json!({}));
        assert_eq!(examined(Watched::delete(cluster, &gone)), [""; 0]);
    }

    // DIS-216
    #[tokio::test]
    async fn claims_that_go_or_have_no_pool_are_left_as_they_are() {
        // Every call fails, so a reconciliation that writes returns an error.
        let context = Context::without_api();
        let (conditions, cluster) = (ClaimConditions::new(&context), &context.cluster);
        let going = json!({"deletionTimestamp": "1970-01-01T00:00:00Z", "finalizers": ["karpenter.sh/termination"]});
        for claim in [
            claim("going", "web", &going),
            claim("orphan", "gone", &json!({})),
            claim("standalone", "", &json!({})),
        ] {
            cluster.notify(Watched::apply(cluster, claim));
        }
        cluster.notify(Watched::apply(cluster, pool(1)));
        for name in ["going", "orphan", "standalone", "nobody"] {
            let outcome = conditions.reconcile(&name.to_owned()).await;
            assert!(matches!(outcome, Ok(Outcome::Done)), "{name}: {outcome:?}");
        }
        cluster.notify(Watched::apply(cluster, claim("web-1", "web", &json!({}))));
        let outcome = conditions.reconcile(&"web-1".to_owned()).await;
        assert!(outcome.is_err(), "it has a condition it must not have: {outcome:?}");
    }

    // DIS-216
    #[tokio::test]
    async fn a_claim_is_examined_every_five_minutes_though_nothing_changes() {
        let context = Context::without_api();
        let (conditions, cluster) = (ClaimConditions::new(&context), &context.cluster);
        let mut settled = claim("web-1", "web", &json!({}));
        settled.status = None;
        // Those that every claim has.
        let _all = ConditionSet::new(&mut settled, jiff::Timestamp::UNIX_EPOCH);
        cluster.notify(Watched::apply(cluster, settled));
        cluster.notify(Watched::apply(cluster, pool(1)));
        let outcome = conditions.reconcile(&"web-1".to_owned()).await;
        assert!(
            matches!(outcome, Ok(Outcome::RequeueAfter(after)) if after == Duration::from_secs(300)),
            "{outcome:?}"
        );
    }
}
