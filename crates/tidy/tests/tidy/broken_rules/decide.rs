//! Broken rules of the two decisions.

use super::BrokenRule;

pub(super) const RULES: &[BrokenRule] = &[
    BrokenRule {
        rule: "DIS-034",
        effect: "candidates are kept though an object can no longer be read",
        file: "crates/decide/src/candidate_cache.rs",
        code: "            && self.unread == inputs.settings.unread\n",
        broken: "",
        tests: "-p kerf-decide --test all unread",
    },
    BrokenRule {
        rule: "DIS-315",
        effect: "the epoch of consolidation is read after the snapshot",
        file: "crates/decide/src/consolidate.rs",
        code: "epoch: inputs.in_flight.consolidation_epoch,",
        broken: "epoch: 0,",
        tests: "-p kerf-decide",
    },
    BrokenRule {
        rule: "DIS-126",
        effect: "a search in vain is never repeated while nothing changes",
        file: "crates/decide/src/memory.rs",
        code: "REPEAT_AFTER: SignedDuration = SignedDuration::from_mins(5);",
        broken: "REPEAT_AFTER: SignedDuration = SignedDuration::from_mins(500);",
        tests: "-p kerf-decide -p kerf-controllers",
    },
    BrokenRule {
        rule: "DIS-125",
        effect: "a search that ran out of time counts as in vain",
        file: "crates/decide/src/memory.rs",
        code: "!self.found && !self.constrained && !self.timed_out",
        broken: "!self.found && !self.constrained",
        tests: "-p kerf-decide",
    },
    BrokenRule {
        rule: "SCH-031",
        effect: "pods of going nodes that a machine was launched for are planned again",
        file: "crates/decide/src/provision.rs",
        code: "moving.into_iter().filter(|pod| !served.contains(&*pod.uid)).cloned()",
        broken: "moving.into_iter().cloned()",
        tests: "-p kerf-decide",
    },
    BrokenRule {
        rule: "SCH-008",
        effect: "a pod that kube-scheduler has not tried is reported as left over",
        file: "crates/decide/src/provision.rs",
        code: "plan.unschedulable.retain(|left| !untried.contains(&*left.pod.uid));",
        broken: "",
        tests: "-p kerf-decide",
    },
    BrokenRule {
        rule: "SCH-045",
        effect: "a machine is launched for a pod whose node is full while others are still bound",
        file: "crates/decide/src/provision.rs",
        code: "if binding.goes_on(&plan.plan) {",
        broken: "if false {",
        tests: "-p kerf-decide",
    },
    BrokenRule {
        rule: "SCH-047",
        effect: "pods left over by a deadline do not come first",
        file: "crates/decide/src/fairness.rs",
        code: "if self.unreached.is_empty() {",
        broken: "if self.reached < usize::MAX {",
        tests: "-p kerf-decide",
    },
    BrokenRule {
        rule: "DIS-249",
        effect: "static pools drift though the gate is off",
        file: "crates/decide/src/static_drift.rs",
        code: "if !inputs.settings.static_capacity {",
        broken: "if inputs.snapshot.pools.is_empty() {",
        tests: "-p kerf-decide",
    },
];
