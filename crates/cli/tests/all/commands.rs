//! The other commands, as a user meets them.

use crate::kerf::{Stdout, kerf, kerf_into, root};
use std::fs::{self, File};
use std::process::{Command, Stdio};

#[test]
fn the_demo_runs_its_timetable() {
    let outcome = kerf(&["demo"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.stderr, "");
    for part in [
        "the shop opens",
        "launch ",
        "replacement (Underutilized)",
        "the cloud takes the spot instance back",
        "auto-repair: its kubelet stopped",
        "maintenance of the instance is scheduled",
        "the instance stops",
        "the instance is being terminated",
        "the instance does not answer",
        "LAUNCHED",
        "$/h in all",
        "every pod that should run ran",
    ] {
        assert!(outcome.stdout.contains(part), "{part} is missing: {}", outcome.stdout);
    }
    // By reason: launched, removed, and the change of the price.
    for cause in ["pods need a place", "Empty", "Underutilized", "Drifted"] {
        let line = outcome.stdout.lines().find(|line| line.starts_with(cause));
        assert!(line.is_some(), "{cause} has no sum: {}", outcome.stdout);
    }
    let wide = outcome.stdout.lines().find(|line| line.chars().count() > 120);
    assert_eq!(wide, None);
}

#[test]
fn the_demo_adds_up_what_its_log_shows() {
    let text = kerf(&["demo", "--verbose"]).stdout;
    let seconds = |line: &str| -> Option<f64> {
        let (time, _) = line.split_once("  ")?;
        let parts: Vec<f64> = time.split(':').filter_map(|part| part.parse().ok()).collect();
        matches!(parts[..], [_, _, _]).then(|| parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
    };
    // The price holds from each line that shows it to the next.
    let (mut since, mut price, mut dollars) = (0.0, 0.0, 0.0);
    for line in text.lines() {
        let Some(now) = seconds(line) else { continue };
        let shown = line
            .strip_suffix(" $/h")
            .and_then(|line| line.rsplit(", ").next()?.parse().ok());
        if shown.is_some() || line.ends_with("== end") {
            dollars += price * (now - since) / 3600.0;
            since = now;
            price = shown.unwrap_or(price);
        }
    }
    let printed = text
        .split_once("the machines cost ")
        .and_then(|(_, rest)| rest.split(' ').next());
    let printed: f64 = printed.and_then(|text| text.parse().ok()).expect("the cost");
    assert!(
        dollars > 1.0 && (printed - dollars).abs() < 0.01,
        "{printed} for {dollars}"
    );
}

#[test]
fn the_demo_is_the_same_for_the_same_seed() {
    let run = |seed: &str| {
        let text = kerf(&["demo", "--seed", seed]).stdout;
        // One of the last lines says how long the run took.
        text.lines()
            .filter(|line| !line.contains("hours of cluster time"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(run("3"), run("3"));
}

// KWK-201
#[test]
fn crds_are_printed_per_provider() {
    let kwok = kerf(&["crds"]);
    assert_eq!(kwok.code, 0);
    assert_eq!(kwok.stdout, kerf(&["crds", "--provider", "kwok"]).stdout);
    // The rule of its labels is on the requirements of NodePools and of NodeClaims.
    let rules = kwok.stdout.matches("label domain \"karpenter.kwok.sh\" is restricted");
    assert_eq!(rules.count(), 2);
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
fn every_page_the_manual_names_can_be_printed() {
    let manual = kerf(&["man"]).stdout;
    let named = manual.lines().filter_map(|line| {
        let (name, _) = line.trim().strip_prefix("kerf\\-")?.split_once("(1)")?;
        Some(name.replace("\\-", "-"))
    });
    let named: Vec<String> = named.collect();
    assert!(named.iter().any(|name| name == "simulate"), "{manual}");
    for name in named {
        let page = kerf(&["man", &name]);
        assert_eq!(page.code, 0, "{name}: {}", page.stderr);
        assert!(
            page.stdout.contains(&format!("kerf\\-{name}")),
            "{name}: {}",
            page.stdout
        );
    }
    assert_eq!(kerf(&["man", "nonsense"]).code, 2);
}

#[test]
fn up_refuses_flags_its_controller_does_not_know() {
    for flags in [["--feature-gate", "NodeRepair=true"], ["--feature-gates", "Nonsense"]] {
        let outcome = kerf(&["up", "--", flags[0], flags[1]]);
        assert_eq!(outcome.code, 2, "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("kerf controller --help"), "{}", outcome.stderr);
    }
    // Without a controller they would have no effect.
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

/// Every command that ends by itself and prints.
const PRINTING: [&[&str]; 14] = [
    &["--help"],
    &["version"],
    &["simulate", "--help"],
    &["controller", "--help"],
    &["man"],
    &["crds"],
    &["manifests"],
    &["completions", "bash"],
    &["catalogue"],
    &["preflight", "-f", "examples/web.yaml"],
    &["simulate", "-f", "examples/web.yaml"],
    &["simulate", "-f", "examples/web.yaml", "--consolidate"],
    &["explain", "pod/frontend-0", "-f", "examples/web.yaml"],
    &["demo"],
];

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    for args in PRINTING {
        let outcome = kerf_into(args, &Stdout::Closed);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn a_full_disk_is_one_line_and_exit_code_four() {
    for args in PRINTING {
        let outcome = kerf_into(args, &Stdout::FullDisk);
        assert_eq!(outcome.code, 4, "{args:?}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{args:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("No space left"), "{args:?}: {}", outcome.stderr);
    }
}

#[test]
fn errors_that_cannot_be_printed_keep_their_exit_code() {
    for (args, code) in [
        (["simulate", "-f", "no/such/file.yaml"], 2),
        (["explain", "pod/none", "--kubeconfig=/nowhere"], 4),
    ] {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let status = Command::new(env!("CARGO_BIN_EXE_kerf"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::from(full))
            .status()
            .expect("kerf runs");
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}

/// The flags in a text, each once, sorted.
fn flags(text: &str, end: &[char]) -> Vec<String> {
    let mut flags: Vec<String> = text
        .split("--")
        .skip(1)
        .map(|rest| rest.split(end).next().unwrap_or_default().to_owned())
        .collect();
    flags.sort();
    flags.dedup();
    flags
}

#[test]
fn the_readme_names_the_options_that_only_kerf_has() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let (_, named) = readme
        .split_once("They are Karpenter's, except ")
        .expect("the sentence about options");
    let (named, _) = named.split_once(". ").expect("its end");
    let help = kerf(&["controller", "--help"]).stdout;
    let (_, own) = help.split_once("Options that only Kerf has:").expect("the section");
    let (own, _) = own.split_once("\n\n").expect("its end");
    let own: String = own.lines().filter(|line| line.starts_with("  --")).collect();
    assert_eq!(flags(named, &['`']), flags(&own, &[' ']));
}
