//! Disruption policy of a pool: when its nodes may be taken away, and how many at a time (DIS-071 and following).

use jiff::Timestamp;
use kerf_units::cron::CronSchedule;
use kerf_units::duration::GoDuration;
use std::sync::Arc;

/// Why a node is taken away voluntarily.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DisruptionReason {
    /// Nothing that needs a place runs there.
    Empty,
    /// Its pods fit elsewhere, or on something cheaper.
    Underutilized,
    /// It is no longer what its pool asks for.
    Drifted,
}

impl DisruptionReason {
    /// Every reason, in the API's order.
    pub const ALL: [Self; 3] = [Self::Underutilized, Self::Empty, Self::Drifted];

    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Underutilized => "Underutilized",
            Self::Drifted => "Drifted",
        }
    }

    /// The name as metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Underutilized => "underutilized",
            Self::Drifted => "drifted",
        }
    }

    /// From the name in the API.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// When consolidation may touch a pool's nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ConsolidationPolicy {
    /// Only when nothing runs on them.
    WhenEmpty,
    /// Also when their pods fit elsewhere.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Like the former, weighing savings against disruption.
    Balanced,
}

impl ConsolidationPolicy {
    /// The name in the API, and as metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WhenEmpty => "WhenEmpty",
            Self::WhenEmptyOrUnderutilized => "WhenEmptyOrUnderutilized",
            Self::Balanced => "Balanced",
        }
    }
}

/// The disruption settings of a pool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DisruptionPolicy {
    /// What consolidation may do.
    pub consolidation: ConsolidationPolicy,
    /// How long a node is left alone after its last pod event; `None` for `Never`.
    pub consolidate_after: Option<GoDuration>,
    /// The budgets, in the order written. Bad ones are kept: they close the pool (DIS-079).
    pub budgets: Vec<Result<Budget, BudgetFault>>,
    /// Nodes that only a do-not-disrupt pod keeps take no more pods (`kerf.sh/retire-blocked: "true"` on the pool).
    pub retire_blocked: bool,
}

/// A disruption budget.
#[derive(Clone, PartialEq, Debug)]
pub struct Budget {
    /// The reasons it applies to; `None` for all.
    pub reasons: Option<Vec<DisruptionReason>>,
    /// How many nodes may be away.
    pub nodes: NodeShare,
    /// When it is active; `None` for always.
    pub window: Option<Window>,
}

/// A number of nodes or a share of the pool's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeShare {
    /// That many.
    Count(u32),
    /// Per cent of the counted nodes, rounded up (DIS-074).
    Percent(u32),
}

impl NodeShare {
    /// From `3` or `20%`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(share) => share.parse().ok().filter(|share| *share <= 100).map(Self::Percent),
            None => text.parse().ok().map(Self::Count),
        }
    }

    /// How many of `nodes` that is (DIS-074).
    pub fn of(self, nodes: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(share) => {
                u32::try_from((u64::from(nodes) * u64::from(share)).div_ceil(100)).unwrap_or(u32::MAX)
            }
        }
    }
}

/// A recurring stretch of time, in UTC.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    /// When it opens.
    pub schedule: CronSchedule,
    /// How long it stays open.
    pub duration: GoDuration,
}

/// A budget that cannot be read; the text names the field and what is wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BudgetFault(pub Arc<str>);

impl DisruptionPolicy {
    /// How many of `counted` nodes may be away for a reason at `now`: the least any active budget allows, `None` without a limit (DIS-071 to
    /// DIS-079). Any bad budget closes the pool.
    pub fn allowed(&self, reason: DisruptionReason, counted: u32, now: Timestamp) -> Result<Option<u32>, BudgetFault> {
        let mut least = None;
        for budget in &self.budgets {
            let budget = budget.as_ref().map_err(Clone::clone)?;
            let applies = budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason));
            if applies && budget.window.as_ref().is_none_or(|window| window.active(now)) {
                let allowed = budget.nodes.of(counted);
                least = Some(least.map_or(allowed, |least: u32| least.min(allowed)));
            }
        }
        Ok(least)
    }
}

impl Window {
    /// Whether it is open at `now` (DIS-076, DIS-077). A schedule without any date is always open, as in upstream: what it limits stays limited.
    pub fn active(&self, now: Timestamp) -> bool {
        self.schedule.window_active(now, self.duration).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // DIS-074
    #[test]
    fn shares_round_up() {
        let table = [
            ("5%", 10, 1),
            ("30%", 10, 3),
            ("50%", 3, 2),
            ("10%", 0, 0),
            ("0%", 7, 0),
            ("100%", 7, 7),
            ("4", 2, 4),
        ];
        for (text, nodes, expected) in table {
            assert_eq!(
                NodeShare::parse(text).map(|share| share.of(nodes)),
                Some(expected),
                "{text} of {nodes}"
            );
        }
        for bad in ["101%", "-1", "", "x%", "1.5"] {
            assert_eq!(NodeShare::parse(bad), None, "{bad}");
        }
    }

    fn budget(nodes: &str, reasons: Option<&[DisruptionReason]>) -> Result<Budget, BudgetFault> {
        let nodes = NodeShare::parse(nodes).ok_or_else(|| BudgetFault("nodes".into()))?;
        Ok(Budget {
            reasons: reasons.map(<[_]>::to_vec),
            nodes,
            window: None,
        })
    }

    #[test]
    fn a_window_that_never_comes_is_always_open() {
        let duration = GoDuration::from_secs(3600);
        let schedule = |text: &str| text.parse().expect("a schedule");
        let active = |text| {
            let schedule = schedule(text);
            Window { schedule, duration }.active(Timestamp::UNIX_EPOCH)
        };
        assert!(active("0 0 31 2 *"));
        assert!(!active("0 0 29 2 *"), "in 1972");
    }

    // DIS-071, DIS-072, DIS-073, DIS-079, DIS-090
    #[test]
    fn the_least_active_budget_of_a_reason_counts() {
        use DisruptionReason::{Drifted, Empty, Underutilized};
        let mut policy = DisruptionPolicy {
            budgets: vec![
                budget("10", None),
                budget("5", Some(&[Drifted])),
                budget("4", Some(&[Empty])),
                budget("0", Some(&[])),
            ],
            ..DisruptionPolicy::default()
        };
        let allowed = |policy: &DisruptionPolicy| {
            [Empty, Drifted, Underutilized].map(|r| policy.allowed(r, 20, Timestamp::UNIX_EPOCH))
        };
        assert_eq!(allowed(&policy), [Ok(Some(4)), Ok(Some(5)), Ok(Some(10))]);
        // Neither the first nor the last budget decides, but the least.
        policy.budgets.rotate_left(1);
        assert_eq!(allowed(&policy), [Ok(Some(4)), Ok(Some(5)), Ok(Some(10))]);
        policy.budgets.reverse();
        assert_eq!(allowed(&policy), [Ok(Some(4)), Ok(Some(5)), Ok(Some(10))]);
        // One whose window is closed limits nothing: the epoch is a Thursday.
        let closed = Window {
            schedule: "0 0 * * 0".parse().expect("a schedule"),
            duration: GoDuration::from_secs(3600),
        };
        policy.budgets.extend(budget("1", None).map(|budget| {
            Ok(Budget {
                window: Some(closed),
                ..budget
            })
        }));
        assert_eq!(allowed(&policy), [Ok(Some(4)), Ok(Some(5)), Ok(Some(10))]);
        policy.budgets.push(budget("many", Some(&[Empty])));
        assert!(allowed(&policy).iter().all(Result::is_err));
        assert_eq!(
            DisruptionPolicy::default().allowed(Empty, 20, Timestamp::UNIX_EPOCH),
            Ok(None)
        );
    }
}
