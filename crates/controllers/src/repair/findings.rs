//! What is wrong with a node, who says so, and since when it is too long: pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kerf_cloud::RepairPolicy;
use kerf_model::selector::LabelSet;
use kerf_state::lean::LeanNode;

use super::policy::{Action, Bad, Policy};

/// Who calls a condition bad.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Rule<'a> {
    /// The provider.
    Provider(&'a RepairPolicy),
    /// A NodeRepairPolicy.
    Policy(&'a Policy, &'a Bad),
}

impl<'a> Rule<'a> {
    pub(super) const fn action(self) -> Action {
        match self {
            Self::Provider(_) => Action::Replace,
            Self::Policy(policy, _) => policy.action,
        }
    }

    pub(super) fn condition_type(self) -> &'a str {
        match self {
            Self::Provider(rule) => &rule.condition_type,
            Self::Policy(_, bad) => &bad.condition_type,
        }
    }

    fn status(self) -> &'a str {
        match self {
            Self::Provider(rule) => &rule.status,
            Self::Policy(_, bad) => &bad.status,
        }
    }

    const fn toleration(self) -> std::time::Duration {
        match self {
            Self::Provider(rule) => rule.toleration,
            Self::Policy(_, bad) => bad.toleration,
        }
    }

    fn name(self) -> &'a str {
        match self {
            Self::Provider(_) => "",
            Self::Policy(policy, _) => &policy.name,
        }
    }

    /// When a node's condition has lasted too long, if it is bad by this rule.
    fn due(self, node: &LeanNode) -> Option<Timestamp> {
        let mut conditions = node.status.conditions.iter();
        let bad = conditions.find(|one| one.kind == self.condition_type() && one.status == self.status())?;
        let tolerated = SignedDuration::try_from(self.toleration()).ok()?;
        bad.last_transition_time.as_ref()?.0.checked_add(tolerated).ok()
    }
}

/// A bad condition of a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Finding<'a> {
    /// From when on it has lasted too long.
    pub(super) at: Timestamp,
    pub(super) rule: Rule<'a>,
}

/// A node's labels in the terms of selectors.
pub(super) fn labels(node: &LeanNode) -> LabelSet {
    let labels = node.metadata.labels.iter().flatten();
    labels.map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// Everything that is wrong with a node, what has lasted too long first; of several at one time the gentler action comes first
/// (LIF-148). A policy takes the place of the provider's rules about the same condition and status, also a policy with a fault, which
/// finds nothing itself.
pub(super) fn findings<'a>(
    node: &LeanNode,
    provider: &'a [RepairPolicy],
    policies: &'a [Arc<Policy>],
) -> Vec<Finding<'a>> {
    let labels = labels(node);
    let ours: Vec<&Policy> = policies
        .iter()
        .map(|policy| &**policy)
        .filter(|policy| policy.selects(&labels))
        .collect();
    let taken_over = |rule: &&RepairPolicy| {
        !ours
            .iter()
            .any(|policy| policy.names(&rule.condition_type, &rule.status))
    };
    let provided = provider.iter().filter(taken_over).map(Rule::Provider);
    let followed = ours.iter().filter(|policy| policy.is_valid());
    let written = followed.flat_map(|policy| policy.bad.iter().map(|bad| Rule::Policy(policy, bad)));
    let mut findings: Vec<Finding<'a>> = provided
        .chain(written)
        .filter_map(|rule| {
            Some(Finding {
                at: rule.due(node)?,
                rule,
            })
        })
        .collect();
    findings.sort_by(|a, b| {
        let order = |finding: &Finding<'a>| (finding.at, finding.rule.action());
        order(a).cmp(&order(b)).then_with(|| a.rule.name().cmp(b.rule.name()))
    });
    findings
}

/// Whether any of the provider's rules calls a node unhealthy, tolerated or not (LIF-149).
pub(super) fn is_unhealthy(node: &LeanNode, provider: &[RepairPolicy]) -> bool {
    provider.iter().any(|rule| Rule::Provider(rule).due(node).is_some())
}

/// How a policy's nodes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Health {
    pub(super) nodes: u32,
    /// Tolerated or not.
    pub(super) unhealthy: u32,
    /// For longer than is tolerated.
    pub(super) overdue: u32,
    /// When the next one is overdue.
    pub(super) next: Option<Timestamp>,
}

impl Health {
    /// Looks at the nodes a policy selects; `nodes` are those with a claim.
    pub(super) fn of<'n>(policy: &Policy, nodes: impl Iterator<Item = &'n LeanNode>, now: Timestamp) -> Self {
        let mut health = Self::default();
        for node in nodes.filter(|node| policy.selects(&labels(node))) {
            health.nodes += 1;
            let Some(at) = policy
                .bad
                .iter()
                .filter_map(|bad| Rule::Policy(policy, bad).due(node))
                .min()
            else {
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

    /// Whether few enough are unhealthy.
    pub(super) fn is_within(&self, policy: &Policy) -> bool {
        self.unhealthy <= policy.max_unhealthy.of(self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_api::NodeRepairPolicy;
    use serde_json::{Value, json};
    use std::time::Duration;

    fn node(conditions: &[(&str, &str, &str)]) -> LeanNode {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status, since)| json!({"type": kind, "status": status, "lastTransitionTime": format!("2026-01-01T{since}Z")}))
            .collect();
        serde_json::from_value(
            json!({"metadata": {"name": "n", "labels": {"team": "a"}}, "status": {"conditions": conditions}}),
        )
        .expect("a node")
    }

    fn policy(name: &str, spec: Value) -> Arc<Policy> {
        let mut written = json!({"metadata": {"name": name}});
        written["spec"] = spec;
        let written: NodeRepairPolicy = serde_json::from_value(written).expect("a policy");
        Arc::new(Policy::read(&written))
    }

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    fn shown(findings: &[Finding<'_>]) -> Vec<String> {
        let text = |finding: &Finding<'_>| {
            let time = finding.at.to_string();
            format!(
                "{} {} {:?}{}",
                &time[11..16],
                finding.rule.condition_type(),
                finding.rule.action(),
                finding.rule.name()
            )
        };
        findings.iter().map(text).collect()
    }

    // LIF-148
    #[test]
    fn the_toleration_that_ends_first_decides() {
        let provider = [
            RepairPolicy::new("Ready", "False", minutes(30)),
            RepairPolicy::new("Ready", "Unknown", minutes(30)),
            RepairPolicy::new("KernelReady", "False", minutes(10)),
        ];
        let first = |conditions: &[(&str, &str, &str)]| {
            let node = node(conditions);
            shown(&findings(&node, &provider, &[]))
                .first()
                .cloned()
                .unwrap_or_default()
        };
        assert_eq!(
            first(&[("Ready", "True", "12:00:00"), ("KernelReady", "Unknown", "12:00:00")]),
            ""
        );
        assert_eq!(first(&[("Ready", "Unknown", "12:00:00")]), "12:30 Ready Replace");
        assert_eq!(
            first(&[("Ready", "False", "12:00:00"), ("KernelReady", "False", "12:15:00")]),
            "12:25 KernelReady Replace"
        );
        assert_eq!(
            first(&[("Ready", "False", "12:00:00"), ("KernelReady", "False", "12:21:00")]),
            "12:30 Ready Replace"
        );
    }

    #[test]
    fn a_policy_takes_the_place_of_the_providers_rule_on_its_nodes() {
        let provider = [
            RepairPolicy::new("Ready", "False", minutes(10)),
            RepairPolicy::new("KernelReady", "False", minutes(10)),
        ];
        let sick = node(&[("Ready", "False", "12:00:00"), ("KernelReady", "False", "12:05:00")]);
        let ready = |toleration: &str| json!([{"type": "Ready", "status": "False", "toleration": toleration}]);
        let gentle = policy("gentle", json!({"unhealthyConditions": ready("1h"), "action": "Drain"}));
        assert_eq!(
            shown(&findings(&sick, &provider, std::slice::from_ref(&gentle))),
            ["12:15 KernelReady Replace", "13:00 Ready Draingentle"]
        );
        let elsewhere = policy(
            "elsewhere",
            json!({"unhealthyConditions": ready("1h"), "selector": {"matchLabels": {"team": "b"}}}),
        );
        assert_eq!(
            shown(&findings(&sick, &provider, &[elsewhere])),
            ["12:10 Ready Replace", "12:15 KernelReady Replace"]
        );
        // One with a fault finds nothing and is not overruled either.
        let faulty = policy("faulty", json!({"unhealthyConditions": ready("soon")}));
        assert_eq!(
            shown(&findings(&sick, &provider, &[faulty])),
            ["12:15 KernelReady Replace"]
        );
        // Of two at one time the gentler is first.
        let harsh = policy("a", json!({"unhealthyConditions": ready("1h")}));
        let telling = policy("z", json!({"unhealthyConditions": ready("1h"), "action": "Report"}));
        assert_eq!(
            shown(&findings(&sick, &[], &[harsh, gentle, telling])),
            ["13:00 Ready Reportz", "13:00 Ready Draingentle", "13:00 Ready Replacea"]
        );
    }

    #[test]
    fn a_policy_counts_its_nodes() {
        let rule = json!([{"type": "Ready", "status": "False", "toleration": "10m"}]);
        let policy = policy(
            "p",
            json!({"unhealthyConditions": rule, "selector": {"matchLabels": {"team": "a"}}}),
        );
        let nodes = [
            node(&[("Ready", "True", "12:00:00")]),
            node(&[("Ready", "False", "12:00:00")]),
            node(&[("Ready", "False", "12:05:00")]),
            LeanNode::default(),
        ];
        let at = |time: &str| -> Timestamp { format!("2026-01-01T{time}Z").parse().expect("a timestamp") };
        let health = Health::of(&policy, nodes.iter(), at("12:10:00"));
        assert_eq!(
            health,
            Health {
                nodes: 3,
                unhealthy: 2,
                overdue: 1,
                next: Some(at("12:15:00"))
            }
        );
        // A fifth of three, rounded up, is one.
        assert!(!health.is_within(&policy));
    }
}
