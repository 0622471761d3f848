//! Every pure crate and `aws` carry the agreed clippy.toml, every crate the workspace's lints and the lints against panics.

use crate::independence::without_algebra;
use crate::source::root;
use crate::verdict::judge;
use std::collections::BTreeMap;

/// Crates that may not act: no clock, randomness, I/O or global state.
pub(crate) const PURE: [&str; 8] = [
    "units",
    "model",
    "scheduler",
    "check",
    "disruption",
    "decide",
    "lifecycle",
    "state",
];

/// Crates that are not pure and carry the list all the same: clock, settings and files come through other crates there too.
const ALSO_CARRY: [&str; 1] = ["aws"];

#[test]
fn pure_crates_carry_the_agreed_clippy_toml() {
    let agreed = std::fs::read_to_string(root().join("crates/tidy/pure-clippy.toml")).expect("the agreed list");
    let mut findings = BTreeMap::new();
    for name in PURE.into_iter().chain(ALSO_CARRY) {
        let path = root().join("crates").join(name).join("clippy.toml");
        let finding = match std::fs::read_to_string(path) {
            Ok(text) if text == agreed || (name == "check" && without_algebra(&text) == agreed) => continue,
            Ok(_) => "clippy.toml differs from crates/tidy/pure-clippy.toml",
            Err(_) => "no clippy.toml: copy crates/tidy/pure-clippy.toml",
        };
        findings.insert(name.to_owned(), vec![finding.to_owned()]);
    }
    judge("crates without the agreed lints", &findings, &[]);
}

/// Crates whose indices are their own dense ids, which no input reaches, and the sandbox, whose indices are its own positions.
const OWN_INDICES: [&str; 2] = ["scheduler", "sandbox"];
/// Crates that match on enums of others, which grow.
const MATCHES_FOREIGN: [&str; 7] = [
    "apiserver",
    "aws-sandbox",
    "cli",
    "controllers",
    "kwok",
    "runtime",
    "sandbox",
];
/// Crates for tests alone: a panic there is a failed test.
const FOR_TESTS: [&str; 3] = ["chaos", "testkit", "tidy"];

#[test]
fn every_crate_denies_what_input_could_make_panic_or_vary() {
    let mut findings = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("the crates") {
        let folder = entry.expect("a folder entry").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        if FOR_TESTS.contains(&name.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(folder.join("src/lib.rs")).expect("every crate has a library");
        let denied = text.split_once("deny(").and_then(|(_, rest)| rest.split_once(')'));
        let denied = denied.map_or("", |(list, _)| list);
        let mut wanted = vec!["clippy::expect_used", "clippy::iter_over_hash_type"];
        if !OWN_INDICES.contains(&name.as_str()) {
            wanted.push("clippy::indexing_slicing");
        }
        if !MATCHES_FOREIGN.contains(&name.as_str()) {
            wanted.push("clippy::wildcard_enum_match_arm");
        }
        let missing: Vec<String> = wanted
            .into_iter()
            .filter(|lint| !denied.contains(lint))
            .map(|lint| format!("src/lib.rs does not deny {lint}"))
            .collect();
        if !missing.is_empty() {
            findings.insert(name, missing);
        }
    }
    judge("crates that do not deny a lint", &findings, &[]);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let mut findings = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("the crates") {
        let folder = entry.expect("a folder entry").path();
        let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        if !manifest.contains("[lints]\nworkspace = true") {
            let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
            findings.insert(name, vec!["Cargo.toml lacks [lints] workspace = true".to_owned()]);
        }
    }
    judge("crates without the lints of the workspace", &findings, &[]);
}
