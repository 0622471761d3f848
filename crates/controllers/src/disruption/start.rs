//! Starting a command (section 10 of the disruption contract): marks, then replacements, and only then are the nodes taken out of planning.
//!
//! Cut off anywhere, this leaves marks that the next clean-up removes and claims that become ordinary nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use kerf_api::{NodeClaim, NodePool};
use kerf_disruption::{Candidate, Command, Decision};
use kerf_model::plan::{Launch, Plan};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{ReconcileError, Rng};
use tokio::time::Instant;

use super::marking::Marker;
use super::methods::Decided;
use super::orchestration::Orchestration;
use super::registry::{Member, Replacement, Running};
use crate::claim_facts;
use crate::context::Context;
use crate::creation::{Creation, CreationError, create};
use crate::provisioning::{events, record};

/// Starts commands.
pub(super) struct Starter {
    context: Context,
    orchestration: Arc<Orchestration>,
    marker: Marker,
    ids: Rng,
}

impl Starter {
    pub(super) fn new(context: &Context, orchestration: &Arc<Orchestration>) -> Self {
        Self {
            marker: Marker::new(context),
            ids: context.seed.derive("disruption-commands").rng(),
            orchestration: Arc::clone(orchestration),
            context: context.clone(),
        }
    }

    /// Starts a command and hands it over.
    pub(super) async fn start(&self, decided: Decided, consolidation_type: &str) -> Result<(), ReconcileError> {
        let Decided {
            command,
            snapshot,
            replacing: _until_started,
        } = decided;
        let registry = self.orchestration.registry();
        if command
            .candidates
            .iter()
            .any(|candidate| registry.holds(&candidate.node))
        {
            return Err(ReconcileError::message("candidate is being disrupted"));
        }
        let id = self.ids.uuid();
        log(&command, &id, &snapshot);
        let started = Instant::now();
        // Pools first, as provisioning does: see there.
        let pools = self.context.cluster.pools();
        let members = self.mark(&command).await?;
        let replacements = self.launch(&command, &pools).await?;
        for member in &members {
            self.context.cluster.mark_for_deletion(&member.provider_id);
        }
        if let Some(plan) = &command.plan {
            self.tell_plan(plan, &snapshot);
        }
        self.count(&command, consolidation_type);
        self.orchestration.take(Running {
            id: id.into(),
            reason: command.reason,
            decision: command.decision(),
            members,
            replacements,
            started,
        });
        Ok(())
    }

    /// Marks the nodes; those that could not be marked are left out of a deletion and fail a replacement (DIS-260).
    async fn mark(&self, command: &Command) -> Result<Vec<Member>, ReconcileError> {
        let members: Vec<Member> = command
            .candidates
            .iter()
            .map(|candidate| Member::of(&candidate.node))
            .collect();
        let results = join_all(members.iter().map(|member| self.marker.mark(member, command.reason))).await;
        let (mut marked, mut errors) = (Vec::new(), Vec::new());
        for (member, result) in members.into_iter().zip(results) {
            match result {
                Ok(()) => marked.push(member),
                Err(error) => errors.push(format!("{}: {}", member.claim, kerf_runtime::client::describe(&error))),
            }
        }
        if errors.is_empty() {
            return Ok(marked);
        }
        let errors = errors.join("; ");
        if marked.is_empty() || command.decision() == Decision::Replace {
            return Err(ReconcileError::message(format!("marking disrupted, {errors}")));
        }
        tracing::error!(error = errors, "marking some nodes failed, disrupting the others");
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
                claim: claim_facts::name(&claim).into(),
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

    /// DIS-266, DIS-316: nodes pods are to go to are kept, and pending pods without a place are told. Pods on their way to the
    /// replacements are not.
    fn tell_plan(&self, plan: &Plan, snapshot: &Snapshot) {
        record::placed(&self.context, snapshot, plan, self.context.now());
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

    /// DIS-268.
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

/// DIS-256, DIS-297.
fn log(command: &Command, id: &str, snapshot: &Snapshot) {
    let text = |candidate: &Candidate, key| {
        candidate
            .node
            .label(key)
            .map_or("", |value| snapshot.interner.text(value))
            .to_owned()
    };
    let nodes: Vec<String> = command
        .candidates
        .iter()
        .map(|candidate| {
            let (kind, capacity) = (
                kerf_model::intern::sym::INSTANCE_TYPE,
                kerf_model::intern::sym::CAPACITY_TYPE,
            );
            format!(
                "{}/{} ({}, {})",
                candidate.node.name,
                candidate.claim(),
                text(candidate, kind),
                text(candidate, capacity)
            )
        })
        .collect();
    let pods: usize = command.candidates.iter().map(|candidate| candidate.pods.len()).sum();
    tracing::info!(
        command = %command.full(id),
        decision = command.decision().as_str(),
        "disrupted-node-count" = command.candidates.len(),
        "replacement-node-count" = command.replacements.len(),
        "pod-count" = pods,
        "disrupted-nodes" = ?nodes,
        "disrupting node(s)",
    );
}
