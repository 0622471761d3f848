//! The other commands, as a user meets them.

mod support;

use support::kerf;

#[test]
fn the_demo_lives_through_its_story() {
    let outcome = kerf(&["demo"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stderr, "");
    for part in [
        "the shop opens",
        "launch ",
        "replacement (Underutilized)",
        "the cloud takes the spot instance back",
        "auto-repair: its kubelet is silent",
        "maintenance of the instance is scheduled",
        "the instance stops",
        "the instance is being terminated",
        "the instance does not answer",
        "LAUNCHED",
        "$/h off the bill",
        "every pod that should run ran",
    ] {
        assert!(outcome.stdout.contains(part), "{part} is missing: {}", outcome.stdout);
    }
    // By cause: launched, removed, and what it does to the bill.
    for cause in ["pods need a place", "Empty", "Underutilized", "Drifted"] {
        let line = outcome.stdout.lines().find(|line| line.starts_with(cause));
        assert!(line.is_some(), "{cause} is not summed up: {}", outcome.stdout);
    }
    let wide = outcome.stdout.lines().find(|line| line.chars().count() > 120);
    assert_eq!(wide, None);
}

#[test]
fn the_demo_is_the_same_for_the_same_seed() {
    let run = |seed: &str| {
        let text = kerf(&["demo", "--seed", seed]).stdout;
        // The last lines tell how long it took on the wall.
        text.lines()
            .filter(|line| !line.contains("hours of cluster life"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(run("3"), run("3"));
}

#[test]
fn crds_are_printed_per_provider() {
    let kwok = kerf(&["crds"]);
    assert_eq!(kwok.code, 0);
    for name in [
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "nodeoverlays.karpenter.sh",
        "noderepairpolicies.kerf.sh",
        "kwoknodeclasses.karpenter.kwok.sh",
    ] {
        assert!(kwok.stdout.contains(name), "{name}");
    }
    let aws = kerf(&["crds", "--provider", "aws"]);
    assert!(aws.stdout.contains("karpenter.k8s.aws/") && !aws.stdout.contains("kwoknodeclasses"));
}

#[test]
fn help_completions_manual_and_version_are_there() {
    for args in [
        vec!["--help"],
        vec!["simulate", "--help"],
        vec!["controller", "--help"],
        vec!["man"],
        vec!["version"],
        vec!["completions", "bash"],
    ] {
        let outcome = kerf(&args);
        assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
        assert!(!outcome.stdout.is_empty(), "{args:?}");
    }
    assert!(kerf(&["controller", "--help"]).stdout.contains("--batch-idle-duration"));
}

#[test]
fn up_refuses_flags_its_controller_does_not_know() {
    for flags in [["--feature-gate", "NodeRepair=true"], ["--feature-gates", "Nonsense"]] {
        let outcome = kerf(&["up", "--", flags[0], flags[1]]);
        assert_eq!(outcome.code, 2, "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("kerf controller --help"), "{}", outcome.stderr);
    }
    // Where there is no controller, nobody would heed them.
    let alone = kerf(&["up", "--no-controller", "--", "--feature-gates", "NodeRepair=true"]);
    assert_eq!(alone.code, 2, "{}", alone.stderr);
}

#[test]
fn up_says_what_is_wrong_before_what_helps() {
    let outcome = kerf(&["up", "--instance-types", "no/such/file.json"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let said = "error: no/such/file.json: cannot be read: No such file or directory (os error 2); check the path";
    assert!(outcome.stderr.starts_with(said), "{}", outcome.stderr);
    let outcome = kerf(&["up", "--", "--help"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("kerf controller --help"), "{}", outcome.stderr);
}
