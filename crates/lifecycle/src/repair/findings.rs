//! Which conditions of a node are unhealthy, by whose rule, and when they have lasted too long.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kerf_model::selector::LabelSet;

use super::policy::{Action, Policy, UnhealthyCondition};

/// The share of nodes that may be unhealthy before the provider's rules stop, in per cent (LIF-150).
const PROVIDER_CAP_PERCENT: usize = 20;

/// A condition of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition<'a> {
    /// Its type.
    pub condition_type: &'a str,
    /// Its status.
    pub status: &'a str,
    /// When the status changed last, if the Node says so.
    pub since: Option<Timestamp>,
}

/// What repair looks at on a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeConditions<'a> {
    /// Its labels.
    pub labels: LabelSet,
    /// Its conditions.
    pub conditions: Vec<Condition<'a>>,
}

/// Who calls a condition unhealthy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rule<'a> {
    /// The provider.
    Provider(&'a UnhealthyCondition),
    /// A NodeRepairPolicy.
    Policy(&'a Policy, &'a UnhealthyCondition),
}

impl<'a> Rule<'a> {
    /// What is done about it.
    pub const fn action(self) -> Action {
        match self {
            Self::Provider(_) => Action::Replace,
            Self::Policy(policy, _) => policy.action,
        }
    }

    /// The condition.
    pub const fn condition(self) -> &'a UnhealthyCondition {
        match self {
            Self::Provider(condition) | Self::Policy(_, condition) => condition,
        }
    }

    /// The policy's name; `None` comes before all names.
    fn name(self) -> Option<&'a str> {
        match self {
            Self::Provider(_) => None,
            Self::Policy(policy, _) => Some(&*policy.name),
        }
    }
}

impl UnhealthyCondition {
    /// When the node's condition has lasted for longer than it may; `None` while it has another status.
    fn due(&self, node: &NodeConditions<'_>) -> Option<Timestamp> {
        let mut conditions = node.conditions.iter();
        let is_it = |one: &&Condition<'_>| one.condition_type == self.condition_type && one.status == self.status;
        let tolerated = SignedDuration::try_from(self.toleration).ok()?;
        conditions.find(is_it)?.since?.checked_add(tolerated).ok()
    }
}

/// An unhealthy condition of a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Finding<'a> {
    /// When it has lasted for longer than it may.
    pub at: Timestamp,
    /// By which rule.
    pub rule: Rule<'a>,
}

/// All unhealthy conditions of a node, the earliest due first, and among equal times the gentler action first (LIF-148). A policy takes
/// the place of the provider's rules about the same condition and status. So does an invalid policy, which finds nothing itself.
pub fn findings<'a>(
    node: &NodeConditions<'_>,
    provider: &'a [UnhealthyCondition],
    policies: &'a [Arc<Policy>],
) -> Vec<Finding<'a>> {
    let selecting: Vec<&Policy> = policies
        .iter()
        .map(|policy| &**policy)
        .filter(|policy| policy.selects(&node.labels))
        .collect();
    let taken_over = |rule: &&UnhealthyCondition| {
        !selecting
            .iter()
            .any(|policy| policy.names(&rule.condition_type, &rule.status))
    };
    let provided = provider.iter().filter(taken_over).map(Rule::Provider);
    let followed = selecting.iter().filter(|policy| policy.is_valid());
    let written = followed.flat_map(|policy| {
        policy
            .conditions
            .iter()
            .map(|condition| Rule::Policy(policy, condition))
    });
    let mut findings: Vec<Finding<'a>> = provided
        .chain(written)
        .filter_map(|rule| {
            Some(Finding {
                at: rule.condition().due(node)?,
                rule,
            })
        })
        .collect();
    findings.sort_by(|a, b| {
        let order = |finding: &Finding<'a>| (finding.at, finding.rule.action());
        order(a).cmp(&order(b)).then_with(|| a.rule.name().cmp(&b.rule.name()))
    });
    findings
}

/// Whether any of the provider's rules calls a node unhealthy, tolerated or not (LIF-149).
pub(super) fn is_unhealthy(node: &NodeConditions<'_>, provider: &[UnhealthyCondition]) -> bool {
    provider.iter().any(|condition| condition.due(node).is_some())
}

/// Whether the provider's rules may take nodes away when `unhealthy` of `nodes` are (LIF-149, LIF-150): up to a fifth, rounded up.
pub(super) const fn is_within_provider_cap(unhealthy: usize, nodes: usize) -> bool {
    unhealthy <= (nodes * PROVIDER_CAP_PERCENT).div_ceil(100)
}

/// How many of a policy's nodes are unhealthy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// The nodes the policy selects.
    pub nodes: u32,
    /// Those with an unhealthy condition, however short.
    pub unhealthy: u32,
    /// Those with one that has lasted for longer than it may.
    pub overdue: u32,
    /// When the next node becomes overdue.
    pub next: Option<Timestamp>,
}

impl Health {
    /// Counts the nodes a policy selects; `nodes` are those with a claim.
    pub(super) fn of<'n, 'c: 'n>(
        policy: &Policy,
        nodes: impl IntoIterator<Item = &'n NodeConditions<'c>>,
        now: Timestamp,
    ) -> Self {
        let mut health = Self::default();
        for node in nodes.into_iter().filter(|node| policy.selects(&node.labels)) {
            health.nodes += 1;
            let due = policy.conditions.iter().filter_map(|condition| condition.due(node));
            let Some(at) = due.min() else {
                continue;
            };
            health.unhealthy += 1;
            if at <= now {
                health.overdue += 1;
            } else {
                health.next = Some(health.next.map_or(at, |next| next.min(at)));
            }
        }
        health
    }

    /// Whether no more nodes are unhealthy than the policy allows.
    pub fn is_within(&self, policy: &Policy) -> bool {
        self.unhealthy <= policy.max_unhealthy.of(self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;
    use kerf_model::budget::NodeShare;
    use kerf_model::selector::{LabelSelector, Match};
    use std::time::Duration;

    fn node(conditions: &[(&'static str, &'static str, &str)]) -> NodeConditions<'static> {
        let condition = |&(condition_type, status, since): &(&'static str, &'static str, &str)| Condition {
            condition_type,
            status,
            since: Some(at(&format!("2026-01-01T{since}Z"))),
        };
        NodeConditions {
            labels: [("team", "a")].into_iter().collect(),
            conditions: conditions.iter().map(condition).collect(),
        }
    }

    fn unhealthy(condition_type: &str, status: &str, minutes: u64) -> UnhealthyCondition {
        UnhealthyCondition {
            condition_type: condition_type.to_owned(),
            status: status.to_owned(),
            toleration: Duration::from_secs(minutes * 60),
        }
    }

    /// A policy about all nodes that are not ready for an hour.
    fn policy(name: &str, action: Action) -> Policy {
        Policy {
            name: name.into(),
            selector: LabelSelector::all([]),
            conditions: vec![unhealthy("Ready", "False", 60)],
            action,
            max_unhealthy: NodeShare::Percent(20),
            windows: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn team(name: &str) -> LabelSelector {
        LabelSelector::all([Match::any_of("team", [Arc::from(name)])])
    }

    fn shown(findings: &[Finding<'_>]) -> Vec<String> {
        let text = |finding: &Finding<'_>| {
            let time = finding.at.to_string();
            format!(
                "{} {} {:?}{}",
                &time[11..16],
                finding.rule.condition().condition_type,
                finding.rule.action(),
                finding.rule.name().unwrap_or_default()
            )
        };
        findings.iter().map(text).collect()
    }

    // LIF-148
    #[test]
    fn the_toleration_that_ends_first_decides() {
        let provider = [
            unhealthy("Ready", "False", 30),
            unhealthy("Ready", "Unknown", 30),
            unhealthy("KernelReady", "False", 10),
        ];
        type Conditions = [(&'static str, &'static str, &'static str)];
        let table: [(&Conditions, &str); 4] = [
            (
                &[("Ready", "True", "12:00:00"), ("KernelReady", "Unknown", "12:00:00")],
                "",
            ),
            (&[("Ready", "Unknown", "12:00:00")], "12:30 Ready Replace"),
            (
                &[("Ready", "False", "12:00:00"), ("KernelReady", "False", "12:15:00")],
                "12:25 KernelReady Replace",
            ),
            (
                &[("Ready", "False", "12:00:00"), ("KernelReady", "False", "12:21:00")],
                "12:30 Ready Replace",
            ),
        ];
        for (conditions, first) in table {
            let found = shown(&findings(&node(conditions), &provider, &[]));
            assert_eq!(found.first().map_or("", String::as_str), first, "{conditions:?}");
        }
    }

    #[test]
    fn a_policy_takes_the_place_of_the_providers_rule_on_its_nodes() {
        let provider = [unhealthy("Ready", "False", 10), unhealthy("KernelReady", "False", 10)];
        let sick = node(&[("Ready", "False", "12:00:00"), ("KernelReady", "False", "12:05:00")]);
        let gentle = Arc::new(policy("gentle", Action::Drain));
        assert_eq!(
            shown(&findings(&sick, &provider, std::slice::from_ref(&gentle))),
            ["12:15 KernelReady Replace", "13:00 Ready Draingentle"]
        );
        let elsewhere = Arc::new(Policy {
            selector: team("b"),
            ..policy("elsewhere", Action::Replace)
        });
        assert_eq!(
            shown(&findings(&sick, &provider, &[elsewhere])),
            ["12:10 Ready Replace", "12:15 KernelReady Replace"]
        );
        // An invalid one finds nothing, and the provider's rule stays away all the same.
        let invalid = Arc::new(Policy {
            faults: vec!["spec.unhealthyConditions[0]: toleration".to_owned()],
            ..policy("invalid", Action::Replace)
        });
        assert_eq!(
            shown(&findings(&sick, &provider, &[invalid])),
            ["12:15 KernelReady Replace"]
        );
        // Of two at one time the gentler is first.
        let harsh = Arc::new(policy("a", Action::Replace));
        let reporting = Arc::new(policy("z", Action::Report));
        assert_eq!(
            shown(&findings(&sick, &[], &[harsh, gentle, reporting])),
            ["13:00 Ready Reportz", "13:00 Ready Draingentle", "13:00 Ready Replacea"]
        );
    }

    #[test]
    fn a_policy_counts_its_nodes() {
        let policy = Policy {
            selector: team("a"),
            conditions: vec![unhealthy("Ready", "False", 10)],
            ..policy("p", Action::Replace)
        };
        let nodes = [
            node(&[("Ready", "True", "12:00:00")]),
            node(&[("Ready", "False", "12:00:00")]),
            node(&[("Ready", "False", "12:05:00")]),
            NodeConditions::default(),
        ];
        let health = Health::of(&policy, &nodes, at("2026-01-01T12:10:00Z"));
        assert_eq!(
            health,
            Health {
                nodes: 3,
                unhealthy: 2,
                overdue: 1,
                next: Some(at("2026-01-01T12:15:00Z"))
            }
        );
        // A fifth of three, rounded up, is one.
        assert!(!health.is_within(&policy));
    }

    // LIF-150
    #[test]
    fn a_fifth_may_be_unhealthy() {
        for (nodes, most) in [(10, 2), (3, 1), (1, 1), (11, 3)] {
            assert!(
                is_within_provider_cap(most, nodes) && !is_within_provider_cap(most + 1, nodes),
                "{most} of {nodes}"
            );
        }
    }
}
