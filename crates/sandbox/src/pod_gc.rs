//! Pods bound to nodes that are gone are removed: nobody is left who could end them.

use crate::object::node_name;
use crate::store::key_of;
use crate::world::{World, queue};
use kerf_runtime::Outcome;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a node must be gone, as in the controller manager.
const QUARANTINE: Duration = Duration::from_secs(40);

pub(crate) fn start(world: &Arc<World>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    let (keys, own) = (queue.clone(), Arc::downgrade(world));
    world.nodes.listen(move |change| {
        let Some(world) = own.upgrade().filter(|_| change.new.is_none()) else {
            return;
        };
        for pod in world.pods_on(&change.key.name) {
            keys.add(key_of(&*pod));
        }
    });
    let (keys, own) = (queue.clone(), Arc::downgrade(world));
    world.pods.listen(move |change| {
        let Some(world) = own.upgrade() else { return };
        let node = change.new.and_then(node_name);
        if node.is_some_and(|node| world.nodes.named(node).is_none()) {
            keys.add(change.key.clone());
        }
    });
    let missing: Arc<Mutex<BTreeMap<String, Instant>>> = Arc::default();
    world.run(tasks, "pod.gc", queue, move |world, key| {
        let missing = Arc::clone(&missing);
        async move {
            let Some(pod) = world.pods.get(&key) else {
                return Ok(Outcome::Done);
            };
            let Some(node) = node_name(&pod) else {
                return Ok(Outcome::Done);
            };
            let left = {
                let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
                let now = Instant::now();
                missing.retain(|_, due| *due + QUARANTINE > now);
                if world.nodes.named(node).is_some() {
                    missing.remove(node);
                    return Ok(Outcome::Done);
                }
                let due = *missing.entry(node.to_owned()).or_insert(now + QUARANTINE);
                due.saturating_duration_since(now)
            };
            if !left.is_zero() {
                return Ok(Outcome::RequeueAfter(left));
            }
            world.delete(&world.pods, &*pod, Some(0)).await?;
            Ok(Outcome::Done)
        }
    });
}
