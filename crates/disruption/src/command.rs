//! A command: nodes that go together, and what must be ready before they do.

use crate::candidate::Candidate;
use kerf_model::budget::DisruptionReason;
use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;
use std::sync::Arc;

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

/// A node that stays though it was a candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Its index in the snapshot.
    pub index: usize,
    /// Why.
    pub why: Stay,
}

/// Why a method leaves a candidate alone; prints the text of its event.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stay {
    /// The pool's `consolidateAfter` is `Never` (DIS-117, DIS-150).
    #[error("NodePool \"{0}\" has consolidation disabled")]
    ConsolidationDisabled(Arc<str>),
    /// Pods of it would find no place; the sentence of DIS-103.
    #[error("{0}")]
    Unplaceable(String),
}

impl Stay {
    /// The event's message: the text with a capital at its start.
    pub fn message(&self) -> String {
        capitalized(&self.to_string())
    }
}

/// The text with a capital at its start.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next();
    first
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
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
            "{}/{id}: {}: nodepools=[{}]: [{}]{} (savings: ${:.2})",
            self.reason.as_str(),
            self.decision().as_str(),
            pools.join(","),
            names.join(", "),
            self.arrow(),
            self.savings().per_hour(),
        )
    }

    fn arrow(&self) -> String {
        match self.replacements.len() {
            0 => String::new(),
            1 => " -> [1 replacement]".to_owned(),
            n => format!(" -> [{n} replacements]"),
        }
    }
}
