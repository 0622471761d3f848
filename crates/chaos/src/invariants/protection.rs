//! No pod with `karpenter.sh/do-not-disrupt` is evicted or deleted by the controllers before its node's deadline leaves it no more than its
//! grace period.

use jiff::SignedDuration;

use super::Invariant;
use crate::caller::Caller;
use crate::view::{Event, Node, Pod, View};

pub(crate) struct Protection;

/// The deadline is in whole seconds, and a call takes its time.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// Whether the deadline of a pod's node allows it to be deleted now.
pub(super) fn is_due(seen: &View, pod: &Pod) -> bool {
    let node = pod.node.as_ref().and_then(|name| seen.nodes.get(name));
    node.is_some_and(|node| is_due_on(seen, node, pod))
}

/// The same where the Node may be gone already.
pub(super) fn is_due_on(seen: &View, node: &Node, pod: &Pod) -> bool {
    let deadline = seen.claim_of(node).and_then(|claim| claim.deadline);
    deadline.is_some_and(|deadline| deadline.duration_since(seen.now) <= SignedDuration::from_secs(pod.grace_s) + SLACK)
}

impl Invariant for Protection {
    fn name(&self) -> &'static str {
        "protected pods are left alone"
    }

    fn after(&mut self, seen: &View, caller: Caller, event: &Event) -> Option<String> {
        let Event::Pod(diff) = event else { return None };
        let before = diff
            .before
            .as_ref()
            .filter(|pod| caller.is_kerf() && pod.deletion.is_none())?;
        let goes = diff.after.as_ref().is_none_or(|after| after.deletion.is_some());
        let wrong = goes && !before.is_finished() && before.is_protected(seen.now) && !is_due(seen, before);
        wrong.then(|| format!("{} was told to go although {:?}", before.key, before.protection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Claim, Diff};

    fn judge(protection: &str, deadline_in: Option<i64>, caller: Caller) -> Option<String> {
        let mut seen = View::default();
        let before = Pod {
            key: "default/a".into(),
            node: Some("n".into()),
            protection: Some(protection.into()),
            started: Some(seen.now),
            grace_s: 30,
            ..Pod::default()
        };
        let claim = Claim {
            provider_id: "id".into(),
            deadline: deadline_in.map(|seconds| seen.now + SignedDuration::from_secs(seconds)),
            ..Claim::default()
        };
        seen.claims.insert("c".into(), claim);
        let node = Node {
            provider_id: "id".into(),
            ..Node::default()
        };
        seen.nodes.insert("n".into(), node);
        let after = Some(Pod {
            deletion: Some(seen.now),
            ..before.clone()
        });
        let event = Event::Pod(Diff {
            before: Some(before),
            after,
        });
        Protection.after(&seen, caller, &event)
    }

    #[test]
    fn only_the_deadline_overrides_it() {
        assert!(judge("true", None, Caller::KerfEvicting).is_some());
        assert!(judge("5m", Some(300), Caller::Kerf).is_some());
        assert!(judge("0m", None, Caller::KerfEvicting).is_none());
        assert!(judge("true", Some(30), Caller::Kerf).is_none());
        assert!(judge("true", None, Caller::Others).is_none());
    }
}
