//! Claims without instances and instances without claims (the controller `nodeclaim.garbagecollection`; LIF-128 to LIF-131).
//!
//! What is missing from a list may only be missing from the list. So nothing goes while the cluster's lists are not to be trusted, a
//! claim goes only after the provider denies its very instance, and an instance only after two rounds found nobody who wants it and the API
//! server knows no claim of it either.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use kerf_api::conditions::node_claim::{LAUNCHED, REGISTERED};
use kerf_api::status::Conditioned;
use kerf_api::{Condition, NodeClaim, NodeClaimSpec, labels};
use kerf_cloud::{CloudError, Launched, NodeClassKind};
use kerf_runtime::{Outcome, RateLimit, Readable, ReconcileError};
use kerf_state::lean::LeanNode;
use kube::api::ListParams;
use kube::{Api, Resource};

use crate::claim_facts::{self, disrupt};
use crate::context::Context;
use crate::lifecycle::initialization::is_ready;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.garbagecollection";
/// LIF-128.
const EVERY: Duration = Duration::from_secs(120);
/// LIF-129.
const PARALLEL: usize = 20;
/// How far the clocks of cloud and API server may differ.
const CLOCKS: SignedDuration = SignedDuration::from_secs(60);

/// Whether the claim's instance ought to exist (LIF-129, LIF-130).
fn ought_to_run(claim: &NodeClaim) -> bool {
    !claim_facts::is_deleting(claim) && claim.condition_is_true(REGISTERED) && claim_facts::provider_id(claim).is_some()
}

/// Whether Nodes prove that the instance runs whatever the provider says: exactly one, and Ready (LIF-129, LIF-130).
fn proves_life(nodes: &[Arc<LeanNode>]) -> bool {
    matches!(nodes, [only] if is_ready(only))
}

/// Since when some claim waits for its launch.
fn launching_since(claims: &[Arc<NodeClaim>]) -> Option<Timestamp> {
    let launching = |claim: &&Arc<NodeClaim>| claim.condition(LAUNCHED).is_none_or(Condition::is_unknown);
    let created = |claim: &Arc<NodeClaim>| claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let since = claims
        .iter()
        .filter(launching)
        .map(|claim| created(claim).unwrap_or(Timestamp::MIN));
    since.min()
}

/// Whether an instance may be that of a claim that waits for its launch: none is older than its claim.
fn may_be_launching(instance: &Launched, since: Option<Timestamp>) -> bool {
    let is_older = |created: Timestamp, since: Timestamp| since.duration_since(created) > CLOCKS;
    since.is_some_and(|since| instance.created.is_none_or(|created| !is_older(created, since)))
}

/// Instances nobody wants: launched for a claim of ours, not going, and known to no claim.
fn orphans<'a>(instances: &'a [Launched], claims: &[Arc<NodeClaim>], class_labels: &[String]) -> Vec<&'a Launched> {
    let known: BTreeSet<&str> = claims
        .iter()
        .filter_map(|claim| claim_facts::provider_id(claim))
        .collect();
    let ours = |instance: &Launched| class_labels.iter().any(|label| instance.labels.contains_key(label));
    let unwanted = |instance: &&Launched| {
        // Registered Nodes own their end: their finalizer and their owner take care of it.
        let registered = instance
            .labels
            .get(labels::REGISTERED)
            .is_some_and(|value| value == labels::TRUE);
        !instance.deleting && !registered && ours(instance) && !known.contains(instance.provider_id.as_str())
    };
    instances.iter().filter(unwanted).collect()
}

/// Collects both.
pub(crate) struct GarbageCollection {
    context: Context,
    work: WorkLoop<()>,
    /// Orphans of the rounds before.
    suspects: Mutex<BTreeSet<String>>,
}

impl GarbageCollection {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::SINGLETON),
            suspects: Mutex::default(),
        })
    }

    /// Deletes a claim whose instance was not listed, if the provider denies it when asked for it alone.
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

    /// The orphans that were found to be some before; the others are suspects from now on. What cannot be judged now stays what it was, for
    /// somewhere a claim is launching most of the time.
    fn convicted<'a>(&self, orphans: Vec<&'a Launched>, since: Option<Timestamp>) -> Vec<&'a Launched> {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *suspects);
        let mut convicted = Vec::new();
        for orphan in orphans {
            let (known, is_judged) = (before.contains(&orphan.provider_id), !may_be_launching(orphan, since));
            if known || is_judged {
                suspects.insert(orphan.provider_id.clone());
            }
            if known && is_judged {
                convicted.push(orphan);
            }
        }
        convicted
    }

    /// Ends instances that were found to be orphans before.
    async fn collect_orphans(&self, instances: &[Launched]) -> Result<(), ReconcileError> {
        // Any instance may belong to a claim that cannot be read.
        if self.context.cluster.has_unreadable(&NodeClaim::kind(&())) {
            return Ok(());
        }
        let classes = &self.context.provider.profile().node_classes;
        let class_labels: Vec<String> = classes.iter().map(NodeClassKind::label_key).collect();
        let claims = self.context.cluster.claims();
        let since = launching_since(&claims);
        let orphans = orphans(instances, &claims, &class_labels);
        let mut unwanted = self.convicted(orphans, since);
        unwanted.retain(|orphan| !self.context.cluster.has_registered_node(&orphan.provider_id));
        if unwanted.is_empty() {
            return Ok(());
        }
        // An instance that ends cannot be taken back, and a watch may have lost a claim.
        let api: Api<Readable<NodeClaim>> = Api::all(self.context.client.clone());
        let listed = api.list(&ListParams::default()).await?.items;
        let claims: Option<Vec<NodeClaim>> = listed.into_iter().map(|claim| claim.0.ok()).collect();
        let Some(claims) = claims else { return Ok(()) };
        let is_known = |id: &str| claims.iter().any(|claim| claim_facts::provider_id(claim) == Some(id));
        unwanted.retain(|orphan| !is_known(&orphan.provider_id));
        for orphan in unwanted {
            match self.context.provider.delete(&stand_in(orphan)).await {
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

/// A claim that means an instance and no object: what the provider needs to end it.
fn stand_in(orphan: &Launched) -> NodeClaim {
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

    fn first_keys(&self) -> Vec<()> {
        vec![()]
    }

    async fn reconcile(&self, _key: &()) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        if let Err(distrust) = cluster.trustworthy() {
            tracing::error!(error = %distrust, "not collecting garbage");
            return Ok(Outcome::RequeueAfter(EVERY));
        }
        // The claims first: an instance launched between the two lists is then merely not looked for.
        let claims = cluster.claims();
        let instances = self.context.provider.list().await?;
        let alive: BTreeSet<&str> = instances
            .iter()
            .filter(|instance| !instance.deleting)
            .map(|instance| instance.provider_id.as_str())
            .collect();
        let missing = claims.iter().filter(|claim| {
            ought_to_run(claim) && claim_facts::provider_id(claim).is_some_and(|id| !alive.contains(id))
        });
        let collections: Vec<_> = missing.map(|claim| self.collect(claim)).collect();
        let collected = futures::stream::iter(collections).buffer_unordered(PARALLEL);
        let results: Vec<Result<(), ReconcileError>> = collected.collect().await;
        self.collect_orphans(&instances).await?;
        // LIF-243: deletions already made stand.
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(Outcome::RequeueAfter(EVERY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_api::ConditionSet;
    use std::collections::BTreeMap;

    fn claim(name: &str, id: Option<&str>, registered: bool) -> Arc<NodeClaim> {
        let mut claim = NodeClaim::new(name, NodeClaimSpec::default());
        claim.status.get_or_insert_default().provider_id = id.map(str::to_owned);
        let mut conditions = ConditionSet::new(&mut claim, Timestamp::UNIX_EPOCH);
        if id.is_some() {
            conditions.set_true(LAUNCHED);
        }
        if registered {
            conditions.set_true(REGISTERED);
        }
        Arc::new(claim)
    }

    // LIF-130
    #[test]
    fn only_registered_claims_are_missed() {
        assert!(ought_to_run(&claim("a", Some("x"), true)));
        assert!(!ought_to_run(&claim("a", Some("x"), false)));
        let mut deleting = NodeClaim::clone(&claim("a", Some("x"), true));
        deleting.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            Timestamp::UNIX_EPOCH,
        ));
        assert!(!ought_to_run(&deleting));
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

    #[test]
    fn instances_are_orphans_only_if_nobody_can_want_them() {
        let class = "karpenter.kwok.sh/kwoknodeclass".to_owned();
        let instance = |id: &str, labels: &[(&str, &str)]| Launched {
            provider_id: id.to_owned(),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            ..Launched::default()
        };
        let ours = (class.as_str(), "default");
        let instances = [
            instance("orphan", &[ours]),
            instance("known", &[ours]),
            instance("registered", &[ours, (labels::REGISTERED, "true")]),
            instance("foreign", &[]),
            Launched {
                deleting: true,
                ..instance("going", &[ours])
            },
        ];
        let known = claim("a", Some("known"), true);
        let found = |claims: &[Arc<NodeClaim>]| -> Vec<String> {
            let found = orphans(&instances, claims, std::slice::from_ref(&class));
            found.iter().map(|orphan| orphan.provider_id.clone()).collect()
        };
        assert_eq!(found(&[Arc::clone(&known)]), ["orphan"]);
    }

    #[test]
    fn an_instance_may_be_of_a_launch_that_is_not_younger() {
        let at = |seconds: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let created = |name: &str, id: Option<&str>, seconds: i64| {
            let mut claim = NodeClaim::clone(&claim(name, id, false));
            claim.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(seconds)));
            Arc::new(claim)
        };
        let launched = created("a", Some("known"), 0);
        assert_eq!(launching_since(std::slice::from_ref(&launched)), None);
        let since = launching_since(&[launched, created("b", None, 900), created("c", None, 600)]);
        assert_eq!(since, Some(at(600)));
        let may_be = |created: Option<i64>, since| {
            let created = created.map(at);
            may_be_launching(
                &Launched {
                    created,
                    ..Launched::default()
                },
                since,
            )
        };
        assert!(may_be(Some(700), since) && may_be(Some(540), since));
        assert!(!may_be(Some(539), since), "no clock is so far off");
        assert!(may_be(None, since), "nobody knows how old it is");
        assert!(!may_be(None, None) && !may_be(Some(700), None));
    }
}
