//! The table of crates in ARCHITECTURE.md is true: no crate uses more of ours than it says, and the pure ones use nothing that acts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::cargo::metadata;
use crate::lints::PURE;
use serde_json::Value;

/// What each crate may use of ours, in normal dependencies, as the table has it.
fn layers() -> BTreeMap<&'static str, Vec<&'static str>> {
    let manual = include_str!("../../../../ARCHITECTURE.md");
    let (_, table) = manual
        .split_once("| crate | what lives there | may use |\n")
        .expect("the table");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let cells = |row: &'static str| -> Vec<&str> { row.split('|').map(str::trim).collect() };
    let rows: Vec<Vec<&str>> = rows.map(cells).collect();
    let names: Vec<&str> = rows.iter().map(|row| row[1].trim_matches('`')).collect();
    let uses = |text: &'static str| match text {
        "nothing of ours" => Vec::new(),
        "everything" => names.clone(),
        others => others.split(", ").collect(),
    };
    names.iter().copied().zip(rows.iter().map(|row| uses(row[3]))).collect()
}

/// The pure crate that reads Kubernetes types, whose crates can act.
const READS_KUBERNETES_TYPES: &str = "state";
/// What the whole normal dependency tree of the other pure crates must not contain.
const ACTING: [&str; 11] = [
    "tokio",
    "kube",
    "kube-client",
    "k8s-openapi",
    "axum",
    "hyper",
    "rustls",
    "tracing-subscriber",
    "rand",
    "getrandom",
    "fastrand",
];

struct Graph {
    names: BTreeMap<String, String>,
    normal: BTreeMap<String, Vec<String>>,
}

fn graph() -> Graph {
    let metadata = metadata();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let names = metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|p| (text(&p["id"]), text(&p["name"])));
    let normal = metadata["resolve"]["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| {
            let kinds = |dep: &Value| {
                dep["dep_kinds"]
                    .as_array()
                    .expect("kinds")
                    .iter()
                    .any(|kind| kind["kind"].is_null())
            };
            let deps = node["deps"]
                .as_array()
                .expect("deps")
                .iter()
                .filter(|dep| kinds(dep))
                .map(|dep| text(&dep["pkg"]));
            (text(&node["id"]), deps.collect())
        });
    Graph {
        names: names.collect(),
        normal: normal.collect(),
    }
}

impl Graph {
    fn id(&self, name: &str) -> &String {
        self.names
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(id, _)| id)
            .expect("a crate of that name")
    }

    fn direct(&self, name: &str) -> BTreeSet<&str> {
        self.normal[self.id(name)]
            .iter()
            .map(|id| self.names[id].as_str())
            .collect()
    }

    fn all(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut queue = VecDeque::from([self.id(name)]);
        while let Some(id) = queue.pop_front() {
            for dep in &self.normal[id] {
                if found.insert(self.names[dep].as_str()) {
                    queue.push_back(dep);
                }
            }
        }
        found
    }
}

#[test]
fn crates_use_only_the_layers_below_them() {
    let (graph, layers) = (graph(), layers());
    let ours: BTreeSet<&str> = graph
        .names
        .values()
        .filter_map(|name| name.strip_prefix("kerf-"))
        .collect();
    assert_eq!(
        ours,
        layers.keys().copied().collect(),
        "the crates ARCHITECTURE.md lists"
    );
    for (name, allowed) in &layers {
        assert!(
            allowed.iter().all(|name| ours.contains(name)),
            "{name} may use {allowed:?}"
        );
        for dep in graph.direct(&format!("kerf-{name}")) {
            if let Some(dep) = dep.strip_prefix("kerf-") {
                assert!(
                    allowed.contains(&dep),
                    "{name} uses {dep}, which ARCHITECTURE.md does not allow"
                );
            }
        }
    }
}

#[test]
fn pure_crates_cannot_act() {
    let graph = graph();
    for name in PURE.into_iter().filter(|name| *name != READS_KUBERNETES_TYPES) {
        let all = graph.all(&format!("kerf-{name}"));
        for acting in ACTING {
            assert!(!all.contains(acting), "{name} reaches {acting}");
        }
    }
}
