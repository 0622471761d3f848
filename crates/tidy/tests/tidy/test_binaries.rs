//! No test binary is built in vain: one of integration tests per crate, one of unit tests where there are any, none of examples in documentation.

use crate::cargo::metadata;
use crate::source::{Source, crate_of, rust_files};
use crate::verdict::judge;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The most binaries of integration tests of a crate that has more than one, and why.
const MORE: &[(&str, usize, &str)] = &[(
    "kerf-controllers",
    2,
    "`all` installs one subscriber for the whole process, and `operations` reads log lines with subscribers of its own",
)];

/// The packages of the workspace.
fn packages() -> Vec<Value> {
    let mut metadata = metadata();
    let members = metadata["workspace_members"].take();
    let members = members.as_array().expect("members");
    let packages = metadata["packages"].as_array_mut().expect("packages");
    packages
        .extract_if(.., |package| members.contains(&package["id"]))
        .collect()
}

fn name(item: &Value) -> &str {
    item["name"].as_str().expect("a name")
}

/// A package's targets of a kind.
fn targets<'a>(package: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = package["targets"].as_array().into_iter().flatten();
    let of_kind = all.filter(|target| {
        let kinds = target["kind"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|one| one == kind))
    });
    of_kind.collect()
}

#[test]
fn a_crate_has_one_binary_of_integration_tests() {
    let mut findings = BTreeMap::new();
    for package in &packages() {
        let name = name(package);
        let most = MORE.iter().find(|(crate_name, ..)| *crate_name == name);
        let tests: Vec<&str> = targets(package, "test").into_iter().map(self::name).collect();
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

/// Crates with unit tests in the folder `src`.
fn with_unit_tests(sources: &[Source]) -> BTreeSet<&str> {
    let is_tested = |source: &&Source| {
        let marks = ["#[test]", "#[tokio::test", "proptest!"];
        source.path.contains("/src/") && marks.iter().any(|mark| source.code.contains(mark))
    };
    sources
        .iter()
        .filter(is_tested)
        .map(|source| crate_of(&source.path))
        .collect()
}

/// The lines at which an example begins that rustdoc would run.
fn examples(source: &Source) -> Vec<usize> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(language) = text.and_then(|text| text.trim_start().strip_prefix("```")) else {
            continue;
        };
        is_inside = !is_inside;
        if is_inside && !["text", "yaml", "json", "toml", "sh"].contains(&language) {
            found.push(at + 1);
        }
    }
    found
}

#[test]
fn libraries_are_built_for_tests_only_if_they_have_any() {
    let sources = rust_files();
    let tested = with_unit_tests(&sources);
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in &packages() {
        let name = name(package);
        let mut wrong = Vec::new();
        for library in targets(package, "lib") {
            let has_tests = tested.contains(name.trim_start_matches("kerf-"));
            if library["test"] != has_tests {
                wrong.push(format!(
                    "unit tests in src: {has_tests}, `test` of [lib] in Cargo.toml: {}",
                    library["test"]
                ));
            }
            if library["doctest"] == true {
                wrong.push("`doctest = false` is missing in [lib] in Cargo.toml".to_owned());
            }
        }
        if !wrong.is_empty() {
            findings.insert(name.to_owned(), wrong);
        }
    }
    for source in &sources {
        let lines = examples(source);
        let lines = lines.iter().map(|line| {
            format!(
                "{}:{line}: an example in documentation is not run; make it a test",
                source.path
            )
        });
        let lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            let name = format!("kerf-{}", crate_of(&source.path));
            findings.entry(name).or_default().extend(lines);
        }
    }
    judge("binaries of unit tests", &findings, &[]);
}
