//! Every statement of `docs/behaviour` is named by a test or listed as deferred, and every ID that is named is stated.

use crate::source::{Comment, files, relative, root, rust_files};
use crate::verdict::judge;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

const ID: &str = r"\b((?:SCH|DIS|LIF|API|OPS|KWK|AWS)-\d{3,4})\b";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

/// The IDs at the head of a list item or table row in `docs/behaviour`.
fn stated() -> BTreeSet<String> {
    let head = pattern(&format!(r"^\s*(?:[-*|]\s*)?(?:\*\*|`)?\s*{ID}"));
    let mut stated = BTreeSet::new();
    for path in files("docs/behaviour", "md")
        .iter()
        .filter(|path| !path.ends_with("deferred.md"))
    {
        let text = std::fs::read_to_string(path).expect("a text");
        stated.extend(text.lines().filter_map(|line| Some(head.captures(line)?[1].to_owned())));
    }
    assert!(
        stated.len() > 1500,
        "only {} statements were read from docs/behaviour",
        stated.len()
    );
    stated
}

/// The statements that the first column of the table in `deferred.md` lists; ranges hold what is stated between their ends.
fn deferred(stated: &BTreeSet<String>) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("docs/behaviour/deferred.md")).expect("deferred.md");
    let span = pattern(&format!("{ID}(?: to {ID})?"));
    let mut deferred = BTreeSet::new();
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let statements = row.split('|').nth(1).expect("a first column");
        for found in span.captures_iter(statements) {
            let first = found[1].to_owned();
            let last = found.get(2).map_or(first.clone(), |last| last.as_str().to_owned());
            for end in [&first, &last] {
                assert!(stated.contains(end), "deferred.md lists {end}, which is not stated");
            }
            for id in stated.range(first..=last) {
                assert!(deferred.insert(id.clone()), "deferred.md lists {id} twice");
            }
        }
    }
    deferred
}

#[test]
fn every_statement_is_named_by_a_test_or_listed_as_deferred() {
    let id = pattern(ID);
    let stated = stated();
    let deferred = deferred(&stated);
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for source in rust_files() {
        let tests: Vec<_> = source
            .test_code()
            .into_iter()
            .map(|range| source.line_of(range.start)..=source.line_of(range.end))
            .collect();
        let plain = source.comments.iter().filter(|(_, (sort, _))| *sort == Comment::Plain);
        for (line, (_, text)) in plain.filter(|(line, _)| tests.iter().any(|range| range.contains(line))) {
            for found in id.find_iter(text) {
                named
                    .entry(found.as_str().to_owned())
                    .or_insert_with(|| format!("{}:{line}", source.path));
            }
        }
    }
    let mut findings = BTreeMap::new();
    for id in &stated {
        let text = match (deferred.contains(id), named.get(id)) {
            (false, None) => {
                "no test names it: test it, or list it in docs/behaviour/deferred.md with the reason".to_owned()
            }
            (true, Some(place)) => format!("{place} names it: take it off docs/behaviour/deferred.md"),
            (true, None) | (false, Some(_)) => continue,
        };
        findings.insert(id.clone(), vec![text]);
    }
    judge("statements against tests", &findings, &[]);
}

#[test]
fn every_id_is_stated() {
    let id = pattern(ID);
    let stated = stated();
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut look = |place: String, text: &str| {
        for found in id.find_iter(text).filter(|found| !stated.contains(found.as_str())) {
            findings
                .entry(found.as_str().to_owned())
                .or_default()
                .push(format!("{place} names it, no statement has it"));
        }
    };
    for source in rust_files() {
        for (line, (_, text)) in &source.comments {
            look(format!("{}:{line}", source.path), text);
        }
    }
    for path in files("docs", "md") {
        look(relative(&path), &std::fs::read_to_string(&path).expect("a text"));
    }
    judge("IDs without a statement", &findings, &[]);
}
