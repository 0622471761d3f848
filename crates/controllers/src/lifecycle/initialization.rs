//! The requirements that a registered Node has to fulfil before it counts as initialized (LIF-039 to LIF-047).

use jiff::{SignedDuration, Timestamp};
use kerf_api::conditions::node_claim;
use kerf_api::{NodeClaim, StartupTaints, taints};
use kerf_state::lean::{LeanCondition, LeanNode, LeanTaint};
use std::time::Duration;

/// The first requirement that is not fulfilled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// There is no Node, or more than one.
    NodeNotFound,
    /// The Node's Ready condition is not True.
    NotReady,
    /// A startup taint of the claim is still there, as `key=value:effect`.
    StartupTaint(String),
    /// A taint that the cluster removes by itself is still there, as `key=value:effect`.
    EphemeralTaint(String),
    /// A requested resource is zero on the Node.
    Resource(String),
}

impl Gate {
    /// The reason of the Initialized condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NodeNotFound => node_claim::NODE_NOT_FOUND,
            Self::NotReady => node_claim::NODE_NOT_READY,
            Self::StartupTaint(_) => node_claim::STARTUP_TAINTS_EXIST,
            Self::EphemeralTaint(_) => node_claim::KNOWN_EPHEMERAL_TAINTS_EXIST,
            Self::Resource(_) => node_claim::RESOURCE_NOT_REGISTERED,
        }
    }

    /// The message of the Initialized condition.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::NodeNotFound => node_claim::NODE_NOT_FOUND_MESSAGE.to_owned(),
            Self::NotReady => node_claim::NODE_NOT_READY_MESSAGE.to_owned(),
            Self::StartupTaint(taint) => node_claim::startup_taint_message(taint),
            Self::EphemeralTaint(taint) => node_claim::ephemeral_taint_message(taint),
            Self::Resource(name) => node_claim::resource_message(name),
        }
    }
}

/// The first requirement a Node does not fulfil, in upstream's order (LIF-039); `None` when it is initialized. Known startup taints that
/// the claim does not declare count as declared.
pub(crate) fn closed_gate(claim: &NodeClaim, node: Option<&LeanNode>, known: &StartupTaints) -> Option<Gate> {
    let Some(node) = node else {
        return Some(Gate::NodeNotFound);
    };
    if !is_ready(node) {
        return Some(Gate::NotReady);
    }
    let present = &node.spec.taints;
    // LIF-040: by key and effect; the text shows the Node's value.
    let left_of = |wanted: &k8s_openapi::api::core::v1::Taint| {
        present
            .iter()
            .find(|taint| taint.key == wanted.key && taint.effect == wanted.effect)
    };
    if let Some(taint) = claim.spec.startup_taints().iter().find_map(left_of) {
        return Some(Gate::StartupTaint(shown(taint)));
    }
    if let Some(taint) = present
        .iter()
        .find(|taint| taints::is_known_ephemeral(&taint.key, &taint.effect))
    {
        return Some(Gate::EphemeralTaint(shown(taint)));
    }
    if let Some(taint) = forgotten(claim, node, known).next() {
        return Some(Gate::StartupTaint(shown(taint)));
    }
    unregistered_resource(claim, node).map(Gate::Resource)
}

/// The time from the readiness of a Node after which a claim reports a taint that the cluster removes by itself (LIF-039, deviation).
const EPHEMERAL_TAINT_GRACE: SignedDuration = SignedDuration::from_secs(5);

/// The time until a closed gate is written, `None` for now. The cluster removes its own taints within moments of a Node's readiness, and the
/// Node's next change reconciles the claim.
pub(crate) fn quiet_for(gate: &Gate, node: Option<&LeanNode>, now: Timestamp) -> Option<Duration> {
    let Gate::EphemeralTaint(_) = gate else { return None };
    let since = ready_condition(node?)?.last_transition_time.as_ref()?.0;
    let ready_for = now.duration_since(since);
    // A time in the future is not used.
    let left = (!ready_for.is_negative()).then(|| EPHEMERAL_TAINT_GRACE.checked_sub(ready_for))??;
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// Taints of a Node that well-known software removes when it has started, and that the claim declares neither as startup taints nor as
/// taints. Those that upstream knows need no declaration.
pub(crate) fn forgotten<'a>(
    claim: &'a NodeClaim,
    node: &'a LeanNode,
    known: &'a StartupTaints,
) -> impl Iterator<Item = &'a LeanTaint> {
    let declared = |taint: &LeanTaint| {
        let mut all = claim.spec.taints().iter().chain(claim.spec.startup_taints());
        all.any(|other| other.key == taint.key && other.effect == taint.effect)
    };
    node.spec.taints.iter().filter(move |taint| {
        known.contains(&taint.key) && !taints::is_known_ephemeral(&taint.key, &taint.effect) && !declared(taint)
    })
}

/// Whether the Node's Ready condition is True.
pub(crate) fn is_ready(node: &LeanNode) -> bool {
    ready_condition(node).is_some_and(|ready| ready.status == "True")
}

fn ready_condition(node: &LeanNode) -> Option<&LeanCondition> {
    let mut conditions = node.status.conditions.iter();
    conditions.find(|condition| condition.kind == "Ready")
}

/// The first requested resource that is zero on the Node: devices are, until their plugin has registered them (LIF-043).
fn unregistered_resource(claim: &NodeClaim, node: &LeanNode) -> Option<String> {
    let requests = &claim.spec.resources.as_ref()?.requests;
    let is_there = |name: &str| {
        let amount = node.status.allocatable.get(name);
        amount.is_some_and(|amount| amount.0.as_ref().is_ok_and(|amount| !amount.is_zero()))
    };
    let mut wanted = requests.iter().filter(|(_, amount)| !amount.is_zero());
    wanted.find(|(name, _)| !is_there(name)).map(|(name, _)| name.clone())
}

/// The text of a taint: `key[=value]:effect`.
pub(crate) fn shown(taint: &LeanTaint) -> String {
    if taint.value.is_empty() {
        format!("{}:{}", taint.key, taint.effect)
    } else {
        format!("{}={}:{}", taint.key, taint.value, taint.effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Taint;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kerf_api::{NodeClaimSpec, ResourceRequests};
    use kerf_units::quantity::Quantity;
    use serde_json::json;

    fn taint(key: &str, value: &str, effect: &str) -> LeanTaint {
        LeanTaint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
            time_added: None,
        }
    }

    fn claim() -> NodeClaim {
        let requests = [("example.com/gpu", 1), ("cpu", 1), ("example.com/none", 0)];
        let startup = Taint {
            key: "cni".to_owned(),
            value: Some("mine".to_owned()),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        };
        NodeClaim::new(
            "web-1",
            NodeClaimSpec {
                startup_taints: Some(vec![startup]),
                resources: Some(ResourceRequests {
                    requests: requests
                        .map(|(name, units)| (name.to_owned(), Quantity::from_units(units)))
                        .into(),
                }),
                ..NodeClaimSpec::default()
            },
        )
    }

    fn node(ready: &str, taints: &[LeanTaint], gpu: &str) -> LeanNode {
        let status = json!({
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {"cpu": "4", "example.com/gpu": gpu},
        });
        let mut node: LeanNode =
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": status})).expect("a node");
        node.spec.taints = taints.to_vec();
        node
    }

    fn outcome(node: Option<&LeanNode>) -> (&'static str, String) {
        let gate = closed_gate(&claim(), node, &StartupTaints::default());
        gate.map_or(("", String::new()), |gate| (gate.reason(), gate.message()))
    }

    // LIF-039
    #[test]
    fn the_gates_are_asked_in_order() {
        let startup = taint("cni", "theirs", "NoExecute");
        let ephemeral = taint("node.kubernetes.io/not-ready", "", "NoSchedule");
        let both = [ephemeral.clone(), startup];
        let table: Vec<(Option<LeanNode>, &str, &str)> = vec![
            (None, "NodeNotFound", "Node not registered with cluster"),
            (
                Some(node("Unknown", &both, "0")),
                "NodeNotReady",
                "Node status is NotReady",
            ),
            // LIF-040
            (
                Some(node("True", &both, "0")),
                "StartupTaintsExist",
                "StartupTaint \"cni=theirs:NoExecute\" still exists",
            ),
            (
                Some(node("True", &[ephemeral], "0")),
                "KnownEphemeralTaintsExist",
                "KnownEphemeralTaint \"node.kubernetes.io/not-ready:NoSchedule\" still exists",
            ),
            // LIF-043
            (
                Some(node("True", &[], "0")),
                "ResourceNotRegistered",
                "Resource \"example.com/gpu\" was requested but not registered",
            ),
            (Some(node("True", &[], "1")), "", ""),
        ];
        for (node, reason, message) in table {
            assert_eq!(outcome(node.as_ref()), (reason, message.to_owned()));
        }
    }

    // LIF-039: see docs/deviations.md
    #[test]
    fn taints_that_the_cluster_removes_are_reported_of_a_node_that_stays_ready_with_them() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        let mut node = node("True", &[taint("node.kubernetes.io/not-ready", "", "NoSchedule")], "1");
        let left = |node: &LeanNode, gate: Gate, second: i64| quiet_for(&gate, Some(node), at(second));
        let ephemeral = || Gate::EphemeralTaint(String::new());
        // Without a time, nothing says that it became ready a moment ago.
        assert_eq!(left(&node, ephemeral(), 100), None);
        node.status.conditions[0].last_transition_time = Some(Time(at(100)));
        assert_eq!(left(&node, ephemeral(), 100), Some(Duration::from_secs(5)));
        assert_eq!(left(&node, ephemeral(), 104), Some(Duration::from_secs(1)));
        assert_eq!(left(&node, ephemeral(), 105), None);
        assert_eq!(left(&node, ephemeral(), 99), None, "a time in the future");
        assert_eq!(quiet_for(&ephemeral(), None, at(100)), None);
        for gate in [
            Gate::NodeNotFound,
            Gate::NotReady,
            Gate::StartupTaint(String::new()),
            Gate::Resource(String::new()),
        ] {
            assert_eq!(left(&node, gate, 100), None);
        }
    }

    #[test]
    fn only_taints_that_go_by_themselves_hold_initialization_up() {
        let holds_up = |key, effect| outcome(Some(&node("True", &[taint(key, "", effect)], "1"))).0;
        let table = [
            // LIF-041
            ("node.kubernetes.io/not-ready", "NoSchedule", true),
            ("node.kubernetes.io/not-ready", "NoExecute", true),
            ("node.kubernetes.io/unreachable", "NoSchedule", true),
            ("node.kubernetes.io/unreachable", "NoExecute", false),
            ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule", true),
            ("karpenter.sh/unregistered", "NoExecute", true),
            // LIF-042
            ("readiness.k8s.io/gate", "PreferNoSchedule", true),
            ("team", "NoSchedule", false),
            // LIF-040: the claim's startup taint has another effect.
            ("cni", "NoSchedule", false),
            // Not declared, but well known.
            ("node.cilium.io/agent-not-ready", "NoExecute", true),
            ("startup-taint.cluster-autoscaler.kubernetes.io/x", "NoSchedule", true),
        ];
        for (key, effect, held) in table {
            assert_eq!(!holds_up(key, effect).is_empty(), held, "{key}:{effect}");
        }
    }

    #[test]
    fn what_was_declared_was_not_forgotten() {
        let known = StartupTaints::with(["corp.example/".to_owned()]);
        let node = node(
            "True",
            &[
                taint("node.cilium.io/agent-not-ready", "true", "NoExecute"),
                taint("corp.example/agent", "", "NoSchedule"),
                taint("node.kubernetes.io/not-ready", "", "NoSchedule"),
                taint("cni", "", "NoExecute"),
                taint("team", "", "NoSchedule"),
            ],
            "1",
        );
        let keys = |claim: &NodeClaim| -> Vec<String> { forgotten(claim, &node, &known).map(shown).collect() };
        let mut claim = claim();
        assert_eq!(
            keys(&claim),
            [
                "node.cilium.io/agent-not-ready=true:NoExecute",
                "corp.example/agent:NoSchedule"
            ]
        );
        let declared = Taint {
            key: "node.cilium.io/agent-not-ready".to_owned(),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        };
        claim.spec.taints = Some(vec![declared]);
        assert_eq!(keys(&claim), ["corp.example/agent:NoSchedule"]);
    }
}
