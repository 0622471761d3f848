//! The values that all controllers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kerf_cloud::{Call, CloudProvider, MeteredProvider};
use kerf_decide::PreparedCache;
use kerf_lifecycle::liveness::Timeouts;
use kerf_model::intern::Interner;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{
    Clock, Controller, Key, Metrics, Options, Queue, RateLimit, ReconcileError, Recorder, Rng, Seed, workers,
};
use kerf_units::nominated_pods::NominatedPodsMax;
use kube::Client;

use crate::clock_jump_guard::ClockJumpGuard;
use crate::cluster::Cluster;
use crate::decision_observer::DecisionObserver;
use crate::search_limits::SearchLimits;
use crate::write_locks::WriteLocks;

/// Shared by all controllers; clones are cheap.
#[derive(Clone)]
pub struct Context {
    /// The Kubernetes client.
    pub client: Client,
    /// Wall time.
    pub clock: Clock,
    /// The source of randomness: derive one generator per use.
    pub seed: Seed,
    /// The generator of the random parts of claims' names.
    pub(crate) names: Rng,
    /// The recorder of Kubernetes Events.
    pub recorder: Recorder,
    /// The metrics registry.
    pub metrics: Metrics,
    /// The cloud, overlays included when the gate is on.
    pub provider: Arc<dyn CloudProvider>,
    /// The cluster as the watches show it.
    pub cluster: Cluster,
    /// The options the process runs with.
    pub options: Arc<Options>,
    /// The interner of all ids.
    pub interner: Arc<Interner>,
    /// The last snapshot, compiled for the solver.
    pub(crate) prepared: PreparedCache,
    /// One lock per claim and pool, held during its writes.
    pub(crate) write_locks: WriteLocks,
    /// Whether the API server refuses to let pods be nominated.
    pub(crate) nominations_refused: Arc<AtomicBool>,
    /// Settings that Karpenter does not have.
    pub tuning: Tuning,
    /// Detects jumps of the wall clock.
    pub jump_guard: ClockJumpGuard,
}

/// Settings that Karpenter does not have.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Whether heavy computing leaves the async threads. Never under a paused clock, which cannot see other threads (Law 2).
    pub blocking: bool,
    /// Whether every plan is compared with that of a solver without memory; differences are logged as errors.
    pub compare: bool,
    /// How long the solver may take in one provisioning pass (SCH-047).
    pub deadline: Duration,
    /// How long claims may take to launch and to register (LIF-056), and replacements to be initialised (DIS-279).
    pub timeouts: Timeouts,
    /// How long consolidation may search.
    pub search: SearchLimits,
    /// Whether consolidation remembers its moves: for the pause after large commands (deviation at DIS-104) and the back-off after undone ones
    /// (deviation at DIS-119). Benchmarks compare it with consolidation that does not, as Karpenter's.
    pub remembers_moves: bool,
    /// A callback for each decision.
    pub decision_observer: DecisionObserver,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            blocking: false,
            compare: cfg!(debug_assertions),
            deadline: Duration::from_secs(60),
            timeouts: Timeouts::default(),
            search: SearchLimits::default(),
            remembers_moves: true,
            decision_observer: DecisionObserver::default(),
        }
    }
}

impl Context {
    /// The same with a provider whose calls are measured under a controller's name (OPS-167, OPS-168).
    pub(crate) fn measured(&self, controller: &'static str) -> Self {
        let duration = self.metrics.histogram(&catalogue::CLOUDPROVIDER_DURATION);
        let errors = self.metrics.counter(&catalogue::CLOUDPROVIDER_ERRORS);
        let observer = move |call: Call| {
            let labels = [call.controller, call.method.as_str(), call.provider];
            duration.observe(&labels, call.took.as_secs_f64());
            if let Some(error) = call.error {
                let [controller, method, provider] = labels;
                errors.inc(&[controller, method, provider, error]);
            }
        };
        let provider = MeteredProvider::new(Arc::clone(&self.provider), Arc::new(observer), controller);
        Self {
            provider: Arc::new(provider),
            ..self.clone()
        }
    }

    /// A queue that counts under a controller's name.
    pub fn queue<K: Key>(&self, name: &str, limit: RateLimit) -> Queue<K> {
        Queue::with_metrics(limit, name, &self.metrics)
    }

    /// The loop of a controller with one worker.
    pub fn controller(&self, name: &str) -> Controller {
        Controller::new(name).metrics(&self.metrics).seed(self.seed)
    }

    /// How many workers a controller of the range `min..max` gets (LIF-222).
    pub fn workers(&self, min: usize, max: usize) -> usize {
        workers(self.options.cpu_requests, min, max)
    }

    /// Computes something heavy inline or on a thread of its own (Law 2).
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ReconcileError> {
        Ok(match self.tuning.blocking {
            true => tokio::task::spawn_blocking(work).await?,
            false => work(),
        })
    }

    /// Plans for at most so many pods nominate them to the nodes they are planned onto.
    pub(crate) fn nominated_pods_max(&self) -> NominatedPodsMax {
        match self.nominations_refused.load(Ordering::Relaxed) {
            true => NominatedPodsMax::NONE,
            false => self.options.nominated_pods_max,
        }
    }

    /// The current wall time.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }
}

#[cfg(test)]
impl Context {
    /// A context for tests that need no API: every call to it fails.
    pub(crate) fn without_api() -> Self {
        use kerf_runtime::Clock;
        let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("nobody is asked"))
        });
        let interner = Arc::new(Interner::default());
        let cloud = kerf_cloud::FakeCloud::new(Arc::clone(&interner), Arc::default());
        let (clock, profile) = (Clock::simulated(jiff::Timestamp::UNIX_EPOCH), cloud.profile().clone());
        Self {
            client: Client::new(nobody, "default"),
            jump_guard: ClockJumpGuard::new(&clock),
            clock,
            seed: Seed(7),
            names: Seed(7).rng(),
            recorder: Recorder::new().0,
            metrics: Metrics::default(),
            provider: Arc::new(cloud),
            cluster: Cluster::new(Arc::clone(&interner), &profile, &Options::default()),
            options: Arc::default(),
            interner,
            prepared: PreparedCache::default(),
            write_locks: WriteLocks::default(),
            nominations_refused: Arc::default(),
            tuning: Tuning::default(),
        }
    }

    /// The same, but every call is answered so, after `meanwhile` has happened to the cluster.
    pub(crate) fn answering(answer: &serde_json::Value, meanwhile: impl Fn(&Cluster) + Clone + Send + 'static) -> Self {
        let (context, answer) = (Self::without_api(), answer.to_string());
        let cluster = context.cluster.clone();
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            meanwhile(&cluster);
            let answer = http::Response::new(kube::client::Body::from(answer.clone().into_bytes()));
            async { Ok::<_, std::convert::Infallible>(answer) }
        });
        Self {
            client: Client::new(service, "default"),
            ..context
        }
    }

    /// Notifies a controller of all changes from now on.
    pub(crate) fn follow(&self, controller: &Arc<impl crate::reconciler::LeaderTask>) {
        let controller = Arc::downgrade(controller);
        self.cluster.subscribe(move |change| {
            if let Some(controller) = controller.upgrade() {
                controller.notify(change);
            }
        });
    }
}
