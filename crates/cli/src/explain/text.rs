//! Explanations as text: facts in two columns, refusals grouped by what they say.

use crate::listed::listed;
use crate::simulate::ReasonReport;

/// A text in the making.
#[derive(Default)]
pub(super) struct Paragraphs(String);

/// How many machines a line names.
const NAMES_SHOWN: usize = 5;

impl Paragraphs {
    pub(super) fn line(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    pub(super) fn blank(&mut self) {
        self.0.push('\n');
    }

    /// Names and values in two columns.
    pub(super) fn table(&mut self, facts: &[(String, String)]) {
        let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in facts {
            self.line(&format!("  {name:<width$}  {value}"));
        }
    }

    /// Refusals under a heading: the pool or node, the nearest candidate, and the first cause. Equal refusals are grouped.
    pub(super) fn refusals(&mut self, heading: &str, refusals: &[&ReasonReport]) {
        if refusals.is_empty() {
            return;
        }
        let mut groups: Vec<(&ReasonReport, Vec<&str>)> = Vec::new();
        for refusal in refusals {
            let by = refusal.node.as_deref().or(refusal.node_pool.as_deref());
            // The name of the pool may be part of what it says.
            let same = |other: &ReasonReport| {
                (other.code, &other.nearest_miss) == (refusal.code, &refusal.nearest_miss)
                    && other.message == refusal.message
            };
            match groups.iter_mut().find(|(first, _)| same(first)) {
                Some((_, names)) => names.extend(by),
                None => groups.push((refusal, Vec::from_iter(by))),
            }
        }
        self.blank();
        self.line(heading);
        for (refusal, names) in groups {
            self.line(&format!("  {}: {}", listed(&names, NAMES_SHOWN), refusal.code));
            if let Some(miss) = &refusal.nearest_miss {
                self.line(&format!("    {miss}"));
            }
            self.line(&format!("    {}", refusal.message));
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}
