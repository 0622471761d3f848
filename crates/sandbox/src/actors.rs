//! The actors of a cluster, started together: scheduler, controllers, kubelets.

use crate::context::ActorContext;
use crate::kubelet::KubeletOptions;
use crate::scheduler::Scoring;
use crate::{disruption_budget, kubelet, node_agents, node_lifecycle, pod_gc, scheduler, volumes, workloads};
use kerf_runtime::{CancellationToken, Clock, Seed};
use kube::Client;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Which actors run, with their options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActorOptions {
    /// The scheduler's scoring; `None` for no scheduler.
    pub scheduler: Option<Scoring>,
    /// How long the scheduler takes for an attempt to place one pod; zero by default.
    pub scheduling_attempt_takes: Duration,
    /// The kubelets.
    pub kubelets: KubeletOptions,
    /// Whether the controllers of the controller manager run: workloads, disruption budgets, node lifecycle, volumes, pod garbage
    /// collection. Switch it off for a cluster with a controller manager of its own.
    pub controller_manager: bool,
}

impl Default for ActorOptions {
    fn default() -> Self {
        Self {
            scheduler: Some(Scoring::default()),
            scheduling_attempt_takes: Duration::ZERO,
            kubelets: KubeletOptions::default(),
            controller_manager: true,
        }
    }
}

/// Running actors; they end when this is dropped or their token is cancelled.
#[derive(Debug)]
pub struct Actors {
    tasks: JoinSet<()>,
}

impl Actors {
    /// Starts the actors on the API behind `client` and returns once their caches are filled.
    pub async fn start(
        client: Client,
        clock: Clock,
        seed: Seed,
        options: &ActorOptions,
        shutdown: CancellationToken,
    ) -> Self {
        let context = Arc::new(ActorContext::new(client, clock, seed, shutdown));
        let mut tasks = JoinSet::new();
        // All listeners are registered before the first watch event.
        if options.controller_manager {
            workloads::start(&context, &mut tasks);
            disruption_budget::start(&context, &mut tasks);
            node_lifecycle::start(&context, &mut tasks);
            pod_gc::start(&context, &mut tasks);
            volumes::start(&context, &mut tasks);
        }
        if let Some(scoring) = options.scheduler {
            scheduler::start(&context, &mut tasks, scoring, options.scheduling_attempt_takes);
        }
        node_agents::start(&context, &mut tasks, &options.kubelets);
        kubelet::start(&context, &mut tasks, options.kubelets.clone());
        context.follow(&mut tasks).await;
        Self { tasks }
    }

    /// Waits until all actors have ended, which they do when their token is cancelled.
    pub async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
