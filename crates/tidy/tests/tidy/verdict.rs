//! How a law reports what breaks it.

use std::collections::{BTreeMap, BTreeSet};

/// Fails with every finding outside `not_yet`, and with every entry of `not_yet` that nothing breaks any more.
///
/// `findings` maps a crate (or a file outside of the crates) to what is wrong there. `not_yet` lists those that may still break the law.
///
/// With `KERF_TIDY_ALL` set, entries of `not_yet` fail as well: so one sees what is left to do.
pub(crate) fn judge(law: &str, findings: &BTreeMap<String, Vec<String>>, not_yet: &[&str]) {
    let all = std::env::var_os("KERF_TIDY_ALL").is_some();
    let listed: BTreeSet<&str> = not_yet.iter().copied().filter(|_| !all).collect();
    let mut lines = Vec::new();
    for (key, texts) in findings.iter().filter(|(key, _)| !listed.contains(key.as_str())) {
        lines.extend(texts.iter().map(|text| format!("{key}: {text}")));
    }
    for key in listed.iter().filter(|key| !findings.contains_key(**key)) {
        lines.push(format!(
            "{key}: conforms now; take it off the list NOT_YET of this test"
        ));
    }
    assert!(lines.is_empty(), "{law}\n  {}", lines.join("\n  "));
}
