//! The loop around claims: one pass over what is due, then one write of what came of it.

use std::sync::Arc;

use kerf_api::{NodeClaim, StartupTaints, finalizers};
use kerf_runtime::client::found;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;

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
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.lifecycle";
/// LIF-223.
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

    /// The names of the claims of the instance a Node stands for.
    fn claims_of(&self, node: &LeanNode) -> Vec<String> {
        let claims = self.context.cluster.claims_by_provider_id(&node.spec.provider_id);
        claims.iter().map(|claim| claim_facts::name(claim).to_owned()).collect()
    }
}

impl Reconciler for Lifecycle {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    /// Forgets the launch of a claim that is gone.
    fn observe(&self, change: &Change) {
        if let Change::Claim(claim) = change
            && claim.is_gone()
            && let Some(uid) = claim.last().and_then(|claim| claim.metadata.uid.as_deref())
        {
            self.launches.forget(uid);
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
        if let Some(stored) = self.store(&claim, &pass.claim).await? {
            pass.stored(&stored);
        }
        pass.outcome()
    }
}
