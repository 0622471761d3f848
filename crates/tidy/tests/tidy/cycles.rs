//! The modules of a crate import each other in one direction only.
//!
//! At the top of a crate every module is a node, whether file or folder; inside a folder only its subfolders are. An edge is a path in the
//! code that ships (`use` or not) which leads from one node to another. Names that a `lib.rs` or `mod.rs` re-exports count for the module that defines them.

use crate::source::{Source, crate_of, rust_files};
use crate::verdict::judge;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Crates whose cycles are still being taken apart.
const NOT_YET: &[&str] = &[];

type Path = Vec<String>;

/// One file of a crate as a module.
struct Module {
    file: String,
    /// Paths its code names, resolved to the crate's root, with the line of each.
    names: Vec<(usize, Path)>,
    /// What `use` brings into its scope: name to path from the crate's root.
    scope: BTreeMap<String, Path>,
}

/// The modules of one crate by their path from its root.
#[derive(Default)]
struct Tree {
    modules: BTreeMap<Path, Module>,
    /// Modules with files below them.
    folders: BTreeSet<Path>,
}

fn path_of(file: &str) -> Option<Path> {
    let (_, inside) = file.split_once("/src/")?;
    let mut path: Path = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    Some(path)
}

/// Splits a `use` tree such as `a::{b, c::{self, D as E}}` into its leaves: the name in scope and the path.
fn leaves(tree: &str, prefix: &[String], found: &mut Vec<(String, Path)>) {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let mut inner = prefix.to_vec();
        inner.extend(segments(&tree[..open]));
        let (mut depth, mut start) = (0, open + 1);
        for (at, byte) in tree.bytes().enumerate().skip(open + 1) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth > 0 => depth -= 1,
                b',' | b'}' if depth == 0 => {
                    leaves(&tree[start..at], &inner, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let (tree, alias) = match tree.split_once(" as ") {
        Some((tree, alias)) => (tree, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut path = prefix.to_vec();
    path.extend(segments(tree));
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(last) = path.last().cloned().filter(|_| !tree.is_empty()) {
        found.push((alias.unwrap_or(last), path));
    }
}

fn segments(path: &str) -> impl Iterator<Item = String> + '_ {
    path.split("::")
        .map(str::trim)
        .filter(|segment| !segment.is_empty())
        .map(str::to_owned)
}

/// A path as written in `module`, from the crate's root; `None` where it leads out of the crate.
fn rooted(path: &[String], module: &[String], children: &BTreeSet<&str>) -> Option<Path> {
    let first = path.first()?.as_str();
    let mut rooted = match first {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        child if children.contains(child) => {
            let mut rooted = module.to_vec();
            rooted.push(child.to_owned());
            rooted
        }
        _ => return None,
    };
    for (index, segment) in path.iter().enumerate() {
        match segment.as_str() {
            "super" => {
                rooted.pop()?;
            }
            "crate" | "self" => {}
            _ if index == 0 => {}
            name => rooted.push(name.to_owned()),
        }
    }
    Some(rooted)
}

fn tree(sources: &[&Source]) -> Tree {
    let uses = Regex::new(r"(?s)\buse\s+([^;]+);").expect("a regular expression");
    let inline = Regex::new(r"\b(?:crate|super)(?:\s*::\s*\w+)+").expect("a regular expression");
    let paths: Vec<(Path, &Source)> = sources
        .iter()
        .filter_map(|source| Some((path_of(&source.path)?, *source)))
        .collect();
    let mut tree = Tree::default();
    for (path, source) in &paths {
        let children: BTreeSet<&str> = paths
            .iter()
            .filter(|(other, _)| other.len() == path.len() + 1 && other.starts_with(path))
            .filter_map(|(other, _)| other.last().map(String::as_str))
            .collect();
        if !children.is_empty() {
            tree.folders.insert(path.clone());
        }
        let code = source.shipped_code();
        let mut module = Module {
            file: source.path.clone(),
            names: Vec::new(),
            scope: BTreeMap::new(),
        };
        let mut outside = code.clone();
        for found in uses.captures_iter(&code) {
            let whole = found.get(0).expect("the match");
            let mut all = Vec::new();
            leaves(&found[1], &[], &mut all);
            for (name, leaf) in all {
                if let Some(rooted) = rooted(&leaf, path, &children) {
                    module.names.push((source.line_of(whole.start()), rooted.clone()));
                    module.scope.insert(name, rooted);
                }
            }
            outside.replace_range(whole.range(), &" ".repeat(whole.len()));
        }
        for found in inline.find_iter(&outside) {
            let written: Path = segments(found.as_str()).collect();
            if let Some(rooted) = rooted(&written, path, &children) {
                module.names.push((source.line_of(found.start()), rooted));
            }
        }
        tree.modules.insert(path.clone(), module);
    }
    tree
}

impl Tree {
    /// The module that defines what `path` names, following re-exports.
    fn home(&self, path: &[String]) -> Path {
        let mut home = Path::new();
        let mut rest: Path = path.to_vec();
        // Re-exports that lead in a circle do not compile; the bound only keeps a misread file from running on.
        for _ in 0..64 {
            if rest.is_empty() {
                break;
            }
            let name = rest.remove(0);
            let mut child = home.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                home = child;
            } else if let Some(target) = self.modules.get(&home).and_then(|module| module.scope.get(&name)) {
                if *target == child {
                    break;
                }
                rest = target.iter().cloned().chain(rest).collect();
                home.clear();
            } else {
                break;
            }
        }
        home
    }

    /// Edges between the nodes directly below `parent`, each with one place that causes it.
    fn edges(&self, parent: &[String]) -> BTreeMap<(String, String), String> {
        let node = |path: &[String]| -> Option<String> {
            let child = path.get(..=parent.len()).filter(|_| path.starts_with(parent))?;
            (parent.is_empty() || self.folders.contains(child)).then(|| child[parent.len()].clone())
        };
        let mut edges = BTreeMap::new();
        for (path, module) in &self.modules {
            let Some(from) = node(path) else { continue };
            for (line, name) in &module.names {
                if let Some(to) = node(&self.home(name)).filter(|to| *to != from) {
                    edges
                        .entry((from.clone(), to))
                        .or_insert_with(|| format!("{}:{line}", module.file));
                }
            }
        }
        edges
    }
}

/// The sets of nodes that reach each other, largest first.
fn knots<'a>(edges: &'a BTreeMap<(String, String), String>) -> Vec<BTreeSet<&'a str>> {
    let mut reach: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        reach.entry(from).or_default().insert(to);
    }
    loop {
        let grown: BTreeMap<&'a str, BTreeSet<&'a str>> = reach
            .iter()
            .map(|(from, to)| {
                let further = to.iter().filter_map(|node| reach.get(node)).flatten().copied();
                (*from, to.iter().copied().chain(further).collect())
            })
            .collect();
        if grown == reach {
            break;
        }
        reach = grown;
    }
    let together = |node: &str| -> BTreeSet<&'a str> {
        let both = reach
            .iter()
            .filter(|(other, theirs)| reach[node].contains(*other) && theirs.contains(node));
        both.map(|(other, _)| *other).collect()
    };
    let found: BTreeSet<BTreeSet<&str>> = reach
        .keys()
        .map(|node| together(node))
        .filter(|knot| !knot.is_empty())
        .collect();
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|knot| std::cmp::Reverse(knot.len()));
    found
}

fn cycles(tree: &Tree) -> Vec<String> {
    let mut texts = Vec::new();
    for parent in &tree.folders {
        let edges = tree.edges(parent);
        for knot in knots(&edges) {
            let names: Vec<&str> = knot.iter().copied().collect();
            let mut text = format!(
                "cycle of {} below {}: {}",
                knot.len(),
                if parent.is_empty() {
                    "src".to_owned()
                } else {
                    parent.join("/")
                },
                names.join(", ")
            );
            for ((from, to), place) in edges
                .iter()
                .filter(|((from, to), _)| knot.contains(from.as_str()) && knot.contains(to.as_str()))
            {
                text.push_str(&format!("\n      {from} -> {to} ({place})"));
            }
            texts.push(text);
        }
    }
    texts
}

#[test]
fn modules_of_a_crate_form_no_cycle() {
    let sources = rust_files();
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test_file()) {
        crates.entry(crate_of(&source.path)).or_default().push(source);
    }
    let findings = crates
        .into_iter()
        .map(|(name, sources)| (name.to_owned(), cycles(&tree(&sources))));
    let findings = findings.filter(|(_, texts)| !texts.is_empty()).collect();
    judge("cycles between the modules of a crate", &findings, NOT_YET);
}

#[cfg(test)]
fn example(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source> = files
        .iter()
        .map(|(name, text)| Source::new(format!("crates/x/src/{name}"), (*text).to_owned()))
        .collect();
    cycles(&tree(&sources.iter().collect::<Vec<_>>()))
}

#[test]
fn a_cycle_is_found_through_use_trees_re_exports_and_plain_paths() {
    let lib = "mod a;\nmod b;\nmod c;\npub use c::deep::Thing;";
    let found = example(&[
        ("lib.rs", lib),
        ("a.rs", "use crate::{b::{self, B}};"),
        ("b.rs", "fn f() -> crate::Thing { todo() }"),
        ("c/mod.rs", "mod deep;"),
        ("c/deep.rs", "use super::super::a::{A as X};"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("cycle of 3 below src: a, b, c"), "{found:?}");
    assert!(found[0].contains("b -> c (crates/x/src/b.rs:1)"), "{found:?}");
}

#[test]
fn tests_and_the_own_folder_cause_no_cycle() {
    let found = example(&[
        ("lib.rs", "mod a;\nmod b;"),
        ("a.rs", "use crate::b::B;"),
        (
            "b/mod.rs",
            "mod c;\nmod d;\npub use c::B;\n#[cfg(test)]\nmod tests { use crate::a::A; }",
        ),
        ("b/c.rs", "use super::d::D;"),
        ("b/d.rs", "use super::c::C;"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}
