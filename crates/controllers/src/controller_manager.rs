//! The whole controller: watches, readiness, election, and all loops, in the order they depend on each other (OPS-057).

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use kerf_api::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ec2_node_class};
use kerf_cloud::{CloudProvider, OverlayProvider};
use kerf_decide::PreparedCache;
use kerf_model::intern::Interner;
use kerf_runtime::client::read_only;
use kerf_runtime::leader::{ElectionConfig, Elector, LeaderError, LeaseAccess};
use kerf_runtime::server::BindError;
use kerf_runtime::{
    CancellationToken, Clock, HealthChecks, Metrics, Options, ProviderLoops, Recorder, Seed, SyncGate, TaskError,
    TaskGroup, events, health, server,
};
use kerf_state::lean::{
    LeanCsiNode, LeanDaemonSet, LeanNamespace, LeanNode, LeanPdb, LeanPod, LeanPv, LeanPvc, LeanStorageClass,
};
use kube::{Client, Resource};
use tokio::runtime::Handle;

use crate::capacity_buffers::CapacityBuffers;
use crate::catalogue::{CatalogueRefresh, OverlayEvaluation};
use crate::clock_jump_guard::ClockJumpGuard;
use crate::cluster::Cluster;
use crate::consistency::Consistency;
use crate::context::{Context, Tuning};
use crate::disruption::{ClaimConditions, CommandQueue, Disruption};
use crate::expiration::Expiration;
use crate::garbage_collection::GarbageCollection;
use crate::hydration::Hydration;
use crate::interruption::Interruptions;
use crate::lifecycle::Lifecycle;
use crate::pod_events::PodEvents;
use crate::pools::{self, PoolCounter, PoolHash, RegistrationHealth};
use crate::provider_task::ProviderTask;
use crate::provisioning::{Batcher, NodeTrigger, Nominator, PlanGap, PodTrigger, Provisioner};
use crate::pump;
use crate::reconciler::LeaderTask;
use crate::relist::Relist;
use crate::repair::{Policies, Repair, RepairStatus};
use crate::reporting::{ClusterState, ConditionReport, NodeReport, PodReport, PoolReport};
use crate::shadow::{RecordFile, RecordFileError, ShadowObserver};
use crate::static_capacity::{StaticDeprovisioning, StaticProvisioning};
use crate::termination::{Evictions, Termination};
use crate::write_locks::WriteLocks;

/// How long lists may take that a new leader waits for: as long as the first ones (OPS-058).
const RENEWAL_MAX: Duration = Duration::from_secs(120);

/// What the controller runs with.
pub struct ManagerConfig {
    /// The Kubernetes client, with its layers.
    pub client: Client,
    /// Election; `None` leads at once, for a process that knows it is alone.
    pub election: Option<Election>,
    /// The cloud. Its ids must come from `interner`.
    pub provider: Arc<dyn CloudProvider>,
    /// The options.
    pub options: Options,
    /// Wall time.
    pub clock: Clock,
    /// The source of all randomness.
    pub seed: Seed,
    /// The interner of the provider's ids.
    pub interner: Arc<Interner>,
    /// The metrics registry.
    pub metrics: Metrics,
    /// Whether metrics and probes are served on the ports of the options.
    pub listen: bool,
    /// Settings that Karpenter does not have.
    pub tuning: Tuning,
}

impl ManagerConfig {
    /// A process that knows it is alone and serves no ports, with default options. The provider's ids must come from `interner`.
    pub fn alone(client: Client, provider: Arc<dyn CloudProvider>, interner: Arc<Interner>, clock: Clock) -> Self {
        Self {
            client,
            election: None,
            provider,
            options: Options::default(),
            clock,
            seed: Seed(7),
            interner,
            metrics: Metrics::default(),
            listen: false,
            tuning: Tuning::default(),
        }
    }
}

/// How this process is elected.
pub struct Election {
    /// A client with no limit in common with others (OPS-049).
    pub client: Client,
    /// The lease and the identity of this process.
    pub config: ElectionConfig,
}

/// Why the controller ended.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// A port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Leadership was lost; the process must end (OPS-050).
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// A task failed; its text names it.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The file of shadow mode cannot be opened.
    #[error(transparent)]
    Records(#[from] RecordFileError),
}

/// Runs until `shutdown` is cancelled or something fails that needs a restart.
pub async fn run(config: ManagerConfig, shutdown: CancellationToken) -> Result<(), ManagerError> {
    let prepared = Manager::new(config);
    prepared.run(shutdown).await
}

/// The controller, put together but not running.
pub struct Manager {
    context: Context,
    controllers: Vec<Arc<dyn LeaderTask>>,
    events: tokio::sync::mpsc::Receiver<events::Event>,
    election: Option<Election>,
    listen: bool,
    overlays: bool,
}

impl Manager {
    /// Puts everything together. Nothing runs yet.
    pub fn new(config: ManagerConfig) -> Self {
        Self::with_events(config, Recorder::new())
    }

    /// The same with a recorder that others publish with, too, and what it records.
    pub fn with_events(
        config: ManagerConfig,
        (recorder, events): (Recorder, tokio::sync::mpsc::Receiver<events::Event>),
    ) -> Self {
        let gates = config.options.feature_gates;
        let overlaid = gates
            .node_overlay
            .then(|| Arc::new(OverlayProvider::new(Arc::clone(&config.provider))));
        let provider = match &overlaid {
            Some(overlaid) => Arc::clone(overlaid) as Arc<dyn CloudProvider>,
            None => config.provider,
        };
        let observes = config.options.observe;
        let context = Context {
            cluster: Cluster::new(Arc::clone(&config.interner), provider.profile(), &config.options),
            client: match observes {
                true => read_only(config.client),
                false => config.client,
            },
            jump_guard: ClockJumpGuard::new(&config.clock),
            clock: config.clock,
            seed: config.seed,
            names: config.seed.derive("claim-names").rng(),
            recorder,
            metrics: config.metrics,
            provider,
            options: Arc::new(config.options),
            interner: config.interner,
            prepared: PreparedCache::default(),
            write_locks: WriteLocks::default(),
            nominations_refused: Arc::default(),
            tuning: config.tuning,
        };
        let controllers = match observes {
            true => observing(&context, overlaid.as_ref()),
            false => controllers(&context, overlaid.as_ref()),
        };
        Self {
            context,
            controllers,
            events,
            // A process that only observes does not compete for the lease.
            election: config.election.filter(|_| !observes),
            listen: config.listen,
            overlays: gates.node_overlay,
        }
    }

    /// Runs the provider's own loops beside the controllers. A process that observes runs none: they write.
    #[must_use]
    pub fn with_provider_loops(mut self, loops: Arc<dyn ProviderLoops>) -> Self {
        if !self.context.options.observe {
            self.controllers.push(ProviderTask::new(loops));
        }
        self
    }

    /// The values that the controllers share.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Runs until `shutdown` is cancelled or something fails that needs a restart. Boxed, so that it is compiled here and not by each caller.
    pub fn run(self, shutdown: CancellationToken) -> BoxFuture<'static, Result<(), ManagerError>> {
        Box::pin(self.run_all(shutdown))
    }

    async fn run_all(self, shutdown: CancellationToken) -> Result<(), ManagerError> {
        let Self {
            context,
            mut controllers,
            events,
            election,
            listen,
            overlays,
        } = self;
        if context.options.observe {
            let records = RecordFile::open(context.options.observe_file.as_deref())?;
            controllers.push(ShadowObserver::new(&context, records));
        }
        let mut tasks = TaskGroup::new(&shutdown);
        let (gate, access) = (SyncGate::new(), LeaseAccess::default());
        if listen {
            let lease = election.is_some().then_some(&access);
            serve(&context, &gate, lease, &mut tasks).await?;
        }
        let written = watch_all(&context, &gate, overlays, &mut tasks);
        let ended = tasks.token().clone();
        let writer = events::write_events(
            context.client.clone(),
            events,
            context.clock.clone(),
            context.seed.derive("events").rng(),
            ended.clone(),
        );
        if !context.options.observe {
            tasks.spawn("events", async move {
                writer.await;
                Ok::<(), std::convert::Infallible>(())
            });
        }
        // The leader's work and the tasks beside it end each other.
        let lead = lead(
            &context,
            controllers,
            (gate, written),
            (election, access),
            ended.clone(),
        );
        let beside = tasks.wait();
        tokio::pin!(lead, beside);
        tokio::select! {
            biased;
            led = &mut lead => {
                ended.cancel();
                beside.await?;
                led
            }
            failed = &mut beside => {
                ended.cancel();
                let led = lead.await;
                failed?;
                led
            }
        }
    }
}

/// Every controller; one line each.
fn controllers(context: &Context, overlaid: Option<&Arc<OverlayProvider>>) -> Vec<Arc<dyn LeaderTask>> {
    let health = RegistrationHealth::default();
    let evictions = Evictions::new(context);
    let batcher = Batcher::new(context.options.batch_idle_duration, context.options.batch_max_duration);
    let nominator = Nominator::new(context);
    let gap = PlanGap::new(context);
    let queue = CommandQueue::new(context);
    let repair_policies = Policies::default();
    let pool_health = pools::health(context, &health);
    let mut all: Vec<Arc<dyn LeaderTask>> = vec![
        ClusterState::new(context),
        CatalogueRefresh::new(&context.measured("provisioner")),
        PoolHash::new(context),
        PoolCounter::new(context),
        pools::readiness(context),
        pools::validation(context),
        Provisioner::new(context, &batcher, &nominator, &gap),
        PodTrigger::new(context, &batcher),
        NodeTrigger::new(context, &batcher),
        Lifecycle::new(
            &context.measured("nodeclaim.lifecycle"),
            health,
            Arc::clone(&pool_health),
            context.tuning.timeouts,
        ),
        pool_health,
        Termination::new(&context.measured("node.termination"), Arc::clone(&evictions)),
        evictions,
        Expiration::new(context),
        GarbageCollection::new(&context.measured("nodeclaim.garbagecollection")),
        Consistency::new(context),
        Hydration::of_claims(context),
        Hydration::of_nodes(context),
        PodEvents::new(context),
        Interruptions::new(context),
        Repair::new(context, &repair_policies),
        RepairStatus::new(context, &repair_policies),
        ClaimConditions::new(&context.measured("nodeclaim.disruption")),
        Disruption::new(context, &queue),
        queue,
    ];
    if !context.options.disable_cluster_state_observability {
        // OPS-010
        all.push(ConditionReport::<NodeClaim>::new(context));
        all.push(ConditionReport::<NodePool>::new(context));
        all.push(ConditionReport::<LeanNode>::new(context));
        let classes = &context.provider.profile().node_classes;
        if classes.iter().any(|class| class.kind == ec2_node_class::KIND) {
            all.push(ConditionReport::<EC2NodeClass>::new(context));
        }
        if context.options.feature_gates.capacity_buffer {
            all.push(ConditionReport::<CapacityBuffer>::new(context));
        }
        all.push(PodReport::new(context));
        all.push(NodeReport::new(context));
        all.push(PoolReport::new(context));
        all.push(gap);
    }
    if !context.options.nominated_pods_max.is_none() {
        all.push(nominator);
    }
    // LIF-168
    if context.options.feature_gates.static_capacity {
        all.push(StaticProvisioning::new(context));
        all.push(StaticDeprovisioning::new(context));
    }
    if context.options.feature_gates.capacity_buffer {
        all.push(CapacityBuffers::new(context, &batcher));
    }
    if let Some(overlaid) = overlaid {
        all.push(OverlayEvaluation::new(context, overlaid));
    }
    all
}

/// The loops of shadow mode besides the observer: they keep instance types up to date, overlays included.
fn observing(context: &Context, overlaid: Option<&Arc<OverlayProvider>>) -> Vec<Arc<dyn LeaderTask>> {
    let mut all: Vec<Arc<dyn LeaderTask>> = vec![CatalogueRefresh::new(context)];
    if let Some(overlaid) = overlaid {
        all.push(OverlayEvaluation::new(context, overlaid));
    }
    all
}

async fn lead(
    context: &Context,
    controllers: Vec<Arc<dyn LeaderTask>>,
    (gate, written): (SyncGate, Vec<Arc<Relist>>),
    (election, access): (Option<Election>, LeaseAccess),
    shutdown: CancellationToken,
) -> Result<(), ManagerError> {
    let elects = election.is_some();
    let work = async {
        let known = async {
            gate.wait().await;
            match elects {
                true => renewed(&written).await,
                false => Ok(()),
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            known = known => known?,
        }
        notify_of_everything(&context.cluster, &controllers);
        let mut tasks = TaskGroup::new(&shutdown);
        for controller in controllers {
            let token = tasks.token().clone();
            tasks.spawn(controller.name(), async move {
                controller.run(token).await;
                Ok::<(), std::convert::Infallible>(())
            });
        }
        tasks.wait().await
    };
    let Some(Election { client, config }) = election else {
        return Ok(work.await?);
    };
    let rng = context.seed.derive("election").rng();
    let elector = Elector::new(client, config, context.clock.clone(), rng)
        .access(&access)
        .recorder(context.recorder.clone())
        .metrics(&context.metrics);
    match elector.run(&shutdown, work).await? {
        Some(result) => Ok(result?),
        None => Ok(()),
    }
}

/// Notifies the controllers of all objects, and of all changes from now on. Only the leader notifies controllers: their queues are not worked
/// off in a process that stands by.
fn notify_of_everything(cluster: &Cluster, controllers: &[Arc<dyn LeaderTask>]) {
    for controller in controllers {
        // The controllers hold the cluster.
        let controller = Arc::downgrade(controller);
        cluster.subscribe(move |change| {
            if let Some(controller) = controller.upgrade() {
                controller.notify(change);
            }
        });
    }
    cluster.notify(cluster.everything());
}

/// Lists again the kinds that the last leader wrote. The watches of a process that stood by may be behind, and it would repeat actions that
/// it has not seen.
async fn renewed(written: &[Arc<Relist>]) -> Result<(), TaskError> {
    let all = join_all(written.iter().map(|relist| relist.renew()));
    match tokio::time::timeout(RENEWAL_MAX, all).await {
        Ok(_) => Ok(()),
        Err(_) => Err(TaskError::Failed {
            task: "leading".to_owned(),
            message: format!(
                "NodeClaims and Nodes could not be listed within {} s of becoming leader",
                RENEWAL_MAX.as_secs()
            ),
        }),
    }
}

/// Starts a watch per kind; the gate opens when all have their first complete set. Returns the lists of the kinds that leaders write.
fn watch_all(context: &Context, gate: &SyncGate, overlays: bool, tasks: &mut TaskGroup) -> Vec<Arc<Relist>> {
    watch::<LeanNamespace>(context, gate, tasks);
    watch::<LeanStorageClass>(context, gate, tasks);
    watch::<LeanPv>(context, gate, tasks);
    watch::<LeanPvc>(context, gate, tasks);
    watch::<LeanCsiNode>(context, gate, tasks);
    watch::<LeanPdb>(context, gate, tasks);
    watch::<LeanDaemonSet>(context, gate, tasks);
    watch::<NodePool>(context, gate, tasks);
    let written = vec![
        watch::<NodeClaim>(context, gate, tasks),
        watch::<LeanNode>(context, gate, tasks),
    ];
    watch::<LeanPod>(context, gate, tasks);
    if overlays {
        watch::<NodeOverlay>(context, gate, tasks);
    }
    if context.options.feature_gates.capacity_buffer {
        watch::<CapacityBuffer>(context, gate, tasks);
    }
    for kind in &context.provider.profile().node_classes {
        gate.expect(kind.kind);
        let (rng, token) = (context.seed.derive(kind.kind).rng(), tasks.token().clone());
        let follow = pump::follow_classes(
            context.client.clone(),
            *kind,
            context.cluster.clone(),
            gate.clone(),
            rng,
            token,
        );
        tasks.spawn(format!("watch {}", kind.kind), async move {
            follow.await;
            Ok::<(), std::convert::Infallible>(())
        });
    }
    written
}

/// The same for one kind of objects.
fn watch<K>(context: &Context, gate: &SyncGate, tasks: &mut TaskGroup) -> Arc<Relist>
where
    K: crate::cluster::Watched + serde::de::DeserializeOwned + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let kind = K::kind(&());
    gate.expect(&*kind);
    let (rng, token) = (context.seed.derive(&kind).rng(), tasks.token().clone());
    let relist = Arc::new(Relist::new(Arc::default()));
    let follow = pump::follow::<K>(
        context.client.clone(),
        context.cluster.clone(),
        gate.clone(),
        Arc::clone(&relist),
        rng,
        token,
    );
    tasks.spawn(format!("watch {kind}"), follow);
    relist
}

/// Serves metrics and probes (OPS-041 to OPS-045). With an election, readiness also needs a lease that can be read and written.
async fn serve(
    context: &Context,
    gate: &SyncGate,
    lease: Option<&LeaseAccess>,
    tasks: &mut TaskGroup,
) -> Result<(), ManagerError> {
    let options = &context.options;
    let metrics = server::bind(options.metrics_port, "metrics", "--metrics-port").await?;
    let probes = server::bind(options.health_probe_port, "health probes", "--health-probe-port").await?;
    let client = context.client.clone();
    let mut checks = HealthChecks::new()
        .synced("manager", gate)
        .remembered("crd", &Handle::current(), move || crds_served(client.clone()))
        .ping("readyz");
    if let Some(lease) = lease.cloned() {
        checks = checks.with_cause("leader-election", move || std::future::ready(lease.check()));
    }
    let sites = vec![
        (
            metrics,
            server::metrics_router(context.metrics.clone(), options.enable_profiling),
        ),
        (probes, health::health_router(checks)),
    ];
    let token = tasks.token().clone();
    tasks.spawn("metrics and probe servers", async move {
        server::serve_apart(sites, &token).await
    });
    Ok(())
}

/// OPS-043: both kinds can be found through discovery.
async fn crds_served(client: Client) -> Result<(), String> {
    let version = NodePool::api_version(&());
    let served = client.list_api_group_resources(&version).await;
    let served = served.map_err(|error| kerf_runtime::client::describe(&error))?;
    let has = |kind: &str| served.resources.iter().any(|resource| resource.kind == kind);
    match [NodePool::kind(&()), NodeClaim::kind(&())]
        .iter()
        .find(|kind| !has(kind))
    {
        Some(missing) => Err(format!("{missing} is not served")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kerf_runtime::RateLimit;

    use super::*;

    /// The pace of all controllers with this CPU request, with every feature gate on.
    fn limits(cpu_milli: i64) -> BTreeMap<&'static str, RateLimit> {
        let mut context = Context::without_api();
        let mut options = Options {
            cpu_requests: cpu_milli,
            ..Options::default()
        };
        options.feature_gates.static_capacity = true;
        options.feature_gates.capacity_buffer = true;
        context.options = Arc::new(options);
        let overlaid = Arc::new(OverlayProvider::new(Arc::clone(&context.provider)));
        let controllers = controllers(&context, Some(&overlaid));
        let limits = controllers.iter().map(|one| (one.name(), one.rate_limit()));
        limits.filter_map(|(name, limit)| Some((name, limit?))).collect()
    }

    #[tokio::test]
    async fn controllers_repeat_what_failed_at_upstreams_pace() {
        let limit = |base: u64, max: u64, bucket| RateLimit {
            bucket,
            ..RateLimit::exponential(Duration::from_millis(base), Duration::from_secs(max))
        };
        // With one processor and with sixty, which is as many as count.
        for (cpu_milli, is_large) in [(1000, false), (60_000, true)] {
            let limits = limits(cpu_milli);
            let of_size = |small, large| Some(if is_large { large } else { small });
            // LIF-016: 1000 to 5000 workers, ten in a thousand per second.
            assert_eq!(
                limits["nodeclaim.lifecycle"],
                limit(1000, 60, of_size((10.0, 100), (50.0, 500)))
            );
            // LIF-081: 100 to 5000 workers, a tenth of them per second.
            assert_eq!(
                limits["node.termination"],
                limit(100, 10, of_size((10.0, 100), (500.0, 5000)))
            );
            // LIF-108: as many per second as workers.
            assert_eq!(
                limits["eviction-queue"],
                limit(100, 10, of_size((100.0, 1000), (5000.0, 50_000)))
            );
            // LIF-225
            for shared in [
                "nodeclaim.hydration",
                "node.hydration",
                "node.health",
                "nodeoverlay.controller",
                "capacitybuffer",
            ] {
                assert_eq!(limits[shared], limit(100, 60, Some((10.0, 100))), "{shared}");
            }
            for own in [
                "provisioner.trigger.pod",
                "provisioner.trigger.node",
                "nodepool.readiness",
                "nodepool.hash",
                "nodepool.counter",
                "nodepool.registrationhealth",
                "nodepool.validation",
                "nodeclaim.consistency",
                "nodeclaim.disruption",
                "nodeclaim.expiration",
                "nodeclaim.podevents",
                "static.provisioning",
                "static.deprovisioning",
            ] {
                let default = RateLimit {
                    bucket: None,
                    ..RateLimit::exponential(Duration::from_millis(5), Duration::from_secs(1000))
                };
                assert_eq!(limits[own], default, "{own}");
            }
        }
    }
}
