//! Deletes claims without instances and instances without claims (the controller `nodeclaim.garbagecollection`; LIF-128 to LIF-131).
//!
//! A list may lack an object that exists. So nothing is deleted while a list of the cluster is suspicious. A claim is deleted only when
//! the provider, asked for its instance alone, does not find it; an instance only when two rounds found no claim for it and the API server
//! lists none either.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kerf_api::conditions::node_claim::{LAUNCHED, REGISTERED};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, NodeClaim, NodeClaimSpec, NodeClassKind, labels};
use kerf_cloud::{CloudError, Launched};
use kerf_lifecycle::garbage_collection::{Claim, Instance, Suspects, launching_since, orphans};
use kerf_runtime::{Outcome, RateLimit, Readable, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::api::ListParams;
use kube::{Api, Resource};

use crate::claim_facts;
use crate::claim_writes::disrupt;
use crate::context::Context;
use crate::lifecycle::initialization::is_ready;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.garbagecollection";
/// The time between two rounds (LIF-128).
const ROUND_EVERY: Duration = Duration::from_secs(120);
/// How many claims are checked at once (LIF-129).
const PARALLEL: usize = 20;
/// A claim in the terms of the rules.
fn fact(claim: &NodeClaim) -> Claim<'_> {
    Claim {
        provider_id: claim_facts::provider_id(claim),
        created: claim.metadata.creation_timestamp.as_ref().map(|time| time.0),
        launching: claim.condition(LAUNCHED).is_none_or(Condition::is_unknown),
        registered: claim.condition_is_true(REGISTERED),
        deleting: claim_facts::is_deleting(claim),
    }
}

/// An instance in the terms of the rules. Instances of our claims carry the label of one of the provider's node classes.
fn instance<'a>(launched: &'a Launched, class_labels: &[String]) -> Instance<'a> {
    let registered = launched.labels.get(labels::REGISTERED);
    Instance {
        provider_id: &launched.provider_id,
        created: launched.created,
        ours: class_labels.iter().any(|label| launched.labels.contains_key(label)),
        registered: registered.is_some_and(|value| value == labels::TRUE),
        deleting: launched.deleting,
    }
}

/// Whether Nodes prove that the instance runs, even if the provider does not find it: exactly one Node, and Ready (LIF-129, LIF-130).
fn proves_life(nodes: &[Arc<LeanNode>]) -> bool {
    matches!(nodes, [only] if is_ready(only))
}

/// Deletes claims whose instance is gone, and instances without a claim.
pub(crate) struct GarbageCollection {
    context: Context,
    work: WorkLoop<()>,
    suspects: Mutex<Suspects>,
}

impl GarbageCollection {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::singleton(context, NAME, RateLimit::SINGLETON),
            suspects: Mutex::default(),
        })
    }

    /// Deletes a claim whose instance was not listed, if the provider does not find it when asked for it alone.
    async fn collect(&self, claim: &NodeClaim) -> Result<(), ReconcileError> {
        let Some(id) = claim_facts::provider_id(claim) else {
            return Ok(());
        };
        if proves_life(&self.context.cluster.nodes_by_provider_id(id)) {
            return Ok(());
        }
        match self.context.provider.get(id).await {
            Ok(_) => return Ok(()),
            Err(CloudError::NodeClaimNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if disrupt(&self.context, claim, "garbage_collected").await? {
            tracing::debug!(
                NodeClaim = claim_facts::name(claim),
                provider_id = id,
                "garbage collecting nodeclaim with no cloudprovider representation"
            );
        }
        Ok(())
    }

    /// Terminates instances that this round and an earlier one found to be orphans.
    async fn collect_orphans(&self, instances: &[Launched]) -> Result<(), ReconcileError> {
        // Any instance may belong to a claim that cannot be read.
        if self.context.cluster.has_unreadable(&NodeClaim::kind(&())) {
            return Ok(());
        }
        let classes = &self.context.provider.profile().node_classes;
        let class_labels: Vec<String> = classes.iter().map(NodeClassKind::label_key).collect();
        let claims = self.context.cluster.claims();
        let known: BTreeSet<&str> = claims
            .iter()
            .filter_map(|claim| claim_facts::provider_id(claim))
            .collect();
        let since = launching_since(claims.iter().map(|claim| fact(claim)));
        let listed = instances.iter().map(|launched| instance(launched, &class_labels));
        let orphans = orphans(listed, &known);
        let confirmed = {
            let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
            suspects.confirm(orphans, since)
        };
        let confirmed: BTreeSet<&str> = confirmed.iter().map(|orphan| orphan.provider_id).collect();
        let is_confirmed = |launched: &&Launched| confirmed.contains(launched.provider_id.as_str());
        let mut unwanted: Vec<&Launched> = instances.iter().filter(is_confirmed).collect();
        unwanted.retain(|orphan| !self.context.cluster.has_registered_node(&orphan.provider_id));
        if unwanted.is_empty() {
            return Ok(());
        }
        // A termination cannot be undone, and the watch may have missed a claim.
        let api: Api<Readable<NodeClaim>> = Api::all(self.context.client.clone());
        let listed = api.list(&ListParams::default()).await?.items;
        let claims: Option<Vec<NodeClaim>> = listed.into_iter().map(|claim| claim.0.ok()).collect();
        let Some(claims) = claims else { return Ok(()) };
        let is_known = |id: &str| claims.iter().any(|claim| claim_facts::provider_id(claim) == Some(id));
        unwanted.retain(|orphan| !is_known(&orphan.provider_id));
        for orphan in unwanted {
            match self.context.provider.delete(&claim_of_orphan(orphan)).await {
                Ok(()) | Err(CloudError::NodeClaimNotFound(_)) => {
                    tracing::info!(
                        provider_id = orphan.provider_id,
                        "garbage collecting instance with no nodeclaim"
                    );
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// A claim without an object, which names the instance to terminate for the provider.
fn claim_of_orphan(orphan: &Launched) -> NodeClaim {
    let mut claim = NodeClaim::new(&orphan.name, NodeClaimSpec::default());
    claim.metadata.labels = Some(orphan.labels.clone());
    claim.status.get_or_insert_default().provider_id = Some(orphan.provider_id.clone());
    claim
}

impl Reconciler for GarbageCollection {
    type Key = ();

    fn work(&self) -> &WorkLoop<()> {
        &self.work
    }

    async fn reconcile(&self, _key: &()) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        if let Err(distrust) = cluster.trustworthy() {
            tracing::error!(error = %distrust, "not collecting garbage");
            return Ok(Outcome::RequeueAfter(ROUND_EVERY));
        }
        // The claims first: the claim of an instance that is launched between the two lists has no provider id yet and is left out.
        let claims = cluster.claims();
        let instances = self.context.provider.list().await?;
        let alive: BTreeSet<&str> = instances
            .iter()
            .filter(|instance| !instance.deleting)
            .map(|instance| instance.provider_id.as_str())
            .collect();
        let missing = claims.iter().filter(|claim| {
            fact(claim).needs_instance() && claim_facts::provider_id(claim).is_some_and(|id| !alive.contains(id))
        });
        let collections: Vec<_> = missing.map(|claim| self.collect(claim)).collect();
        let collected = futures::stream::iter(collections).buffer_unordered(PARALLEL);
        let results: Vec<Result<(), ReconcileError>> = collected.collect().await;
        self.collect_orphans(&instances).await?;
        // LIF-243: deletions already made are not undone.
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(Outcome::RequeueAfter(ROUND_EVERY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Unreadables, Watched};
    use async_trait::async_trait;
    use jiff::Timestamp;
    use kerf_api::ConditionSet;
    use kerf_cloud::{CloudProvider, Decorator, FAKE_NODE_CLASS};
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn facts_of_a_claim_come_from_its_conditions() {
        let mut claim = NodeClaim::new("a", NodeClaimSpec::default());
        assert!(fact(&claim).launching && !fact(&claim).needs_instance());
        claim.status.get_or_insert_default().provider_id = Some("x".to_owned());
        ConditionSet::new(&mut claim, Timestamp::UNIX_EPOCH).set_true(LAUNCHED);
        assert!(!fact(&claim).launching && !fact(&claim).needs_instance());
        ConditionSet::new(&mut claim, Timestamp::UNIX_EPOCH).set_true(REGISTERED);
        // LIF-130
        assert!(fact(&claim).needs_instance());
        let deleted = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        claim.metadata.deletion_timestamp = Some(deleted);
        assert!(!fact(&claim).needs_instance());
    }

    #[test]
    fn instances_of_our_claims_carry_the_label_of_a_node_class() {
        let class = "karpenter.kwok.sh/kwoknodeclass".to_owned();
        let facts = |labels: &[(&str, &str)]| {
            let labels = labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let launched = Launched {
                provider_id: "x".to_owned(),
                labels: labels.collect::<BTreeMap<_, _>>(),
                ..Launched::default()
            };
            let instance = instance(&launched, std::slice::from_ref(&class));
            (instance.ours, instance.registered)
        };
        let ours = (class.as_str(), "default");
        assert_eq!(facts(&[]), (false, false));
        assert_eq!(facts(&[ours]), (true, false));
        assert_eq!(facts(&[ours, (labels::REGISTERED, "true")]), (true, true));
        assert_eq!(facts(&[(labels::REGISTERED, "false")]), (false, false));
    }

    #[test]
    fn one_ready_node_proves_life() {
        let node = |ready: &str| {
            let conditions = serde_json::json!([{"type": "Ready", "status": ready}]);
            let node = serde_json::json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}});
            Arc::new(serde_json::from_value::<LeanNode>(node).expect("a node"))
        };
        // LIF-129
        assert!(proves_life(&[node("True")]));
        // LIF-130
        assert!(!proves_life(&[node("False")]));
        assert!(!proves_life(&[]));
        assert!(!proves_life(&[node("True"), node("True")]));
    }

    /// A cloud that lists these instances, even if a call for one of them does not find it, and counts terminations.
    struct Listing {
        inner: Arc<dyn CloudProvider>,
        listed: Vec<Launched>,
        ended: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl Decorator for Listing {
        fn inner(&self) -> &Arc<dyn CloudProvider> {
            &self.inner
        }

        async fn list(&self) -> Result<Vec<Launched>, CloudError> {
            Ok(self.listed.clone())
        }

        async fn delete(&self, _claim: &NodeClaim) -> Result<(), CloudError> {
            self.ended.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    /// Garbage collection, how many calls the API server got, and how many instances were ended.
    struct World {
        collection: Arc<GarbageCollection>,
        calls: Arc<AtomicUsize>,
        ended: Arc<AtomicUsize>,
    }

    impl World {
        fn new(listed: Vec<Launched>) -> Self {
            let (calls, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let counter = Arc::clone(&calls);
            let count = move |_: &Cluster| {
                counter.fetch_add(1, Ordering::Relaxed);
            };
            let context = Context::answering(&json!({"metadata": {}, "items": []}), count);
            let provider = Arc::new(Listing {
                inner: Arc::clone(&context.provider),
                listed,
                ended: Arc::clone(&ended),
            });
            let context = Context { provider, ..context };
            Self {
                collection: GarbageCollection::new(&context),
                calls,
                ended,
            }
        }

        fn cluster(&self) -> &Cluster {
            &self.collection.context.cluster
        }

        /// Makes a registered claim known, whose instance is `fake://a`.
        fn know_claim(&self) {
            let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
            let is = |name: &str| json!({"type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"});
            let claim = json!({
                "metadata": {"name": "a", "uid": "a", "resourceVersion": "1"}, "spec": {"requirements": [], "nodeClassRef": class},
                "status": {"providerID": "fake://a", "conditions": [is(LAUNCHED), is(REGISTERED)]},
            });
            let claim: NodeClaim = serde_json::from_value(claim).expect("a claim");
            self.cluster().notify(Watched::apply(self.cluster(), claim));
        }

        fn know_node(&self, ready: &str) {
            let node = json!({
                "metadata": {"name": "a", "uid": "n", "resourceVersion": "1"}, "spec": {"providerID": "fake://a"},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            let node: LeanNode = serde_json::from_value(node).expect("a node");
            self.cluster().notify(Watched::apply(self.cluster(), node));
        }

        /// How many calls the API server gets in one round.
        async fn round(&self) -> usize {
            let before = self.calls.load(Ordering::Relaxed);
            let _ = self.collection.reconcile(&()).await;
            self.calls.load(Ordering::Relaxed) - before
        }
    }

    // LIF-129, LIF-130
    #[tokio::test(start_paused = true)]
    async fn a_claim_without_an_instance_stays_while_its_node_is_ready() {
        for (ready, deleted) in [(Some("True"), false), (Some("False"), true), (None, true)] {
            let world = World::new(Vec::new());
            world.know_claim();
            if let Some(ready) = ready {
                world.know_node(ready);
            }
            assert_eq!(world.round().await > 0, deleted, "{ready:?}");
        }
    }

    // LIF-128
    #[tokio::test(start_paused = true)]
    async fn an_instance_that_is_being_deleted_keeps_no_claim() {
        for deleting in [false, true] {
            let instance = Launched {
                name: "a".to_owned(),
                provider_id: "fake://a".to_owned(),
                deleting,
                ..Launched::default()
            };
            let world = World::new(vec![instance]);
            world.know_claim();
            assert_eq!(world.round().await > 0, deleting);
        }
    }

    // LIF-131
    #[tokio::test(start_paused = true)]
    async fn no_instance_ends_while_a_claim_cannot_be_read() {
        for unreadable in [true, false] {
            let label = (FAKE_NODE_CLASS.label_key(), "default".to_owned());
            let orphan = Launched {
                name: "lost".to_owned(),
                provider_id: "fake://lost".to_owned(),
                labels: [label].into(),
                ..Launched::default()
            };
            let world = World::new(vec![orphan]);
            if unreadable {
                let mut unreadable = Unreadables::default();
                unreadable.note::<NodeClaim>(crate::cluster::found("web-1"));
                world.cluster().set_unreadable("NodeClaim", unreadable.all());
            }
            for _ in 0..3 {
                world.round().await;
            }
            assert_eq!(world.ended.load(Ordering::Relaxed) > 0, !unreadable);
        }
    }
}
