//! What a NodeRepairPolicy says, read once: pure.
//!
//! A policy with a fault does nothing. It still keeps the provider's rules away from the conditions it names, on the nodes it selects:
//! who wrote it did not want those nodes replaced as they always are.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kerf_api::{NodeRepairPolicy, RepairAction, UnhealthyCondition};
use kerf_model::budget::{NodeShare, Window};
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_units::duration::GoDuration;

/// The statuses a condition can have.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// What is done with a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Action {
    /// It is told of.
    Report,
    /// It is drained within budgets.
    Drain,
    /// It is ended at once.
    Replace,
}

/// A condition that is bad.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bad {
    pub(super) condition_type: String,
    pub(super) status: String,
    pub(super) toleration: Duration,
}

/// A policy as decisions see it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Policy {
    pub(super) name: Arc<str>,
    /// Matches every node where the written one cannot be read; then there is a fault as well.
    pub(super) selector: LabelSelector,
    pub(super) bad: Vec<Bad>,
    pub(super) action: Action,
    pub(super) max_unhealthy: NodeShare,
    pub(super) windows: Vec<Window>,
    /// What is wrong with it, field by field.
    pub(super) faults: Vec<String>,
}

impl Policy {
    /// Reads a policy.
    pub(super) fn read(written: &NodeRepairPolicy) -> Self {
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
        let mut bad = Vec::new();
        for (at, condition) in spec.unhealthy_conditions.iter().enumerate() {
            let toleration = toleration(condition).unwrap_or_else(|fault| {
                note(format!("spec.unhealthyConditions[{at}]"), fault);
                Duration::MAX
            });
            bad.push(Bad {
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
        Self {
            name: written.metadata.name.as_deref().unwrap_or_default().into(),
            selector: LabelSelector::all(selector),
            bad,
            action,
            max_unhealthy,
            windows,
            faults,
        }
    }

    /// Whether it says anything that can be followed.
    pub(super) const fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether a node with these labels is its business.
    pub(super) fn selects(&self, labels: &LabelSet) -> bool {
        self.selector.matches(labels)
    }

    /// Whether it names a condition's type and status.
    pub(super) fn names(&self, condition_type: &str, status: &str) -> bool {
        let mut bad = self.bad.iter();
        bad.any(|bad| bad.condition_type == condition_type && bad.status == status)
    }

    /// Whether nodes may be taken away now, as far as windows go.
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        let mut windows = self.windows.iter();
        self.windows.is_empty()
            || windows.any(|window| window.schedule.window_active(now, window.duration) == Some(true))
    }

    /// When a window opens next.
    pub(super) fn opens_after(&self, now: Timestamp) -> Option<Timestamp> {
        let opens = self.windows.iter().filter_map(|window| window.schedule.next_after(now));
        opens.min()
    }
}

fn toleration(condition: &UnhealthyCondition) -> Result<Duration, String> {
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
    use serde_json::{Value, json};

    fn read(spec: Value) -> Policy {
        let mut full = json!({"unhealthyConditions": [{"type": "Ready", "status": "False", "toleration": "10m"}]});
        if let (Some(full), Value::Object(spec)) = (full.as_object_mut(), spec) {
            full.extend(spec);
        }
        let policy = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": full})).expect("a policy");
        Policy::read(&policy)
    }

    #[test]
    fn a_policy_says_what_upstream_does_unless_it_says_otherwise() {
        let policy = read(json!({}));
        assert!(policy.is_valid());
        assert_eq!(
            (policy.action, policy.max_unhealthy),
            (Action::Replace, NodeShare::Percent(20))
        );
        assert_eq!(policy.bad[0].toleration, Duration::from_secs(600));
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
            let policy = read(spec);
            assert_eq!(policy.faults.len(), 1, "{:?}", policy.faults);
            assert!(policy.faults[0].starts_with(fault), "{:?}", policy.faults);
        }
    }

    #[test]
    fn windows_are_in_utc() {
        let policy = read(json!({"maintenanceWindows": [
            {"schedule": "0 2 * * *", "duration": "2h"},
            {"schedule": "0 12 * * sat", "duration": "30m"},
        ]}));
        // A Thursday.
        let at = |time: &str| -> Timestamp { format!("2026-01-01T{time}Z").parse().expect("a timestamp") };
        for (time, open) in [
            ("01:59:59", false),
            ("02:00:00", true),
            ("03:59:59", true),
            ("04:00:00", false),
            ("12:10:00", false),
        ] {
            assert_eq!(policy.is_open(at(time)), open, "{time}");
        }
        assert_eq!(
            policy.opens_after(at("12:00:00")),
            Some("2026-01-02T02:00:00Z".parse().expect("a timestamp"))
        );
    }
}
