//! NodeRepairPolicies as plain values.
//!
//! An invalid policy does nothing. It still keeps the provider's rules away from the conditions it names, on the nodes it selects:
//! its author did not want those nodes to be replaced by the provider's rules.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_model::budget::{NodeShare, Window};
use kerf_model::selector::{LabelSelector, LabelSet};

/// What is done with an unhealthy node, the gentlest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Action {
    /// An event reports it.
    Report,
    /// It is drained within disruption budgets.
    Drain,
    /// It is replaced at once.
    Replace,
}

/// A condition of nodes that is unhealthy when it lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnhealthyCondition {
    /// The condition's type.
    pub condition_type: String,
    /// Its unhealthy status: `True`, `False` or `Unknown`.
    pub status: String,
    /// How long it may have that status.
    pub toleration: Duration,
}

/// A policy as decisions see it.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// Its name.
    pub name: Arc<str>,
    /// The nodes it is about. Matches every node when the written selector is invalid; then there is a fault as well.
    pub selector: LabelSelector,
    /// The conditions it calls unhealthy.
    pub conditions: Vec<UnhealthyCondition>,
    /// What it does about them.
    pub action: Action,
    /// How many of its nodes may be unhealthy; it does nothing when more are.
    pub max_unhealthy: NodeShare,
    /// When it may take nodes away; always when there is no window.
    pub windows: Vec<Window>,
    /// What is wrong with it: field and reason.
    pub faults: Vec<String>,
}

impl Policy {
    /// Whether it can be followed.
    pub const fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether it is about a node with these labels.
    pub fn selects(&self, labels: &LabelSet) -> bool {
        self.selector.matches(labels)
    }

    /// Whether it calls this status of a condition unhealthy.
    pub fn names(&self, condition_type: &str, status: &str) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|condition| condition.condition_type == condition_type && condition.status == status)
    }

    /// Whether a maintenance window is open at `now`, or there is none.
    pub fn is_open(&self, now: Timestamp) -> bool {
        let mut windows = self.windows.iter();
        self.windows.is_empty()
            || windows.any(|window| window.schedule.window_active(now, window.duration) == Some(true))
    }

    /// When the next maintenance window opens after `now`.
    pub fn opens_after(&self, now: Timestamp) -> Option<Timestamp> {
        let opens = self.windows.iter().filter_map(|window| window.schedule.next_after(now));
        opens.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;
    use kerf_units::duration::GoDuration;

    #[test]
    fn windows_are_in_utc() {
        let window = |schedule: &str, minutes: i64| Window {
            schedule: schedule.parse().expect("a schedule"),
            duration: GoDuration::from_secs(minutes * 60),
        };
        let mut policy = Policy {
            name: "p".into(),
            selector: LabelSelector::all([]),
            conditions: Vec::new(),
            action: Action::Replace,
            max_unhealthy: NodeShare::Percent(20),
            windows: vec![window("0 2 * * *", 120), window("0 12 * * sat", 30)],
            faults: Vec::new(),
        };
        // A Thursday.
        let on_thursday = |time: &str| at(&format!("2026-01-01T{time}Z"));
        for (time, open) in [
            ("01:59:59", false),
            ("02:00:00", true),
            ("03:59:59", true),
            ("04:00:00", false),
            ("12:10:00", false),
        ] {
            assert_eq!(policy.is_open(on_thursday(time)), open, "{time}");
        }
        let noon = on_thursday("12:00:00");
        assert_eq!(policy.opens_after(noon), Some(at("2026-01-02T02:00:00Z")));
        policy.windows.clear();
        assert!(policy.is_open(noon) && policy.opens_after(noon).is_none());
    }
}
