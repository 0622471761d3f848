//! A command: nodes that go together, and what must be ready before they do.

use crate::candidate::Candidate;
use kerf_model::budget::DisruptionReason;
use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;

/// What is to be done. Any number of nodes may be replaced by any number of launches.
#[derive(Clone, Debug)]
pub struct Command {
    /// Why.
    pub reason: DisruptionReason,
    /// The nodes that go.
    pub candidates: Vec<Candidate>,
    /// What must be initialised first.
    pub replacements: Vec<Launch>,
    /// The simulation behind it, for nominations and events; none where nothing needed a place.
    pub plan: Option<Plan>,
}

/// Delete or replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Nothing replaces the nodes.
    Delete,
    /// Something does.
    Replace,
}

impl Decision {
    /// As texts and metric labels have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Replace => "replace",
        }
    }
}

/// An amount per hour as command texts have it.
pub fn dollars(price: Price) -> String {
    format!("${:.2}", price.per_hour())
}

/// The text with a capital at its start where that is an ASCII letter, as our sentences' are.
pub(crate) fn capitalized(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
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

    /// What the nodes cost less what replaces them; negative where replacements are dearer (drift may be).
    pub fn savings(&self) -> Price {
        let before: Price = self.candidates.iter().map(|candidate| candidate.price).sum();
        let after: Price = self.replacements.iter().filter_map(Launch::price).sum();
        before - after
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
