//! The glossary of ARCHITECTURE.md is sorted, and every term occurs in a source file or document.

use crate::source::{files, relative};
use crate::verdict::judge;
use std::collections::BTreeMap;

/// A text without case, blanks, hyphens, underscores and back-quotes: "launch lock", `LaunchLock` and `launch_lock` are equal.
fn normalized(text: &str) -> String {
    let kept = text
        .chars()
        .filter(|char| !matches!(char, '_' | '-' | '`') && !char.is_whitespace());
    kept.flat_map(char::to_lowercase).collect()
}

/// The terms in the order of their rows, each without the addition in parentheses.
fn terms() -> Vec<&'static str> {
    let manual = include_str!("../../../../ARCHITECTURE.md");
    let (_, table) = manual.split_once("| term | meaning |\n").expect("a glossary");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).expect("a first column"));
    cells
        .map(|cell| cell.split('(').next().unwrap_or(cell).trim())
        .collect()
}

#[test]
fn the_glossary_is_sorted_and_its_terms_are_used() {
    let terms = terms();
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |text: String| findings.entry("ARCHITECTURE.md".to_owned()).or_default().push(text);
    let order = |term: &str| term.trim_matches('`').to_lowercase();
    for pair in terms.windows(2).filter(|pair| order(pair[0]) >= order(pair[1])) {
        add(format!("\"{}\" stands before \"{}\"", pair[0], pair[1]));
    }
    let texts = [("crates", "rs"), ("crates", "md"), ("docs", "md")].into_iter();
    let paths = texts.flat_map(|(folder, extension)| files(folder, extension));
    // The lists of this crate name words that are not to be used.
    let paths = paths.filter(|path| !relative(path).starts_with("crates/tidy/"));
    let texts: Vec<String> = paths
        .map(|path| normalized(&std::fs::read_to_string(path).expect("a text")))
        .collect();
    for term in terms
        .iter()
        .filter(|term| !texts.iter().any(|text| text.contains(&normalized(term))))
    {
        add(format!("no source file and no document uses \"{term}\""));
    }
    judge("terms of the glossary", &findings, &[]);
}
