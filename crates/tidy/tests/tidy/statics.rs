//! A pure crate has no global state: its only `static` items are constants that take long to make.

use crate::lints::PURE;
use crate::source::{Source, crate_of, rust_files};
use crate::verdict::judge;
use regex::Regex;
use std::collections::BTreeMap;

/// Constants that are a `static` because they allocate. None of them has a cell inside.
const CONSTANTS: &[&str] = &["crates/disruption/src/leaving_pods.rs DISRUPTED"];

/// The names of the `static` items of shipped code, with their lines.
fn statics(source: &Source) -> Vec<(String, usize)> {
    let pattern = r"(?m)^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?static\s+(?:mut\s+)?(\w+)";
    let pattern = Regex::new(pattern).expect("a regular expression");
    let code = source.shipped_code();
    let found = pattern.captures_iter(&code).filter_map(|found| found.get(1));
    found
        .map(|name| (name.as_str().to_owned(), source.line_of(name.start())))
        .collect()
}

#[test]
fn pure_crates_have_no_global_state() {
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files()
        .iter()
        .filter(|source| PURE.contains(&crate_of(&source.path)))
    {
        for (name, line) in statics(source) {
            let found = format!("line {line}: pass the value as an argument");
            findings.insert(format!("{} {name}", source.path), vec![found]);
        }
    }
    judge("static items of pure crates", &findings, CONSTANTS);
}

#[test]
fn a_static_item_is_found_wherever_it_stands() {
    let text = "static A: u8 = 1;\npub(crate) static mut B: &'static str = \"\";\nfn f(x: &'static str) {\n    static C: X = X;\n}\n#[cfg(test)]\nstatic D: u8 = 1;\n";
    let source = Source::new("crates/x/src/x.rs".to_owned(), text.to_owned());
    let found = ["A", "B", "C"].map(str::to_owned).into_iter().zip([1, 2, 4]);
    assert_eq!(statics(&source), found.collect::<Vec<_>>());
}
