//! Deletes claims of a pool that has more than `spec.replicas` (LIF-175 to LIF-181).
//!
//! Neither disruption budgets nor do-not-disrupt prevent a deletion, because the number of nodes was lowered on purpose. They only
//! decide which nodes go first, and the drain that follows evicts pods as any other.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kerf_api::NodePool;
use kerf_lifecycle::deletion_order::deletion_order;
use kerf_lifecycle::static_replicas;
use kerf_runtime::client::describe;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};

use super::list_claims;
use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};
use crate::retry::Retry;

const NAME: &str = "static.deprovisioning";
const WORKERS: usize = 10;
/// The time until a pool is reconciled again when nothing changes.
const SETTLED: Duration = Duration::from_secs(60);

/// Deletes the excess claims of a pool.
pub(crate) struct StaticDeprovisioning {
    context: Context,
    work: WorkLoop<String>,
    retry: Retry,
}

impl StaticDeprovisioning {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::DEFAULT)
                .for_kind::<NodePool>()
                .workers(WORKERS),
            retry: Retry::new(context, "static-deletions"),
        })
    }

    /// How many claims of a pool the API server has that are not being deleted.
    async fn live(&self, pool: &str) -> Result<usize, kube::Error> {
        let claims = list_claims(&self.context, pool).await?;
        Ok(claims.iter().filter(|claim| !claim_facts::is_deleting(claim)).count())
    }

    /// Deletes a claim. The API server's answer marks it as deleting in the cache at once (SCH-489).
    async fn delete(&self, name: &str) -> Result<(), String> {
        let attempt = || async {
            let Some(claim) = self.context.cluster.claim(name) else {
                return Ok(());
            };
            claim_writes::delete(&self.context, &claim).await?;
            tracing::debug!(NodeClaim = name, "deleting nodeclaim");
            Ok(())
        };
        let deleted: Result<(), kube::Error> = self.retry.run(attempt).await;
        deleted.map_err(|error| format!("{name}: {}", describe(&error)))
    }
}

impl Reconciler for StaticDeprovisioning {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    // LIF-181
    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Pool(pool)
                if !pool.is_gone() && (pool.is_new() || pool.listed || pool.differs(|pool| pool.spec.replicas)) =>
            {
                vec![pool.name().to_owned()]
            }
            Change::Claim(claim) if claim.is_new() => {
                let pool = claim.after.as_deref().and_then(claim_facts::pool);
                pool.map(str::to_owned).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let pool = cluster.pool(name);
        let pool = pool.filter(|pool| pool.metadata.deletion_timestamp.is_none());
        let Some(replicas) = pool.as_deref().and_then(|pool| pool.spec.node_count()) else {
            return Ok(Outcome::Done);
        };
        let now = self.context.now();
        cluster.expire(now);
        let snapshot = cluster.snapshot(now);
        let claims = cluster.pool_claims(name);
        let known = claims.active.len();
        // The API server is asked only if the cache has too many claims: most pools have as many as they should.
        let excess = match static_replicas::excess(replicas, known) {
            0 => 0,
            cached => static_replicas::excess_to_delete(cached, known, self.live(name).await?),
        };
        if excess == 0 {
            return Ok(Outcome::RequeueAfter(SETTLED));
        }
        tracing::info!(
            NodePool = name,
            current = known,
            desired = replicas,
            "deprovision-count" = excess,
            "deprovisioning nodeclaims to satisfy replica count",
        );
        let unlaunched = |claim: &str| {
            let claim = cluster.claim(claim);
            claim.is_some_and(|claim| claim_facts::provider_id(&claim).is_none())
        };
        let chosen = deletion_order(&snapshot, name, &claims.active, unlaunched, excess, now);
        let results = join_all(chosen.iter().map(|claim| self.delete(claim))).await;
        let errors: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            return Ok(Outcome::RequeueAfter(SETTLED));
        }
        Err(ReconcileError::message(format!(
            "failed to deprovision nodeclaims, {}",
            errors.join("; ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::super::fixture::{claim, class, know};
    use super::*;
    use crate::cluster::Watched;

    // LIF-175
    #[tokio::test]
    async fn no_claim_goes_for_one_that_only_the_cache_still_has() {
        for (there, calls) in [(&["web-1", "web-2", "web-3"][..], 2), (&["web-1", "web-2"], 1)] {
            let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let counter = Arc::clone(&asked);
            let count = move |_: &crate::cluster::Cluster| {
                counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            };
            let items: Vec<Value> = there.iter().map(|name| claim(name)).collect();
            let context = Context::answering(&json!({"metadata": {}, "items": items}), count);
            know(&context, &["web-1", "web-2", "web-3"]);
            let template = json!({"spec": {"requirements": [], "nodeClassRef": class()}});
            let pool = json!({"metadata": {"name": "web", "uid": "web", "resourceVersion": "1"},
                "spec": {"replicas": 2, "template": template}});
            let pool: NodePool = from_value(pool).expect("a pool");
            context.cluster.notify(Watched::apply(&context.cluster, pool));
            // The list, and a deletion if one is left over.
            let _ = StaticDeprovisioning::new(&context).reconcile(&"web".to_owned()).await;
            let asked = asked.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(asked.min(2), calls, "{there:?}");
        }
    }
}
