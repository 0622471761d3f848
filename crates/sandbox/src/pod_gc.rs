//! Pod garbage collection: deletes pods bound to nodes that do not exist, because no kubelet would remove them.

use crate::context::{ActorContext, queue};
use crate::object::node_name;
use crate::store::key_of;
use kerf_runtime::Outcome;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a node must be missing before its pods are deleted, as in the controller manager.
const QUARANTINE: Duration = Duration::from_secs(40);

pub(crate) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    let (keys, own) = (queue.clone(), Arc::downgrade(context));
    context.nodes.listen(move |change| {
        let Some(context) = own.upgrade().filter(|_| change.new.is_none()) else {
            return;
        };
        for pod in context.pods_on(&change.key.name) {
            keys.add(key_of(&*pod));
        }
    });
    let (keys, own) = (queue.clone(), Arc::downgrade(context));
    context.pods.listen(move |change| {
        let Some(context) = own.upgrade() else { return };
        let node = change.new.and_then(node_name);
        if node.is_some_and(|node| context.nodes.named(node).is_none()) {
            keys.add(change.key.clone());
        }
    });
    let missing: Arc<Mutex<BTreeMap<String, Instant>>> = Arc::default();
    context.run(tasks, "pod.gc", queue, move |context, key| {
        let missing = Arc::clone(&missing);
        async move {
            let Some(pod) = context.pods.get(&key) else {
                return Ok(Outcome::Done);
            };
            let Some(node) = node_name(&pod) else {
                return Ok(Outcome::Done);
            };
            let left = {
                let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
                let now = Instant::now();
                missing.retain(|_, due| *due + QUARANTINE > now);
                if context.nodes.named(node).is_some() {
                    missing.remove(node);
                    return Ok(Outcome::Done);
                }
                let due = *missing.entry(node.to_owned()).or_insert(now + QUARANTINE);
                due.saturating_duration_since(now)
            };
            if !left.is_zero() {
                return Ok(Outcome::RequeueAfter(left));
            }
            context.delete(&context.pods, &*pod, Some(0)).await?;
            Ok(Outcome::Done)
        }
    });
}
