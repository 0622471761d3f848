//! The documents name files that exist.

use crate::source::{files, relative, root};
use crate::verdict::judge;
use regex::Regex;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Every document of the repository.
fn documents() -> Vec<PathBuf> {
    let top = std::fs::read_dir(root()).expect("the root folder is readable");
    let top = top.map(|entry| entry.expect("a folder entry").path());
    let mut found: Vec<PathBuf> = top
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    for folder in ["docs", "crates"] {
        found.extend(files(folder, "md"));
    }
    found.sort();
    found
}

#[test]
fn links_and_paths_in_documents_lead_to_files() {
    let link = Regex::new(r"\]\(([^)#\s]+)(?:#[^)]*)?\)").expect("a regular expression");
    let code = Regex::new("`[^`]*`").expect("a regular expression");
    let path = Regex::new(r"`((?:crates|docs|examples|fuzz|\.ci)/[\w./-]+)").expect("a regular expression");
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("a text");
        let folder = document.parent().expect("a document is in a folder");
        for (number, line) in text.lines().enumerate() {
            let prose = code.replace_all(line, "");
            let links = link.captures_iter(&prose).map(|found| found[1].to_owned());
            let links = links
                .filter(|target| !target.contains("://"))
                .map(|target| (folder.join(&target), target));
            let paths = path
                .captures_iter(line)
                .map(|found| (root().join(&found[1]), found[1].to_owned()));
            for (_, target) in links.chain(paths).filter(|(path, _)| !path.exists()) {
                let finding = format!("line {}: there is no {target}", number + 1);
                findings.entry(relative(&document)).or_default().push(finding);
            }
        }
    }
    judge("files that documents name", &findings, &[]);
}

/// Whether a text of Rust defines an item or macro of this name.
fn defines(text: &str, name: &str) -> bool {
    let item = format!(r"(?m)\b(?:fn|struct|enum|trait|const|static|type|macro_rules!)\s+{name}\b");
    Regex::new(&item).expect("a regular expression").is_match(text)
}

/// What is wrong with the code that a text names as `file` (`function`): each function is in its file, and each file has a function.
fn wrong_pairs(text: &str) -> Vec<String> {
    let pair =
        Regex::new(r"`(crates/[\w./-]+\.rs)` \(`(\w+)`\)|`(crates/[\w./-]+\.rs)`").expect("a regular expression");
    let mut wrong = Vec::new();
    for found in pair.captures_iter(text) {
        if let Some(alone) = found.get(3) {
            wrong.push(format!("{} without a function", alone.as_str()));
            continue;
        }
        let (path, name) = (&found[1], &found[2]);
        let text = std::fs::read_to_string(root().join(path));
        if !text.is_ok_and(|text| defines(&text, name)) {
            wrong.push(format!("{path} has no {name}"));
        }
    }
    wrong
}

#[test]
fn the_tables_of_where_to_look_name_functions_that_exist() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("a text");
    let (_, rest) = text.split_once("\n## Where to look\n").expect("the section");
    let (section, _) = rest.split_once("\n## ").expect("a section after it");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 20, "the tables are found");
    let wrong: Vec<String> = rows.into_iter().flat_map(wrong_pairs).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_function_that_moved_is_found() {
    let path = "crates/tidy/tests/tidy/links.rs";
    assert_eq!(wrong_pairs(&format!("`{path}` (`wrong_pairs`)")), [""; 0]);
    assert_eq!(
        wrong_pairs(&format!("`{path}` (`moved`)")),
        [format!("{path} has no moved")]
    );
    assert_eq!(
        wrong_pairs(&format!("see `{path}`")),
        [format!("{path} without a function")]
    );
}
