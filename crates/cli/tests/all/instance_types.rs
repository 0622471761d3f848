//! Which instance types each command uses, compared with the table of the README.

use crate::kerf::{kerf, kerf_with_input, root};
use crate::live::Up;
use crate::manifest::{NOW, class, list, pool};
use kerf_kwok::{builtin_catalogue, ec2_catalogue};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_testkit::objects::pod;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const EC2: &str = "EC2's in us-east-1";
const KWOK: &str = "the 144 types of Karpenter's KWOK provider";
const OF_THE_FILES: &str = "those of the nodes in the files: EC2's or KWOK's; without nodes EC2's in us-east-1";
const OF_THE_NODES: &str = "those of the cluster's nodes: EC2's or KWOK's";

/// A row of the table: the instance types, and what changes them.
struct Row {
    types: String,
    change: String,
}

/// The rows of the table by command.
fn table() -> BTreeMap<String, Row> {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let (_, section) = readme.split_once("## Instance types\n").expect("the section");
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [command, types, change] = <[&str; 3]>::try_from(cells).expect("three cells");
        let (types, change) = (types.to_owned(), change.to_owned());
        (command.replace('`', ""), Row { types, change })
    });
    rows.collect()
}

/// The words of the table for instance types with these names.
fn words(names: &BTreeSet<String>) -> String {
    let interner = Interner::default();
    let is_in = |catalogue: &Catalogue| {
        let known: BTreeSet<&str> = catalogue.types.iter().map(|kind| interner.text(kind.name)).collect();
        !names.is_empty() && names.iter().all(|name| known.contains(&**name))
    };
    let kwok = builtin_catalogue(&interner);
    if is_in(&ec2_catalogue(&interner)) {
        EC2.to_owned()
    } else if is_in(&kwok) {
        format!("the {} types of Karpenter's KWOK provider", kwok.types.len())
    } else {
        format!("{names:?}")
    }
}

/// A pool of any machine and a pod for it.
fn manifests() -> Vec<Value> {
    vec![
        class("default"),
        pool("default", &json!([]), json!({})),
        pod("web", "1"),
    ]
}

/// A Node of an instance type.
fn node_of(kind: &str) -> Value {
    let labels = json!({"node.kubernetes.io/instance-type": kind});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "known", "labels": labels}})
}

/// The instance types that a node for the pod may have, with these options.
fn offline(command: &[&str], options: &[&str]) -> BTreeSet<String> {
    of_files(command, options, &manifests())
}

fn of_files(command: &[&str], options: &[&str], objects: &[Value]) -> BTreeSet<String> {
    let args = [command, &["-f", "-", "-o", "json"], &NOW, options].concat();
    let outcome = kerf_with_input(&args, list(objects).as_bytes());
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    names(&serde_json::from_str(&outcome.stdout).expect("a document"))
}

/// The instance types in a report or an explanation.
fn names(document: &Value) -> BTreeSet<String> {
    let nodes = document["nodes"].as_array().into_iter().flatten();
    let options = document["instanceTypes"].as_array().into_iter().flatten();
    let names = nodes
        .map(|node| &node["instanceType"])
        .chain(options.map(|kind| &kind["name"]));
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const CLASSES: &str = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The instance types of the machines that the controller of the cluster launches.
fn launched(up: &Up) -> BTreeSet<String> {
    let paths = [CLASSES, POOLS, PODS];
    let objects: Vec<(&str, Value)> = paths.into_iter().zip(manifests()).collect();
    up.create(&objects);
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let claims = up.list("/apis/karpenter.sh/v1/nodeclaims");
        let kinds = claims
            .iter()
            .filter_map(|claim| claim["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str());
        let kinds: BTreeSet<String> = kinds.map(str::to_owned).collect();
        if !kinds.is_empty() {
            return kinds;
        }
        assert!(Instant::now() < end, "{claims:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_readme_names_the_types_of_offline_commands() {
    let table = table();
    let row = &table["simulate, explain -f"];
    let expected = (OF_THE_FILES, "`--instance-types FILE`, `--catalogue kwok`");
    assert_eq!((&*row.types, &*row.change), expected);
    let file = "crates/cli/tests/data/two-types.json";
    let of_the_file: BTreeSet<String> = ["small", "large"].map(str::to_owned).into();
    for command in [&["simulate"][..], &["explain", "pod/web"]] {
        assert_eq!(words(&offline(command, &[])), EC2, "{command:?}");
        for (kind, types) in [("c-4x-amd64-linux", KWOK), ("m5.large", EC2)] {
            let objects = [manifests(), vec![node_of(kind)]].concat();
            assert_eq!(words(&of_files(command, &[], &objects)), types, "{command:?}");
        }
        assert_eq!(words(&offline(command, &["--catalogue", "kwok"])), KWOK, "{command:?}");
        let own = offline(command, &["--instance-types", file]);
        assert!(!own.is_empty() && own.is_subset(&of_the_file), "{command:?}: {own:?}");
    }
}

#[test]
fn the_readme_names_the_types_of_the_demo() {
    let table = table();
    assert_eq!(table["demo"].change, "");
    let outcome = kerf(&["demo"]);
    let lines = outcome
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let kinds = lines.filter_map(|words| (words.get(1) == Some(&"launch")).then(|| words.get(3).copied())?);
    let kinds: BTreeSet<String> = kinds.map(str::to_owned).collect();
    assert_eq!(words(&kinds), table["demo"].types, "{kinds:?}");
}

#[test]
fn the_readme_names_the_types_of_up() {
    let row = &table()["up"];
    let up = Up::start_with("types-up", &[]);
    assert_eq!(words(&launched(&up)), row.types);
    assert_eq!(row.change, "`--instance-types FILE`");
    let up = Up::start_with("types-file", &["--instance-types", "tests/data/two-types.json"]);
    assert_eq!(launched(&up), ["small".to_owned()].into());
}

#[test]
fn the_readme_names_the_types_of_the_controller() {
    let row = &table()["controller"];
    let launched_with = |name: &str, options: &[&str]| {
        let up = Up::start(name);
        let mut controller = Command::new(env!("CARGO_BIN_EXE_kerf"))
            .args(["controller", "--disable-leader-election", "--metrics-port", "0"])
            .args(["--health-probe-port", "0", "--kubeconfig"])
            .arg(&up.kubeconfig)
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .expect("the controller starts");
        let kinds = launched(&up);
        let _ = controller.kill();
        let _ = controller.wait();
        kinds
    };
    assert_eq!(words(&launched_with("types-kwok", &[])), row.types);
    assert_eq!(row.change, "`--instance-types-file-path FILE`");
    let own = launched_with(
        "types-own",
        &["--instance-types-file-path", "tests/data/two-types.json"],
    );
    assert_eq!(own, ["small".to_owned()].into());
}

#[test]
fn the_readme_names_the_types_of_explain_on_a_cluster() {
    let row = &table()["explain on a cluster"];
    assert_eq!((&*row.types, &*row.change), (OF_THE_NODES, "the same"));
    let up = Up::start("types-explain");
    let paths = [CLASSES, POOLS, PODS];
    let objects: Vec<(&str, Value)> = paths.into_iter().zip(manifests()).collect();
    up.create(&objects);
    let kubeconfig = up.kubeconfig.display().to_string();
    let explained = || {
        let outcome = kerf(&["explain", "pod/web", "-o", "json", "--kubeconfig", &kubeconfig]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        words(&names(&serde_json::from_str(&outcome.stdout).expect("a document")))
    };
    for (kind, types) in [("c-4x-amd64-linux", KWOK), ("m5.large", EC2)] {
        up.create(&[("/api/v1/nodes", node_of(kind))]);
        assert_eq!(explained(), types, "{kind}");
        up.delete("/api/v1/nodes/known");
    }
}
