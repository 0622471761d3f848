//! The loop: wait for a batch, decide, carry out.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kerf_api::NodePool;
use kerf_model::plan::{Launch, Plan};
use kerf_runtime::metrics::catalogue;
use kerf_runtime::options::PreferencePolicy;
use kerf_runtime::{CancellationToken, Outcome, RateLimit, ReconcileError, Rng};
use tokio::time::Instant;

use super::batch::Batcher;
use super::notices::Notices;
use super::turns::Turns;
use super::{events, pass, record};
use crate::catalogue::refresh;
use crate::cluster::claims_of;
use crate::context::Context;
use crate::creation::{Creation, create};
use crate::reconciler::{Reconciler, WorkLoop};

/// Claims written at once; the client's own limit sets the pace.
const CREATIONS: usize = 100;

/// The batch key of pods a deadline left over; no uid looks like it.
const OWED: &str = "unattempted";

/// Provisioning (SCH-043).
pub(crate) struct Provisioner {
    context: Context,
    batcher: Batcher,
    work: WorkLoop<()>,
    rng: Rng,
    notices: Notices,
    turns: Mutex<Turns>,
}

impl Provisioner {
    /// A provisioner that works off a batcher.
    pub(crate) fn new(context: &Context, batcher: &Batcher) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, record::CONTROLLER, RateLimit::DEFAULT),
            rng: context.seed.derive("scheduling-id").rng(),
            context: context.clone(),
            batcher: batcher.clone(),
            notices: Notices::default(),
            turns: Mutex::default(),
        })
    }

    /// One pass (SCH-045).
    async fn pass(&self, shutdown: &CancellationToken) -> Result<(), ReconcileError> {
        let context = &self.context;
        let began = Instant::now();
        refresh(context).await;
        let now = context.now();
        // Pools first: a pool that changes in between makes claims that have drifted, never ones that wrongly have not.
        let pools = context.cluster.pools();
        let snapshot = context.cluster.snapshot(now);
        let mut batch = pass::batch(&snapshot, &context.cluster, now);
        batch.narrow(self.turns().take(&batch.pods));
        record::protections(context, &snapshot, now);
        if context.options.preference_policy == PreferencePolicy::Respect {
            self.notices.tell(&snapshot.pending, began);
        }
        if batch.pods.is_empty() {
            return Ok(());
        }
        if !pass::has_dynamic_pool(&snapshot) {
            record::no_pools(context, &batch.pods, now);
            return Ok(());
        }
        let deleting = batch.pods.len() - batch.pending;
        tracing::debug!(
            pending = batch.pending,
            deleting,
            "computing scheduling decision for provisionable pod(s)"
        );
        let Some(plan) = self.measured(&snapshot, &batch, shutdown).await? else {
            return Ok(());
        };
        {
            let mut turns = self.turns();
            turns.done(&batch.pods, &plan);
            if turns.any_owed() {
                self.batcher.trigger(OWED.into());
            }
        }
        record::breached_limits(&snapshot);
        if !plan.launches.is_empty() {
            record::found(&batch.pods, began.elapsed());
        }
        // Nominations last from now on, however long it took to decide (SCH-072).
        record::record(context, &snapshot, &plan, context.now());
        self.launch(&plan, &pools, &claims_of(&snapshot)).await
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Solves and measures it (SCH-345 to SCH-347).
    async fn measured(
        &self,
        snapshot: &Arc<kerf_model::snapshot::Snapshot>,
        batch: &pass::Batch,
        shutdown: &CancellationToken,
    ) -> Result<Option<Plan>, ReconcileError> {
        let metrics = &self.context.metrics;
        let id = self.rng.uuid();
        let (depth, unfinished) = (
            metrics.gauge(&catalogue::SCHEDULER_QUEUE_DEPTH),
            metrics.gauge(&catalogue::SCHEDULER_UNFINISHED_WORK),
        );
        // Only this loop has series of this family under this controller as yet, so all older ones may go.
        depth.clear();
        depth.set(&[record::CONTROLLER, &id], batch.pods.len() as f64);
        unfinished.set(&[record::CONTROLLER, &id], 0.0);
        let began = Instant::now();
        let decision = pass::solve(&self.context, snapshot, batch, shutdown).await;
        let took = began.elapsed().as_secs_f64();
        metrics
            .histogram(&catalogue::SCHEDULING_DURATION)
            .observe(&[record::CONTROLLER], took);
        unfinished.remove(&[record::CONTROLLER, &id]);
        let plan = decision?.map(|decision| {
            record::zones(&self.context, &decision.zones);
            decision.plan
        });
        let left = plan.as_ref().map_or(0, |plan| plan.unattempted.len());
        depth.set(&[record::CONTROLLER, &id], left as f64);
        if left > 0 {
            tracing::debug!(duration = took, "scheduling-id" = id, "scheduling simulation timed out");
        }
        Ok(plan)
    }

    /// Creates the claims, each on its own (SCH-322).
    async fn launch(&self, plan: &Plan, pools: &[Arc<NodePool>], known: &BTreeSet<&str>) -> Result<(), ReconcileError> {
        let creations: Vec<_> = plan
            .launches
            .iter()
            .map(|launch| self.launch_one(launch, pools, known))
            .collect();
        let results: Vec<Result<(), String>> = futures::stream::iter(creations).buffered(CREATIONS).collect().await;
        let errors: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            return Ok(());
        }
        Err(ReconcileError::message(errors.join("; ")))
    }

    async fn launch_one(&self, launch: &Launch, pools: &[Arc<NodePool>], known: &BTreeSet<&str>) -> Result<(), String> {
        let context = &self.context;
        let pool = pools
            .iter()
            .find(|pool| pool.metadata.name.as_deref() == Some(&launch.pool));
        let pool =
            pool.ok_or_else(|| crate::creation::CreationError::PoolGone(Arc::clone(&launch.pool)).to_string())?;
        let creation = Creation {
            launch,
            pool,
            reason: "provisioned",
            promised: &launch.pods,
        };
        let Some(_until_promised) = context.cluster.lock_for_launch(&launch.pods, known) else {
            tracing::debug!(nodepool = %launch.pool, "pods of a planned machine are given one elsewhere, planning the others again");
            for pod in &launch.pods {
                self.batcher.trigger(Arc::clone(&pod.uid));
            }
            return Ok(());
        };
        let claim = create(context, creation).await.map_err(|error| error.to_string())?;
        // The node of some may have been given up as a candidate meanwhile.
        context.cluster.release(&launch.pods);
        context.relapses().launched(&launch.pods, context.now());
        let name: Arc<str> = claim.metadata.name.as_deref().unwrap_or_default().into();
        for pod in &launch.pods {
            context.recorder.publish(events::nominated(pod, Some(&name), None));
        }
        Ok(())
    }
}

impl Reconciler for Provisioner {
    type Key = ();

    fn work(&self) -> &WorkLoop<()> {
        &self.work
    }

    fn first_keys(&self) -> Vec<()> {
        vec![()]
    }

    async fn reconcile(&self, _key: &()) -> Result<Outcome, ReconcileError> {
        let shutdown = self.work.stopping();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(Outcome::Done),
            () = self.batcher.wait() => {}
        }
        // SCH-044: the pods come again by themselves.
        self.context.cluster.expire(self.context.now());
        if self.context.cluster.is_synced() {
            self.pass(shutdown).await?;
        } else {
            tracing::debug!(missing = ?self.context.cluster.sync_report(), "waiting on cluster sync");
        }
        Ok(Outcome::RequeueAfter(std::time::Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_state::lean::{LeanNode, LeanPod};
    use serde_json::{from_value, json};

    use super::*;
    use crate::cluster::Watched;

    #[tokio::test(start_paused = true)]
    async fn a_pod_whose_node_stays_after_all_leaves_its_machine_to_others() {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let metadata = |name: &str| json!({"name": name, "uid": name, "resourceVersion": "1"});
        let claim = json!({"metadata": metadata("web-1"), "spec": {"requirements": [], "nodeClassRef": class}});
        for given_up in [false, true] {
            let meanwhile = move |cluster: &crate::cluster::Cluster| {
                if given_up {
                    cluster.unmark_for_deletion("p://1");
                }
            };
            let context = Context::answering(&claim, meanwhile);
            let cluster = &context.cluster;
            let node = json!({"metadata": metadata("node-1"), "spec": {"providerID": "p://1"}});
            cluster.tell(Watched::apply(cluster, from_value::<LeanNode>(node).expect("a node")));
            let pod = json!({
                "metadata": {"namespace": "shop", "name": "p", "uid": "p"},
                "spec": {"nodeName": "node-1", "containers": []}, "status": {"phase": "Running"},
            });
            cluster.tell(Watched::apply(cluster, from_value::<LeanPod>(pod).expect("a pod")));
            let pool = json!({"metadata": metadata("web"), "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}}});
            let pool: NodePool = from_value(pool).expect("a pool");
            cluster.tell(Watched::apply(cluster, pool.clone()));
            cluster.mark_for_deletion("p://1");
            let snapshot = cluster.snapshot(context.now());
            let pod = cluster.pod("shop", "p").expect("it is known");
            let mut launch = Launch::of_template(&snapshot.pools[0]);
            launch.pods = vec![Arc::clone(&pod)];
            let (batcher, pools) = (
                Batcher::new(std::time::Duration::ZERO, std::time::Duration::ZERO),
                [Arc::new(pool)],
            );
            let provisioner = Provisioner::new(&context, &batcher);
            let launched = provisioner.launch_one(&launch, &pools, &BTreeSet::new()).await;
            assert_eq!(launched, Ok(()));
            assert_eq!(cluster.promised_to(&pod).is_none(), given_up);
        }
    }
}
