//! A process of the controllers: its client with faults, its cloud, its manager.

use std::sync::Arc;

use kerf_chaos::{KerfCalls, LEASE};
use kerf_controllers::{DecisionObserver, Election, Manager, ManagerConfig, ManagerError, Tuning};
use kerf_model::intern::Interner;
use kerf_runtime::client::{ApiLayers, Retry};
use kerf_runtime::leader::ElectionConfig;
use kerf_runtime::{CancellationToken, Metrics, Options, TaskError};
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{FaultLayer, FaultPlan, Faults, KillMoment};
use kube::Client;
use tokio::task::JoinHandle;
use tower::Layer;

use crate::chaos::any_cloud::AnyCloud;

/// What a process is started in.
pub(crate) struct Environment<'a> {
    /// How many processes there were, this one included.
    pub(crate) life: u64,
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) any_cloud: &'a AnyCloud,
    pub(crate) interner: &'a Arc<Interner>,
    pub(crate) options: &'a Options,
    pub(crate) plan: &'a FaultPlan,
    /// Whether its client repeats what may be repeated.
    pub(crate) retries: bool,
    /// Whether it waits to be elected.
    pub(crate) elects: bool,
    /// Observes its decisions.
    pub(crate) decision_observer: DecisionObserver,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) enum End {
    /// At a call, as was asked for.
    Killed,
    /// It does not lead any more.
    LostLease,
    /// It could not list a kind within the time a start may take, and what runs it starts it anew; which.
    NotSynced(String),
    /// By itself; how.
    Failed(String),
}

pub(crate) struct Process {
    life: u64,
    manager: JoinHandle<Result<(), ManagerError>>,
    faults: Faults,
}

impl Process {
    pub(crate) fn start(around: &Environment<'_>) -> Self {
        let seed = around.sandbox.seed().derive(&format!("life {}", around.life));
        let faults = Faults::new("controller", seed.derive("faults"));
        faults.set(around.plan.clone());
        let client = |layers: ApiLayers| {
            let service = KerfCalls(around.life).layer(around.sandbox.api().clone());
            Client::new(layers.layer(FaultLayer(faults.clone()).layer(service)), "default")
        };
        let layers = match around.retries {
            true => ApiLayers::new().retry(Retry::new(seed.derive("retries").rng())),
            false => ApiLayers::new(),
        };
        let client_of_all = client(layers);
        let election = around.elects.then(|| Election {
            client: client(ApiLayers::new()),
            config: ElectionConfig::new(LEASE, "default", around.life.to_string()),
        });
        let manager = Manager::new(ManagerConfig {
            provider: around.any_cloud.provider(&client_of_all),
            client: client_of_all,
            election,
            options: around.options.clone(),
            clock: around.sandbox.clock().clone(),
            seed,
            interner: Arc::clone(around.interner),
            metrics: Metrics::default(),
            listen: false,
            tuning: Tuning {
                compare: false,
                decision_observer: around.decision_observer.clone(),
                ..Tuning::default()
            },
        });
        Self {
            life: around.life,
            manager: tokio::spawn(manager.run(CancellationToken::new())),
            faults,
        }
    }

    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    /// Lets these things go wrong on its way to the API.
    pub(crate) fn set_faults(&self, plan: &FaultPlan) {
        self.faults.set(plan.clone());
    }

    /// Kills it after so many more calls.
    pub(crate) fn kill_after(&self, calls: u64, moment: KillMoment) {
        self.faults.kill_at(self.faults.calls() + 1 + calls, moment);
    }

    /// Returns once it ended.
    pub(crate) async fn ended(&mut self) -> End {
        let killed = self.faults.killed();
        tokio::select! {
            biased;
            () = killed.cancelled() => End::Killed,
            result = &mut self.manager => match result {
                Ok(Err(ManagerError::Leader(_))) => End::LostLease,
                Ok(Err(ManagerError::Task(TaskError::Failed { message, .. }))) if message.contains("could not be listed") => {
                    End::NotSynced(message)
                }
                other => End::Failed(format!("{other:?}")),
            },
        }
    }

    /// Ends it for good, with all it has on its way; gives back how many calls it made.
    pub(crate) async fn die(mut self) -> u64 {
        self.faults.killed().cancel();
        if !self.manager.is_finished() {
            self.manager.abort();
            // The answer is that it was aborted.
            let _ = (&mut self.manager).await;
        }
        self.faults.calls()
    }
}
