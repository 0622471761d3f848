//! Writes what policies find into their status (the controller `noderepairpolicy.status`).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::conditions::VALIDATION_SUCCEEDED;
use kerf_api::conditions::node_repair_policy as condition;
use kerf_api::{ConditionSet, NodeRepairPolicy};
use kerf_lifecycle::repair::{Health, Pause, pauses};
use kerf_runtime::client::{Lock, patch_status};
use kerf_runtime::{CancellationToken, Outcome, RateLimit, ReconcileError};
use kube::Api;

use super::conditions::{conditions_of, fleet};
use super::policies::{Policies, StoredPolicy};
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "noderepairpolicy.status";
/// How long changes of nodes are collected before they are counted.
const COLLECT: Duration = Duration::from_secs(1);
/// How often the status is computed when nothing changes.
const EVERY: Duration = Duration::from_secs(60);

/// Keeps the status of NodeRepairPolicies, and watches the policies for the whole module.
pub(crate) struct RepairStatus {
    context: Context,
    policies: Policies,
    work: WorkLoop<String>,
}

impl RepairStatus {
    pub(crate) fn new(context: &Context, policies: &Policies) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            policies: policies.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::SHARED)
                .for_kind::<NodeRepairPolicy>()
                .collect(COLLECT),
        })
    }
}

/// Writes the status a policy should have into `after`.
fn set_status(after: &mut NodeRepairPolicy, known: &StoredPolicy, health: &Health, now: Timestamp) {
    let policy = &known.policy;
    let status = after.status.get_or_insert_default();
    let count = |count: u32| Some(i32::try_from(count).unwrap_or(i32::MAX));
    status.nodes = count(health.nodes);
    status.unhealthy_nodes = count(health.unhealthy);
    status.overdue_nodes = count(health.overdue);
    let mut conditions = ConditionSet::new(after, now);
    let refuse = |conditions: &mut ConditionSet<'_, NodeRepairPolicy>, reason: &str, message: &str| {
        conditions.set_false(condition::REPAIR_ALLOWED, reason, message);
    };
    if !policy.is_valid() {
        let faults = policy.faults.join("; ");
        conditions.set_false(VALIDATION_SUCCEEDED, condition::VALIDATION_FAILED, &faults);
        refuse(&mut conditions, condition::INVALID, "an invalid policy does nothing");
        return;
    }
    conditions.set_true(VALIDATION_SUCCEEDED);
    // Too many unhealthy nodes are reported rather than a closed window.
    let pauses: Vec<Pause> = pauses(policy, health, now).collect();
    let cap = pauses.iter().find(|pause| matches!(pause, Pause::Cap(_)));
    match cap.or(pauses.first()) {
        None => {
            conditions.set_true(condition::REPAIR_ALLOWED);
        }
        Some(Pause::Cap(most)) => {
            let message = format!(
                "{} of {} nodes are unhealthy, at most {most} may be",
                health.unhealthy, health.nodes
            );
            refuse(&mut conditions, condition::TOO_MANY_UNHEALTHY, &message);
        }
        Some(Pause::Window(opens)) => {
            let message = opens.map_or_else(
                || "no maintenance window opens".to_owned(),
                |opens| format!("the next maintenance window opens at {opens}"),
            );
            refuse(&mut conditions, condition::OUTSIDE_MAINTENANCE_WINDOW, &message);
        }
    }
}

impl Reconciler for RepairStatus {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Node(node)
                if node.is_new()
                    || node.is_gone()
                    || node.differs(|node| (node.metadata.labels.clone(), conditions_of(node))) =>
            {
                self.policies.names()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let Some(known) = self.policies.get(name) else {
            return Ok(Outcome::Done);
        };
        let now = self.context.now();
        let nodes = self.context.cluster.nodes();
        let health = fleet(&self.context, &nodes, &[]).health(&known.policy, now);
        let mut after = NodeRepairPolicy::clone(&known.object);
        set_status(&mut after, &known, &health, now);
        let api: Api<NodeRepairPolicy> = Api::all(self.context.client.clone());
        patch_status(&api, &known.object, &after, Lock::Optimistic).await?;
        let next = [health.next, known.policy.opens_after(now)].into_iter().flatten().min();
        let left = next.map_or(EVERY, |next| self.context.clock.until(next).clamp(COLLECT, EVERY));
        Ok(Outcome::RequeueAfter(left))
    }

    /// Watches the policies, for the whole module.
    async fn beside(&self, shutdown: CancellationToken) {
        let changed = || {
            for name in self.policies.names() {
                self.work.add(name);
            }
        };
        let rng = self.context.seed.derive(NAME).rng();
        let (client, cluster) = (self.context.client.clone(), self.context.cluster.clone());
        self.policies
            .clone()
            .follow(client, cluster, rng, changed, shutdown)
            .await;
    }
}
