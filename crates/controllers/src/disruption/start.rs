//! Starting a command (section 10 of `docs/behaviour/disruption.md`): marks, then replacements, and only then are the nodes taken out of planning.
//!
//! If a start is interrupted anywhere, it leaves marks that the next clean-up removes and claims that become ordinary nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use kerf_api::{NodeClaim, NodePool};
use kerf_decide::{Method, destinations};
use kerf_disruption::{Candidate, Command, Decision};
use kerf_model::in_flight::Destinations;
use kerf_model::intern::{Interner, sym};
use kerf_model::plan::{Launch, Plan};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::client::{ApiErrorKind, describe, name_of};
use kerf_runtime::logging::json;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{ReconcileError, Rng};
use kerf_state::{CommandInFlight, CommandNode, Replacement};
use serde_json::{Value, json};

use super::queue::CommandQueue;
use super::static_replacement::StaticReplacement;
use super::taints::DisruptionTaints;
use crate::claim_facts;
use crate::cluster::claims_of;
use crate::context::Context;
use crate::creation::create::types_text;
use crate::creation::{Creation, CreationError, create};
use crate::provisioning::{events, report};

/// Nodes that could not be marked.
#[derive(Debug, thiserror::Error)]
#[error("marking disrupted, {each}")]
struct MarkingFailed {
    /// The error of each claim.
    each: String,
    /// A conflict only if all are.
    source: kube::Error,
}

impl MarkingFailed {
    fn of(mut errors: Vec<(Arc<str>, kube::Error)>) -> Option<Self> {
        let text = |(claim, error): &(Arc<str>, kube::Error)| format!("{claim}: {}", describe(error));
        let each: Vec<String> = errors.iter().map(text).collect();
        errors.sort_by_key(|(_, error)| ApiErrorKind::of(error) == ApiErrorKind::Conflict);
        let (_, source) = errors.into_iter().next()?;
        Some(Self {
            each: each.join("; "),
            source,
        })
    }

    /// Whether the nodes merely changed meanwhile: the next pass sees them as they are (DIS-013, DIS-015).
    fn is_conflict(&self) -> bool {
        ApiErrorKind::of(&self.source) == ApiErrorKind::Conflict
    }
}

/// A command that may be started, and the snapshots it was decided and validated on.
pub(super) struct Decided {
    pub(super) method: Method,
    pub(super) command: Command,
    /// The cluster it was decided on: machines created since may serve pods that wait in it.
    pub(super) decided_on: Arc<Snapshot>,
    /// The cluster as it was validated.
    pub(super) snapshot: Arc<Snapshot>,
    /// The room for the replacement of a static pool's node, held until the command has started.
    pub(super) replacing: Option<StaticReplacement>,
}

impl Decided {
    /// A command that was decided on this snapshot and holds nothing.
    pub(super) fn new(method: Method, command: Command, snapshot: &Arc<Snapshot>) -> Self {
        Self {
            method,
            command,
            decided_on: Arc::clone(snapshot),
            snapshot: Arc::clone(snapshot),
            replacing: None,
        }
    }
}

/// Starts commands.
pub(super) struct Starter {
    context: Context,
    queue: Arc<CommandQueue>,
    taints: DisruptionTaints,
    ids: Rng,
}

impl Starter {
    pub(super) fn new(context: &Context, queue: &Arc<CommandQueue>) -> Self {
        Self {
            taints: DisruptionTaints::new(context),
            ids: context.seed.derive("disruption-commands").rng(),
            queue: Arc::clone(queue),
            context: context.clone(),
        }
    }

    /// Starts a command, and adds it to the queue.
    pub(super) async fn start(&self, decided: &Decided) -> Result<(), ReconcileError> {
        let Decided {
            method,
            command,
            decided_on,
            snapshot,
            ..
        } = decided;
        let cluster = &self.context.cluster;
        let mut nodes = command.candidates.iter().map(|candidate| &candidate.node);
        if nodes.any(|node| cluster.holds(node)) {
            return Err(ReconcileError::message("candidate is being disrupted"));
        }
        // DIS-095: a candidate may have been deleted since the decision. Provisioning then plans for its pods, so it is not replaced here.
        let is_deleting = |candidate: &Candidate| {
            let claim = self.context.cluster.claim(candidate.claim());
            claim.is_none_or(|claim| claim_facts::is_deleting(&claim))
        };
        if command.decision() == Decision::Replace && command.candidates.iter().any(is_deleting) {
            return Err(ReconcileError::message("candidate is deleting"));
        }
        let id = self.ids.uuid();
        log(command, &id, snapshot);
        let started = cluster.uptime();
        // Pools are read before claims are created, for the reason given in `provisioner.rs`.
        let pools = self.context.cluster.pools();
        let nodes = self.mark(command).await?;
        // The launches of a command include room for pending pods, and provisioning may be about to launch for them.
        let pods = command.replacements.iter().flat_map(|launch| &launch.pods);
        let Some(_until_promised) = self
            .context
            .cluster
            .lock_for_launch(pods.clone(), &claims_of(decided_on))
        else {
            let why = "pods it would launch a machine for are given one already, deciding again";
            return Err(ReconcileError::message(why));
        };
        let launched = self.launch(command, &pools).await;
        // Without the command the nodes stay, and the replacements that were made are ordinary nodes.
        let replacements = launched.inspect_err(|_| self.context.cluster.release(pods))?;
        for node in &nodes {
            self.context.cluster.mark_for_deletion(&node.provider_id);
        }
        if let Some(plan) = &command.plan {
            self.report_plan(plan, snapshot);
        }
        self.count(command, method.consolidation_type());
        self.queue.take(CommandInFlight {
            id: id.into(),
            reason: command.reason,
            nodes,
            replacements,
            destinations: self.destinations(*method, command, snapshot),
            started,
        });
        Ok(())
    }

    /// Where the pods of a command should go, as far as kube-scheduler is told.
    fn destinations(&self, method: Method, command: &Command, snapshot: &Snapshot) -> Destinations {
        match method.consolidates() && self.context.options.destination_taints {
            true => destinations(command, snapshot),
            false => Destinations::default(),
        }
    }

    /// Marks the nodes; those that could not be marked are left out of a deletion and fail a replacement (DIS-260).
    async fn mark(&self, command: &Command) -> Result<Vec<CommandNode>, ReconcileError> {
        let nodes: Vec<CommandNode> = command
            .candidates
            .iter()
            .filter_map(|candidate| CommandNode::of(&candidate.node))
            .collect();
        let results = join_all(nodes.iter().map(|node| self.taints.mark(node, command.reason))).await;
        let (mut marked, mut errors) = (Vec::new(), Vec::new());
        for (node, result) in nodes.into_iter().zip(results) {
            match result {
                Ok(()) => marked.push(node),
                Err(error) => errors.push((node.claim, error)),
            }
        }
        let Some(failed) = MarkingFailed::of(errors) else {
            return Ok(marked);
        };
        if marked.is_empty() || command.decision() == Decision::Replace {
            return Err(failed.into());
        }
        if failed.is_conflict() {
            tracing::debug!(
                error = failed.each,
                "some nodes changed while they were marked, disrupting the others"
            );
        } else {
            tracing::error!(error = failed.each, "marking some nodes failed, disrupting the others");
        }
        Ok(marked)
    }

    /// Creates the replacements, all at once; any failure fails the start, and those that were created stay (DIS-262, DIS-263).
    async fn launch(&self, command: &Command, pools: &[Arc<NodePool>]) -> Result<Vec<Replacement>, ReconcileError> {
        let reason = command.reason.label();
        let results = join_all(
            command
                .replacements
                .iter()
                .map(|launch| self.launch_one(launch, pools, reason)),
        )
        .await;
        let mut created = Vec::new();
        for result in results {
            let claim =
                result.map_err(|error| ReconcileError::message(format!("launching replacement nodeclaim, {error}")))?;
            created.push(Replacement {
                claim: name_of(&claim)?.into(),
                initialized: false,
            });
        }
        Ok(created)
    }

    async fn launch_one(
        &self,
        launch: &Launch,
        pools: &[Arc<NodePool>],
        reason: &'static str,
    ) -> Result<NodeClaim, CreationError> {
        let pool = pools
            .iter()
            .find(|pool| pool.metadata.name.as_deref() == Some(&launch.pool));
        let pool = pool.ok_or_else(|| CreationError::PoolGone(Arc::clone(&launch.pool)))?;
        let creation = Creation {
            launch,
            pool,
            reason,
            promised: &launch.pods,
        };
        create(&self.context, creation).await
    }

    /// Nominates the nodes that pods are to go to, and publishes which pending pods have no place (DIS-266, DIS-316). Pods on their way to the
    /// replacements are not.
    fn report_plan(&self, plan: &Plan, snapshot: &Snapshot) {
        let plan = plan.without_virtual_pods();
        report::placed(&self.context, snapshot, &plan, self.context.now());
        let pending: BTreeSet<&str> = snapshot.pending.iter().map(|pod| &*pod.uid).collect();
        for left in plan
            .unschedulable
            .iter()
            .filter(|left| pending.contains(&*left.pod.uid))
        {
            self.context
                .recorder
                .publish(events::failed_scheduling(&left.pod, &left.message()));
        }
    }

    /// Counts a decision, in total and by pool (DIS-268).
    fn count(&self, command: &Command, consolidation_type: &str) {
        let (decision, reason) = (command.decision().as_str(), command.reason.label());
        let metrics = &self.context.metrics;
        metrics
            .counter(&catalogue::DISRUPTION_DECISIONS)
            .inc(&[decision, reason, consolidation_type]);
        let pools: BTreeSet<&str> = command
            .candidates
            .iter()
            .map(|candidate| &*candidate.pool.name)
            .collect();
        let by_pool = metrics.counter(&catalogue::DISRUPTION_DECISIONS_BY_NODEPOOL);
        for pool in pools {
            by_pool.inc(&[pool, decision, reason, consolidation_type]);
        }
    }
}

/// Logs a command: its decision, its nodes and their replacements (DIS-256, DIS-297), and their prices in dollars.
fn log(command: &Command, id: &str, snapshot: &Snapshot) {
    let going = command.candidates.iter().map(|node| going(node, &snapshot.interner));
    let coming = command
        .replacements
        .iter()
        .map(|launch| coming(launch, command.replacements.len() == 1, &snapshot.interner));
    let pods: usize = command.candidates.iter().map(|candidate| candidate.pods.len()).sum();
    tracing::info!(
        command = %command.full(id),
        decision = command.decision().as_str(),
        "disrupted-node-count" = command.candidates.len(),
        "replacement-node-count" = command.replacements.len(),
        "pod-count" = pods,
        "hourly-price-before" = command.price_before().per_hour(),
        "hourly-price-after" = command.price_after().per_hour(),
        "disrupted-nodes" = %json(&going.collect::<Vec<_>>()),
        "replacement-nodes" = %json(&coming.collect::<Vec<_>>()),
        "disrupting node(s)",
    );
}

fn going(candidate: &Candidate, interner: &Interner) -> Value {
    let label = |key| candidate.node.label(key).map_or("", |value| interner.text(value));
    json!({
        "Node": {"name": &*candidate.node.name},
        "NodeClaim": {"name": &**candidate.claim()},
        "instance-type": label(sym::INSTANCE_TYPE),
        "capacity-type": label(sym::CAPACITY_TYPE),
    })
}

/// The types are named where there is one replacement only; a command of many would fill the log with them.
fn coming(launch: &Launch, alone: bool, interner: &Interner) -> Value {
    let allowed = launch.requirements.get(sym::CAPACITY_TYPE);
    let allows = |capacity| allowed.is_none_or(|allowed| allowed.has(capacity, interner));
    let capacity = [sym::RESERVED, sym::SPOT]
        .into_iter()
        .find(|capacity| allows(*capacity));
    let capacity = interner.text(capacity.unwrap_or(sym::ON_DEMAND));
    match alone {
        true => json!({"capacity-type": capacity, "instance-types": types_text(launch, interner)}),
        false => json!({"capacity-type": capacity}),
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::{FAKE_NODE_CLASS, TypeBuilder};
    use kerf_disruption::{Class, candidates};
    use kerf_model::budget::DisruptionReason;
    use kerf_model::instance_type::Catalogue;
    use kerf_model::price::Price;
    use kerf_state::lean::LeanNode;
    use kerf_state::{Conventions, Mirror, MirrorOptions};
    use kerf_testkit::objects;
    use serde_json::from_value;

    use super::*;
    use crate::cluster::Watched;

    /// One node that may go, and the cluster it is in.
    fn candidate(context: &Context) -> (Candidate, Arc<Snapshot>) {
        let options = MirrorOptions {
            conventions: Conventions::default(),
            offline: false,
        };
        let mut mirror = Mirror::new(Arc::clone(&context.interner), &options);
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let pool = json!({"metadata": {"name": "web", "uid": "web"}, "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}}});
        let labels = json!({
            "karpenter.sh/nodepool": "web", "node.kubernetes.io/instance-type": "small",
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        });
        let claim = json!({
            "metadata": {"name": "web-1", "uid": "web-1", "labels": labels},
            "spec": {"requirements": [], "nodeClassRef": class}, "status": {"providerID": "p://1"},
        });
        let node =
            json!({"metadata": {"name": "node-1", "uid": "node-1", "labels": labels}, "spec": {"providerID": "p://1"}});
        mirror.apply::<NodePool>(from_value(pool).expect("a pool"));
        mirror.apply::<NodeClaim>(from_value(claim).expect("a claim"));
        mirror.apply::<LeanNode>(from_value(node).expect("a node"));
        let small = TypeBuilder::new(&context.interner, "small")
            .offering("a", "spot", Price::ZERO)
            .build();
        mirror.set_catalogue("web", Ok(Arc::new(Catalogue { types: vec![small] })));
        let snapshot = mirror.snapshot(context.now());
        let mut sorted = candidates(&snapshot, context.now(), Class::Graceful, &|_| false);
        assert_eq!(sorted.free.len(), 1, "{:?}", sorted.blocked);
        (sorted.free.remove(0), snapshot)
    }

    // DIS-095
    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_deleted_since_is_not_replaced() {
        let context = Context::without_api();
        let starter = Starter::new(&context, &CommandQueue::new(&context));
        let (candidate, snapshot) = candidate(&context);
        let replacing = |replacements: Vec<Launch>| Command {
            reason: DisruptionReason::Drifted,
            candidates: vec![candidate.clone()],
            replacements,
            plan: None,
        };
        let replace = replacing(vec![Launch::of_template(&candidate.pool)]);
        let start = async |command: &Command| {
            let decided = Decided::new(Method::Drift, command.clone(), &snapshot);
            let started = starter.start(&decided).await;
            started.expect_err("nobody answers").to_string()
        };
        assert_eq!(start(&replace).await, "candidate is deleting", "its claim is gone");
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let mut claim: NodeClaim = from_value(json!({
            "metadata": {"name": "web-1", "uid": "web-1", "resourceVersion": "1"},
            "spec": {"requirements": [], "nodeClassRef": class},
        }))
        .expect("a claim");
        context.cluster.created(claim.clone());
        assert!(start(&replace).await.starts_with("marking disrupted"), "it was tried");
        claim.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(context.now()));
        context.cluster.notify(Watched::apply(&context.cluster, claim));
        assert_eq!(start(&replace).await, "candidate is deleting");
        let delete = replacing(Vec::new());
        assert!(start(&delete).await.starts_with("marking disrupted"), "it goes anyway");
    }

    // DIS-262
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_got_a_machine_since_the_decision_gets_no_other() {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let claim = |name: &str| {
            json!({
                "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
                "spec": {"requirements": [], "nodeClassRef": class},
            })
        };
        // This answer can be read as a Node and as a claim.
        let context = Context::answering(&claim("web-1"), |_| {});
        let cluster = &context.cluster;
        cluster.created(from_value(claim("web-1")).expect("a claim"));
        let pod = objects::stored("shop", objects::pod("p", "1"));
        let pod = from_value::<kerf_state::lean::LeanPod>(pod).expect("a pod");
        cluster.notify(Watched::apply(cluster, pod));
        let pod = cluster.pod("shop", "p").expect("it is known");
        let (candidate, decided_on) = candidate(&context);
        let mut replacement = Launch::of_template(&candidate.pool);
        replacement.pods = vec![Arc::clone(&pod)];
        let command = Command {
            reason: DisruptionReason::Underutilized,
            candidates: vec![candidate],
            replacements: vec![replacement],
            plan: None,
        };
        let starter = Starter::new(&context, &CommandQueue::new(&context));
        let start = async || {
            let decided = Decided {
                decided_on: Arc::clone(&decided_on),
                ..Decided::new(
                    Method::SingleNodeConsolidation,
                    command.clone(),
                    &context.cluster.snapshot(context.now()),
                )
            };
            starter.start(&decided).await.expect_err("its pool is gone").to_string()
        };
        assert!(
            start().await.starts_with("launching replacement nodeclaim"),
            "it was tried"
        );
        context.cluster.created(from_value(claim("web-2")).expect("a claim"));
        let planned = |times: &mut kerf_state::PodTimes| times.planned_onto("shop", "p", &"web-2".into());
        context.cluster.note_times(&pod, planned);
        assert!(
            start()
                .await
                .starts_with("pods it would launch a machine for are given one")
        );
    }

    // DIS-263
    #[tokio::test(start_paused = true)]
    async fn a_replacement_without_a_command_is_nobodys() {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let metadata = |name: &str| json!({"name": name, "uid": name, "resourceVersion": "1"});
        let claim = json!({"metadata": metadata("web-2"), "spec": {"requirements": [], "nodeClassRef": class}});
        // This answer can be read as a Node and as a claim.
        let context = Context::answering(&claim, |_| {});
        let cluster = &context.cluster;
        let mut old: NodeClaim = from_value(claim).expect("a claim");
        old.metadata.name = Some("web-1".to_owned());
        cluster.created(old);
        let node = json!({"metadata": metadata("node-1"), "spec": {}});
        cluster.notify(Watched::apply(cluster, from_value::<LeanNode>(node).expect("a node")));
        let pod = objects::running(objects::stored("shop", objects::pod("p", "1")), "node-1");
        let pod = from_value::<kerf_state::lean::LeanPod>(pod).expect("a pod");
        cluster.notify(Watched::apply(cluster, pod));
        let pool = json!({"metadata": metadata("web"), "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}}});
        cluster.notify(Watched::apply(cluster, from_value::<NodePool>(pool).expect("a pool")));
        let pod = cluster.pod("shop", "p").expect("it is known");
        let (candidate, snapshot) = candidate(&context);
        let mut first = Launch::of_template(&candidate.pool);
        first.pods = vec![Arc::clone(&pod)];
        let mut second = Launch::of_template(&candidate.pool);
        second.pool = "gone".into();
        let command = Command {
            reason: DisruptionReason::Underutilized,
            candidates: vec![candidate],
            replacements: vec![first, second],
            plan: None,
        };
        let starter = Starter::new(&context, &CommandQueue::new(&context));
        let started = starter
            .start(&Decided::new(Method::MultiNodeConsolidation, command, &snapshot))
            .await;
        let error = started.expect_err("a pool is gone").to_string();
        assert!(error.starts_with("launching replacement nodeclaim"), "{error}");
        assert!(cluster.claim("web-2").is_some(), "the first was made");
        assert_eq!(cluster.promised_to(&pod), None, "its node stays");
    }

    // DIS-255
    #[tokio::test(start_paused = true)]
    async fn a_node_another_command_holds_is_not_touched() {
        let context = Context::without_api();
        let queue = CommandQueue::new(&context);
        let starter = Starter::new(&context, &queue);
        let (candidate, snapshot) = candidate(&context);
        let start = async || {
            let command = Command {
                reason: DisruptionReason::Empty,
                candidates: vec![candidate.clone()],
                replacements: Vec::new(),
                plan: None,
            };
            let decided = Decided::new(Method::Emptiness, command, &snapshot);
            let started = starter.start(&decided).await;
            started.map_err(|error| error.to_string())
        };
        let free = start().await.expect_err("nobody answers");
        assert!(free.starts_with("marking disrupted"), "it was tried: {free}");
        queue.take(CommandInFlight {
            id: "other".into(),
            reason: DisruptionReason::Drifted,
            nodes: CommandNode::of(&candidate.node).into_iter().collect(),
            replacements: Vec::new(),
            destinations: Destinations::default(),
            started: std::time::Duration::ZERO,
        });
        assert_eq!(start().await, Err("candidate is being disrupted".to_owned()));
    }
}
