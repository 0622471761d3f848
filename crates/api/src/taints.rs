//! Taint keys and effects, and the temporary taints of a node that starts (API-119, API-175, API-176).

use k8s_openapi::api::core::v1::Taint;

/// The node is being disrupted or terminated (API-175).
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// The node takes no more pods: it is removed once its pods that may not be disrupted have finished. See
/// [`crate::annotations::RETIRE_BLOCKED`].
pub const RETIRING: &str = "kerf.sh/retiring";
/// The node is not a destination of the pods that a command of consolidation moves. The value is when the taint ends, in seconds since 1970.
pub const NOT_A_DESTINATION: &str = "kerf.sh/not-a-destination";
/// The node has joined and is not yet registered (API-176).
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// The kubelet is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The kubelet stopped reporting.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The cloud's node controller has not initialised the node yet.
pub const CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Readiness gates of nodes use keys with this prefix, with any effect.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Keeps new pods out.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Tries to keep new pods out.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Keeps new pods out and evicts running ones.
pub const NO_EXECUTE: &str = "NoExecute";

/// Effects the schema knows.
pub const EFFECTS: [&str; 3] = [NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE];

/// Key and effect of the taints a starting node is expected to lose by itself (SCH-116).
pub const KNOWN_EPHEMERAL: [(&str, &str); 5] = [
    (NOT_READY, NO_SCHEDULE),
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_SCHEDULE),
    (CLOUD_UNINITIALIZED, NO_SCHEDULE),
    (UNREGISTERED, NO_EXECUTE),
];

/// Whether Kubernetes removes a taint with this key and effect while a node starts; its value does not matter.
pub fn is_known_ephemeral(key: &str, effect: &str) -> bool {
    key.starts_with(READINESS_PREFIX) || KNOWN_EPHEMERAL.contains(&(key, effect))
}

/// Whether key and effect are those of [`not_a_destination`]. With another effect the key is someone else's taint.
pub fn is_not_a_destination(key: &str, effect: &str) -> bool {
    key == NOT_A_DESTINATION && effect == PREFER_NO_SCHEDULE
}

/// The taint put on a node that is to go.
pub fn disrupted() -> Taint {
    Taint {
        key: DISRUPTED.to_owned(),
        effect: NO_SCHEDULE.to_owned(),
        ..Taint::default()
    }
}

/// The taint of a node that other nodes are preferred to until a time, in seconds since 1970.
pub fn not_a_destination(until: i64) -> Taint {
    Taint {
        key: NOT_A_DESTINATION.to_owned(),
        value: Some(until.to_string()),
        effect: PREFER_NO_SCHEDULE.to_owned(),
        ..Taint::default()
    }
}

/// The taint of a node that takes no more pods until those that may not be disrupted have finished.
pub fn retiring() -> Taint {
    Taint {
        key: RETIRING.to_owned(),
        effect: NO_SCHEDULE.to_owned(),
        ..Taint::default()
    }
}

/// The taint a node must join with.
pub fn unregistered() -> Taint {
    Taint {
        key: UNREGISTERED.to_owned(),
        effect: NO_EXECUTE.to_owned(),
        ..Taint::default()
    }
}

/// Whether two taints are about the same thing: key and effect, never the value.
pub fn matches(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.effect == b.effect
}
