//! Everything that acts on a cluster's objects, started together.

use crate::kubelet::KubeletOptions;
use crate::scheduler::Scoring;
use crate::world::World;
use crate::{disruption_budget, kubelet, node_lifecycle, pod_gc, scheduler, volumes, workloads};
use kerf_runtime::{CancellationToken, Clock, Seed};
use kube::Client;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Which actors run, and how they behave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActorOptions {
    /// The scheduler's scoring; `None` for no scheduler.
    pub scheduler: Option<Scoring>,
    /// The kubelets.
    pub kubelets: KubeletOptions,
    /// What the controller manager does: workloads, budgets, node health, volumes, garbage of lost nodes. A cluster with a controller manager
    /// of its own needs none.
    pub controller_manager: bool,
}

impl Default for ActorOptions {
    fn default() -> Self {
        Self {
            scheduler: Some(Scoring::default()),
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
    /// Starts actors on the API behind `client` and returns once they have seen all of it.
    pub async fn start(
        client: Client,
        clock: Clock,
        seed: Seed,
        options: &ActorOptions,
        shutdown: CancellationToken,
    ) -> Self {
        let world = Arc::new(World::new(client, clock, seed, shutdown));
        let mut tasks = JoinSet::new();
        // Everybody listens before the first object comes in.
        if options.controller_manager {
            workloads::start(&world, &mut tasks);
            disruption_budget::start(&world, &mut tasks);
            node_lifecycle::start(&world, &mut tasks);
            pod_gc::start(&world, &mut tasks);
            volumes::start(&world, &mut tasks);
        }
        if let Some(scoring) = options.scheduler {
            scheduler::start(&world, &mut tasks, scoring);
        }
        kubelet::start(&world, &mut tasks, options.kubelets.clone());
        world.follow(&mut tasks).await;
        Self { tasks }
    }

    /// Waits until all actors have ended, which they do when their token is cancelled.
    pub async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
