//! The claims' conditions `Drifted` and `Consolidatable` (the controller `nodeclaim.disruption`; DIS-215 to DIS-220, LIF-142 to LIF-144).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use kerf_api::{NodeClaim, NodePool};
use kerf_runtime::client::found;
use kerf_runtime::{CancellationToken, Outcome, Priority, Queue, RateLimit, ReconcileError};
use kube::Resource;
use tokio::time::Instant;

use super::assessment::{self, Consolidatable, Drift, Words};
use crate::changes::Change;
use crate::claim_facts;
use crate::context::Context;
use crate::patch::{Lock, patch_status};
use crate::reconciler::Reconciler;

const NAME: &str = "nodeclaim.disruption";
/// How often a claim is looked at though nothing changed.
const AGAIN: Duration = Duration::from_secs(5 * 60);
/// How long a claim that passed the check against the catalogue is spared the next one (DIS-237).
const TYPE_CHECK_EVERY: Duration = Duration::from_secs(30 * 60);

/// Keeps the conditions.
pub(crate) struct ClaimConditions {
    context: Context,
    queue: Queue<String>,
    /// When claims last passed the check against the catalogue, by unique id.
    passed: Mutex<BTreeMap<String, Instant>>,
}

impl ClaimConditions {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            queue: context.queue(NAME, RateLimit::DEFAULT),
            passed: Mutex::default(),
        })
    }

    async fn reconcile(&self, name: String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let claim = cluster.claim(&name).filter(|claim| !claim_facts::is_deleting(claim));
        let Some((claim, pool)) =
            claim.and_then(|claim| Some((Arc::clone(&claim), cluster.pool(claim_facts::pool(&claim))?)))
        else {
            return Ok(Outcome::Done);
        };
        let drift = self.drift(&claim, &pool).await;
        let now = self.context.now();
        let mut after = NodeClaim::clone(&claim);
        if let Ok(drift) = &drift {
            assessment::apply_drift(&mut after, drift, now)?;
        }
        let verdict = assessment::consolidatable(&claim, &pool, now);
        assessment::apply_consolidatable(&mut after, verdict, now)?;
        let written = patch_status(&self.context.client, &*claim, &after, Lock::Optimistic).await;
        if let Some(stored) = found(written)?.flatten() {
            cluster.wrote_claim(stored);
        }
        drift?;
        Ok(Outcome::RequeueAfter(match verdict {
            Consolidatable::NotBefore(at) => self.context.clock.until(at).min(AGAIN),
            Consolidatable::Untouched | Consolidatable::No(_) | Consolidatable::Yes => AGAIN,
        }))
    }

    /// The first check that hits (DIS-218).
    async fn drift(&self, claim: &NodeClaim, pool: &NodePool) -> Result<Drift, ReconcileError> {
        if !assessment::is_launched(claim) {
            return Ok(Drift::NotLaunched);
        }
        let vocabulary = &self.context.provider.profile().vocabulary;
        let words = Words {
            rules: &vocabulary.labels,
            interner: &self.context.interner,
            reservation_key: vocabulary.reservation_id_label.as_deref(),
        };
        if let Some(reason) = assessment::template_drift(claim, pool, words) {
            return Ok(Drift::For(reason.to_owned()));
        }
        if let Some(reason) = self.type_drift(claim, pool, words)? {
            return Ok(Drift::For(reason.to_owned()));
        }
        match self.context.provider.is_drifted(claim).await {
            Ok(reason) => Ok(reason.map_or(Drift::None, |reason| Drift::For(reason.0.to_string()))),
            // DIS-219: the instance is gone; garbage collection sees to it.
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
        let uid = claim_facts::uid(claim);
        let spared = self
            .passed()
            .get(uid)
            .is_some_and(|passed| passed.elapsed() < TYPE_CHECK_EVERY);
        if spared || !assessment::type_check_is_due(claim, self.context.now()) {
            return Ok(None);
        }
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let snapshot = self.context.cluster.snapshot(self.context.now());
        let Some(known) = snapshot.pools.iter().find(|known| *known.name == *name) else {
            return Ok(None);
        };
        let catalogue = known.catalogue.as_ref().map_err(Clone::clone)?;
        let drift = assessment::type_drift(claim, catalogue, words);
        if drift.is_none() {
            self.passed().insert(uid.to_owned(), Instant::now());
        }
        Ok(drift)
    }

    fn passed(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_all(&self, priority: Priority, wanted: impl Fn(&NodeClaim) -> bool) {
        for claim in self.context.cluster.claims() {
            if wanted(&claim) {
                self.queue.add_with(claim_facts::name(&claim).to_owned(), priority);
            }
        }
    }
}

#[async_trait]
impl Reconciler for ClaimConditions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn notify(&self, change: &Change) {
        match change {
            Change::Claim(claim) => match &claim.after {
                Some(_) => self.queue.add_with(claim.name().to_owned(), claim.priority()),
                None => {
                    let gone = claim.before.as_deref().map(claim_facts::uid).unwrap_or_default();
                    self.passed().remove(gone);
                }
            },
            Change::Pool(pool) => {
                let says = |pool: &NodePool| (pool.metadata.generation, pool.metadata.annotations.clone());
                if pool.differs(says) {
                    self.add_all(pool.priority(), |claim| claim_facts::pool(claim) == pool.name());
                }
            }
            Change::Class(class) => {
                if let Some(last) = class.last() {
                    self.add_all(class.priority(), |claim| last.is(&claim.spec.node_class_ref));
                }
            }
            // What counts about pods is written to their node's claim (LIF-137), whose change comes above.
            Change::Pod(_) | Change::Node(_) | Change::Overlay(_) => {}
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let controller = self
            .context
            .controller(NAME)
            .for_kind(NodeClaim::group(&()), NodeClaim::kind(&()));
        let controller = controller.workers(self.context.workers(10, 1000));
        let queue = self.queue.clone();
        let reconcile = move |name| {
            let this = Arc::clone(&self);
            async move { this.reconcile(name).await }
        };
        controller.run(queue, reconcile, shutdown).await;
    }
}
