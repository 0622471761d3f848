//! A command: nodes that are disrupted together, and the replacements that must be ready first.

use crate::candidate::Candidate;
use kerf_model::budget::DisruptionReason;
use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;

/// A decision to disrupt nodes. Any number of nodes may be replaced by any number of launches.
#[derive(Clone, Debug)]
pub struct Command {
    /// The reason.
    pub reason: DisruptionReason,
    /// The nodes to disrupt.
    pub candidates: Vec<Candidate>,
    /// The machines that must be initialized before the nodes go.
    pub replacements: Vec<Launch>,
    /// The plan for the pods that move, for nominations and events; `None` if no pod moves.
    pub plan: Option<Plan>,
}

/// Delete or replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Nothing replaces the nodes.
    Delete,
    /// Launches replace the nodes.
    Replace,
}

impl Decision {
    /// The word in messages and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Replace => "replace",
        }
    }
}

/// A price per hour as commands print it, such as `$0.25`.
pub fn dollars(price: Price) -> String {
    format!("${:.2}", price.per_hour())
}

impl Command {
    /// Delete or replace.
    pub fn decision(&self) -> Decision {
        if self.replacements.is_empty() {
            Decision::Delete
        } else {
            Decision::Replace
        }
    }

    /// The price of the nodes per hour, as far as it is known.
    pub fn price_before(&self) -> Price {
        self.candidates.iter().map(|candidate| candidate.price).sum()
    }

    /// The price of their replacements per hour.
    pub fn price_after(&self) -> Price {
        self.replacements.iter().filter_map(Launch::price).sum()
    }

    /// The price of the nodes minus the price of their replacements, per hour. Negative if replacements cost more, as drift may do.
    pub fn savings(&self) -> Price {
        self.price_before() - self.price_after()
    }

    /// The short text (DIS-293): `delete: [n1, n2]`, `replace: [n1] -> [1 replacement]`.
    pub fn short(&self) -> String {
        let names: Vec<&str> = self.candidates.iter().map(|candidate| &*candidate.node.name).collect();
        format!("{}: [{}]{}", self.decision().as_str(), names.join(", "), self.arrow())
    }

    /// The full text (DIS-292); `id` is a fresh unique id.
    pub fn full(&self, id: &str) -> String {
        let mut pools: Vec<&str> = Vec::new();
        for candidate in &self.candidates {
            if !pools.contains(&&*candidate.pool.name) {
                pools.push(&candidate.pool.name);
            }
        }
        let names: Vec<&str> = self.candidates.iter().map(|candidate| &*candidate.node.name).collect();
        format!(
            "{}/{id}: {}: nodepools=[{}]: [{}]{} (savings: {})",
            self.reason.as_str(),
            self.decision().as_str(),
            pools.join(","),
            names.join(", "),
            self.arrow(),
            dollars(self.savings()),
        )
    }

    /// The text of one node's event: the short text, or the node's part in it where several go (DIS-293, DIS-294).
    pub fn of_node(&self, node: &str) -> String {
        match self.candidates.len() {
            0 | 1 => self.short(),
            several => format!(
                "{}: [{node}] (part of {several}-node consolidation)",
                self.decision().as_str()
            ),
        }
    }

    fn arrow(&self) -> String {
        match self.replacements.len() {
            0 => String::new(),
            1 => " -> [1 replacement]".to_owned(),
            n => format!(" -> [{n} replacements]"),
        }
    }
}
