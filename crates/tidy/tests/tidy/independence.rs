//! The plan checker shares no logic with the solver: it reads the fields of model values and compares them by itself.
//!
//! The lint `disallowed_methods` finds calls of the model's algebra by type. This test keeps the list in the checker's clippy.toml complete:
//! every public function of the modules that hold the rules is on it, unless it only reads, makes or prints a value.

use crate::source::{Source, root, rust_files};
use crate::verdict::judge;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Modules of `model` that hold what the Kubernetes rules speak about. The solver relies on their functions, so that the checker would repeat
/// a fault in one of them.
const MODULES: [&str; 9] = [
    "instance_type",
    "node",
    "nodepool",
    "pod",
    "requirement",
    "resources",
    "selector",
    "snapshot",
    "taint",
];

/// Functions that answer no question of a rule.
const READS: &[&str] = &[
    "nodepool::NodePool::empty",
    "nodepool::PoolPacking::read",
    "pod::Phase::is_terminal",
    "pod::Pod::key",
    "pod::Pod::new",
    "pod::PodFault::code",
    "requirement::Operator::as_str",
    "requirement::Operator::parse",
    "requirement::Requirement::any_of",
    "requirement::Requirement::between",
    "requirement::Requirement::does_not_exist",
    "requirement::Requirement::exists",
    "requirement::Requirement::greater",
    "requirement::Requirement::is",
    "requirement::Requirement::less",
    "requirement::Requirement::none_of",
    "requirement::Requirement::print",
    "requirement::Requirement::with_min_values",
    "requirement::Requirements::get",
    "requirement::Requirements::is_empty",
    "requirement::Requirements::iter",
    "requirement::Requirements::len",
    "requirement::Requirements::new",
    "requirement::Requirements::print",
    "resources::Resources::contains",
    "resources::Resources::get",
    "resources::Resources::is_empty",
    "resources::Resources::iter",
    "resources::Resources::new",
    "resources::Resources::print",
    "resources::Resources::set",
    "resources::Resources::sorted_by_name",
    "resources::Resources::with",
    "selector::LabelSelector::all",
    "selector::LabelSet::get",
    "selector::LabelSet::is_empty",
    "selector::LabelSet::iter",
    "selector::LabelSet::of_workload",
    "selector::Match::any_of",
    "selector::Match::none_of",
    "snapshot::Snapshot::new",
    "snapshot::Snapshot::node",
    "snapshot::Snapshot::position",
    "taint::Effect::as_str",
    "taint::Effect::parse",
    "taint::Toleration::prefer_no_schedule",
];

/// The public functions that a file defines: `Type::function`, or `function` alone where it belongs to no type.
fn functions(source: &Source) -> BTreeSet<String> {
    let code = source.shipped_code();
    let inherent = Regex::new(r"^impl(?:<[^>]*>)?\s+(\w+)(?:<[^>]*>)?\s*\{").expect("a regular expression");
    let function = Regex::new(r"^( {4})?pub (?:const )?fn (\w+)").expect("a regular expression");
    let mut found = BTreeSet::new();
    let mut owner = None;
    for line in code.lines() {
        if line.starts_with(|first: char| first != ' ' && first != '}') {
            owner = inherent.captures(line).map(|of| of[1].to_owned());
        }
        let Some(of) = function.captures(line) else { continue };
        match (of.get(1), &owner) {
            (None, _) => found.insert(of[2].to_owned()),
            (Some(_), Some(owner)) => found.insert(format!("{owner}::{}", &of[2])),
            (Some(_), None) => false,
        };
    }
    found
}

/// What the checker's clippy.toml adds to the agreed list: paths below `kerf_model`.
fn forbidden() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("crates/check/clippy.toml")).expect("the checker's clippy.toml");
    let path = Regex::new(r#"path = "kerf_model::([\w:]+)""#).expect("a regular expression");
    path.captures_iter(&text).map(|of| of[1].to_owned()).collect()
}

/// The checker's clippy.toml without what it adds to the agreed list.
pub(crate) fn without_algebra(text: &str) -> String {
    let added = |line: &&str| line.contains("kerf_model::") || line.starts_with("  # ");
    text.split_inclusive('\n').filter(|line| !added(line)).collect()
}

#[test]
fn every_function_of_the_model_is_forbidden_or_harmless() {
    let forbidden = forbidden();
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for source in rust_files() {
        let Some(file) = source.path.strip_prefix("crates/model/src/") else {
            continue;
        };
        let module = file.trim_end_matches(".rs");
        if MODULES.contains(&module) {
            all.extend(
                functions(&source)
                    .iter()
                    .map(|function| format!("{module}::{function}")),
            );
        }
    }
    for function in &all {
        let (listed, harmless) = (forbidden.contains(function), READS.contains(&function.as_str()));
        if listed == harmless {
            let why = "either crates/check/clippy.toml forbids it, or READS of this test has it";
            findings.insert(function.clone(), vec![why.to_owned()]);
        }
    }
    for stale in forbidden.iter().map(String::as_str).chain(READS.iter().copied()) {
        if !all.contains(stale) {
            findings.insert(stale.to_owned(), vec!["the model has no such function".to_owned()]);
        }
    }
    judge("functions of the model that the checker may call", &findings, &[]);
}

#[test]
fn the_checker_allows_itself_no_call_of_the_algebra() {
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files()
        .iter()
        .filter(|source| source.path.starts_with("crates/check/src/"))
    {
        if source.shipped_code().contains("disallowed_methods") {
            let why = "shipped code of the checker makes no exception from disallowed_methods".to_owned();
            findings.insert(source.path.clone(), vec![why]);
        }
    }
    judge("exceptions of the checker", &findings, &[]);
}

#[test]
fn functions_are_those_that_other_crates_can_call() {
    let text = "pub fn a() {}\nimpl<T> One<T> {\n    fn c() {}\n\n    pub const fn b() {}\n}\nimpl Two for One {\n    fn d() {}\n}\n#[cfg(test)]\nmod tests { pub fn e() {} }\n";
    let source = Source::new("crates/model/src/x.rs".to_owned(), text.to_owned());
    assert_eq!(functions(&source).into_iter().collect::<Vec<_>>(), ["One::b", "a"]);
}
