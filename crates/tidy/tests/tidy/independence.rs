//! The plan checker shares no logic with the solver: it reads the fields of model values and compares them by itself.

use crate::source::rust_files;
use crate::verdict::judge;
use regex::Regex;
use std::collections::BTreeMap;

/// Functions of model types that compute what the Kubernetes rules say. The solver relies on them, so that the checker would repeat a fault in
/// one of them.
const ALGEBRA: &[&str] = &[
    "compatible",
    "intersects",
    "intersect",
    "has",
    "admits_absence",
    "add_all",
    "tolerates",
    "conflicts",
    "fits",
    "max_with",
    "in_scope",
    "matches",
    "available",
    "remaining",
];

/// The lines of shipped code that call the solver's algebra, as `path:line: call`.
fn calls(pattern: &Regex, source: &crate::source::Source) -> Vec<String> {
    let code = source.shipped_code();
    let found = pattern.find_iter(&code);
    found
        .map(|found| {
            let call = found.as_str().trim();
            format!("{}:{}: {call}", source.path, source.line_of(found.start()))
        })
        .collect()
}

fn pattern() -> Regex {
    let names = ALGEBRA.join("|");
    let pattern = format!(r"(?:\.|\b[A-Z]\w*::)(?:{names}|from_labels|from_all)\(|\bfirst_untolerated\(");
    Regex::new(&pattern).expect("a regular expression")
}

#[test]
fn the_checker_calls_no_algebra_of_the_model() {
    let pattern = pattern();
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files() {
        if source.path.starts_with("crates/check/src/") {
            let found = calls(&pattern, &source);
            if !found.is_empty() {
                findings.insert(source.path.clone(), found);
            }
        }
    }
    judge("calls of the solver's algebra in the checker", &findings, &[]);
}

#[test]
fn a_call_is_found_in_shipped_code_alone() {
    let text = "fn a() { one.tolerates(&two); }\n#[cfg(test)]\nmod tests { fn b() { one.tolerates(&two); } }\n";
    let source = crate::source::Source::new("crates/check/src/a.rs".to_owned(), text.to_owned());
    assert_eq!(calls(&pattern(), &source), ["crates/check/src/a.rs:1: .tolerates("]);
}
