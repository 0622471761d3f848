//! A process of the controllers: its ways to both APIs with their faults, its provider without memory, its manager.

use crate::cluster_fixture::try_manager;
use kerf_aws_sandbox::faults::{AwsFaultPlan, AwsFaults};
use kerf_aws_sandbox::{AwsSandbox, connect};
use kerf_chaos::{KerfCalls, LEASE, Observation};
use kerf_controllers::{DecisionObserver, Election, Manager, ObservedDecision, Tuning};
use kerf_runtime::leader::ElectionConfig;
use kerf_runtime::metrics::LabelNames;
use kerf_runtime::{CancellationToken, Clock, Metrics, Seed};
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{FaultLayer, FaultPlan, Faults};
use kube::Client;
use tokio::task::JoinHandle;
use tower::Layer;

/// How a process ended by itself.
pub(super) struct End {
    /// Whether it ran.
    pub(super) ran: bool,
    pub(super) why: String,
}

impl End {
    fn not_started(why: String) -> Self {
        Self { ran: false, why }
    }

    fn failed(error: impl std::fmt::Display) -> Self {
        Self {
            ran: true,
            why: error.to_string(),
        }
    }
}

pub(super) struct Process {
    pub(super) life: u64,
    pub(super) aws_faults: AwsFaults,
    faults: Faults,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), End>>,
}

/// What a process needs that is not its own.
struct Parts {
    life: u64,
    seed: Seed,
    client: Client,
    clock: Clock,
    aws: AwsSandbox,
    aws_faults: AwsFaults,
    election: Option<Election>,
    compares: bool,
    observation: Observation,
}

/// What a process is started in.
pub(super) struct Environment<'a> {
    /// How many processes there were, this one included.
    pub(super) life: u64,
    pub(super) sandbox: &'a Sandbox,
    pub(super) aws: &'a AwsSandbox,
    pub(super) observation: &'a Observation,
    /// Whether it waits to be elected.
    pub(super) elects: bool,
    /// Whether each plan is compared with that of a solver that remembers nothing.
    pub(super) compares: bool,
}

/// A client whose writes count as those of a life of the controllers, and its faults.
pub(super) fn kerf_client(sandbox: &Sandbox, life: u64) -> (Client, Faults) {
    let faults = Faults::new(&format!("life {life}"), sandbox.seed().derive("faults"));
    let service = FaultLayer(faults.clone()).layer(KerfCalls(life).layer(sandbox.api().clone()));
    (Client::new(service, "default"), faults)
}

impl Process {
    pub(super) fn start(around: &Environment<'_>) -> Self {
        let Environment { life, sandbox, aws, .. } = *around;
        let seed = sandbox.seed().derive(&format!("life {life}"));
        let (client, faults) = kerf_client(sandbox, life);
        let aws_faults = AwsFaults::new(seed.derive("aws faults")).of_client(&life.to_string());
        let shutdown = CancellationToken::new();
        let election = around.elects.then(|| Election {
            client: client.clone(),
            config: ElectionConfig::new(LEASE, "default", life.to_string()),
        });
        let parts = Parts {
            life,
            seed,
            client,
            clock: sandbox.clock().clone(),
            aws: aws.clone(),
            aws_faults: aws_faults.clone(),
            election,
            compares: around.compares,
            observation: around.observation.clone(),
        };
        let token = shutdown.clone();
        let task = tokio::spawn(async move {
            let manager = manager(parts).await.map_err(End::not_started)?;
            manager.run(token).await.map_err(End::failed)
        });
        Self {
            life,
            aws_faults,
            faults,
            shutdown,
            task,
        }
    }

    /// Lets things go wrong on its way to Kubernetes.
    pub(super) fn set_faults(&self, plan: &FaultPlan) {
        self.faults.set(plan.clone());
    }

    /// Returns once it ended by itself, and how.
    pub(super) async fn ended(&mut self) -> End {
        match (&mut self.task).await {
            Ok(Err(end)) => end,
            Ok(Ok(())) => End::failed("nobody asked it to"),
            Err(error) => End::failed(error),
        }
    }

    /// Ends it at once, as a fault of its own would.
    pub(super) fn break_down(&self) {
        self.task.abort();
    }

    /// Ends it for good: nothing that it has begun arrives any more.
    pub(super) async fn die(mut self) {
        self.aws_faults.set(AwsFaultPlan {
            lost: 1.0,
            ..AwsFaultPlan::default()
        });
        self.faults.killed().cancel();
        if !self.task.is_finished() {
            self.task.abort();
            // The answer is that it was aborted.
            let _ = (&mut self.task).await;
        }
    }

    /// Asks it to end, and waits for it.
    pub(super) async fn stop(mut self) -> Result<(), End> {
        self.shutdown.cancel();
        match (&mut self.task).await {
            Ok(result) => result,
            Err(error) => Err(End::failed(error)),
        }
    }
}

/// Reports plans that the plan checker objects to, or that a solver that remembers nothing does not make.
fn plan_observer(observation: Observation) -> DecisionObserver {
    DecisionObserver::new(move |inputs, _, decision| {
        let ObservedDecision::Provision(pass) = decision else {
            return;
        };
        if !pass.violations.is_empty() {
            let text = format!("the plan of {} breaks rules: {:?}", inputs.now, pass.violations);
            observation.report(vec![text]);
        }
        if pass.differs {
            let text = format!("a solver that remembers nothing plans otherwise at {}", inputs.now);
            observation.report(vec![text]);
        }
    })
}

async fn manager(parts: Parts) -> Result<Manager, String> {
    let metrics = Metrics::new(LabelNames::default());
    let connection = connect(&parts.aws, &parts.aws_faults, &metrics).map_err(|error| error.to_string())?;
    let tuning = Tuning {
        compare: parts.compares,
        decision_observer: plan_observer(parts.observation),
        ..Tuning::default()
    };
    let manager = try_manager(
        connection.services,
        (parts.client, parts.clock),
        &metrics,
        parts.election,
        (parts.seed, tuning),
    )
    .await?;
    tracing::info!(life = parts.life, "a process starts");
    Ok(manager)
}
