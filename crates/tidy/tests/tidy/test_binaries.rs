//! One binary of integration tests per crate: each more is linked again with everything it uses.

use crate::cargo::metadata;
use crate::verdict::judge;
use std::collections::BTreeMap;

/// The most binaries of integration tests of a crate that has more than one, and why.
const MORE: &[(&str, usize, &str)] = &[(
    "kerf-controllers",
    2,
    "`all` installs one subscriber for the whole process, and `operations` reads log lines with subscribers of its own",
)];

/// The names of a package's targets of a kind.
fn targets(package: &serde_json::Value, kind: &str) -> Vec<String> {
    let all = package["targets"].as_array().into_iter().flatten();
    let of_kind = all.filter(|target| {
        let kinds = target["kind"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|one| one == kind))
    });
    of_kind
        .filter_map(|target| target["name"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn a_crate_has_one_binary_of_integration_tests() {
    let metadata = metadata();
    let members = metadata["workspace_members"].as_array().expect("members");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut findings = BTreeMap::new();
    for package in packages.iter().filter(|package| members.contains(&package["id"])) {
        let name = package["name"].as_str().expect("a name");
        let most = MORE.iter().find(|(crate_name, ..)| *crate_name == name);
        let tests = targets(package, "test");
        let (most, why) = most.map_or((1, ""), |(_, most, why)| (*most, *why));
        if tests.len() > most {
            let finding = format!("{} instead of {most} binaries: {}", tests.len(), tests.join(", "));
            findings.insert(name.to_owned(), vec![finding]);
        } else if tests.len() < most && !why.is_empty() {
            findings.insert(
                name.to_owned(),
                vec![format!("has {} now: shorten the list", tests.len())],
            );
        }
    }
    judge("binaries of integration tests", &findings, &[]);
}
