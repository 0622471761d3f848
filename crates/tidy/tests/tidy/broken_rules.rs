//! Rules of the behaviour, broken one at a time in a copy of the tree: the tests have to notice each.
//!
//! `cargo test -p kerf-tidy --test tidy broken_rules -- --ignored --nocapture` tries all; `KERF_BROKEN_RULES=DIS-0` only those whose rule or
//! file contains the text. It takes about a minute per rule.

mod check;
mod controllers;
mod decide;
mod disruption;
mod lifecycle;
mod model;
mod scheduler;
mod state;

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

const BROKEN_RULES: [&[BrokenRule]; 8] = [
    check::RULES,
    controllers::RULES,
    decide::RULES,
    disruption::RULES,
    lifecycle::RULES,
    model::RULES,
    scheduler::RULES,
    state::RULES,
];

/// All of them.
fn broken_rules() -> impl Iterator<Item = &'static BrokenRule> {
    BROKEN_RULES.into_iter().flatten()
}

/// Rules that no test notices, with the reason. The test fails when one of them is noticed after all.
const UNNOTICED: &[(&str, &str)] = &[];

#[test]
fn broken_rules_name_code_that_is_there_once() {
    let mut stale = Vec::new();
    for BrokenRule { rule, file, code, .. } in broken_rules() {
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
#[ignore = "takes hours: it compiles and tests a copy of the tree for each rule"]
fn broken_rules_are_noticed() {
    let only = std::env::var("KERF_BROKEN_RULES").unwrap_or_default();
    let folder: PathBuf = root().join("target/broken-rules");
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    copy_tree(&tree);
    let chosen = broken_rules().filter(|one| one.rule.contains(&only) || one.file.contains(&only));
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
