//! Creates claims of a pool that has fewer than `spec.replicas` (LIF-169 to LIF-174).

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kerf_api::conditions::READY;
use kerf_api::status::Conditioned;
use kerf_api::{NodeClaim, NodePool};
use kerf_lifecycle::static_replicas::{self, ClaimCounts};
use kerf_model::plan::Launch;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};

use super::backoff::LaunchBackoff;
use super::list_claims;
use super::reservation::Reservation;
use crate::changes::{Change, Diff};
use crate::claim_facts;
use crate::context::Context;
use crate::creation::{Creation, create};
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "static.provisioning";
const WORKERS: usize = 10;
/// The time until the pool is reconciled again when there is nothing to do.
const SETTLED: Duration = Duration::from_secs(60);
/// The same when the node limit leaves no room.
const LIMITED: Duration = Duration::from_secs(30);
/// The same while the cluster is not synced.
const UNSYNCED: Duration = Duration::from_secs(1);

/// Creates the claims a pool lacks.
pub(crate) struct StaticProvisioning {
    context: Context,
    work: WorkLoop<String>,
    launches: LaunchBackoff,
}

impl StaticProvisioning {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::DEFAULT)
                .for_kind::<NodePool>()
                .workers(WORKERS),
            launches: LaunchBackoff::default(),
        })
    }

    /// How many claims are missing of those the cluster knows.
    fn missing(&self, pool: &str, replicas: u64) -> u64 {
        let claims = self.context.cluster.pool_claims(pool);
        let claims = ClaimCounts {
            active: claims.active.len(),
            pending_disruption: claims.pending_disruption.len(),
        };
        static_replicas::missing(replicas, claims)
    }

    /// Reads the pool's claims from the API server into the cluster.
    async fn learn(&self, pool: &str) -> Result<(), kube::Error> {
        for claim in list_claims(&self.context, pool).await? {
            self.context.cluster.created(claim);
        }
        Ok(())
    }

    /// Creates the reserved claims of the pool of that name, all at once. Each reservation ends when its claim is created or has failed.
    async fn grow(&self, name: &str, pool: &Arc<NodePool>, mut reservation: Reservation) -> Result<(), ReconcileError> {
        let snapshot = self.context.cluster.snapshot(self.context.now());
        let Some(template) = snapshot.pools.iter().find(|pool| *pool.name == *name) else {
            return Ok(());
        };
        let launch = Launch::of_template(template);
        let rooms: Vec<Reservation> = std::iter::from_fn(|| reservation.split()).collect();
        let creations = rooms.into_iter().map(|room| {
            let creation = Creation {
                launch: &launch,
                pool,
                reason: "provisioned",
                promised: &[],
            };
            let context = &self.context;
            async move {
                let created = create(context, creation).await;
                drop(room);
                created
            }
        });
        let errors: Vec<String> = join_all(creations)
            .await
            .into_iter()
            .filter_map(|created| created.err().map(|error| error.to_string()))
            .collect();
        if errors.is_empty() {
            return Ok(());
        }
        Err(ReconcileError::message(errors.join("; ")))
    }

    /// Updates the back-off of a claim's pool: a launch resets it, a claim that ends without a launch extends it.
    fn note(&self, claim: &Diff<NodeClaim>) {
        let Some(pool) = self.static_pool(claim) else { return };
        if claim.after.as_deref().is_some_and(is_launched) && claim.differs(is_launched) {
            self.launches.reset(&pool);
        }
        if ends(claim) && claim.last().is_some_and(|claim| !is_launched(claim)) {
            self.launches.failed(&pool);
        }
    }

    /// The pool of a claim, if it is one with a fixed number of nodes.
    fn static_pool(&self, claim: &Diff<NodeClaim>) -> Option<String> {
        let pool = claim_facts::pool(claim.last()?)?;
        let known = self.context.cluster.pool(pool)?;
        known.spec.is_static().then(|| pool.to_owned())
    }
}

fn is_launched(claim: &NodeClaim) -> bool {
    claim_facts::provider_id(claim).is_some()
}

/// Whether a change is the end of a claim: its deletion began, or it is gone.
fn ends(claim: &Diff<NodeClaim>) -> bool {
    claim.is_gone() || (claim.before.is_some() && claim.differs(|claim| !claim_facts::is_deleting(claim)))
}

/// Whether new nodes of a pool may be launched (SCH-396).
fn may_grow(pool: &NodePool) -> bool {
    pool.metadata.deletion_timestamp.is_none() && pool.condition_is_true(READY)
}

impl Reconciler for StaticProvisioning {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn observe(&self, change: &Change) {
        match change {
            Change::Pool(pool) if !pool.is_gone() && pool.generation_changed() => self.launches.reset(pool.name()),
            Change::Claim(claim) => self.note(claim),
            _ => {}
        }
    }

    // LIF-173
    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Pool(pool) if !pool.is_gone() => {
                let is_ready = |pool: &NodePool| pool.condition_is_true(READY);
                let turned_ready = pool.after.as_deref().is_some_and(is_ready) && pool.differs(is_ready);
                let due = pool.is_new() || pool.listed || pool.differs(|pool| pool.spec.replicas) || turned_ready;
                due.then(|| pool.name().to_owned()).into_iter().collect()
            }
            Change::Claim(claim) => self.static_pool(claim).filter(|_| ends(claim)).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let Some((pool, replicas)) = cluster.pool(name).and_then(|pool| {
            let replicas = pool.spec.node_count().filter(|_| may_grow(&pool))?;
            Some((pool, replicas))
        }) else {
            return Ok(Outcome::Done);
        };
        if !cluster.was_synced() {
            cluster.expire(self.context.now());
        }
        if !cluster.was_synced() {
            return Ok(Outcome::RequeueAfter(UNSYNCED));
        }
        if self.missing(name, replicas) == 0 {
            return Ok(Outcome::RequeueAfter(SETTLED));
        }
        if let Some(left) = self.launches.left(name) {
            return Ok(Outcome::RequeueAfter(left));
        }
        // The cache may lack claims: those of an earlier leader, and those whose creation was answered with an error although it succeeded.
        self.learn(name).await?;
        let missing = self.missing(name, replicas);
        if missing == 0 {
            return Ok(Outcome::RequeueAfter(SETTLED));
        }
        let Some(reservation) = Reservation::take(cluster, name, pool.spec.node_limit(), missing) else {
            tracing::info!(NodePool = name, "nodepool node limit reached");
            return Ok(Outcome::RequeueAfter(LIMITED));
        };
        tracing::info!(
            NodePool = name,
            current = cluster.pool_claims(name).active.len(),
            desired = replicas,
            "provision-count" = reservation.left(),
            "provisioning nodeclaims to satisfy replica count",
        );
        self.grow(name, &pool, reservation).await?;
        Ok(Outcome::RequeueAfter(SETTLED))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::know;
    use super::*;

    // SCH-400
    #[tokio::test]
    async fn a_claim_that_is_being_replaced_is_not_missing_but_one_that_goes_is() {
        let context = Context::without_api();
        let provisioning = StaticProvisioning::new(&context);
        know(&context, &["web-1", "web-2", "web-3"]);
        assert_eq!(provisioning.missing("web", 4), 1);
        context.cluster.set_pending_disruption("web-1", true);
        assert_eq!(provisioning.missing("web", 4), 1);
        context.cluster.mark_for_deletion("p://web-2");
        assert_eq!(provisioning.missing("web", 4), 2);
    }
}
