//! An API object without a name or unique id is an error or `None`, never the text "": an empty name is sent to the path of the whole kind, and
//! all objects without a unique id would share one entry of a table.

use crate::source::{Source, crate_of, rust_files};
use crate::verdict::judge;
use regex::Regex;
use std::collections::BTreeMap;

/// The embedded cluster and the embedded AWS make the objects themselves; the others are no part of what ships.
const FREE: &[&str] = &["apiserver", "aws-sandbox", "chaos", "sandbox", "testkit", "tidy"];

/// Files that do not conform yet.
const NOT_YET: &[&str] = &[];

/// The lines of shipped code in which an absent name or unique id becomes "". `name_any` of the client library does that in itself. An
/// empty literal is blank here.
fn emptied(source: &Source) -> Vec<usize> {
    let pattern = Regex::new(
        r#"(?x) \b name_any \b
        | \b meta(data)? (\(\))? \s* \. \s* (name|uid) \s* (\. \s* (as_deref|as_ref|clone) \(\) \s*)? \. \s* unwrap_or (_default \(\) | \( \s* \))
        | \. \s* uid \(\) \s* \. \s* unwrap_or (_default \(\) | \( \s* \))"#,
    )
    .expect("a regular expression");
    let code = source.shipped_code();
    let found = pattern.find_iter(&code).map(|found| source.line_of(found.start()));
    found.collect()
}

#[test]
fn an_absent_name_is_no_empty_text() {
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files()
        .iter()
        .filter(|source| !FREE.contains(&crate_of(&source.path)))
    {
        for line in emptied(source) {
            let found = format!("line {line}: use name_of or uid_of of kerf_runtime::client, or keep the Option");
            findings.entry(source.path.clone()).or_default().push(found);
        }
    }
    judge("names that become empty", &findings, NOT_YET);
}

#[test]
fn each_way_to_an_empty_name_is_found() {
    let text = "let a = pod.name_any();\nlet b = pod.metadata.name.as_deref().unwrap_or_default();\n\
        let c = meta\n    .uid\n    .clone()\n    .unwrap_or_default();\nlet d = object.meta().name.as_deref().unwrap_or(\"\");\n\
        let e = pod.uid().unwrap_or_default();\nlet f = (meta.name.clone(), spec.role.unwrap_or_default());\n\
        // name_any\n#[cfg(test)]\nmod tests { fn g() { pod.name_any() } }\n";
    let source = Source::new("crates/kwok/src/x.rs".to_owned(), text.to_owned());
    assert_eq!(emptied(&source), [1, 2, 3, 7, 8]);
}
