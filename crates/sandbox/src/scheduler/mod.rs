//! The default scheduler: pods without a node get one, or a condition and an event that say why not.
//!
//! The filters are `kerf-check`'s. Scoring is by resources, preferences and soft taints; equal scores are decided by name, so that runs
//! repeat. There is no preemption.

mod attempt;
mod queue;
mod report;
mod score;
mod view;

pub use score::Scoring;

use crate::object::{is_active, is_finished, node_name};
use crate::world::World;
use k8s_openapi::api::core::v1::Pod;
use queue::{Queue, Wake};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use view::View;

/// The name pods ask for.
const NAME: &str = "default-scheduler";

/// Whether a pod is this scheduler's to place: unbound, alive, not gated and not another scheduler's.
fn is_waiting(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let gated = spec
        .and_then(|spec| spec.scheduling_gates.as_ref())
        .is_some_and(|gates| !gates.is_empty());
    let named = spec
        .and_then(|spec| spec.scheduler_name.as_deref())
        .is_none_or(|name| name.is_empty() || name == NAME);
    node_name(pod).is_none() && is_active(pod) && !gated && named
}

/// What listeners and the loop share.
struct Shared {
    view: Mutex<View>,
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, wake: Wake) {
        self.queue().wake(wake);
        self.changed.notify_one();
    }
}

pub(crate) fn start(world: &Arc<World>, tasks: &mut JoinSet<()>, scoring: Scoring) {
    let shared = Arc::new(Shared {
        view: Mutex::new(View::new()),
        queue: Mutex::default(),
        changed: Notify::new(),
    });
    listen(world, &shared);
    let world = Arc::clone(world);
    tasks.spawn(async move {
        let shutdown = world.shutdown.clone();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = run(&world, &shared, scoring) => {}
        }
    });
}

fn listen(world: &World, shared: &Arc<Shared>) {
    let own = Arc::clone(shared);
    world.pods.listen(move |change| {
        own.view().pod(change.key, change.new);
        match change.new {
            Some(pod) if is_waiting(pod) => {
                let changed = change.old.is_none_or(|old| {
                    !is_waiting(old) || old.spec != pod.spec || old.metadata.labels != pod.metadata.labels
                });
                own.queue().add(pod, changed);
                own.changed.notify_one();
            }
            _ => own.queue().remove(change.key),
        }
        // A pod that is going keeps its place until it is gone.
        let occupied = |pod: Option<&Pod>| pod.is_some_and(|pod| node_name(pod).is_some() && !is_finished(pod));
        if occupied(change.old) != occupied(change.new) {
            own.wake(Wake::All);
        }
    });
    let own = Arc::clone(shared);
    world.nodes.listen(move |change| {
        let face = |node: Option<&k8s_openapi::api::core::v1::Node>| {
            node.map(|node| {
                (
                    node.metadata.labels.clone(),
                    node.spec.clone(),
                    node.status.as_ref().map(|s| s.allocatable.clone()),
                )
            })
        };
        if face(change.old) != face(change.new) {
            own.view().node(change.key, change.new);
            own.wake(Wake::All);
        }
    });
    let own = Arc::clone(shared);
    world.namespaces.listen(move |change| {
        own.view().namespace(change.key, change.new);
        own.wake(Wake::All);
    });
    let own = Arc::clone(shared);
    world.csi_nodes.listen(move |change| {
        own.view().csi_node(change.key, change.new);
        own.wake(Wake::All);
    });
    let own = Arc::clone(shared);
    world.claims.listen(move |change| {
        own.view().claim(change.key, change.new);
        own.wake(Wake::Volumes);
    });
    let own = Arc::clone(shared);
    world.volumes.listen(move |change| {
        own.view().volume(change.key, change.new);
        own.wake(Wake::Volumes);
    });
    let own = Arc::clone(shared);
    world.classes.listen(move |change| {
        own.view().class(change.key, change.new);
        own.wake(Wake::Volumes);
    });
}

async fn run(world: &World, shared: &Shared, scoring: Scoring) {
    world.complete().await;
    let mut reports = report::Reports::default();
    loop {
        let next = shared.queue().next();
        match next {
            Some(key) => attempt::attempt(world, shared, scoring, &mut reports, &key).await,
            None => {
                let due = shared.queue().due();
                tokio::select! {
                    biased;
                    () = shared.changed.notified() => {}
                    () = queue::sleep_until(due) => {}
                }
            }
        }
    }
}
