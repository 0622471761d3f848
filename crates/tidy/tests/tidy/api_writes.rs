//! Controllers and providers change API objects in one way: with the functions of `kerf_runtime::client`, which send what differs, take the
//! lock, and know what is no error.

use crate::source::{Source, crate_of, rust_files};
use crate::verdict::judge;
use std::collections::BTreeMap;

/// Crates whose code changes the objects of a cluster. The embedded cluster is none of them: it plays kube-scheduler and others.
const WRITERS: &[&str] = &["aws", "controllers", "kwok"];

/// The lines of shipped code that make a request to patch an object. Without these parameters there is none.
fn requests(source: &Source) -> Vec<usize> {
    let code = source.shipped_code();
    let found = code.match_indices("PatchParams").map(|(at, _)| source.line_of(at));
    found.collect()
}

#[test]
fn api_objects_are_changed_in_one_way() {
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files()
        .iter()
        .filter(|source| WRITERS.contains(&crate_of(&source.path)))
    {
        for line in requests(source) {
            let found = format!("line {line}: use patch_object, patch_status or send_patch of kerf_runtime::client");
            findings.entry(source.path.clone()).or_default().push(found);
        }
    }
    judge("ways to change API objects", &findings, &[]);
}

#[test]
fn a_patch_is_found_in_shipped_code_only() {
    let text = "use kube::api::{Patch, PatchParams};\n// PatchParams\n#[cfg(test)]\nuse kube::api::PatchParams;\n";
    let source = Source::new("crates/kwok/src/x.rs".to_owned(), text.to_owned());
    assert_eq!(requests(&source), [1]);
}
