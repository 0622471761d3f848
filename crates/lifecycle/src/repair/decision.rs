//! Whether an unhealthy node may be taken away now.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_disruption::Allowance;
use kerf_model::budget::DisruptionReason;
use kerf_model::snapshot::Snapshot;

use super::findings::{Finding, Health, NodeConditions, Rule, is_unhealthy, is_within_provider_cap};
use super::policy::{Action, Policy, UnhealthyCondition};

/// What keeps a node from being taken away now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Block {
    /// More nodes are unhealthy than the provider's rules allow (LIF-149).
    ProviderCap,
    /// A reason of the policy of this name.
    Policy(Arc<str>, Reason),
}

/// Why a policy does not take a node away now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It takes no node away.
    Paused(Pause),
    /// The node or its claim carry do-not-disrupt.
    Annotation(Carrier),
    /// The disruption budgets of the node's pool are used up.
    Budget,
    /// The node's pool, and with it the budgets, is missing or cannot be read.
    NoPool {
        /// Whether it could be read if it were there.
        readable: bool,
    },
    /// The policy could never be read, and may take the place of the provider's rules.
    Unread,
}

/// Why a policy takes no node away now, whichever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// No maintenance window is open; when the next opens.
    Window(Option<Timestamp>),
    /// More nodes are unhealthy than it allows; how many may be.
    Cap(u32),
}

/// The object that carries do-not-disrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// The Node.
    Node,
    /// Its NodeClaim.
    Claim,
}

/// A node of the cluster, as repair counts it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetNode<'a> {
    /// Its labels and conditions.
    pub conditions: NodeConditions<'a>,
    /// The NodePool that its label names.
    pub pool: Option<&'a str>,
    /// Whether it has exactly one claim. Policies count no other nodes.
    pub has_claim: bool,
}

/// The nodes of the cluster, of which only so many may be unhealthy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fleet<'a> {
    /// All nodes of the cluster.
    pub nodes: Vec<FleetNode<'a>>,
    /// What the provider calls unhealthy.
    pub provider: &'a [UnhealthyCondition],
}

impl Fleet<'_> {
    /// Whether the provider's rules may take away a node of a claim of this pool: few enough nodes of the pool are unhealthy, or of the cluster for a
    /// claim without pool (LIF-149).
    fn is_within_provider_cap(&self, pool: Option<&str>) -> bool {
        let counted = || self.nodes.iter().filter(|node| pool.is_none() || node.pool == pool);
        let unhealthy = counted().filter(|node| is_unhealthy(&node.conditions, self.provider));
        is_within_provider_cap(unhealthy.count(), counted().count())
    }

    /// How many of a policy's nodes are unhealthy.
    pub fn health(&self, policy: &Policy, now: Timestamp) -> Health {
        let nodes = self.nodes.iter().filter(|node| node.has_claim);
        Health::of(policy, nodes.map(|node| &node.conditions), now)
    }
}

/// What the disruption budgets of a node's pool say about draining it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainBudget {
    /// They allow it, or there are none.
    Open,
    /// They are used up.
    UsedUp,
    /// The pool is missing or cannot be read. Its budgets count as used up (DIS-086).
    NoPool {
        /// Whether it could be read if it were there.
        readable: bool,
    },
}

impl DrainBudget {
    /// The budgets for drift of the claim's pool at `now`; a claim without pool has none. `id` is the node's provider id. `is_readable` says
    /// whether a pool could be read if it were there.
    pub fn of(
        pool: Option<&str>,
        id: &str,
        snapshot: &Snapshot,
        is_readable: impl FnOnce(&str) -> bool,
        now: Timestamp,
    ) -> Self {
        let Some(pool) = pool else {
            return Self::Open;
        };
        let mut nodes = snapshot.nodes.iter();
        let node = nodes.find(|node| node.provider_id.as_deref() == Some(id));
        let allowance = Allowance::new(snapshot, DisruptionReason::Drifted, now);
        match allowance.allows_drain(pool, node.map(|node| &**node)) {
            Some(true) => Self::Open,
            Some(false) => Self::UsedUp,
            None => Self::NoPool {
                readable: is_readable(pool),
            },
        }
    }

    /// What it says against a drain.
    const fn reason(self) -> Option<Reason> {
        match self {
            Self::Open => None,
            Self::UsedUp => Some(Reason::Budget),
            Self::NoPool { readable } => Some(Reason::NoPool { readable }),
        }
    }
}

/// What a drain heeds and a replacement does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrainLimits {
    /// What carries do-not-disrupt, if anything does.
    pub protected_by: Option<Carrier>,
    /// The disruption budgets of the node's pool. A node whose claim is being deleted needs none.
    pub budget: DrainBudget,
}

impl DrainLimits {
    /// The limits of a drain. `budget` is asked only while the claim of the node is not being deleted.
    pub fn of(protected_by: Option<Carrier>, is_deleting: bool, budget: impl FnOnce() -> DrainBudget) -> Self {
        Self {
            protected_by,
            budget: if is_deleting { DrainBudget::Open } else { budget() },
        }
    }

    /// What says that the node stays.
    fn reason(self) -> Option<Reason> {
        let annotation = self.protected_by.map(Reason::Annotation);
        annotation.or_else(|| self.budget.reason())
    }
}

/// What keeps a policy from taking any node away, a closed window first.
pub fn pauses(policy: &Policy, health: &Health, now: Timestamp) -> impl Iterator<Item = Pause> {
    let closed = (!policy.is_open(now)).then(|| Pause::Window(policy.opens_after(now)));
    let many = (!health.is_within(policy)).then(|| Pause::Cap(policy.max_unhealthy.of(health.nodes)));
    [closed, many].into_iter().flatten()
}

/// Whether a finding is followed now, or what prevents it. A finding that is only reported is always followed. `pool` is that of the node's
/// claim; `limits` are asked before a drain. `unread` is the name of a policy that could never be read: it may take the place of the provider's rules.
pub fn decide(
    finding: &Finding<'_>,
    pool: Option<&str>,
    fleet: &Fleet<'_>,
    limits: &dyn Fn() -> DrainLimits,
    unread: Option<&str>,
    now: Timestamp,
) -> Result<(), Block> {
    let policy = match (finding.rule, unread) {
        (Rule::Policy(policy, _), _) => policy,
        (Rule::Provider(_), Some(unread)) => return Err(Block::Policy(unread.into(), Reason::Unread)),
        (Rule::Provider(_), None) if !fleet.is_within_provider_cap(pool) => return Err(Block::ProviderCap),
        (Rule::Provider(_), None) => return Ok(()),
    };
    let paused = || {
        pauses(policy, &fleet.health(policy, now), now)
            .next()
            .map(Reason::Paused)
    };
    let reason = match policy.action {
        Action::Report => None,
        Action::Replace => paused(),
        Action::Drain => paused().or_else(|| limits().reason()),
    };
    reason.map_or(Ok(()), |reason| Err(Block::Policy(Arc::clone(&policy.name), reason)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;
    use crate::repair::Condition;
    use kerf_model::budget::{NodeShare, Window};
    use kerf_model::intern::sym;
    use kerf_model::node::Node;
    use kerf_model::selector::LabelSelector;
    use kerf_testkit::disruption::{Cluster, budget};
    use kerf_units::duration::GoDuration;
    use std::time::Duration;

    const NOON: &str = "2026-01-01T12:00:00Z";

    fn not_ready() -> UnhealthyCondition {
        UnhealthyCondition {
            condition_type: "Ready".to_owned(),
            status: "False".to_owned(),
            toleration: Duration::from_mins(10),
        }
    }

    fn policy(action: Action, max_unhealthy: NodeShare) -> Policy {
        Policy {
            name: "p".into(),
            selector: LabelSelector::all([]),
            conditions: vec![not_ready()],
            action,
            max_unhealthy,
            windows: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// A node of a pool, or of none, that is sick since noon or sound.
    fn node(pool: Option<&'static str>, sick: bool) -> FleetNode<'static> {
        let condition = Condition {
            condition_type: "Ready",
            status: if sick { "False" } else { "True" },
            since: Some(at(NOON)),
        };
        FleetNode {
            conditions: NodeConditions {
                conditions: vec![condition],
                ..NodeConditions::default()
            },
            pool,
            has_claim: pool.is_some(),
        }
    }

    /// So many sick and sound nodes of a pool.
    fn nodes(pool: Option<&'static str>, sick: usize, sound: usize) -> Vec<FleetNode<'static>> {
        let all = std::iter::repeat_n(true, sick).chain(std::iter::repeat_n(false, sound));
        all.map(|sick| node(pool, sick)).collect()
    }

    const FREE: DrainLimits = DrainLimits {
        protected_by: None,
        budget: DrainBudget::Open,
    };

    fn by_provider(pool: Option<&str>, nodes: Vec<FleetNode<'_>>, unread: Option<&str>) -> Result<(), Block> {
        let provider = [not_ready()];
        let fleet = Fleet {
            nodes,
            provider: &provider,
        };
        let finding = Finding {
            at: at(NOON),
            rule: Rule::Provider(&provider[0]),
        };
        let limits = DrainLimits {
            protected_by: Some(Carrier::Node),
            budget: DrainBudget::UsedUp,
        };
        decide(&finding, pool, &fleet, &|| limits, unread, at(NOON))
    }

    fn by_policy(policy: &Policy, nodes: Vec<FleetNode<'_>>, drain: &DrainLimits) -> Result<(), Reason> {
        let fleet = Fleet { nodes, provider: &[] };
        let finding = Finding {
            at: at(NOON),
            rule: Rule::Policy(policy, &policy.conditions[0]),
        };
        // A policy that cannot be read holds the provider's rules only.
        let decided = decide(&finding, Some("a"), &fleet, &|| *drain, Some("broken"), at(NOON));
        decided.map_err(|block| match block {
            Block::Policy(name, reason) if *name == *"p" => reason,
            other => panic!("{other:?}"),
        })
    }

    // LIF-149, LIF-150
    #[test]
    fn the_provider_replaces_while_few_nodes_of_the_pool_are_unhealthy() {
        let both = |a: Vec<FleetNode<'static>>, b: Vec<FleetNode<'static>>| a.into_iter().chain(b).collect::<Vec<_>>();
        let table = [
            ("a fifth of four, rounded up", Some("a"), nodes(Some("a"), 1, 3), true),
            ("more", Some("a"), nodes(Some("a"), 2, 2), false),
            (
                "neither do sound nodes of others help",
                Some("a"),
                both(nodes(Some("a"), 2, 2), nodes(Some("b"), 0, 9)),
                false,
            ),
            (
                "nor do sick ones harm",
                Some("a"),
                both(nodes(Some("a"), 1, 3), nodes(None, 9, 0)),
                true,
            ),
            (
                "without pool, all nodes count",
                None,
                both(nodes(None, 1, 0), nodes(Some("a"), 1, 0)),
                false,
            ),
            (
                "those of pools too",
                None,
                both(nodes(None, 2, 0), nodes(Some("a"), 0, 4)),
                true,
            ),
        ];
        for (case, pool, nodes, may_go) in table {
            let expected = if may_go { Ok(()) } else { Err(Block::ProviderCap) };
            assert_eq!(by_provider(pool, nodes, None), expected, "{case}");
        }
    }

    #[test]
    fn an_unread_policy_holds_the_providers_rules() {
        let block = Block::Policy("broken".into(), Reason::Unread);
        assert_eq!(
            by_provider(Some("a"), nodes(Some("a"), 1, 3), Some("broken")),
            Err(block)
        );
    }

    #[test]
    fn a_policy_counts_nodes_with_a_claim_whatever_their_pool() {
        let replace = policy(Action::Replace, NodeShare::Percent(25));
        let mut sick = nodes(Some("a"), 1, 2);
        sick.extend(nodes(Some("b"), 0, 1));
        assert_eq!(by_policy(&replace, sick.clone(), &FREE), Ok(()));
        // Nodes without a claim are not there.
        sick.extend(nodes(None, 5, 0));
        assert_eq!(by_policy(&replace, sick.clone(), &FREE), Ok(()));
        sick.extend(nodes(Some("b"), 1, 0));
        sick.extend(nodes(None, 0, 50));
        assert_eq!(by_policy(&replace, sick.clone(), &FREE), Ok(()));
        sick.extend(nodes(Some("b"), 1, 0));
        assert_eq!(by_policy(&replace, sick, &FREE), Err(Reason::Paused(Pause::Cap(2))));
    }

    #[test]
    fn a_closed_window_is_waited_for_first() {
        let windows = vec![Window {
            schedule: "0 14 * * *".parse().expect("a schedule"),
            duration: GoDuration::from_secs(60),
        }];
        for action in [Action::Drain, Action::Replace] {
            let policy = Policy {
                windows: windows.clone(),
                ..policy(action, NodeShare::Count(0))
            };
            let opens = Some(at("2026-01-01T14:00:00Z"));
            assert_eq!(
                by_policy(&policy, nodes(Some("a"), 1, 0), &FREE),
                Err(Reason::Paused(Pause::Window(opens)))
            );
        }
        let health = Health {
            nodes: 3,
            unhealthy: 1,
            ..Health::default()
        };
        let policy = Policy {
            windows,
            ..policy(Action::Replace, NodeShare::Count(0))
        };
        let all: Vec<Pause> = pauses(&policy, &health, at("2026-01-01T14:01:00Z")).collect();
        assert_eq!(all, [Pause::Window(Some(at("2026-01-02T14:00:00Z"))), Pause::Cap(0)]);
        assert_eq!(pauses(&policy, &health, at("2026-01-01T14:00:00Z")).count(), 1);
    }

    #[test]
    fn only_a_drain_heeds_annotations_and_budgets() {
        let limits = |protected_by, budget| DrainLimits { protected_by, budget };
        let missing = |readable| DrainBudget::NoPool { readable };
        let table = [
            (limits(None, DrainBudget::Open), Ok(())),
            (
                limits(Some(Carrier::Node), DrainBudget::UsedUp),
                Err(Reason::Annotation(Carrier::Node)),
            ),
            (
                limits(Some(Carrier::Claim), DrainBudget::Open),
                Err(Reason::Annotation(Carrier::Claim)),
            ),
            (limits(None, DrainBudget::UsedUp), Err(Reason::Budget)),
            (limits(None, missing(true)), Err(Reason::NoPool { readable: true })),
            (limits(None, missing(false)), Err(Reason::NoPool { readable: false })),
        ];
        let sick = || nodes(Some("a"), 1, 0);
        for (limits, expected) in table {
            let all = NodeShare::Percent(100);
            assert_eq!(by_policy(&policy(Action::Drain, all), sick(), &limits), expected);
            assert_eq!(by_policy(&policy(Action::Replace, all), sick(), &limits), Ok(()));
            // What is only reported is held by nothing.
            assert_eq!(
                by_policy(&policy(Action::Report, NodeShare::Count(0)), sick(), &limits),
                Ok(())
            );
        }
    }

    #[test]
    fn a_drain_needs_room_in_the_budgets_besides_its_own_node() {
        let said = |nodes: &str, pool, change: &dyn Fn(&mut Node)| {
            let mut cluster = Cluster::new();
            cluster.pool("a", |pool| pool.disruption.budgets = vec![budget(nodes)]);
            cluster.node("a-1", change);
            cluster.node("a-2", |_| {});
            DrainBudget::of(pool, "p://a-1", &cluster.snapshot, |_| false, at(NOON))
        };
        let unready = |node: &mut Node| node.lifecycle.ready = false;
        // A node that turns unready soon after its initialization looks like one that starts.
        let starts_again = |node: &mut Node| {
            (node.initialized, node.lifecycle.ready) = (false, false);
            node.labels.push((sym::INITIALIZED, sym::TRUE));
            node.labels.sort_unstable();
        };
        for change in [&(|_: &mut Node| {}) as &dyn Fn(&mut Node), &unready, &starts_again] {
            assert_eq!(said("1", Some("a"), change), DrainBudget::Open);
            assert_eq!(said("0", Some("a"), change), DrainBudget::UsedUp);
            assert_eq!(said("0", None, change), DrainBudget::Open, "no pool, no budgets");
            // DIS-086
            assert_eq!(said("1", Some("b"), change), DrainBudget::NoPool { readable: false });
        }
    }
}
