//! The node status that a kubelet reports.

use super::kubelets::{KubeletMode, Kubelets, Reconciled, Stage, address};
use crate::context::ActorContext;
use crate::object::{is_deleting, seconds, uid};
use k8s_openapi::api::core::v1::Node;
use kerf_runtime::Outcome;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// The conditions a healthy node reports: type, status, reason, message.
const HEALTHY: [(&str, &str, &str, &str); 5] = [
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    (
        "NetworkUnavailable",
        "False",
        "RouteCreated",
        "RouteController created a route",
    ),
];

/// The status of the Ready condition, if there is one.
pub(crate) fn ready(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(&ready.status)
}

pub(super) fn is_ready(node: Option<&Node>) -> bool {
    node.and_then(ready) == Some("True")
}

impl Kubelets {
    pub(super) async fn node(&self, context: &ActorContext, node: &Node) -> Reconciled {
        let Some(mode) = self.mode(node, context.now()) else {
            return Ok(Outcome::Done);
        };
        let (delay, conditions) = match (mode, ready(node)) {
            (KubeletMode::Paused, _)
            | (KubeletMode::Normal, Some("True"))
            | (KubeletMode::NotReady, Some("False"))
            | (KubeletMode::Stopped, None | Some("Unknown")) => {
                self.forget(uid(node), Stage::Stop);
                return Ok(Outcome::Done);
            }
            (KubeletMode::Normal, None) => {
                let left = self.left(uid(node), Stage::Start, self.options.node_ready_after);
                (left, HEALTHY.to_vec())
            }
            (KubeletMode::Normal, Some(_)) => (std::time::Duration::ZERO, HEALTHY.to_vec()),
            (KubeletMode::NotReady, _) => {
                let mut conditions = HEALTHY.to_vec();
                conditions[0] = ("Ready", "False", "KubeletNotReady", "container runtime is down");
                (std::time::Duration::ZERO, conditions)
            }
            (KubeletMode::Stopped, Some(_)) => {
                let left = self.left(uid(node), Stage::Stop, self.options.node_monitor_grace_period);
                let unknown = |(kind, ..): &(&'static str, &str, &str, &str)| {
                    (
                        *kind,
                        "Unknown",
                        "NodeStatusUnknown",
                        "Kubelet stopped posting node status.",
                    )
                };
                (left, HEALTHY[..4].iter().map(unknown).collect())
            }
        };
        if !delay.is_zero() {
            return Ok(Outcome::RequeueAfter(delay));
        }
        if is_deleting(node) && mode == KubeletMode::Normal && ready(node).is_none() {
            return Ok(Outcome::Done);
        }
        let patch = status_patch(context, node, &conditions);
        let api: Api<Node> = Api::all(context.client.clone());
        let patched = api
            .patch_status(&node.name_any(), &PatchParams::default(), &Patch::Strategic(patch))
            .await;
        match patched {
            Ok(node) => context.nodes.record_write(node),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        self.forget(uid(node), Stage::Stop);
        Ok(Outcome::Done)
    }
}

fn status_patch(context: &ActorContext, node: &Node, conditions: &[(&str, &str, &str, &str)]) -> Value {
    let now = seconds(context.now());
    let status = node.status.clone().unwrap_or_default();
    let known = status.conditions.unwrap_or_default();
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(kind, value, reason, message)| {
            let same = known.iter().find(|old| old.type_ == *kind && old.status == *value);
            let since = same
                .and_then(|old| old.last_transition_time.clone())
                .unwrap_or_else(|| now.clone());
            json!({
                "type": kind, "status": value, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": since,
            })
        })
        .collect();
    let mut patch = json!({
        "phase": "Running",
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": node.labels().get("kubernetes.io/arch").map_or("amd64", String::as_str),
            "operatingSystem": node.labels().get("kubernetes.io/os").map_or("linux", String::as_str),
            "kubeletVersion": "v1.36.0", "kubeProxyVersion": "", "containerRuntimeVersion": "sandbox://1",
            "kernelVersion": "6.12.0", "osImage": "Kerf sandbox",
            "bootID": uid(node), "machineID": uid(node), "systemUUID": uid(node),
        },
    });
    // A machine of a cloud has its address from there.
    if status.addresses.is_none_or(|known| known.is_empty()) {
        let name = node.name_any();
        patch["addresses"] =
            json!([{"type": "InternalIP", "address": address("10.0", &name)}, {"type": "Hostname", "address": name}]);
    }
    // KWK-062: resources that the Node does not state get large defaults.
    let plenty = json!({"cpu": "1k", "memory": "1Ti", "pods": "1M"});
    if status
        .capacity
        .as_ref()
        .is_none_or(std::collections::BTreeMap::is_empty)
    {
        patch["capacity"] = plenty.clone();
    }
    if status
        .allocatable
        .as_ref()
        .is_none_or(std::collections::BTreeMap::is_empty)
    {
        patch["allocatable"] = status
            .capacity
            .filter(|c| !c.is_empty())
            .map_or(plenty, |capacity| json!(capacity));
    }
    json!({"status": patch})
}
