//! The controller of claims: one pass over the steps that are due, then one write of the changes.

use std::sync::Arc;

use kerf_api::{NodeClaim, StartupTaints, finalizers};
use kerf_lifecycle::liveness::Timeouts;
use kerf_runtime::client::{Lock, Written};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;

use super::finalize::finalize;
use super::launches::{BACKOFF, Launches};
use super::pass::Pass;
use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::{write_object, write_status};
use crate::cluster::startup_taints;
use crate::context::Context;
use crate::pools::{PoolStatus, RegistrationHealth};
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.lifecycle";
/// Parallel reconciliations, as upstream has it: at least and at most (LIF-223).
const WORKERS: (usize, usize) = (1000, 5000);

/// Launches, registers and initializes claims, and ends them (LIF-015 to LIF-080).
pub(crate) struct Lifecycle {
    pub(super) context: Context,
    work: WorkLoop<String>,
    pub(super) launches: Launches,
    pub(super) health: RegistrationHealth,
    pub(super) pools: Arc<PoolStatus>,
    pub(super) timeouts: Timeouts,
    pub(super) startup_taints: StartupTaints,
}

impl Lifecycle {
    /// The controller; `health` is shared with `pools`, which restores and resets it and sets the condition.
    pub(crate) fn new(
        context: &Context,
        health: RegistrationHealth,
        pools: Arc<PoolStatus>,
        timeouts: Timeouts,
    ) -> Arc<Self> {
        let workers = context.workers(WORKERS.0, WORKERS.1);
        // LIF-016
        let limit = RateLimit::exponential(BACKOFF.base, BACKOFF.max);
        let limit = limit.with_worker_bucket(workers, 10, 1000);
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::new(context, NAME, limit)
                .for_kind::<NodeClaim>()
                .workers(workers),
            launches: Launches::default(),
            health,
            pools,
            timeouts,
            startup_taints: startup_taints(&context.options),
        })
    }

    /// Adds the finalizer before anything else happens, so that no instance can leak (LIF-017). `None` when the claim is gone.
    async fn guard(&self, claim: &Arc<NodeClaim>) -> Result<Option<Arc<NodeClaim>>, kube::Error> {
        if claim_facts::is_guarded(&claim.metadata) {
            return Ok(Some(Arc::clone(claim)));
        }
        let mut guarded = NodeClaim::clone(claim);
        guarded
            .metadata
            .finalizers
            .get_or_insert_default()
            .push(finalizers::TERMINATION.to_owned());
        let written = write_object(&self.context, claim, &guarded, Lock::Optimistic).await?;
        Ok(written.stored().map(Arc::new))
    }

    /// Writes metadata, then status (LIF-018). `None` when the claim is gone.
    async fn store(&self, before: &NodeClaim, after: &NodeClaim) -> Result<Option<NodeClaim>, kube::Error> {
        let stored = match write_object(&self.context, before, after, Lock::Optimistic).await? {
            Written::Gone => return Ok(None),
            Written::Unchanged => before.clone(),
            Written::Stored(stored) => *stored,
        };
        let mut wanted = stored.clone();
        wanted.status.clone_from(&after.status);
        Ok(match write_status(&self.context, &stored, &wanted).await? {
            Written::Gone => None,
            Written::Unchanged => Some(stored),
            Written::Stored(stored) => Some(*stored),
        })
    }

    /// The names of the claims with a Node's provider id.
    fn claims_of(&self, node: &LeanNode) -> Vec<String> {
        let claims = self.context.cluster.claims_by_provider_id(&node.spec.provider_id);
        claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect()
    }
}

impl Reconciler for Lifecycle {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    /// Forgets the launch of a claim that is gone.
    fn observe(&self, change: &Change) {
        if let Some(gone) = change.gone_claim() {
            self.launches.forget(gone);
        }
    }

    // LIF-015
    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Claim(claim) if !claim.is_gone() => vec![claim.name().to_owned()],
            Change::Node(node) => {
                let id = |node: &LeanNode| node.spec.provider_id.clone();
                let before = node.before.as_deref().filter(|_| node.differs(id));
                let sides = before.into_iter().chain(node.after.as_deref());
                sides.flat_map(|node| self.claims_of(node)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let Some(claim) = self.context.cluster.claim(name) else {
            return Ok(Outcome::Done);
        };
        if claim_facts::is_deleting(&claim) {
            return finalize(self, &claim).await;
        }
        let Some(claim) = self.guard(&claim).await? else {
            return Ok(Outcome::Done);
        };
        let mut pass = Pass::new(self, &claim);
        pass.run().await;
        if pass.ended {
            return pass.outcome();
        }
        // Most passes change nothing.
        if *claim == pass.claim {
            pass.stored(&claim);
        } else if let Some(stored) = self.store(&claim, &pass.claim).await? {
            pass.stored(&stored);
        }
        pass.outcome()
    }
}
