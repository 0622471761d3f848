//! `kerf simulate --consolidate` and `kerf explain node/NAME` as a user meets them.

mod support;

use serde_json::{Value, json};
use support::{Outcome, kerf, kerf_with_input};

const NOW: [&str; 2] = ["--now", "2026-01-05T08:00:00Z"];

fn run(args: &[&str], items: &[Value]) -> Outcome {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let args: Vec<&str> = args.iter().chain(&["-f", "-"]).chain(&NOW).copied().collect();
    kerf_with_input(&args, list.as_bytes())
}

fn document(args: &[&str], items: &[Value]) -> (i32, Value) {
    let args: Vec<&str> = args.iter().chain(&["-o", "json"]).copied().collect();
    let outcome = run(&args, items);
    let text = format!("{}\n{}", outcome.stdout, outcome.stderr);
    (outcome.code, serde_json::from_str(&outcome.stdout).expect(&text))
}

fn pool(disruption: &Value) -> Vec<Value> {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge", "m5.2xlarge"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
    vec![
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"disruption": disruption, "template": {"spec": {"nodeClassRef": class, "requirements": types}}}}),
    ]
}

fn open_pool() -> Vec<Value> {
    pool(&json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}))
}

/// A node of the pool that has been up for a day, and its claim.
fn node(name: &str, kind: &str, cpu: u32) -> Vec<Value> {
    let labels = json!({"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": kind, "karpenter.sh/capacity-type": "on-demand",
        "topology.kubernetes.io/zone": "us-east-1a", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"});
    let day = "2026-01-04T08:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": day});
    let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Ready", "Consolidatable"]
        .map(condition)
        .to_vec();
    let resources = json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "58"});
    let id = format!("kwok://{name}");
    vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, "creationTimestamp": day},
            "spec": {"providerID": id},
            "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("claim-{name}"), "labels": labels, "creationTimestamp": day},
            "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
            "status": {"providerID": id, "nodeName": name, "conditions": conditions, "capacity": resources, "allocatable": resources}}),
    ]
}

fn pod(name: &str, node: &str, cpu: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running", "startTime": "2026-01-04T08:00:00Z"}})
}

/// An empty node, two nodes that one of could hold all pods of, and one that is held by a pod.
fn cluster() -> Vec<Value> {
    let mut items = open_pool();
    for name in ["empty", "one", "two", "held"] {
        items.extend(node(name, "m5.2xlarge", 8));
    }
    items.push(pod("p1", "one", "1", &json!({})));
    items.push(pod("p2", "two", "1", &json!({})));
    items.push(pod("p3", "held", "7", &json!({"karpenter.sh/do-not-disrupt": "true"})));
    items
}

#[test]
fn moves_savings_and_the_reason_of_every_node_that_stays() {
    let (code, report) = document(&["simulate", "--consolidate"], &cluster());
    assert_eq!(code, 1, "{report}");
    assert_eq!(report["apiVersion"], "kerf.sh/v1alpha1");
    assert_eq!(report["kind"], "ConsolidationReport");
    assert_eq!(report["now"], NOW[1]);
    let moves = report["moves"].as_array().expect("moves");
    let reasons: Vec<&Value> = moves.iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["Empty", "Underutilized"], "{report}");
    assert_eq!(moves[0]["nodes"][0]["node"], "empty");
    assert_eq!(
        (&moves[0]["decision"], &moves[0]["pods"]),
        (&"delete".into(), &0.into())
    );
    // What is emptied is no place for what moves, and the held node's pod stays where it is.
    let gone: Vec<&Value> = moves[1]["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| &node["node"])
        .collect();
    assert!(gone.iter().all(|name| **name == "one" || **name == "two"), "{report}");
    let stays = report["stays"].as_array().expect("stays");
    let held = stays.iter().find(|one| one["node"] == "held").expect("the held node");
    assert_eq!(held["obstacles"][0]["code"], "PodAnnotation");
    assert_eq!(held["obstacles"][0]["objects"], json!(["pod/default/p3"]));
    assert!(
        held["obstacles"][0]["remedy"]
            .as_str()
            .is_some_and(|remedy| remedy.contains("wait until the pod has finished"))
    );
    let totals = &report["totals"];
    assert_eq!(totals["nodes"], 4);
    let amount = |value: &Value| value.as_f64().expect("an amount");
    let saved: f64 = moves.iter().map(|one| amount(&one["savingsPerHour"])).sum();
    assert!((amount(&totals["savingsPerHour"]) - saved).abs() < 1e-9 && saved > 0.0);
    assert_eq!(
        stays.len()
            + moves
                .iter()
                .map(|one| one["nodes"].as_array().map_or(0, Vec::len))
                .sum::<usize>(),
        4
    );
}

#[test]
fn a_claim_nobody_marked_says_what_it_waits_for() {
    let mut items = open_pool();
    let mut fresh = node("fresh", "m5.2xlarge", 8);
    let conditions = fresh[1]["status"]["conditions"].as_array_mut().expect("conditions");
    conditions.retain(|condition| condition["type"] != "Consolidatable");
    items.extend(fresh);
    let (code, report) = document(&["simulate", "--consolidate"], &items);
    assert_eq!(code, 0, "{report}");
    let obstacle = &report["stays"][0]["obstacles"][0];
    assert_eq!(obstacle["code"], "Unsettled");
    // The time may be long past where no controller runs.
    let remedy =
        "wait until its NodeClaim is Consolidatable: not before 2026-01-04T08:00:30Z, later if pods come or go";
    assert_eq!(obstacle["remedy"], remedy);
}

#[test]
fn the_table_tells_it_to_people() {
    let outcome = run(&["simulate", "--consolidate"], &cluster());
    for part in [
        "Would go now:\n Empty (delete), saves 0.3840 $/h\n  empty  default  m5.2xlarge  0.3840 $/h  empty\n",
        "Stays:\n",
        "  held\n    PodAnnotation: Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/p3)\n      to change it: wait until",
        "4 nodes, 1.5360 $/h: ",
    ] {
        assert!(outcome.stdout.contains(part), "{part} is missing:\n{}", outcome.stdout);
    }
}

#[test]
fn where_nothing_can_go_the_exit_code_says_so() {
    let mut items = pool(&json!({"consolidateAfter": "Never"}));
    items.extend(node("one", "m5.large", 2));
    items.push(pod("p", "one", "1500m", &json!({})));
    let (code, report) = document(&["simulate", "--consolidate"], &items);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["moves"], json!([]));
    assert_eq!(report["stays"][0]["obstacles"][0]["code"], "ConsolidationDisabled");
    assert!(
        run(&["simulate", "--consolidate"], &items)
            .stdout
            .starts_with("Nothing would go now.\n")
    );
}

#[test]
fn one_node_is_explained_by_either_of_its_names() {
    for subject in ["node/held", "no/held", "nodes/held", "nodeclaim/claim-held"] {
        let (code, explanation) = document(&["explain", subject], &cluster());
        assert_eq!(code, 1, "{subject}: {explanation}");
        assert_eq!(explanation["kind"], "NodeExplanation");
        assert_eq!(
            (&explanation["node"], &explanation["nodeClaim"]),
            (&"held".into(), &"claim-held".into())
        );
        assert_eq!(explanation["verdict"], "Stays");
        assert_eq!(explanation["obstacles"][0]["code"], "PodAnnotation");
    }
    let (code, explanation) = document(&["explain", "node/empty"], &cluster());
    assert_eq!((code, &explanation["verdict"]), (0, &"Goes".into()));
    assert_eq!(explanation["move"]["message"], "delete: [empty]");
    let text = run(&["explain", "node/held"], &cluster()).stdout;
    assert!(text.starts_with("Node held stays.\n\n  NodePool   default\n"), "{text}");
    assert!(
        text.contains("\nWhy it stays:\n  PodAnnotation (pod/default/p3)\n"),
        "{text}"
    );
    assert_eq!(run(&["explain", "node/nowhere"], &cluster()).code, 3);
}

#[test]
fn nodes_nobody_manages_are_left_alone() {
    let outcome = kerf(&["explain", "node/none", "-f", "examples/web.yaml"]);
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (3, "error: there is no node none\n")
    );
    let bare = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}, "status": {"allocatable": {"cpu": "1"}, "capacity": {"cpu": "1"}}});
    let (code, explanation) = document(&["explain", "node/bare"], &[bare]);
    assert_eq!((code, &explanation["obstacles"][0]["code"]), (1, &"Unmanaged".into()));
}
