//! The scheduling loop, and the listeners that keep its cache and queue up to date.

use super::cache::SchedulerCache;
use super::nominations::nominated_node;
use super::queue::{Queue, Wake};
use super::score::Scoring;
use super::{attempt, queue, report};
use crate::context::ActorContext;
use crate::object::{is_active, is_finished, node_name};
use k8s_openapi::api::core::v1::Pod;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The `schedulerName` of the pods this scheduler places.
pub(super) const NAME: &str = "default-scheduler";

/// Whether this scheduler has to place the pod: unbound, active, without scheduling gates, with this scheduler's name.
pub(super) fn is_waiting(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let gated = spec
        .and_then(|spec| spec.scheduling_gates.as_ref())
        .is_some_and(|gates| !gates.is_empty());
    let named = spec
        .and_then(|spec| spec.scheduler_name.as_deref())
        .is_none_or(|name| name.is_empty() || name == NAME);
    node_name(pod).is_none() && is_active(pod) && !gated && named
}

/// State that the watch listeners and the scheduling loop share.
pub(super) struct Shared {
    pub(super) cache: Mutex<SchedulerCache>,
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Shared {
    pub(super) fn cache(&self) -> MutexGuard<'_, SchedulerCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self, wake: Wake<'_>) {
        self.queue().wake(wake);
        self.changed.notify_one();
    }
}

pub(crate) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>, scoring: Scoring, attempt_takes: Duration) {
    let shared = Arc::new(Shared {
        cache: Mutex::new(SchedulerCache::new()),
        queue: Mutex::default(),
        changed: Notify::new(),
    });
    listen(context, &shared);
    let context = Arc::clone(context);
    tasks.spawn(async move {
        let shutdown = context.shutdown.clone();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = run(&context, &shared, scoring, attempt_takes) => {}
        }
    });
}

fn listen(context: &ActorContext, shared: &Arc<Shared>) {
    let own = Arc::clone(shared);
    context.pods.listen(move |change| {
        own.cache().pod(change.key, change.new);
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
        // A pod that is being deleted occupies its node until it is removed.
        let occupied = |pod: Option<&Pod>| pod.is_some_and(|pod| node_name(pod).is_some() && !is_finished(pod));
        // So does a nominated pod that waits.
        let gave_up_room = change.new.is_none() && change.old.is_some_and(|pod| nominated_node(pod).is_some());
        match (occupied(change.old), change.new.filter(|pod| occupied(Some(pod)))) {
            (false, Some(bound)) => own.wake(Wake::Bound(bound)),
            (true, None) => own.wake(Wake::All),
            _ if gave_up_room => own.wake(Wake::All),
            _ => {}
        }
    });
    let own = Arc::clone(shared);
    context.nodes.listen(move |change| {
        let relevant = |node: Option<&k8s_openapi::api::core::v1::Node>| {
            node.map(|node| {
                (
                    node.metadata.labels.clone(),
                    node.spec.clone(),
                    node.status.as_ref().map(|s| s.allocatable.clone()),
                )
            })
        };
        if relevant(change.old) != relevant(change.new) {
            own.cache().node(change.key, change.new);
            own.wake(Wake::All);
        }
    });
    let own = Arc::clone(shared);
    context.namespaces.listen(move |change| {
        own.cache().namespace(change.key, change.new);
        own.wake(Wake::All);
    });
    let own = Arc::clone(shared);
    context.csi_nodes.listen(move |change| {
        own.cache().csi_node(change.key, change.new);
        own.wake(Wake::All);
    });
    let own = Arc::clone(shared);
    context.claims.listen(move |change| {
        own.cache().claim(change.key, change.new);
        own.wake(Wake::Volumes);
    });
    let own = Arc::clone(shared);
    context.volumes.listen(move |change| {
        own.cache().volume(change.key, change.new);
        own.wake(Wake::Volumes);
    });
    let own = Arc::clone(shared);
    context.classes.listen(move |change| {
        own.cache().class(change.key, change.new);
        own.wake(Wake::Volumes);
    });
}

async fn run(context: &ActorContext, shared: &Shared, scoring: Scoring, attempt_takes: Duration) {
    context.complete().await;
    let mut reports = report::Reports::default();
    loop {
        let next = shared.queue().next();
        match next {
            Some(key) => {
                if !attempt_takes.is_zero() {
                    tokio::time::sleep(attempt_takes).await;
                }
                attempt::attempt(context, shared, scoring, &mut reports, &key).await;
            }
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
