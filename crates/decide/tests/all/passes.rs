//! Several commands in one pass.

use crate::case::{Case, commands, drifted, methods, open_pool};
use kerf_decide::{Memory, Method, revalidate_candidates, validate};
use kerf_disruption::{Command, Invalid};
use kerf_testkit::disruption::{Cluster, budget, sized};
use kerf_units::policy::CommandsPerPass;

/// Nodes each of which a cheaper one can replace, and none of which can take a pod of another.
fn replaceable(nodes: usize, allowed: &str) -> Case {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1), ("large", 3000, 0.2)], |pool| {
        pool.disruption.budgets = vec![budget(allowed)];
    });
    for at in 0..nodes {
        let node = format!("a-{at:02}");
        cluster.of_kind(&node, "large", |_| {});
        cluster.bound(&node, &format!("web-{at:02}"), sized(1900));
    }
    independent(cluster)
}

/// A case whose passes start several commands.
fn independent(cluster: Cluster) -> Case {
    let mut case = Case::of(cluster);
    case.settings.commands_per_pass = CommandsPerPass::Independent;
    case
}

fn found(case: &Case) -> Vec<Command> {
    let round = case.round(Method::Emptiness, &mut Memory::default());
    round.commands().cloned().collect()
}

// DIS-178 as docs/deviations.md has it
#[test]
fn independent_replacements_start_in_one_pass_within_budgets() {
    let nodes = |commands: Vec<Command>| -> Vec<String> {
        let of_command = |command: Command| {
            assert_eq!((command.candidates.len(), command.replacements.len()), (1, 1));
            command.candidates[0].node.name.to_string()
        };
        commands.into_iter().map(of_command).collect()
    };
    let all: Vec<String> = (0..12).map(|at| format!("a-{at:02}")).collect();
    assert_eq!(nodes(found(&replaceable(12, "100%"))), all[..10], "ten at the most");
    assert_eq!(nodes(found(&replaceable(4, "100%"))), all[..4]);
    assert_eq!(nodes(found(&replaceable(4, "3"))), all[..3]);
    let mut upstream = replaceable(4, "100%");
    upstream.settings.commands_per_pass = CommandsPerPass::One;
    assert_eq!(nodes(found(&upstream)), all[..1]);
}

// DIS-182
#[test]
fn commands_of_one_pass_share_the_budgets_when_they_are_validated() {
    let case = replaceable(3, "100%");
    let commands = found(&case);
    let stricter = replaceable(3, "2");
    let method = Method::SingleNodeConsolidation;
    for look in [validate, revalidate_candidates] {
        let result = |before: &[Command]| {
            let validation = look(&stricter.view(), method, &commands[2], before, &mut Memory::default());
            validation.result.map(|command| command.short())
        };
        assert!(result(&commands[..1]).is_ok());
        assert_eq!(result(&commands[..2]), Err(Invalid::Budget));
    }
}

// DIS-006 as docs/deviations.md has it
#[test]
fn empty_nodes_do_not_delay_consolidation() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-0", "small", |_| {});
    for at in 1..4 {
        let node = format!("a-{at}");
        cluster.of_kind(&node, "small", |_| {});
        cluster.bound(&node, &format!("web-{at}"), |_| {});
    }
    let round = Case::of(cluster).round(Method::Emptiness, &mut Memory::default());
    assert_eq!(
        commands(&round),
        ["Empty: delete: [a-0]", "Underutilized: delete: [a-1, a-2]"],
        "no pod goes to the empty node"
    );
}

// DIS-005 as docs/deviations.md has it
#[test]
fn drift_comes_before_consolidation_and_sees_that_empty_nodes_go() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-empty", "small", |_| {});
    cluster.of_kind("a-old", "small", drifted);
    cluster.bound("a-old", "web", sized(1900));
    let round = Case::of(cluster).round(Method::Emptiness, &mut Memory::default());
    assert_eq!(methods(&round), [Method::Emptiness, Method::StaticDrift, Method::Drift]);
    assert_eq!(
        commands(&round),
        [
            "Empty: delete: [a-empty]",
            "Drifted: replace: [a-old] -> [1 replacement]"
        ]
    );
}
