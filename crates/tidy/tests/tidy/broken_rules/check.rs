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
];
