//! Broken rules of the plan checker.

use super::BrokenRule;

pub(super) const RULES: &[BrokenRule] = &[
    BrokenRule {
        rule: "SCH-148",
        effect: "the plan checker takes any type for a limit, not the largest",
        file: "crates/check/src/limits.rs",
        code: "*known = amount.max(*known);",
        broken: "*known = amount.min(*known);",
        tests: "-p kerf-check",
    },
    BrokenRule {
        rule: "SCH-147",
        effect: "the plan checker lets a pool over its limit launch",
        file: "crates/check/src/limits.rs",
        code: "if wanted > remaining || remaining < 0 {",
        broken: "if wanted > remaining.max(0) {",
        tests: "-p kerf-check",
    },
    BrokenRule {
        rule: "SCH-164",
        effect: "the plan checker overlooks ports of daemons",
        file: "crates/check/src/existing.rs",
        code: "taken.extend(shape.host_ports.iter().map(|port| ((*name).to_owned(), port)));",
        broken: "let _ = (name, shape);",
        tests: "-p kerf-check",
    },
    BrokenRule {
        rule: "SCH-032",
        effect: "the plan checker lets pods onto nodes that go",
        file: "crates/check/src/existing.rs",
        code: "if node.marked_for_deletion || node.lifecycle.deleting {",
        broken: "if node.lifecycle.deleting {",
        tests: "-p kerf-check",
    },
    BrokenRule {
        rule: "SCH-304",
        effect: "the plan checker lets one reservation be held twice",
        file: "crates/check/src/limits.rs",
        code: "*held.entry(*id).or_default() += 1;",
        broken: "held.insert(*id, 1);",
        tests: "-p kerf-check",
    },
    BrokenRule {
        rule: "SCH-213",
        effect: "the plan checker lets a domain exceed maxSkew by one pod",
        file: "crates/check/src/topology/spread.rs",
        code: "saturating_sub(smallest) > self.constraint.max_skew {",
        broken: "saturating_sub(smallest) > self.constraint.max_skew + 1 {",
        tests: "-p kerf-check",
    },
    BrokenRule {
        rule: "SCH-229",
        effect: "the plan checker lets a pod that does not attract itself be the first one",
        file: "crates/check/src/topology/affinity.rs",
        code: "attracted || (nobody && self.counts(self.owner))",
        broken: "attracted || nobody",
        tests: "-p kerf-check",
    },
    BrokenRule {
        rule: "SCH-233",
        effect: "the plan checker lets pods attract to a domain that their launch may not end in",
        file: "crates/check/src/topology/affinity.rs",
        code: "self.open.contains(&site) || all.is_subset(domains)",
        broken: "!self.open.is_empty() || all.is_subset(domains)",
        tests: "-p kerf-check",
    },
];
