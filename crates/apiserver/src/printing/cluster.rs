//! Everything else: namespaces, services, configuration, events, leases, priority classes, CRDs.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use super::builtin::{NAME, Printer, age_of, at, integer, list_at, name, number_at, or, selector, text, text_at, wide};

pub(super) const NAMESPACE: Printer = Printer {
    columns: &[NAME, text("Status"), text("Age")],
    row: |object, now| {
        vec![
            name(object),
            text_at(object, &["status", "phase"]).into(),
            age_of(object, now),
        ]
    },
};

pub(super) const SERVICE: Printer = Printer {
    columns: &[
        NAME,
        text("Type"),
        text("Cluster-IP"),
        text("External-IP"),
        text("Port(s)"),
        text("Age"),
        wide("Selector"),
    ],
    row: |object, now| {
        let external: Vec<&str> = list_at(object, &["spec", "externalIPs"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        vec![
            name(object),
            or(text_at(object, &["spec", "type"]), "ClusterIP").into(),
            or(text_at(object, &["spec", "clusterIP"]), "<none>").into(),
            or(&external.join(","), "<none>").into(),
            ports(list_at(object, &["spec", "ports"])).into(),
            age_of(object, now),
            selector(at(object, &["spec", "selector"])),
        ]
    },
};

fn ports(ports: &[Value]) -> String {
    let shown: Vec<String> = ports
        .iter()
        .map(|port| {
            let (number, protocol) = (number_at(port, &["port"]), or(text_at(port, &["protocol"]), "TCP"));
            match number_at(port, &["nodePort"]) {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    or(&shown.join(","), "<none>").to_owned()
}

pub(super) const SERVICE_ACCOUNT: Printer = Printer {
    columns: &[NAME, integer("Secrets"), text("Age")],
    row: |object, now| {
        vec![
            name(object),
            list_at(object, &["secrets"]).len().into(),
            age_of(object, now),
        ]
    },
};

pub(super) const CONFIG_MAP: Printer = Printer {
    columns: &[NAME, text("Data"), text("Age")],
    row: |object, now| {
        vec![
            name(object),
            (entries(object, "data") + entries(object, "binaryData")).into(),
            age_of(object, now),
        ]
    },
};

pub(super) const SECRET: Printer = Printer {
    columns: &[NAME, text("Type"), text("Data"), text("Age")],
    row: |object, now| {
        vec![
            name(object),
            or(text_at(object, &["type"]), "Opaque").into(),
            entries(object, "data").into(),
            age_of(object, now),
        ]
    },
};

pub(super) const RESOURCE_QUOTA: Printer = Printer {
    columns: &[NAME, text("Request"), text("Limit"), text("Age")],
    row: |object, now| {
        let status = |field: &str, name: &str| or(text_at(object, &["status", field, name]), "0").to_owned();
        let hard = at(object, &["status", "hard"])
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let (limits, requests): (Vec<_>, Vec<_>) = hard
            .map(|(name, _)| format!("{name}: {}/{}", status("used", name), status("hard", name)))
            .partition(|line| line.starts_with("limits."));
        vec![
            name(object),
            requests.join(", ").into(),
            limits.join(", ").into(),
            age_of(object, now),
        ]
    },
};

fn entries(object: &Value, key: &str) -> usize {
    object
        .get(key)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

pub(super) const EVENT: Printer = Printer {
    columns: &[
        text("Last Seen"),
        text("Type"),
        text("Reason"),
        text("Object"),
        wide("Subobject"),
        wide("Source"),
        text("Message"),
        wide("First Seen"),
        wide("Count"),
        wide("Name"),
    ],
    row: event_row,
};

/// Core events and `events.k8s.io` events; the same event is written with other field names in each.
fn event_row(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &str, newer: &str| at(event, &[core]).or_else(|| at(event, &[newer]));
    let known = |value: Option<&Value>| value.filter(|v| v.is_string()).map(|v| age::since(Some(v), now));
    let started = known(either("firstTimestamp", "deprecatedFirstTimestamp"))
        .or_else(|| known(at(event, &["eventTime"])))
        .unwrap_or_else(|| "<unknown>".to_owned());
    let last = known(at(event, &["series", "lastObservedTime"]))
        .or_else(|| known(either("lastTimestamp", "deprecatedLastTimestamp")))
        .unwrap_or_else(|| started.clone());
    let count = at(event, &["series", "count"]).or_else(|| either("count", "deprecatedCount"));
    let count = count.and_then(Value::as_i64).unwrap_or(1).max(1);
    let involved = either("involvedObject", "regarding").unwrap_or(&Value::Null);
    let object = format!(
        "{}/{}",
        text_at(involved, &["kind"]).to_lowercase(),
        text_at(involved, &["name"])
    );
    let source = either("source", "deprecatedSource").unwrap_or(&Value::Null);
    let component = or(
        text_at(source, &["component"]),
        text_at(event, &["reportingController"]),
    );
    let component = or(component, text_at(event, &["reportingComponent"]));
    let host = text_at(source, &["host"]);
    let origin = if host.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {host}")
    };
    let message = either("message", "note").and_then(Value::as_str).unwrap_or_default();
    vec![
        last.into(),
        text_at(event, &["type"]).into(),
        text_at(event, &["reason"]).into(),
        object.into(),
        text_at(involved, &["fieldPath"]).into(),
        origin.into(),
        message.trim().into(),
        started.into(),
        count.to_string().into(),
        name(event),
    ]
}

pub(super) const LEASE: Printer = Printer {
    columns: &[NAME, text("Holder"), text("Age")],
    row: |object, now| {
        vec![
            name(object),
            text_at(object, &["spec", "holderIdentity"]).into(),
            age_of(object, now),
        ]
    },
};

pub(super) const PRIORITY_CLASS: Printer = Printer {
    columns: &[
        NAME,
        integer("Value"),
        text("Global-Default"),
        text("Age"),
        text("PreemptionPolicy"),
    ],
    row: |object, now| {
        let global = at(object, &["globalDefault"]).and_then(Value::as_bool).unwrap_or(false);
        vec![
            name(object),
            number_at(object, &["value"]).into(),
            global.to_string().into(),
            age_of(object, now),
            or(text_at(object, &["preemptionPolicy"]), "PreemptLowerPriority").into(),
        ]
    },
};

pub(super) const DEFINITION: Printer = Printer {
    columns: &[NAME, text("Created At")],
    row: |object, _| vec![name(object), text_at(object, &["metadata", "creationTimestamp"]).into()],
};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_of_both_groups_read_the_same() {
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        let core = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Launched", "message": "done ",
            "involvedObject": {"kind": "NodeClaim", "name": "c"}, "source": {"component": "karpenter"},
            "firstTimestamp": "2026-01-01T00:58:20Z", "lastTimestamp": "2026-01-01T00:59:50Z", "count": 2});
        let newer = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Launched", "note": "done",
            "regarding": {"kind": "NodeClaim", "name": "c"}, "reportingController": "karpenter",
            "eventTime": "2026-01-01T00:58:20.000000Z", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:59:50.000000Z"}});
        let expected = [
            "10s",
            "Normal",
            "Launched",
            "nodeclaim/c",
            "",
            "karpenter",
            "done",
            "100s",
            "2",
            "e",
        ];
        assert_eq!(event_row(&core, now), expected);
        assert_eq!(event_row(&newer, now), expected);
    }

    #[test]
    fn service_ports_show_node_ports() {
        assert_eq!(
            ports(&[
                json!({"port": 80}),
                json!({"port": 53, "protocol": "UDP", "nodePort": 30053})
            ]),
            "80/TCP,53:30053/UDP"
        );
        assert_eq!(ports(&[]), "<none>");
    }
}
