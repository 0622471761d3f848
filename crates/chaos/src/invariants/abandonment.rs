//! No node is terminated under running pods: when the controllers terminate a healthy instance or remove its Node's finalizer, its pods were
//! drained or its deadline has passed.

use super::Invariant;
use super::protection::is_due_on;
use crate::caller::Caller;
use crate::view::{Event, Node, Pod, View};

pub(crate) struct Abandonment;

/// Whether a drain has to wait for the pod.
fn counts(pod: &Pod) -> bool {
    pod.is_active() && pod.phase == "Running" && !pod.is_daemon()
}

fn left_behind<'a>(seen: &'a View, node: &'a Node) -> Option<&'a Pod> {
    let healthy = node.ready == Some(true);
    seen.pods_on(&node.name)
        .filter(|_| healthy)
        .find(|pod| counts(pod) && !is_due_on(seen, node, pod))
}

impl Invariant for Abandonment {
    fn name(&self) -> &'static str {
        "machines are drained before they end"
    }

    fn after(&mut self, seen: &View, caller: Caller, event: &Event) -> Option<String> {
        match event {
            Event::Ending(id) => {
                let node = seen.nodes.values().find(|node| node.provider_id == *id)?;
                let pod = left_behind(seen, node)?;
                Some(format!("{id} is told to end under {}", pod.key))
            }
            Event::Node(diff) if caller.is_kerf() && diff.after.is_none() => {
                let node = diff.before.as_ref()?;
                // A machine that is ending or gone takes its pods with it whatever happens to its Node.
                let runs = seen
                    .instances
                    .get(&node.provider_id)
                    .is_some_and(|instance| !instance.stopping);
                let pod = left_behind(seen, node).filter(|_| runs)?;
                Some(format!("{} is let go under {}", node.name, pod.key))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(ready: bool, phase: &str, owner: &str) -> Option<String> {
        let mut seen = View::default();
        let node = Node {
            name: "n".into(),
            provider_id: "id".into(),
            ready: Some(ready),
            ..Node::default()
        };
        seen.nodes.insert("n".into(), node);
        let pod = Pod {
            key: "default/a".into(),
            node: Some("n".into()),
            phase: phase.into(),
            owner: owner.into(),
            ..Pod::default()
        };
        seen.pods.insert("default/a".into(), pod);
        Abandonment.after(&seen, Caller::Others, &Event::Ending("id".into()))
    }

    #[test]
    fn running_pods_are_not_left_behind() {
        assert!(judge(true, "Running", "ReplicaSet").is_some());
        assert!(judge(true, "Succeeded", "Job").is_none());
        assert!(judge(true, "Running", "DaemonSet").is_none());
        assert!(judge(false, "Running", "ReplicaSet").is_none(), "nobody runs it there");
    }
}
