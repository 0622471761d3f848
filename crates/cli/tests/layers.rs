//! The table of crates in ARCHITECTURE.md is true: no crate uses more of ours than it says, and the pure ones use nothing that acts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Command;

use serde_json::Value;

/// What each crate may use of ours, in normal dependencies.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("scheduler", &["model"]),
    ("check", &["model"]),
    ("disruption", &["model", "scheduler"]),
    ("api", &["model"]),
    ("state", &["model", "api"]),
    ("cloud", &["model", "api"]),
    ("runtime", &["model", "api"]),
    ("kwok", &["model", "api", "cloud", "runtime"]),
    (
        "controllers",
        &[
            "model",
            "scheduler",
            "check",
            "disruption",
            "api",
            "state",
            "cloud",
            "runtime",
        ],
    ),
    ("apiserver", &["api"]),
    ("sandbox", &["model", "api", "state", "check", "runtime", "apiserver"]),
];

/// Crates whose whole normal dependency tree must not be able to act.
const PURE: [&str; 4] = ["model", "scheduler", "check", "disruption"];
const ACTING: [&str; 8] = [
    "tokio",
    "kube",
    "kube-client",
    "k8s-openapi",
    "axum",
    "hyper",
    "rustls",
    "tracing-subscriber",
];

struct Graph {
    names: BTreeMap<String, String>,
    normal: BTreeMap<String, Vec<String>>,
}

fn graph() -> Graph {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    // What other platforms need is not downloaded by a build.
    let version = Command::new(&cargo)
        .arg("-vV")
        .output()
        .expect("cargo tells its version");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("a host");
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--filter-platform",
            host,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
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
    let graph = graph();
    for (name, allowed) in LAYERS {
        for dep in graph.direct(&format!("kerf-{name}")) {
            if let Some(ours) = dep.strip_prefix("kerf-") {
                assert!(
                    allowed.contains(&ours),
                    "{name} uses {ours}, which ARCHITECTURE.md does not allow"
                );
            }
        }
    }
}

#[test]
fn pure_crates_cannot_act() {
    let graph = graph();
    for name in PURE {
        let all = graph.all(&format!("kerf-{name}"));
        for acting in ACTING {
            assert!(!all.contains(acting), "{name} reaches {acting}");
        }
    }
}
