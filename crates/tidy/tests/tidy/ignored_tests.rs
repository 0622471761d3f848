//! `.ci/run` runs every test that waits for a tool or for data, where they exist.

use crate::source::{root, rust_files};
use regex::Regex;
use std::collections::BTreeSet;

/// The name filters with which `.ci/run` runs ignored tests.
fn filters() -> BTreeSet<String> {
    let script = std::fs::read_to_string(root().join(".ci/run")).expect(".ci/run");
    let added = Regex::new(r"names\+=\(([^)]*)\)").expect("a pattern");
    let last = Regex::new(r"--ignored (?:.* )?(\w+)$").expect("a pattern");
    let mut found = BTreeSet::new();
    for line in script.lines().filter(|line| !line.contains("--skip")) {
        let lists = added.captures_iter(line).chain(last.captures_iter(line));
        let words = lists.flat_map(|list| list[1].split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        found.extend(words);
    }
    found
}

#[test]
fn ci_runs_every_test_that_needs_a_tool_or_data() {
    let filters = filters();
    let ignored = Regex::new(r#"#\[ignore = "needs [^"]*"\]\s*(?:async )?fn (\w+)"#).expect("a pattern");
    let mut tests = 0;
    let mut never = Vec::new();
    for source in rust_files() {
        for test in ignored.captures_iter(&source.text) {
            tests += 1;
            // Cargo's filters look at the path of modules, which that of the file shows.
            let path = format!("{}::{}", source.path, &test[1]);
            if !filters.iter().any(|filter| path.contains(filter.as_str())) {
                never.push(path);
            }
        }
    }
    assert!(tests > 10, "{tests}");
    assert_eq!(never, [""; 0], "no filter of .ci/run takes these: {filters:?}");
}
