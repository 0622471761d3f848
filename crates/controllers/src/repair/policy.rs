//! Reads NodeRepairPolicies into the terms of the rules of repair.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kerf_api::{NodeRepairPolicy, RepairAction, UnhealthyCondition as Written};
use kerf_lifecycle::repair::{Action, Policy, UnhealthyCondition};
use kerf_model::budget::{NodeShare, Window};
use kerf_model::selector::{LabelSelector, Match};
use kerf_units::duration::GoDuration;

/// The statuses a condition can have.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// Reads a policy; `None` without a name. What cannot be read is among its faults.
pub fn read(written: &NodeRepairPolicy) -> Option<Policy> {
    let name = written.metadata.name.as_deref()?;
    let (spec, mut faults) = (&written.spec, Vec::new());
    let mut note = |field: String, fault: String| faults.push(format!("{field}: {fault}"));
    let selector = spec.selector.as_ref().map_or(Ok(Vec::new()), conditions);
    let selector = selector.unwrap_or_else(|fault| {
        note("spec.selector".to_owned(), fault);
        Vec::new()
    });
    if spec.unhealthy_conditions.is_empty() {
        note("spec.unhealthyConditions".to_owned(), "must not be empty".to_owned());
    }
    let mut unhealthy = Vec::new();
    for (at, condition) in spec.unhealthy_conditions.iter().enumerate() {
        let toleration = toleration(condition).unwrap_or_else(|fault| {
            note(format!("spec.unhealthyConditions[{at}]"), fault);
            Duration::MAX
        });
        unhealthy.push(UnhealthyCondition {
            condition_type: condition.type_.clone(),
            status: condition.status.clone(),
            toleration,
        });
    }
    let action = match spec.action() {
        RepairAction::Replace => Action::Replace,
        RepairAction::Drain => Action::Drain,
        RepairAction::Report => Action::Report,
        RepairAction::Unknown(text) => {
            note(
                "spec.action".to_owned(),
                format!("{text:?} is not Replace, Drain or Report"),
            );
            Action::Report
        }
    };
    let max_unhealthy = NodeShare::parse(spec.max_unhealthy()).unwrap_or_else(|| {
        let fault = format!("{:?} is neither a count nor a percentage", spec.max_unhealthy());
        note("spec.maxUnhealthy".to_owned(), fault);
        NodeShare::Count(0)
    });
    let mut windows = Vec::new();
    for (at, window) in spec.maintenance_windows.iter().enumerate() {
        match read_window(&window.schedule, &window.duration) {
            Ok(window) => windows.push(window),
            Err(fault) => note(format!("spec.maintenanceWindows[{at}]"), fault),
        }
    }
    Some(Policy {
        name: name.into(),
        selector: LabelSelector::all(selector),
        conditions: unhealthy,
        action,
        max_unhealthy,
        windows,
        faults,
    })
}

fn toleration(condition: &Written) -> Result<Duration, String> {
    if !STATUSES.contains(&condition.status.as_str()) {
        return Err(format!("status {:?} is not True, False or Unknown", condition.status));
    }
    if condition.type_.is_empty() {
        return Err("type must not be empty".to_owned());
    }
    let toleration: GoDuration = condition
        .toleration
        .parse()
        .map_err(|error| format!("toleration {:?}, {error}", condition.toleration))?;
    Ok(toleration.to_std())
}

fn read_window(schedule: &str, duration: &str) -> Result<Window, String> {
    let parsed: GoDuration = duration
        .parse()
        .map_err(|error| format!("duration {duration:?}, {error}"))?;
    if parsed <= GoDuration::ZERO {
        return Err(format!("duration {duration:?} is never over before it begins"));
    }
    Ok(Window {
        schedule: schedule
            .parse()
            .map_err(|error| format!("schedule {schedule:?}, {error}"))?,
        duration: parsed,
    })
}

fn conditions(selector: &meta::LabelSelector) -> Result<Vec<Match>, String> {
    let labels = selector.match_labels.iter().flatten();
    let mut all: Vec<Match> = labels
        .map(|(key, value)| Match::any_of(key.as_str(), [Arc::from(value.as_str())]))
        .collect();
    for expression in selector.match_expressions.iter().flatten() {
        let key = expression.key.as_str();
        let written = expression.values.as_deref().unwrap_or_default();
        let values = || written.iter().map(|value| Arc::from(value.as_str()));
        all.push(match (expression.operator.as_str(), written.is_empty()) {
            ("In", false) => Match::any_of(key, values()),
            ("NotIn", false) => Match::none_of(key, values()),
            ("Exists", true) => Match::Exists(key.into()),
            ("DoesNotExist", true) => Match::DoesNotExist(key.into()),
            ("In" | "NotIn", true) => return Err(format!("{} of {key:?} needs values", expression.operator)),
            ("Exists" | "DoesNotExist", false) => {
                return Err(format!("{} of {key:?} takes no values", expression.operator));
            }
            (other, _) => return Err(format!("{other:?} is not In, NotIn, Exists or DoesNotExist")),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use kerf_model::selector::LabelSet;
    use serde_json::{Value, json};

    fn policy(spec: Value) -> Policy {
        let mut full = json!({"unhealthyConditions": [{"type": "Ready", "status": "False", "toleration": "10m"}]});
        if let (Some(full), Value::Object(spec)) = (full.as_object_mut(), spec) {
            full.extend(spec);
        }
        let policy = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": full})).expect("a policy");
        read(&policy).expect("it has a name")
    }

    #[test]
    fn a_policy_says_what_upstream_does_unless_it_says_otherwise() {
        let policy = policy(json!({}));
        assert!(policy.is_valid());
        assert_eq!(
            (policy.action, policy.max_unhealthy),
            (Action::Replace, NodeShare::Percent(20))
        );
        assert_eq!(policy.conditions[0].toleration, Duration::from_secs(600));
        assert!(
            policy.selects(&LabelSet::default()) && policy.names("Ready", "False") && !policy.names("Ready", "Unknown")
        );
        assert!(policy.is_open(Timestamp::UNIX_EPOCH) && policy.opens_after(Timestamp::UNIX_EPOCH).is_none());
    }

    #[test]
    fn faults_name_their_field() {
        let selector = |operator: &str, values: Value| json!({"selector": {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}});
        let window = |schedule: &str, duration: &str| json!({"maintenanceWindows": [{"schedule": schedule, "duration": duration}]});
        let bad = |status: &str, toleration: &str| json!({"unhealthyConditions": [{"type": "Ready", "status": status, "toleration": toleration}]});
        for (spec, fault) in [
            (selector("In", json!([])), "spec.selector: In of \"k\" needs values"),
            (
                selector("Exists", json!(["v"])),
                "spec.selector: Exists of \"k\" takes no values",
            ),
            (
                selector("Near", json!([])),
                "spec.selector: \"Near\" is not In, NotIn, Exists or DoesNotExist",
            ),
            (
                json!({"unhealthyConditions": []}),
                "spec.unhealthyConditions: must not be empty",
            ),
            (
                bad("Bad", "1m"),
                "spec.unhealthyConditions[0]: status \"Bad\" is not True, False or Unknown",
            ),
            (
                bad("False", "soon"),
                "spec.unhealthyConditions[0]: toleration \"soon\", ",
            ),
            (
                bad("False", "99999999999h"),
                "spec.unhealthyConditions[0]: toleration \"99999999999h\", ",
            ),
            (
                json!({"action": "Explode"}),
                "spec.action: \"Explode\" is not Replace, Drain or Report",
            ),
            (
                json!({"maxUnhealthy": "101%"}),
                "spec.maxUnhealthy: \"101%\" is neither a count nor a percentage",
            ),
            (
                window("61 * * * *", "1h"),
                "spec.maintenanceWindows[0]: schedule \"61 * * * *\", ",
            ),
            (
                window("@daily", "0s"),
                "spec.maintenanceWindows[0]: duration \"0s\" is never over before it begins",
            ),
        ] {
            let policy = policy(spec);
            assert_eq!(policy.faults.len(), 1, "{:?}", policy.faults);
            assert!(policy.faults[0].starts_with(fault), "{:?}", policy.faults);
        }
    }

    #[test]
    fn windows_are_read() {
        let windows = json!([{"schedule": "0 2 * * *", "duration": "2h"}]);
        let policy = policy(json!({"maintenanceWindows": windows}));
        let at = |time: &str| -> Timestamp { format!("2026-01-01T{time}Z").parse().expect("a timestamp") };
        assert!(policy.is_open(at("03:59:59")) && !policy.is_open(at("04:00:00")));
    }
}
