//! What the checker can find wrong.

use std::fmt;
use std::sync::Arc;

/// How strictly a plan is judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckOptions {
    /// `minValues` must be met as the pool states it; otherwise as the launch (possibly lowered) states it (section 18).
    pub strict_min_values: bool,
    /// Launches must hold the reservations they may use (gate ReservedCapacity, section 19).
    pub reserved_capacity: bool,
    /// How many partial orders of arrival may be tried before a topology is called unsatisfiable.
    pub order_search_steps: u32,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            strict_min_values: true,
            reserved_capacity: true,
            order_search_steps: 200_000,
        }
    }
}

/// The rule a plan breaks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// A pod handed in is in none of the plan's lists.
    Missing,
    /// A pod is in the plan more than once.
    Duplicate,
    /// A pod is in the plan that was not handed in.
    Unknown,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the plan does not say what becomes of it"),
            Self::Duplicate => f.write_str("the plan names it more than once"),
            Self::Unknown => f.write_str("the plan names it though it was not handed in"),
        }
    }
}

/// One thing wrong with a plan.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Violation {
    /// The pod concerned, as `namespace/name`.
    pub pod: Option<Arc<str>>,
    /// The node or launch concerned: a node's name, or `<pool>-<n>` counting the plan's launches of the pool from one.
    pub node: Option<Arc<str>>,
    /// What is wrong.
    pub rule: Rule,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pod) = &self.pod {
            write!(f, "pod {pod}")?;
        }
        if let Some(node) = &self.node {
            write!(f, "{}node {node}", if self.pod.is_some() { " on " } else { "" })?;
        }
        write!(f, ": {}", self.rule)
    }
}
