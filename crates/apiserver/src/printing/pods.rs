//! Pods: the one table everybody reads.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::builtin::{NAME, Printer, age_of, at, list_at, name, number_at, or, text, text_at, wide};

pub(super) const POD: Printer = Printer {
    columns: &[
        NAME,
        text("Ready"),
        text("Status"),
        text("Restarts"),
        text("Age"),
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    row,
};

fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let sidecars = list_at(pod, &["spec", "initContainers"])
        .iter()
        .filter(|c| is_sidecar(c))
        .count();
    let total = list_at(pod, &["spec", "containers"]).len() + sidecars;
    let restarts = match summary.last_restart {
        Some(at) if summary.restarts > 0 => {
            format!(
                "{} ({} ago)",
                summary.restarts,
                age::human(now.as_second() - at.as_second())
            )
        }
        _ => summary.restarts.to_string(),
    };
    let ips = list_at(pod, &["status", "podIPs"])
        .first()
        .map_or("", |ip| text_at(ip, &["ip"]));
    vec![
        name(pod),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts.into(),
        age_of(pod, now),
        or(or(ips, text_at(pod, &["status", "podIP"])), "<none>").into(),
        or(text_at(pod, &["spec", "nodeName"]), "<none>").into(),
        or(text_at(pod, &["status", "nominatedNodeName"]), "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

fn is_sidecar(container: &Value) -> bool {
    text_at(container, &["restartPolicy"]) == "Always"
}

fn condition<'a>(pod: &'a Value, ty: &str) -> Option<&'a Value> {
    list_at(pod, &["status", "conditions"])
        .iter()
        .find(|c| text_at(c, &["type"]) == ty)
}

fn is_ready(status: &Value) -> bool {
    at(status, &["ready"]).and_then(Value::as_bool).unwrap_or(false)
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let phase = text_at(pod, &["status", "phase"]);
        let mut reason = or(text_at(pod, &["status", "reason"]), phase).to_owned();
        if condition(pod, "PodScheduled").is_some_and(|c| text_at(c, &["reason"]) == "SchedulingGated") {
            reason = "SchedulingGated".to_owned();
        }
        let mut summary = Self {
            reason,
            ready: 0,
            restarts: 0,
            last_restart: None,
        };
        if !summary.read_init_containers(pod) || condition(pod, "Initialized").is_some_and(is_true) {
            summary.read_containers(pod);
        }
        if at(pod, &["metadata", "deletionTimestamp"]).is_some() {
            if text_at(pod, &["status", "reason"]) == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Reads init containers; true while the pod is still initialising.
    fn read_init_containers(&mut self, pod: &Value) -> bool {
        let declared = list_at(pod, &["spec", "initContainers"]);
        let sidecar = |n: &str| declared.iter().any(|c| text_at(c, &["name"]) == n && is_sidecar(c));
        for (i, status) in list_at(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
            self.count_restarts(status);
            let terminated = at(status, &["state", "terminated"]);
            if terminated.is_some_and(|t| number_at(t, &["exitCode"]) == 0) {
                continue;
            }
            if sidecar(text_at(status, &["name"])) && at(status, &["started"]).and_then(Value::as_bool) == Some(true) {
                self.ready += usize::from(is_ready(status));
                continue;
            }
            let waiting = text_at(status, &["state", "waiting", "reason"]);
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", termination(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{i}/{}", declared.len()),
            };
            return true;
        }
        false
    }

    fn read_containers(&mut self, pod: &Value) {
        let mut has_running = false;
        for status in list_at(pod, &["status", "containerStatuses"]).iter().rev() {
            self.count_restarts(status);
            let waiting = text_at(status, &["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = at(status, &["state", "terminated"]) {
                self.reason = termination(terminated);
            } else if is_ready(status) && at(status, &["state", "running"]).is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && has_running {
            let ready = condition(pod, "Ready").is_some_and(is_true);
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += number_at(status, &["restartCount"]);
        let finished = text_at(status, &["lastState", "terminated", "finishedAt"])
            .parse::<Timestamp>()
            .ok();
        self.last_restart = self.last_restart.max(finished);
    }
}

fn is_true(condition: &Value) -> bool {
    text_at(condition, &["status"]) == "True"
}

fn termination(terminated: &Value) -> String {
    let reason = text_at(terminated, &["reason"]);
    match number_at(terminated, &["signal"]) {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", number_at(terminated, &["exitCode"])),
        signal => format!("Signal:{signal}"),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list_at(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates
        .iter()
        .filter(|g| condition(pod, text_at(g, &["conditionType"])).is_some_and(is_true))
        .count();
    format!("{passed}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cells(pod: &Value) -> Vec<Value> {
        row(pod, "2026-01-01T01:00:00Z".parse().expect("a time"))
    }

    #[test]
    fn a_running_pod_shows_where_it_runs() {
        let pod = json!({
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:59:00Z"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
                    "lastState": {"terminated": {"finishedAt": "2026-01-01T00:59:30Z"}}},
                {"name": "b", "ready": false, "restartCount": 0, "state": {"running": {}}},
            ]},
        });
        assert_eq!(
            cells(&pod),
            [
                "web",
                "1/2",
                "Running",
                "2 (30s ago)",
                "60s",
                "10.0.0.1",
                "n1",
                "<none>",
                "<none>"
            ]
        );
    }

    #[test]
    fn the_status_column_tells_the_story() {
        for (pod, status) in [
            (json!({"status": {"phase": "Pending"}}), "Pending"),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}),
                "Terminating",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Succeeded"}}),
                "Succeeded",
            ),
            (json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted"),
            (
                json!({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}}),
                "SchedulingGated",
            ),
            (
                json!({"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}}),
                "ContainerCreating",
            ),
            (
                json!({"status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}}),
                "ExitCode:3",
            ),
            (
                json!({"spec": {"initContainers": [{"name": "i"}, {"name": "j"}]}, "status": {"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]}}),
                "Init:1/2",
            ),
        ] {
            assert_eq!(cells(&pod)[2], status, "{pod}");
        }
    }
}
