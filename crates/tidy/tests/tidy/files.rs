//! Files: their length, their names, and what `lib.rs` and `mod.rs` hold.

use crate::source::{Source, crate_of, rust_files};
use crate::verdict::judge;
use std::collections::BTreeMap;

/// Lines a Rust file may have.
const LINES: usize = 800;
/// Lines of code besides `mod` and `use` that a `lib.rs` or `mod.rs` may hold: a type alias or one small type that all submodules share.
const OWN_LINES: usize = 20;

/// Crates whose `lib.rs` or `mod.rs` files still hold code.
const HOLD_CODE: &[&str] = &["aws-sandbox"];
/// Crates that still use `#[path]`.
const USE_PATH: &[&str] = &[];
/// Crates with names that still say nothing.
const EMPTY_NAMES: &[&str] = &[];

/// Names that say nothing about what a module holds.
const FORBIDDEN: [&str; 9] = [
    "common", "helper", "helpers", "manager", "managers", "misc", "stuff", "util", "utils",
];

fn report(test: impl Fn(&Source) -> Option<String>) -> BTreeMap<String, Vec<String>> {
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in rust_files() {
        if let Some(finding) = test(&source) {
            let texts = findings.entry(crate_of(&source.path).to_owned()).or_default();
            texts.push(format!("{}: {finding}", source.path));
        }
    }
    findings
}

#[test]
fn no_file_is_too_long() {
    let findings = report(|source| {
        let lines = source.text.lines().count();
        (lines > LINES).then(|| format!("{lines} lines; at most {LINES}: split it by concept"))
    });
    judge("files that are too long", &findings, &[]);
}

#[test]
fn lib_and_mod_files_hold_docs_and_re_exports() {
    let findings = report(|source| {
        let index = source.path.ends_with("/lib.rs") || source.path.ends_with("/mod.rs");
        let lines = own_lines(&source.shipped_code());
        (index && !source.is_test_file() && lines > OWN_LINES).then(|| {
            format!(
                "{lines} lines of code besides mod and use; at most {OWN_LINES}: move them to a file named by concept"
            )
        })
    });
    judge("lib.rs and mod.rs files that hold code", &findings, HOLD_CODE);
}

/// Lines of code that belong to no `mod`, `use` or attribute.
fn own_lines(code: &str) -> usize {
    let mut lines = 0;
    let mut inside = false;
    for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let item = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ");
        let index = item.starts_with("use ") || (item.starts_with("mod ") && item.ends_with(';'));
        if inside || index {
            inside = !line.ends_with(';');
        } else if !line.starts_with("#[") && !line.starts_with("#!") {
            lines += 1;
        }
    }
    lines
}

#[test]
fn no_module_is_taken_from_another_path() {
    let findings = report(|source| {
        let at = source.code.find("#[path")?;
        Some(format!("line {}: #[path]", source.line_of(at)))
    });
    judge("modules with #[path]", &findings, USE_PATH);
}

#[test]
fn every_name_says_what_is_inside() {
    let findings = report(|source| {
        let (_, inside) = source.path.strip_prefix("crates/")?.split_once('/')?;
        let part = inside
            .split('/')
            .find(|part| FORBIDDEN.contains(&part.trim_end_matches(".rs")));
        let inline = FORBIDDEN
            .iter()
            .find(|name| source.code.contains(&format!("mod {name} {{")));
        let name = part.or(inline.copied())?;
        Some(format!("`{name}` says nothing about what is inside"))
    });
    judge("names that say nothing", &findings, EMPTY_NAMES);
}

#[test]
fn own_lines_are_those_of_items_other_than_mod_and_use() {
    let code = "#![forbid(x)]\nmod a;\npub(crate) mod b;\npub use a::{\n    X,\n    Y,\n};\n#[derive(Clone)]\nstruct Z {\n    x: u8,\n}\nmod c {\n}\n";
    assert_eq!(own_lines(code), 5);
}
