//! A comment that refers to a section of the specification says of which document, and the document has it.

use crate::source::{Comment, root, rust_files};
use crate::verdict::judge;
use regex::Regex;
use std::collections::BTreeMap;

/// What is wrong with the sections that a comment names.
fn wrong_sections(comment: &str, patterns: &[Regex; 2]) -> Vec<String> {
    let [reference, number] = patterns;
    let mut wrong = Vec::new();
    for found in reference.captures_iter(comment) {
        let Some(document) = found.get(2) else {
            wrong.push(format!("{} of which document?", &found[0]));
            continue;
        };
        let text = std::fs::read_to_string(root().join(document.as_str())).unwrap_or_default();
        for number in number.find_iter(&found[1]) {
            let (chapter, section) = (
                format!("\n## {}. ", number.as_str()),
                format!("\n### {} ", number.as_str()),
            );
            if !text.contains(&chapter) && !text.contains(&section) {
                wrong.push(format!("{} has no section {}", document.as_str(), number.as_str()));
            }
        }
    }
    wrong
}

fn patterns() -> [Regex; 2] {
    let number = r"\d+[a-z]?(?:\.\d+)?";
    let list = format!(r"\bsections? ({number}(?:(?:, | and | to ){number})*)(?: of `(docs/behaviour/\w+\.md)`)?");
    [list.as_str(), number].map(|pattern| Regex::new(pattern).expect("a regular expression"))
}

#[test]
fn comments_name_the_document_of_a_section() {
    let patterns = patterns();
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files().iter().filter(|source| source.path.contains("/src/")) {
        // Consecutive lines of one sort are one comment.
        let mut blocks: Vec<(usize, Comment, String)> = Vec::new();
        for (line, (sort, text)) in &source.comments {
            match blocks.last_mut() {
                Some((last, known, block)) if *known == *sort && *last + 1 == *line => {
                    *last = *line;
                    block.push(' ');
                    block.push_str(text.trim());
                }
                _ => blocks.push((*line, *sort, text.trim().to_owned())),
            }
        }
        for (line, _, text) in blocks {
            let wrong = wrong_sections(&text, &patterns);
            let wrong = wrong.into_iter().map(|wrong| format!("up to line {line}: {wrong}"));
            findings.entry(source.path.clone()).or_default().extend(wrong);
        }
    }
    findings.retain(|_, wrong| !wrong.is_empty());
    judge("sections without a document", &findings, &[]);
}

#[test]
fn a_section_needs_a_document_that_has_it() {
    let wrong = |text: &str| wrong_sections(text, &patterns());
    assert_eq!(wrong("sections 8.1 and 9 of `docs/behaviour/disruption.md`"), [""; 0]);
    assert_eq!(wrong("section 8 of the contract"), ["section 8 of which document?"]);
    assert_eq!(
        wrong("section 99 of `docs/behaviour/disruption.md`"),
        ["docs/behaviour/disruption.md has no section 99"]
    );
}
