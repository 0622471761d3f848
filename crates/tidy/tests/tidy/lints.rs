//! Every pure crate carries the agreed clippy.toml, and every crate the workspace's lints.

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

/// Pure crates that have not taken the agreed list yet.
const NOT_YET: &[&str] = &[];

#[test]
fn pure_crates_carry_the_agreed_clippy_toml() {
    let agreed = std::fs::read_to_string(root().join("crates/tidy/pure-clippy.toml")).expect("the agreed list");
    let mut findings = BTreeMap::new();
    for name in PURE {
        let path = root().join("crates").join(name).join("clippy.toml");
        let finding = match std::fs::read_to_string(path) {
            Ok(text) if text == agreed => continue,
            Ok(_) => "clippy.toml differs from crates/tidy/pure-clippy.toml",
            Err(_) => "no clippy.toml: copy crates/tidy/pure-clippy.toml",
        };
        findings.insert(name.to_owned(), vec![finding.to_owned()]);
    }
    judge("pure crates without the agreed lints", &findings, NOT_YET);
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
