//! What the checker can find wrong.

use std::fmt;
use std::sync::Arc;

/// How strictly a plan is judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckOptions {
    /// `minValues` must be met as the pool states it; otherwise as the launch, which may have lowered it, states it (section 18 of
    /// `docs/behaviour/scheduling.md`).
    pub strict_min_values: bool,
    /// Launches must hold the reservations they may use (gate ReservedCapacity, section 19 of `docs/behaviour/scheduling.md`).
    pub reserved_capacity: bool,
    /// How many arrivals may be tried when looking for an order in which all pods can be bound; 0 for the order the plan names alone.
    pub order_search_steps: u64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            strict_min_values: true,
            reserved_capacity: true,
            order_search_steps: 5_000_000,
        }
    }
}

/// The rule a plan breaks. Texts inside are already rendered.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "field names repeat the printed text")]
pub enum Rule {
    /// A pod handed in is in none of the plan's lists.
    Missing,
    /// A pod is in the plan more than once.
    Duplicate,
    /// A pod is in the plan that was not handed in.
    Unknown,
    /// A pod with validation faults was placed (SCH-014).
    FaultyPlaced { fault: String },
    /// A pod is ignored though nothing is wrong with it.
    IgnoredWithoutFault,
    /// The plan places pods on a machine the snapshot does not have.
    UnknownNode,
    /// The machine is going away (SCH-067).
    DeletingNode,
    /// An untolerated taint that keeps pods away (SCH-113).
    Taint { taint: String },
    /// The pod's node selector or required node affinity does not admit what the node is or may become.
    NodeAffinity { wanted: String },
    /// The sum of requests and daemon overhead is more than there is.
    Resources {
        resource: String,
        wanted: i64,
        available: i64,
    },
    /// Two pods want one host port (SCH-164).
    HostPort { port: String, other: String },
    /// A volume cannot be reached from the node (SCH-182).
    VolumeTopology { claim: String },
    /// More volumes of a driver than the node can attach (SCH-175).
    VolumeLimit { driver: String, count: u32, limit: u32 },
    /// No order of binding was found in which this spread constraint holds.
    Spread { key: String },
    /// The launch may still become any of several domains of a required spread constraint (SCH-214).
    SpreadUnpinned { key: String },
    /// No order of binding was found in which this pod affinity holds.
    Affinity { key: String },
    /// The search for an order of binding ran out of steps before it reached the pod.
    OrderNotFound,
    /// A pod may end in the same domain as one it repels, or that repels it (SCH-235, SCH-237).
    AntiAffinity { key: String },
    /// The launch is of a pool the snapshot does not have, or that may not launch (SCH-136, SCH-137).
    Pool { why: String },
    /// The launch's own data contradict each other or the pool.
    Launch { why: String },
    /// One of the offered instance types cannot be what the launch promises.
    InstanceType { name: String, why: String },
    /// The launches together may exceed a limit of the pool (SCH-146 to SCH-149).
    PoolLimit {
        resource: String,
        wanted: i64,
        remaining: i64,
    },
    /// The types offer fewer distinct values than required (SCH-275).
    MinValues { key: String, wanted: u32, offered: u32 },
    /// More launches hold a reservation than it has instances (SCH-291).
    Reservation { id: String, held: u32, capacity: u32 },
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the plan does not say what becomes of it"),
            Self::Duplicate => f.write_str("the plan names it more than once"),
            Self::Unknown => f.write_str("the plan names it though it was not handed in"),
            Self::FaultyPlaced { fault } => write!(f, "it was placed although validation refuses it: {fault}"),
            Self::IgnoredWithoutFault => f.write_str("it is ignored without a fault"),
            Self::UnknownNode => f.write_str("the snapshot has no such node"),
            Self::DeletingNode => f.write_str("the node is going away"),
            Self::Taint { taint } => write!(f, "the taint {taint} is not tolerated"),
            Self::NodeAffinity { wanted } => write!(f, "node selector or affinity not met: {wanted}"),
            Self::Resources {
                resource,
                wanted,
                available,
            } => {
                write!(f, "{wanted} {resource} wanted in all, {available} available")
            }
            Self::HostPort { port, other } => write!(f, "host port {port} is taken by {other}"),
            Self::VolumeTopology { claim } => write!(f, "the volume of claim {claim} cannot be reached"),
            Self::VolumeLimit { driver, count, limit } => {
                write!(f, "{count} volumes of {driver}, {limit} can be attached")
            }
            Self::Spread { key } => write!(f, "topology spread over {key} not met in any order tried"),
            Self::SpreadUnpinned { key } => write!(f, "topology spread over {key} needs one domain, several are open"),
            Self::Affinity { key } => write!(f, "pod affinity over {key} not met in any order tried"),
            Self::OrderNotFound => f.write_str("no order of binding was found within the steps allowed"),
            Self::AntiAffinity { key } => write!(f, "pod anti-affinity over {key} may be broken"),
            Self::Pool { why } => write!(f, "the pool cannot launch: {why}"),
            Self::Launch { why } => f.write_str(why),
            Self::InstanceType { name, why } => write!(f, "instance type {name}: {why}"),
            Self::PoolLimit {
                resource,
                wanted,
                remaining,
            } => {
                write!(
                    f,
                    "launches may need {wanted} {resource}, the pool's limit leaves {remaining}"
                )
            }
            Self::MinValues { key, wanted, offered } => {
                write!(f, "minValues of {key} is {wanted}, the types offer {offered}")
            }
            Self::Reservation { id, held, capacity } => {
                write!(f, "reservation {id} is held {held} times, it has {capacity}")
            }
        }
    }
}

/// One thing wrong with a plan.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Violation {
    /// The node or launch concerned: a node's name, or `<pool>-<n>` counting the plan's launches of the pool from one.
    pub node: Option<Arc<str>>,
    /// The pod concerned, as `namespace/name`.
    pub pod: Option<Arc<str>>,
    /// What is wrong.
    pub rule: Rule,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pod, &self.node) {
            (Some(pod), Some(node)) => write!(f, "pod {pod} on node {node}: ")?,
            (Some(pod), None) => write!(f, "pod {pod}: ")?,
            (None, Some(node)) => write!(f, "node {node}: ")?,
            (None, None) => {}
        }
        self.rule.fmt(f)
    }
}

/// Collects violations.
#[derive(Default)]
pub(crate) struct Violations(pub(crate) Vec<Violation>);

impl Violations {
    /// Adds a violation by a pod, wherever it is.
    pub(crate) fn add_for_pod(&mut self, pod: &str, rule: Rule) {
        self.0.push(Violation {
            node: None,
            pod: Some(pod.into()),
            rule,
        });
    }

    /// Adds a violation by a machine: a node, a launch or a pool.
    pub(crate) fn add_for_node(&mut self, node: &str, rule: Rule) {
        self.0.push(Violation {
            node: Some(node.into()),
            pod: None,
            rule,
        });
    }

    /// Adds a violation by a pod on a machine.
    pub(crate) fn add_for_placement(&mut self, node: &str, pod: &str, rule: Rule) {
        self.0.push(Violation {
            node: Some(node.into()),
            pod: Some(pod.into()),
            rule,
        });
    }

    /// As [`Self::add_for_placement`], unless the same violation is there already.
    pub(crate) fn add_for_placement_if_new(&mut self, node: &str, pod: &str, rule: Rule) {
        let is_known = |known: &Violation| {
            known.rule == rule && known.node.as_deref() == Some(node) && known.pod.as_deref() == Some(pod)
        };
        if !self.0.iter().any(is_known) {
            self.add_for_placement(node, pod, rule);
        }
    }
}
