//! The loop around claims: one pass over what is due, then one write of what came of it.

use std::sync::Arc;

use async_trait::async_trait;
use kerf_api::{NodeClaim, StartupTaints, finalizers};
use kerf_runtime::client::found;
use kerf_runtime::{CancellationToken, Outcome, Priority, Queue, RateLimit, ReconcileError};
use kube::Resource;

use super::finalize::finalize;
use super::health::RegistrationHealth;
use super::launches::{BACKOFF, Launches};
use super::liveness::Timeouts;
use super::pass::Pass;
use crate::changes::Change;
use crate::claim_facts;
use crate::context::{Context, startup_taints};
use crate::patch::{Lock, patch_object, patch_status};
use crate::pools::PoolStatus;
use crate::reconciler::Reconciler;

const NAME: &str = "nodeclaim.lifecycle";
/// LIF-223.
const WORKERS: (usize, usize) = (1000, 5000);

/// Launches, registers and initializes claims, and ends them (LIF-015 to LIF-080).
pub(crate) struct Lifecycle {
    pub(super) context: Context,
    queue: Queue<String>,
    pub(super) launches: Launches,
    pub(super) health: RegistrationHealth,
    pub(super) pools: Arc<PoolStatus>,
    pub(super) timeouts: Timeouts,
    pub(super) startup_taints: StartupTaints,
}

impl Lifecycle {
    /// The controller; `health` is shared with `pools`, which restores, resets and shows it.
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
            queue: context.queue(NAME, limit),
            launches: Launches::default(),
            health,
            pools,
            timeouts,
            startup_taints: startup_taints(&context.options),
        })
    }

    async fn reconcile(&self, name: String) -> Result<Outcome, ReconcileError> {
        let Some(claim) = self.context.cluster.claim(&name) else {
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
        if let Some(stored) = self.store(&claim, &pass.claim).await? {
            pass.stored(&stored);
        }
        pass.outcome()
    }

    /// Puts the finalizer on before anything else happens, so that no instance can leak (LIF-017). `None` when the
    /// claim is gone.
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
        let stored = found(patch_object(&self.context.client, &**claim, &guarded, Lock::Optimistic).await)?;
        Ok(stored.flatten().map(|stored| {
            self.context.cluster.wrote_claim(stored.clone());
            Arc::new(stored)
        }))
    }

    /// Writes metadata, then status (LIF-018). `None` when the claim is gone. Both lock: lists of conditions are replaced
    /// as a whole, and others write conditions too.
    async fn store(&self, before: &NodeClaim, after: &NodeClaim) -> Result<Option<NodeClaim>, kube::Error> {
        let client = &self.context.client;
        let mut stored = before.clone();
        match found(patch_object(client, before, after, Lock::Optimistic).await)? {
            None => return Ok(None),
            Some(None) => {}
            Some(Some(written)) => {
                self.context.cluster.wrote_claim(written.clone());
                stored = written;
            }
        }
        let mut wanted = stored.clone();
        wanted.status.clone_from(&after.status);
        match found(patch_status(client, &stored, &wanted, Lock::Optimistic).await)? {
            None => Ok(None),
            Some(None) => Ok(Some(stored)),
            Some(Some(written)) => {
                self.context.cluster.wrote_claim(written.clone());
                Ok(Some(written))
            }
        }
    }

    /// Claims of the instance a Node stands for.
    fn add_claims_of(&self, provider_id: &str, priority: Priority) {
        for claim in self.context.cluster.claims_by_provider_id(provider_id) {
            self.queue.add_with(claim_facts::name(&claim).to_owned(), priority);
        }
    }
}

#[async_trait]
impl Reconciler for Lifecycle {
    fn name(&self) -> &'static str {
        NAME
    }

    // LIF-015
    fn notify(&self, change: &Change) {
        match change {
            Change::Claim(diff) if !diff.is_gone() => self.queue.add_with(diff.name().to_owned(), diff.priority()),
            Change::Claim(diff) => {
                if let Some(uid) = diff.last().and_then(|claim| claim.metadata.uid.as_deref()) {
                    self.launches.forget(uid);
                }
            }
            Change::Node(diff) => {
                let id = |node: &kerf_state::lean::LeanNode| node.spec.provider_id.clone();
                if let Some(before) = diff.before.as_deref().filter(|_| diff.differs(id)) {
                    self.add_claims_of(&before.spec.provider_id, diff.priority());
                }
                if let Some(after) = diff.after.as_deref() {
                    self.add_claims_of(&after.spec.provider_id, diff.priority());
                }
            }
            Change::Pod(_) | Change::Pool(_) | Change::Overlay(_) | Change::Class(_) => {}
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let controller = self.context.controller(NAME);
        let controller = controller
            .for_kind(NodeClaim::group(&()), NodeClaim::kind(&()))
            .workers(self.context.workers(WORKERS.0, WORKERS.1));
        let queue = self.queue.clone();
        let reconcile = move |name| {
            let this = Arc::clone(&self);
            async move { this.reconcile(name).await }
        };
        controller.run(queue, reconcile, shutdown).await;
    }
}
