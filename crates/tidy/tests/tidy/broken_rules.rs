//! Rules of the behaviour, broken one at a time in a copy of the tree: the tests have to notice each.
//!
//! `cargo test -p kerf-tidy --test tidy broken_rules -- --ignored --nocapture` tries all; `KERF_BROKEN_RULES=DIS-0` only those whose rule or
//! file contains the text. It takes about a minute per rule.

use crate::source::root;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A rule, and a change of one file that breaks it.
struct BrokenRule {
    /// The statement of `docs/behaviour`.
    rule: &'static str,
    /// What the changed code does instead.
    effect: &'static str,
    /// The file, relative to the root.
    file: &'static str,
    /// What stands there, once.
    code: &'static str,
    /// What stands there instead.
    broken: &'static str,
    /// What `cargo test` is given to run the tests that should fail.
    tests: &'static str,
}

const BROKEN_RULES: &[BrokenRule] = &[
    BrokenRule {
        rule: "SCH-079",
        effect: "a bound pod is given a decision time",
        file: "crates/state/src/in_flight/pod_times.rs",
        code: "time.schedulable.get_or_insert(now);",
        broken: "time.schedulable = Some(now);",
        tests: "-p kerf-state",
    },
    BrokenRule {
        rule: "LIF-165",
        effect: "the status of a NodePool counts nodes that go",
        file: "crates/state/src/mirror/pools.rs",
        code: "let node = node.filter(|node| !node.marked_for_deletion)?;",
        broken: "let node = node?;",
        tests: "-p kerf-state",
    },
    BrokenRule {
        rule: "LIF-165",
        effect: "the status of a NodePool leaves its usage as it was when a node goes",
        file: "crates/state/src/mirror/pools.rs",
        code: "used.subtract(&capacity);",
        broken: "let _ = &capacity;",
        tests: "-p kerf-state",
    },
    BrokenRule {
        rule: "LIF-207",
        effect: "a pod that ends does not let consolidation search again",
        file: "crates/state/src/mirror/publish.rs",
        code: "(before.initialized && (has_changed(before) || freed(before)))",
        broken: "(before.initialized && has_changed(before))",
        tests: "-p kerf-state",
    },
    BrokenRule {
        rule: "LIF-087",
        effect: "a drain takes 9 seconds at least",
        file: "crates/controllers/src/termination/pass.rs",
        code: "SignedDuration::from_secs(5);",
        broken: "SignedDuration::from_secs(9);",
        tests: "-p kerf-controllers --test all simulation::termination",
    },
    BrokenRule {
        rule: "SCH-034",
        effect: "pods are examined again every 20 seconds",
        file: "crates/controllers/src/provisioning/trigger.rs",
        code: "const AGAIN: Duration = Duration::from_secs(10);",
        broken: "const AGAIN: Duration = Duration::from_secs(20);",
        tests: "-p kerf-controllers --test all provisioning",
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
        rule: "DIS-073",
        effect: "the last budget counts, not the least",
        file: "crates/model/src/budget.rs",
        code: "least = Some(least.map_or(allowed, |least: u32| least.min(allowed)));",
        broken: "least = Some(allowed);",
        tests: "-p kerf-model -p kerf-disruption",
    },
    BrokenRule {
        rule: "DIS-074",
        effect: "shares of budgets round down",
        file: "crates/model/src/budget.rs",
        code: "(u64::from(nodes) * u64::from(share)).div_ceil(100)",
        broken: "(u64::from(nodes) * u64::from(share)) / 100",
        tests: "-p kerf-model",
    },
    BrokenRule {
        rule: "DIS-079",
        effect: "an invalid budget is passed over",
        file: "crates/model/src/budget.rs",
        code: "let budget = budget.as_ref().map_err(Clone::clone)?;",
        broken: "let Ok(budget) = budget else { continue };",
        tests: "-p kerf-model -p kerf-disruption",
    },
    BrokenRule {
        rule: "DIS-077",
        effect: "a budget whose window never comes limits nothing",
        file: "crates/model/src/budget.rs",
        code: ".unwrap_or(true)",
        broken: ".unwrap_or(false)",
        tests: "-p kerf-model",
    },
    BrokenRule {
        rule: "DIS-081",
        effect: "nodes that are not ready count as available",
        file: "crates/disruption/src/allowance.rs",
        code: "u32::from(!node.lifecycle.ready || node.marked_for_deletion",
        broken: "u32::from(node.marked_for_deletion",
        tests: "-p kerf-disruption",
    },
    BrokenRule {
        rule: "DIS-086",
        effect: "a pool nobody knows has a budget",
        file: "crates/disruption/src/allowance.rs",
        code: "self.0.get(pool).map_or(0, |pool| pool.left)",
        broken: "self.0.get(pool).map_or(1, |pool| pool.left)",
        tests: "-p kerf-disruption",
    },
    BrokenRule {
        rule: "DIS-028",
        effect: "a nomination blocks for ever",
        file: "crates/disruption/src/candidate.rs",
        code: "node.nominated_until.filter(|until| moment.now < *until);",
        broken: "node.nominated_until;",
        tests: "-p kerf-disruption",
    },
    BrokenRule {
        rule: "DIS-029",
        effect: "do-not-disrupt on a Node is overlooked",
        file: "crates/disruption/src/candidate.rs",
        code: "node.lifecycle.do_not_disrupt.then_some(Blocker::NodeAnnotation)",
        broken: "(node.lifecycle.do_not_disrupt && !node.managed).then_some(Blocker::NodeAnnotation)",
        tests: "-p kerf-disruption",
    },
    BrokenRule {
        rule: "DIS-038",
        effect: "pods never block a node with a termination grace period",
        file: "crates/disruption/src/candidate.rs",
        code: "class == Class::Eventual && node.lifecycle.termination_grace_seconds.is_some();",
        broken: "node.lifecycle.termination_grace_seconds.is_some();",
        tests: "-p kerf-disruption",
    },
    BrokenRule {
        rule: "DIS-150",
        effect: "nodes of pools without consolidation are deleted when empty",
        file: "crates/disruption/src/emptiness.rs",
        code: "candidate.is_empty() && candidate.node.lifecycle.consolidatable",
        broken: "candidate.is_empty()",
        tests: "-p kerf-disruption",
    },
    BrokenRule {
        rule: "DIS-154",
        effect: "emptiness takes nodes that pods were promised meanwhile",
        file: "crates/disruption/src/emptiness.rs",
        code: ".filter(|candidate| !nominated(&candidate.node.name) && allowance.take(&candidate.pool.name))",
        broken: ".filter(|candidate| allowance.take(&candidate.pool.name))",
        tests: "-p kerf-disruption -p kerf-decide",
    },
    BrokenRule {
        rule: "LIF-099",
        effect: "a drain does not wait for its first group",
        file: "crates/lifecycle/src/drain.rs",
        code: "waiting.iter().filter(|pod| Some(group(pod)) == first);",
        broken: "waiting.iter().filter(|pod| first.is_some() && group(pod) < 4);",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-104",
        effect: "pods that are stuck hold a drain up",
        file: "crates/lifecycle/src/drain.rs",
        code: "!stuck && pod.owner != Owner::Node",
        broken: "pod.owner != Owner::Node",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-107",
        effect: "pods are deleted before the deadline though their grace fits",
        file: "crates/lifecycle/src/drain.rs",
        code: "left < SignedDuration::from_secs(grace)",
        broken: "left < SignedDuration::from_secs(grace + 60)",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-051",
        effect: "a launch may take ten minutes",
        file: "crates/lifecycle/src/liveness.rs",
        code: "launch: Duration::from_secs(5 * 60),",
        broken: "launch: Duration::from_secs(10 * 60),",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-053",
        effect: "a timeout is never reached",
        file: "crates/lifecycle/src/liveness.rs",
        code: "Ok(left) if !left.is_zero() => Liveness::Waiting(left),",
        broken: "Ok(left) => Liveness::Waiting(left),",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-178",
        effect: "nodes with protected pods go first",
        file: "crates/lifecycle/src/deletion_order.rs",
        code: "Self::Protected(cost) => (2, cost),",
        broken: "Self::Protected(cost) => (0, cost),",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-177",
        effect: "nodes with daemons alone count as loaded",
        file: "crates/lifecycle/src/deletion_order.rs",
        code: "(false, true) => Self::Nothing,",
        broken: "(false, true) => Self::Pods(cost + 1.0),",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-148",
        effect: "the later finding acts first",
        file: "crates/lifecycle/src/repair/findings.rs",
        code: "order(a).cmp(&order(b))",
        broken: "order(b).cmp(&order(a))",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-150",
        effect: "a third of the nodes may be unhealthy",
        file: "crates/lifecycle/src/repair/findings.rs",
        code: "const PROVIDER_CAP_PERCENT: usize = 20;",
        broken: "const PROVIDER_CAP_PERCENT: usize = 33;",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "LIF-149",
        effect: "the cap rounds down",
        file: "crates/lifecycle/src/repair/findings.rs",
        code: "unhealthy <= (nodes * PROVIDER_CAP_PERCENT).div_ceil(100)",
        broken: "unhealthy <= (nodes * PROVIDER_CAP_PERCENT) / 100",
        tests: "-p kerf-lifecycle",
    },
    BrokenRule {
        rule: "SCH-113",
        effect: "a toleration of another effect tolerates",
        file: "crates/model/src/taint.rs",
        code: "if self.effect.is_some_and(|effect| effect != taint.effect) {",
        broken: "if self.effect.is_some_and(|effect| effect != taint.effect) && self.key.is_none() {",
        tests: "-p kerf-model",
    },
    BrokenRule {
        rule: "SCH-113",
        effect: "tolerations compare numbers the wrong way round",
        file: "crates/model/src/taint.rs",
        code: "integers().is_some_and(|(taint, bound)| taint < bound),",
        broken: "integers().is_some_and(|(taint, bound)| taint > bound),",
        tests: "-p kerf-model",
    },
    BrokenRule {
        rule: "SCH-027",
        effect: "a time of protection begins never",
        file: "crates/model/src/pod.rs",
        code: ".is_none_or(|start| now.as_nanosecond()",
        broken: ".is_some_and(|start| now.as_nanosecond()",
        tests: "-p kerf-model -p kerf-disruption -p kerf-lifecycle",
    },
    BrokenRule {
        rule: "SCH-026",
        effect: "pods that are going count as active",
        file: "crates/model/src/pod.rs",
        code: "!self.phase.is_terminal() && self.deletion.is_none()",
        broken: "!self.phase.is_terminal()",
        tests: "-p kerf-model -p kerf-disruption -p kerf-state",
    },
    BrokenRule {
        rule: "DIS-077",
        effect: "a window is closed at the moment it opens",
        file: "crates/units/src/cron.rs",
        code: "self.next_after(from).map(|hit| hit <= now)",
        broken: "self.next_after(from).map(|hit| hit < now)",
        tests: "-p kerf-units",
    },
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
        rule: "SCH-149",
        effect: "a pool launches beyond its limit of nodes",
        file: "crates/scheduler/src/compile/limits.rs",
        code: "limit.name == sym::NODES && *left == 0",
        broken: "limit.name == sym::NODES && *left < 0",
        tests: "-p kerf-scheduler",
    },
    BrokenRule {
        rule: "SCH-155",
        effect: "daemons that do not tolerate PreferNoSchedule are left out",
        file: "crates/scheduler/src/compile/daemons.rs",
        code: "tolerations.push(Toleration::prefer_no_schedule());",
        broken: "",
        tests: "-p kerf-scheduler",
    },
    BrokenRule {
        rule: "SCH-081",
        effect: "bound pods get success times",
        file: "crates/controllers/src/provisioning/report.rs",
        code: "for pod in launch.pods.iter().filter(|pod| pod.node_name.is_none()) {",
        broken: "for pod in &launch.pods {",
        tests: "-p kerf-controllers --lib provisioning",
    },
    BrokenRule {
        rule: "SCH-323",
        effect: "a claim is created for another pool of the planned name",
        file: "crates/controllers/src/creation/create.rs",
        code: "if current.is_none_or(|current| current.metadata.uid != pool.metadata.uid) {",
        broken: "if current.is_none() {",
        tests: "-p kerf-controllers --lib creation",
    },
    BrokenRule {
        rule: "SCH-144",
        effect: "the event of an empty pool names the wrong cause",
        file: "crates/controllers/src/provisioning/events.rs",
        code: "let cause = if min_values {",
        broken: "let cause = if !min_values {",
        tests: "-p kerf-controllers --lib provisioning",
    },
    BrokenRule {
        rule: "LIF-016",
        effect: "a bucket of the lifecycle gives ten times as many repetitions",
        file: "crates/controllers/src/lifecycle/controller.rs",
        code: "limit.with_worker_bucket(workers, 10, 1000)",
        broken: "limit.with_worker_bucket(workers, 100, 1000)",
        tests: "-p kerf-controllers --lib controller_manager",
    },
    BrokenRule {
        rule: "LIF-225",
        effect: "hydration has no common bucket",
        file: "crates/controllers/src/hydration.rs",
        code: "WorkLoop::new(context, side.name(), RateLimit::SHARED)",
        broken: "WorkLoop::new(context, side.name(), RateLimit::DEFAULT)",
        tests: "-p kerf-controllers --lib controller_manager",
    },
    BrokenRule {
        rule: "LIF-059",
        effect: "claims of a deleted pool count for its namesake",
        file: "crates/controllers/src/lifecycle/pool_health.rs",
        code: "owner.kind == NodePool::kind(&()) && owner.uid == uid",
        broken: "owner.kind == NodePool::kind(&())",
        tests: "-p kerf-controllers --lib lifecycle",
    },
    BrokenRule {
        rule: "LIF-079",
        effect: "the finalizer is removed from whatever the claim has become",
        file: "crates/controllers/src/lifecycle/finalize.rs",
        code: "let written = write_object(context, claim, &after, Lock::Optimistic).await?;",
        broken: "let written = write_object(context, claim, &after, Lock::None).await?;",
        tests: "-p kerf-controllers --lib lifecycle",
    },
    BrokenRule {
        rule: "LIF-082",
        effect: "a Node whose provider id has several claims ends one of them",
        file: "crates/controllers/src/termination/pass.rs",
        code: "[only] => Some(Arc::clone(only)),",
        broken: "[only, ..] => Some(Arc::clone(only)),",
        tests: "-p kerf-controllers --test all simulation::duplicate_ids",
    },
    BrokenRule {
        rule: "LIF-082",
        effect: "a deletion ignores the UID",
        file: "crates/controllers/src/deletion.rs",
        code: "uid: uid.map(str::to_owned),",
        broken: "uid: uid.map(str::to_owned).filter(|_| false),",
        tests: "-p kerf-controllers --lib deletion",
    },
    BrokenRule {
        rule: "LIF-108",
        effect: "an eviction leaves no time",
        file: "crates/controllers/src/termination/eviction.rs",
        code: "\"deleteOptions\": exactly(Some(&key.uid)),",
        broken: "\"deleteOptions\": exactly(Some(&key.uid)).grace_period(0),",
        tests: "-p kerf-controllers --lib termination",
    },
    BrokenRule {
        rule: "LIF-202",
        effect: "terminal pods count on the node they ran on",
        file: "crates/state/src/mirror/fold.rs",
        code: "self.base.node_name.as_ref().filter(|_| !self.base.phase.is_terminal())",
        broken: "self.base.node_name.as_ref()",
        tests: "-p kerf-state",
    },
    BrokenRule {
        rule: "DIS-216",
        effect: "claims are examined every fifty minutes",
        file: "crates/controllers/src/disruption/conditions.rs",
        code: "const AGAIN: Duration = Duration::from_secs(5 * 60);",
        broken: "const AGAIN: Duration = Duration::from_secs(50 * 60);",
        tests: "-p kerf-controllers --lib disruption",
    },
    BrokenRule {
        rule: "DIS-216",
        effect: "claims that go are given conditions",
        file: "crates/controllers/src/disruption/conditions.rs",
        code: "cluster.claim(name).filter(|claim| !claim_facts::is_deleting(claim));",
        broken: "cluster.claim(name);",
        tests: "-p kerf-controllers --lib disruption",
    },
    BrokenRule {
        rule: "DIS-274",
        effect: "nodes go when one of several replacements is ready",
        file: "crates/controllers/src/disruption/queue.rs",
        code: "waiting.then_some(Finding::Waiting)",
        broken: "(waiting && command.replacements.iter().all(|one| !one.initialized)).then_some(Finding::Waiting)",
        tests: "-p kerf-controllers --lib disruption",
    },
    BrokenRule {
        rule: "SCH-165",
        effect: "a conflict of host ports shows the pod's port twice",
        file: "crates/scheduler/src/output/reasons/nodes.rs",
        code: "|(held, _)| fields(\"existing\", held)",
        broken: "|(_, wanted)| fields(\"existing\", wanted)",
        tests: "-p kerf-scheduler",
    },
    BrokenRule {
        rule: "SCH-320",
        effect: "a claim asks for the overhead of one partition",
        file: "crates/scheduler/src/output/launches.rs",
        code: "left.fold(first.clone(), |one, other| least(&one, other));",
        broken: "left.fold(first.clone(), |one, _| one);",
        tests: "-p kerf-scheduler",
    },
    BrokenRule {
        rule: "SCH-336",
        effect: "a type without offering is said to lack resources",
        file: "crates/model/src/plan.rs",
        code: "(true, true, true) if self.requirements_and_resources => {",
        broken: "(true, true, true) if self.requirements_and_resources && false => {",
        tests: "-p kerf-scheduler",
    },
];

/// Rules that no test notices, with the reason. The test fails when one of them is noticed after all.
const UNNOTICED: &[(&str, &str)] = &[];

#[test]
fn broken_rules_name_code_that_is_there_once() {
    let mut stale = Vec::new();
    for BrokenRule { rule, file, code, .. } in BROKEN_RULES {
        let found = std::fs::read_to_string(root().join(file)).unwrap_or_default();
        let count = found.matches(code).count();
        if count != 1 {
            stale.push(format!("{rule}: {file} has {count} times: {code}"));
        }
    }
    assert!(stale.is_empty(), "adapt or replace these rules:\n{}", stale.join("\n"));
}

/// What came of a broken rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finding {
    /// A test failed.
    Noticed,
    /// All tests passed.
    Unnoticed,
    /// It does not compile, so it shows nothing.
    DoesNotCompile,
}

/// Copies the files that git knows to `folder`, with their times, so that cargo builds again what changed only.
fn copy_tree(folder: &Path) {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let names = String::from_utf8(listed.stdout).expect("UTF-8 names");
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root().join(name), folder.join(name));
        let Ok(content) = std::fs::read(&from) else { continue };
        if std::fs::read(&to).is_ok_and(|known| known == content) {
            continue;
        }
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder in target");
        std::fs::write(&to, content).expect("a file in target");
    }
}

fn try_rule(tree: &Path, target: &Path, broken: &BrokenRule) -> Finding {
    let path = tree.join(broken.file);
    let whole = std::fs::read_to_string(&path).expect("the file");
    std::fs::write(&path, whole.replacen(broken.code, broken.broken, 1)).expect("the file is writable");
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command
            .arg("test")
            .arg("--locked")
            .args(arguments)
            .args(broken.tests.split(' '));
        command
            .current_dir(tree)
            .env("CARGO_TARGET_DIR", target)
            .env_remove("RUST_BACKTRACE");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("cargo runs").success()
    };
    let verdict = match cargo(&["--no-run"]) {
        false => Finding::DoesNotCompile,
        true if cargo(&[]) => Finding::Unnoticed,
        true => Finding::Noticed,
    };
    std::fs::write(&path, whole).expect("the file is writable");
    verdict
}

#[test]
#[ignore = "takes an hour: it compiles and tests a copy of the tree for each rule"]
fn broken_rules_are_noticed() {
    let only = std::env::var("KERF_BROKEN_RULES").unwrap_or_default();
    let folder: PathBuf = root().join("target/broken-rules");
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    copy_tree(&tree);
    let chosen = BROKEN_RULES
        .iter()
        .filter(|one| one.rule.contains(&only) || one.file.contains(&only));
    let mut wrong = Vec::new();
    for broken in chosen {
        let verdict = try_rule(&tree, &target, broken);
        println!("{verdict:?}: {} {} ({})", broken.rule, broken.effect, broken.file);
        let known = UNNOTICED.iter().any(|(effect, _)| *effect == broken.effect);
        let expected = if known { Finding::Unnoticed } else { Finding::Noticed };
        if verdict != expected {
            wrong.push(format!("{verdict:?}: {} {}", broken.rule, broken.effect));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
