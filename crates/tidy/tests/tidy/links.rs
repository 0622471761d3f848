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
