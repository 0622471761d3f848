//! The loop: wait for a batch, decide, carry out.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use kerf_api::NodePool;
use kerf_decide::{Batch, Memory, NoPlan, Provision, provision};
use kerf_model::plan::{Launch, Plan};
use kerf_runtime::client::{describe, name_of};
use kerf_runtime::{CancellationToken, Outcome, RateLimit, ReconcileError, Rng};
use kerf_units::policy::PreferencePolicy;
use tokio::time::Instant;

use super::batch::{BatchEnd, Batcher};
use super::buffer_findings::after_pass;
use super::nominator::Nominator;
use super::plan_gap::PlanGap;
use super::preference_log::PreferenceLog;
use super::solve_age::measured;
use super::{events, report};
use crate::catalogue::refresh;
use crate::cluster::claims_of;
use crate::context::Context;
use crate::creation::{Creation, create};
use crate::decision_inputs::DecisionInputs;
use crate::decision_observer::ObservedDecision;
use crate::reconciler::{Reconciler, WorkLoop};

/// Claims written at once; the client's own limit sets the pace.
const CREATIONS: usize = 100;

/// The batch key of pods that a deadline left unreached; no uid looks like it.
const UNREACHED: &str = "unattempted";
/// The batch key of pods that wait until kube-scheduler has bound others.
const HELD: &str = "held";
/// The time after which these pods are planned again, besides the batch window.
const HELD_FOR: Duration = Duration::from_secs(2);

/// Provisioning (SCH-043).
pub(crate) struct Provisioner {
    context: Context,
    batcher: Batcher,
    nominator: Arc<Nominator>,
    gap: Arc<PlanGap>,
    work: WorkLoop<()>,
    rng: Rng,
    preferences: PreferenceLog,
    memory: Arc<Mutex<Memory>>,
    /// Whether the last pass held pods back.
    any_held: AtomicBool,
}

impl Provisioner {
    /// A provisioner that works off a batcher.
    pub(crate) fn new(
        context: &Context,
        batcher: &Batcher,
        nominator: &Arc<Nominator>,
        gap: &Arc<PlanGap>,
    ) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::singleton(context, report::CONTROLLER, RateLimit::DEFAULT),
            rng: context.seed.derive("scheduling-id").rng(),
            context: context.clone(),
            batcher: batcher.clone(),
            nominator: Arc::clone(nominator),
            gap: Arc::clone(gap),
            preferences: PreferenceLog::default(),
            memory: Arc::new(Mutex::new(Memory::sharing(&context.prepared))),
            any_held: AtomicBool::new(false),
        })
    }

    /// Returns once a batch is complete. Pods that were held back begin one after a while.
    async fn batch(&self) -> BatchEnd {
        let any_held = self.any_held.swap(false, Ordering::Relaxed);
        let look_again = async {
            if any_held {
                tokio::time::sleep(HELD_FOR).await;
                self.batcher.trigger(HELD.into());
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            end = self.batcher.wait() => end,
            end = look_again => end,
        }
    }

    /// One pass (SCH-045).
    async fn pass(&self, batch_end: BatchEnd, shutdown: &CancellationToken) -> Result<(), ReconcileError> {
        let context = &self.context;
        let began = Instant::now();
        refresh(context).await;
        // Pools are read first: a pool that changes in between makes claims that count as drifted, never claims that wrongly do not.
        let pools = context.cluster.pools();
        let mut inputs = DecisionInputs::take(context);
        if batch_end == BatchEnd::MaxDuration {
            inputs = inputs.with_more_pods_coming();
        }
        let (snapshot, now) = (Arc::clone(&inputs.snapshot), inputs.now);
        report::protections(context, &snapshot, now);
        if context.options.preference_policy == PreferencePolicy::Respect {
            self.preferences.log(&snapshot.pending, began);
        }
        let Some(decision) = self.decide(inputs, shutdown).await? else {
            return Ok(());
        };
        let Batch { pods, .. } = &decision.batch;
        if !snapshot.pending.is_empty() {
            report::acknowledge(context, &snapshot.untried, now);
        }
        if context.options.feature_gates.capacity_buffer {
            after_pass(context, decision.plan.as_ref().unwrap_or(&Plan::default())).await;
        }
        let plan = match &decision.plan {
            Ok(plan) => plan,
            Err(NoPlan::NothingToPlace) => return Ok(()),
            Err(NoPlan::NoDynamicPools) => {
                report::no_pools(context, pods, now);
                return Ok(());
            }
        };
        if decision.any_unreached {
            self.batcher.trigger(UNREACHED.into());
        }
        if !decision.held.is_empty() {
            tracing::debug!(
                pods = decision.held.len(),
                "waiting until kube-scheduler has bound the pods of the nodes that came up, or until launches find capacity"
            );
            self.any_held.store(true, Ordering::Relaxed);
        }
        report::faults(&decision);
        report::zones(context, &decision.zones);
        report::breached_limits(&snapshot);
        if !plan.launches.is_empty() {
            report::found(pods, began.elapsed());
        }
        // Nominations last from now on, however long it took to decide (SCH-072).
        report::record(context, &snapshot, &plan.without_virtual_pods(), context.now());
        self.nominator.run_round();
        let launched = self.launch(plan, &pools, &claims_of(&snapshot)).await;
        self.gap.measure(&snapshot, decision);
        launched
    }

    /// Decides, and measures the time it takes (SCH-345 to SCH-347). Nothing is decided once the process stops (SCH-048).
    async fn decide(
        &self,
        inputs: DecisionInputs,
        shutdown: &CancellationToken,
    ) -> Result<Option<Provision>, ReconcileError> {
        let metrics = &self.context.metrics;
        let id = self.rng.uuid();
        report::solving(&self.context, &id, inputs.snapshot.pending.len());
        let began = Instant::now();
        let (memory, deadline, stopped) = (Arc::clone(&self.memory), self.context.tuning.deadline, shutdown.clone());
        let observer = self.context.tuning.decision_observer.clone();
        let work = move || {
            let stop = || began.elapsed() >= deadline || stopped.is_cancelled();
            let memory = &mut memory.lock().unwrap_or_else(PoisonError::into_inner);
            let before = observer.before(memory);
            let decision = provision(&inputs.view(), memory, &stop);
            observer.observe(&inputs.view(), &before, ObservedDecision::Provision(&decision));
            decision
        };
        let solve = self.context.compute(work);
        let decision = measured(metrics, &[report::CONTROLLER, &id], solve).await?;
        if let Ok(plan) = &decision.plan {
            report::solved(&self.context, &id, &decision.batch, plan, began.elapsed());
        }
        Ok((!shutdown.is_cancelled()).then_some(decision))
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
        ReconcileError::of_all(&errors)
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
        let name: Arc<str> = name_of(&claim).map_err(|error| describe(&error))?.into();
        // The node of some may have been given up as a candidate meanwhile.
        context.cluster.release(&launch.pods);
        context.cluster.note_launched(launch, &name, context.now());
        for pod in launch.pods.iter().filter(|pod| !pod.is_virtual()) {
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

    async fn reconcile(&self, _key: &()) -> Result<Outcome, ReconcileError> {
        let shutdown = self.work.stopping();
        let batch_end = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(Outcome::Done),
            end = self.batch() => end,
        };
        // SCH-044: the pods come again by themselves.
        self.context.cluster.expire(self.context.now());
        if self.context.cluster.is_synced() {
            self.pass(batch_end, shutdown).await?;
        } else {
            tracing::debug!(missing = ?self.context.cluster.sync_report(), "waiting on cluster sync");
        }
        Ok(Outcome::RequeueAfter(Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_state::lean::{LeanNode, LeanPod};
    use kerf_testkit::objects;
    use serde_json::{from_value, json};

    use super::*;
    use crate::DecisionObserver;
    use crate::cluster::Watched;

    // SCH-048: the one thing that ends a pass besides the deadline is the end of the process; then nothing is decided.
    #[tokio::test(start_paused = true)]
    async fn a_pass_that_is_cut_off_decides_nothing() {
        let context = Context::without_api();
        let (shutdown, none) = (CancellationToken::new(), Duration::ZERO);
        let provisioner = Provisioner::new(
            &context,
            &Batcher::new(none, none),
            &Nominator::new(&context),
            &PlanGap::new(&context),
        );
        let decided = async || {
            let decision = provisioner.decide(DecisionInputs::take(&context), &shutdown).await;
            decision.expect("no error").is_some()
        };
        assert!(decided().await);
        shutdown.cancel();
        assert!(!decided().await);
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_were_held_back_begin_a_batch_after_a_while() {
        let context = Context::without_api();
        let batcher = Batcher::new(Duration::from_secs(1), Duration::from_secs(10));
        let provisioner = Provisioner::new(&context, &batcher, &Nominator::new(&context), &PlanGap::new(&context));
        let began = Instant::now();
        let batch = async || tokio::time::timeout(Duration::from_secs(60), provisioner.batch()).await;
        assert!(batch().await.is_err(), "nothing is held back");
        provisioner.any_held.store(true, Ordering::Relaxed);
        assert!(batch().await.is_ok());
        assert_eq!(began.elapsed(), Duration::from_secs(60 + 2 + 1));
        assert!(batch().await.is_err(), "once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_counts_with_more_pods_if_its_batch_was_cut_off() {
        let (observed, mut context) = (Arc::new(Mutex::new(Vec::new())), Context::without_api());
        let seen = Arc::clone(&observed);
        context.tuning.decision_observer = DecisionObserver::new(move |inputs, _, _| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(inputs.settings.solver.more_pods_coming);
        });
        let batcher = Batcher::new(Duration::ZERO, Duration::ZERO);
        let provisioner = Provisioner::new(&context, &batcher, &Nominator::new(&context), &PlanGap::new(&context));
        for end in [BatchEnd::MaxDuration, BatchEnd::Idle] {
            let passed = provisioner.pass(end, &CancellationToken::new()).await;
            assert!(passed.is_ok(), "{passed:?}");
        }
        let observed = observed.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(*observed, [true, false]);
    }

    /// A cluster with a node that goes and its pod, and the launch of a machine for that pod. The answer to the creation comes after `meanwhile`.
    fn launch_for_a_moving_pod(
        meanwhile: impl Fn(&crate::cluster::Cluster) + Clone + Send + 'static,
    ) -> (Context, NodePool, Launch) {
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let metadata = |name: &str| json!({"name": name, "uid": name, "resourceVersion": "1"});
        let claim = json!({"metadata": metadata("web-1"), "spec": {"requirements": [], "nodeClassRef": class}});
        let context = Context::answering(&claim, meanwhile);
        let cluster = &context.cluster;
        let node = json!({"metadata": metadata("node-1"), "spec": {"providerID": "p://1"}});
        cluster.notify(Watched::apply(cluster, from_value::<LeanNode>(node).expect("a node")));
        let pod = objects::running(objects::stored("shop", objects::pod("p", "1")), "node-1");
        cluster.notify(Watched::apply(cluster, from_value::<LeanPod>(pod).expect("a pod")));
        let pool = json!({"metadata": metadata("web"), "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}}});
        let pool: NodePool = from_value(pool).expect("a pool");
        cluster.notify(Watched::apply(cluster, pool.clone()));
        cluster.mark_for_deletion("p://1");
        let snapshot = cluster.snapshot(context.now());
        let mut launch = Launch::of_template(&snapshot.pools[0]);
        launch.pods = vec![cluster.pod("shop", "p").expect("it is known")];
        (context, pool, launch)
    }

    async fn launched(context: &Context, pool: NodePool, launch: &Launch) {
        let (batcher, pools) = (Batcher::new(Duration::ZERO, Duration::ZERO), [Arc::new(pool)]);
        let provisioner = Provisioner::new(context, &batcher, &Nominator::new(context), &PlanGap::new(context));
        let launched = provisioner.launch_one(launch, &pools, &BTreeSet::new()).await;
        assert_eq!(launched, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_whose_node_stays_after_all_leaves_its_machine_to_others() {
        for given_up in [false, true] {
            let (context, pool, launch) = launch_for_a_moving_pod(move |cluster| {
                if given_up {
                    cluster.unmark_for_deletion("p://1");
                }
            });
            launched(&context, pool, &launch).await;
            assert_eq!(context.cluster.promised_to(&launch.pods[0]).is_none(), given_up);
        }
    }

    /// A snapshot per NodeClaim would make a scale-up cost claims times nodes and pods.
    #[tokio::test(start_paused = true)]
    async fn a_launch_takes_no_snapshot() {
        let (context, pool, launch) = launch_for_a_moving_pod(|_| {});
        let before = context.cluster.snapshot(context.now());
        launched(&context, pool, &launch).await;
        assert!(context.cluster.promised_to(&launch.pods[0]).is_some());
        assert!(context.cluster.is_last_snapshot(&before));
        let after = context.cluster.snapshot(context.now());
        assert!(!Arc::ptr_eq(&before, &after), "the launch changed the cluster");
    }
}
