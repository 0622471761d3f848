//! A doc comment says what its item does; the ID of a statement alone says nothing to who has not the specification open.

use crate::source::{Comment, crate_of, rust_files};
use crate::verdict::judge;
use regex::Regex;
use std::collections::BTreeMap;

/// Crates whose doc comments are still being rewritten.
const NOT_YET: &[&str] = &[];

#[test]
fn no_doc_comment_is_only_an_id() {
    let id = Regex::new(r"\b(SCH|DIS|LIF|API|OPS|KWK|AWS)-\d+\b|\b(and|to|with)\b").expect("a regular expression");
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files() {
        // Consecutive lines of one sort are one comment.
        let mut blocks: Vec<(usize, usize, Comment, String)> = Vec::new();
        for (line, (sort, text)) in &source.comments {
            match blocks.last_mut() {
                Some((_, last, known, block)) if *known == *sort && *last + 1 == *line => {
                    *last = *line;
                    block.push_str(text);
                }
                _ => blocks.push((*line, *line, *sort, text.clone())),
            }
        }
        for (line, _, sort, text) in blocks {
            let said = id.replace_all(&text, "");
            if sort != Comment::Plain && said != text && !said.chars().any(char::is_alphabetic) {
                let finding = format!("{}:{line}: {}", source.path, text.trim());
                findings
                    .entry(crate_of(&source.path).to_owned())
                    .or_default()
                    .push(finding);
            }
        }
    }
    judge("doc comments that are only an ID", &findings, NOT_YET);
}
