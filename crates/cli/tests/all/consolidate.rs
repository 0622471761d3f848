//! `kerf simulate --consolidate` and `kerf explain node/NAME` as a user meets them.

use crate::kerf::{Outcome, kerf, kerf_with_input};
use crate::manifest::{self, NOW, class, class_ref, list};
use kerf_testkit::objects;
use serde_json::{Value, json};

pub(crate) fn run(args: &[&str], items: &[Value]) -> Outcome {
    let args: Vec<&str> = args.iter().chain(&["-f", "-"]).chain(&NOW).copied().collect();
    kerf_with_input(&args, list(items).as_bytes())
}

pub(crate) fn document(args: &[&str], items: &[Value]) -> (i32, Value) {
    let args: Vec<&str> = args.iter().chain(&["-o", "json"]).copied().collect();
    let outcome = run(&args, items);
    let text = format!("{}\n{}", outcome.stdout, outcome.stderr);
    (outcome.code, serde_json::from_str(&outcome.stdout).expect(&text))
}

pub(crate) fn pool(disruption: &Value) -> Vec<Value> {
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge", "m5.2xlarge"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
    let spec = json!({"disruption": disruption});
    vec![class("default"), manifest::pool("default", &types, spec)]
}

fn open_pool() -> Vec<Value> {
    pool(&json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}))
}

/// A node of the pool that has been up for a day, and its claim.
pub(crate) fn node(name: &str, kind: &str, cpu: u32) -> Vec<Value> {
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
            "spec": {"nodeClassRef": class_ref("default"), "requirements": []},
            "status": {"providerID": id, "nodeName": name, "conditions": conditions, "capacity": resources, "allocatable": resources}}),
    ]
}

/// A pod of a ReplicaSet that has run on the node for an hour.
pub(crate) fn running_replica(name: &str, node: &str, cpu: &str, annotations: &Value) -> Value {
    let mut pod = objects::running(objects::pod(name, cpu), node);
    pod["metadata"]["annotations"] = annotations.clone();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]);
    pod["status"]["startTime"] = json!("2026-01-04T08:00:00Z");
    pod
}

/// An empty node, two nodes that one of could hold all pods of, and one that is held by a pod.
fn cluster() -> Vec<Value> {
    let mut items = open_pool();
    for name in ["empty", "one", "two", "held"] {
        items.extend(node(name, "m5.2xlarge", 8));
    }
    items.push(running_replica("p1", "one", "1", &json!({})));
    items.push(running_replica("p2", "two", "1", &json!({})));
    items.push(running_replica(
        "p3",
        "held",
        "7",
        &json!({"karpenter.sh/do-not-disrupt": "true"}),
    ));
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
    // No controller has run for a day.
    let remedy = "none: that time was over at 2026-01-04T08:00:30Z; Kerf marks its NodeClaim Consolidatable by itself";
    assert_eq!(obstacle["remedy"], remedy);
}

#[test]
fn the_table_tells_it_to_people() {
    let outcome = run(&["simulate", "--consolidate"], &cluster());
    for part in [
        "Would go now, in this order:\n  1. remove 1 node, saves 0.3840 $/h: nothing on it needs a place (Empty)\n",
        "    NODE   POOL     TYPE        PRICE       PODS TO MOVE  DISRUPTION\n    empty  default  m5.2xlarge  0.3840 $/h  0             1.00\n",
        "  2. replace 2 nodes with 1, saves 0.6720 $/h: their pods fit on other nodes and a cheaper one (Underutilized)\n",
        "    + new node  default  m5.large or 1 more  0.0960 $/h\n",
        "Stays, and what would change that:\n",
        "  held\n    PodAnnotation: Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/p3)\n      remedy: wait until",
        "4 nodes, 1.5360 $/h: 3 would go, 1 would come instead, 2 pods would move; saves 1.0560 $/h\n",
    ] {
        assert!(outcome.stdout.contains(part), "{part} is missing:\n{}", outcome.stdout);
    }
}

#[test]
fn where_nothing_can_go_the_exit_code_says_so() {
    let mut items = pool(&json!({"consolidateAfter": "Never"}));
    items.extend(node("one", "m5.large", 2));
    items.push(running_replica("p", "one", "1500m", &json!({})));
    let (code, report) = document(&["simulate", "--consolidate"], &items);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["moves"], json!([]));
    assert_eq!(report["stays"][0]["obstacles"][0]["code"], "ConsolidationDisabled");
    assert_eq!(report["totals"]["disruption"].to_string(), "0.0", "without a sign");
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
        text.contains("\nWhy, and what would change that:\n  PodAnnotation (pod/default/p3)\n"),
        "{text}"
    );
    assert_eq!(run(&["explain", "node/nowhere"], &cluster()).code, 3);
}

#[test]
fn nodes_nobody_manages_are_left_alone() {
    let outcome = kerf(&["explain", "node/none", "-f", "examples/web.yaml"]);
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (3, "error: there is no Node or NodeClaim none in the input\n")
    );
    let bare = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}, "status": {"allocatable": {"cpu": "1"}, "capacity": {"cpu": "1"}}});
    let (code, explanation) = document(&["explain", "node/bare"], &[bare]);
    assert_eq!((code, &explanation["obstacles"][0]["code"]), (1, &"Unmanaged".into()));
}

const PROTECTED: &str = "karpenter.sh/do-not-disrupt";

pub(crate) fn codes(stays: &Value) -> Vec<&str> {
    let obstacles = stays["obstacles"].as_array().expect("obstacles");
    obstacles.iter().filter_map(|one| one["code"].as_str()).collect()
}

/// A budget over the pods labelled app=db that allows nothing.
fn pdb(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}})
}

#[test]
fn everything_in_the_way_of_a_node_is_told() {
    let mut items = pool(&json!({"consolidateAfter": "720h", "budgets": [{"nodes": "0"}]}));
    let mut one = node("one", "m5.2xlarge", 8);
    one[0]["metadata"]["annotations"] = json!({PROTECTED: "true"});
    let conditions = one[1]["status"]["conditions"].as_array_mut().expect("conditions");
    conditions.retain(|condition| condition["type"] != "Consolidatable");
    items.extend(one);
    items.push(running_replica("a", "one", "1", &json!({PROTECTED: "true"})));
    items.push(running_replica("b", "one", "1", &json!({PROTECTED: "48h"})));
    let mut covered = running_replica("c", "one", "1", &json!({}));
    covered["metadata"]["labels"] = json!({"app": "db"});
    items.extend([covered, pdb("first"), pdb("second")]);
    let (code, explanation) = document(&["explain", "node/one"], &items);
    assert_eq!(code, 1, "{explanation}");
    let expected = [
        "NodeAnnotation",
        "PodAnnotation",
        "PodAnnotation",
        "MultiplePdbs",
        "Unsettled",
        "Budget",
    ];
    assert_eq!(codes(&explanation), expected, "{explanation}");
    assert_eq!(explanation["message"], "stays, for 6 reasons");
    let remedy = explanation["obstacles"][2]["remedy"].as_str().expect("a remedy");
    assert!(remedy.contains("2026-01-06T08:00:00Z"), "{remedy}");
    assert_eq!(
        explanation["obstacles"][3]["objects"],
        json!([
            "poddisruptionbudget/default/first",
            "poddisruptionbudget/default/second",
            "pod/default/c"
        ])
    );
    let (_, report) = document(&["simulate", "--consolidate"], &items);
    assert_eq!(codes(&report["stays"][0]), expected);
}

/// A cluster of two nodes, of which `one` would go, and an object that cannot be read.
fn with_unread(object: Value) -> Vec<Value> {
    let mut items = open_pool();
    items.extend(node("one", "m5.large", 2));
    items.extend(node("two", "m5.2xlarge", 8));
    items.push(running_replica("p", "one", "1", &json!({})));
    items.push(running_replica("big", "two", "5", &json!({})));
    items.push(object);
    items
}

fn broken_pod(change: impl FnOnce(&mut Value)) -> Value {
    let mut broken = running_replica("broken", "one", "1e999999999999", &json!({PROTECTED: "true"}));
    change(&mut broken);
    broken
}

fn broken_pdb(change: impl FnOnce(&mut Value)) -> Value {
    let mut broken = pdb("broken");
    broken["spec"]["minAvailable"] = json!(1);
    change(&mut broken);
    broken
}

#[test]
fn what_an_unread_object_may_protect_stays() {
    for (object, named) in [
        (broken_pod(|_| {}), "pod/default/broken"),
        (
            broken_pod(|pod| pod["spec"]["priority"] = json!("high")),
            "pod/default/broken",
        ),
        // Which node it is on cannot be read either: its whole namespace.
        (
            broken_pod(|pod| pod["spec"]["nodeName"] = json!(7)),
            "pod/default/broken",
        ),
        (broken_pdb(|_| {}), "poddisruptionbudget/default/broken"),
        // Written without quotes, a namespace may be a number.
        (
            broken_pdb(|pdb| pdb["metadata"]["namespace"] = json!(2026)),
            "poddisruptionbudget/broken",
        ),
        (
            broken_pdb(|pdb| pdb["apiVersion"] = json!("policy/v1beta1")),
            "poddisruptionbudget/default/broken",
        ),
    ] {
        let items = with_unread(object);
        let (code, explanation) = document(&["explain", "node/one"], &items);
        assert_eq!((code, &explanation["verdict"]), (2, &"Stays".into()), "{explanation}");
        let told = explanation["obstacles"].as_array().expect("obstacles");
        let unread = told
            .iter()
            .find(|one| one["code"] == "Unreadable")
            .expect("the obstacle");
        assert_eq!(unread["objects"], json!([named]), "{explanation}");
        let (code, report) = document(&["simulate", "--consolidate"], &items);
        assert_eq!((code, &report["moves"]), (2, &json!([])), "{named}: {report}");
    }
}

#[test]
fn what_an_unread_object_cannot_protect_goes() {
    for object in [
        // It waits for a node.
        broken_pod(|pod| pod["spec"]["nodeName"] = Value::Null),
        broken_pod(|pod| pod["status"]["phase"] = json!("Succeeded")),
        broken_pdb(|pdb| pdb["metadata"]["namespace"] = json!("elsewhere")),
    ] {
        let text = object.to_string();
        let (code, explanation) = document(&["explain", "node/one"], &with_unread(object));
        assert_eq!(
            (code, &explanation["verdict"]),
            (0, &"Goes".into()),
            "{text}: {explanation}"
        );
    }
}

/// Nobody knows what it held.
#[test]
fn a_document_that_cannot_be_read_at_all_leaves_the_answer_in_doubt() {
    let unknown = json!({"apiVersion": "example.com/v1", "metadata": {"name": "x"}});
    let (code, explanation) = document(&["explain", "node/one"], &with_unread(unknown));
    assert_eq!((code, &explanation["verdict"]), (2, &"Goes".into()), "{explanation}");
}

/// How much room is left beside a pod that cannot be read is not known.
#[test]
fn nothing_moves_onto_a_node_with_an_unread_pod() {
    let items = with_unread(broken_pod(|pod| pod["spec"]["nodeName"] = json!("two")));
    let (_, explanation) = document(&["explain", "node/one"], &items);
    assert_eq!(codes(&explanation), ["NotCheaper"], "{explanation}");
}

// DIS-053
#[test]
fn an_annotation_that_protects_nothing_is_pointed_out() {
    let mut items = open_pool();
    items.extend(node("one", "m5.large", 2));
    items.extend(node("two", "m5.2xlarge", 8));
    items.push(running_replica("p", "one", "1", &json!({PROTECTED: "yes"})));
    items.push(running_replica("big", "two", "5", &json!({PROTECTED: "-1h"})));
    let note = |pod: &str, text: &str| {
        format!(
            "note: Pod default/{pod}: {PROTECTED}: \"{text}\" is neither true nor a positive duration and does not protect the pod\n"
        )
    };
    let outcome = run(&["explain", "node/one"], &items);
    assert_eq!((outcome.code, outcome.stderr), (0, note("p", "yes")));
    let outcome = run(&["simulate", "--consolidate"], &items);
    assert_eq!(
        (outcome.code, outcome.stderr),
        (1, note("p", "yes") + &note("big", "-1h"))
    );
}

// DIS-079
#[test]
fn an_invalid_budget_is_named_and_complained_of() {
    let budgets = json!([{"nodes": "100%"}, {"nodes": "1", "schedule": "every full moon at noon", "duration": "1h"}]);
    let mut items = pool(&json!({"consolidateAfter": "30s", "budgets": budgets}));
    items.extend(node("one", "m5.large", 2));
    let (code, explanation) = document(&["explain", "node/one"], &items);
    assert_eq!((code, codes(&explanation)), (1, vec!["InvalidBudget"]), "{explanation}");
    let obstacle = &explanation["obstacles"][0];
    assert_eq!(obstacle["objects"], json!(["nodepool/default"]));
    assert_eq!(obstacle["remedy"], "correct spec.disruption.budgets[1] of the NodePool");
    for (args, code) in [(vec!["explain", "node/one"], 1), (vec!["simulate", "--consolidate"], 2)] {
        let outcome = run(&args, &items);
        assert_eq!(outcome.code, code, "{}", outcome.stdout);
        let said = "error: NodePool default: spec.disruption.budgets[1]: schedule \"every full moon at noon\": ";
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
}

/// The marks of a command, as the controller writes them.
fn mark(node: &mut [Value], taint: bool, reason: bool) {
    if taint {
        node[0]["spec"]["taints"] = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    }
    if reason {
        let conditions = node[1]["status"]["conditions"].as_array_mut().expect("conditions");
        conditions.push(
            json!({"type": "DisruptionReason", "status": "True", "reason": "Empty", "message": "",
            "lastTransitionTime": "2026-01-05T07:59:00Z"}),
        );
    }
}

// DIS-023, DIS-081, DIS-257, DIS-258
#[test]
fn a_node_that_a_command_holds_is_not_taken_twice_and_counts_against_budgets() {
    for (taint, reason) in [(true, true), (true, false), (false, true)] {
        let mut items = pool(&json!({"consolidateAfter": "30s", "budgets": [{"nodes": "1"}]}));
        let mut held = node("held", "m5.large", 2);
        mark(&mut held, taint, reason);
        items.extend(held);
        items.extend(node("other", "m5.large", 2));
        let (code, explanation) = document(&["explain", "node/held"], &items);
        assert_eq!((code, codes(&explanation)), (1, vec!["Queued"]), "{explanation}");
        let text = run(&["explain", "node/held"], &items).stdout;
        assert!(text.starts_with("Node held is on its way out already.\n"), "{text}");
        let (code, report) = document(&["simulate", "--consolidate"], &items);
        assert_eq!((code, &report["moves"]), (0, &json!([])), "{report}");
        let other = report["stays"]
            .as_array()
            .expect("stays")
            .iter()
            .find(|one| one["node"] == "other");
        assert_eq!(codes(other.expect("the other node")), ["Budget"], "{report}");
    }
}

/// A machine goes by one name, and is asked for by any.
#[test]
fn a_machine_with_two_nodes_is_explained_by_either() {
    let mut items = open_pool();
    items.extend(node("one", "m5.large", 2));
    let mut again = node("again", "m5.large", 2).swap_remove(0);
    again["spec"]["providerID"] = json!("kwok://one");
    items.push(again);
    for name in ["node/one", "node/again", "nodeclaim/claim-one"] {
        let (code, explanation) = document(&["explain", name], &items);
        assert_eq!(
            (code, codes(&explanation)),
            (1, vec!["Doubled"]),
            "{name}: {explanation}"
        );
    }
}

/// The texts a function `code` gives.
fn codes_in(source: &str) -> Vec<&str> {
    let (_, body) = source.split_once("fn code(&self)").expect("the function");
    let (body, _) = body.split_once("\n    }\n").expect("its end");
    body.split('"').skip(1).step_by(2).collect()
}

#[test]
fn every_code_is_documented() {
    let mut codes = codes_in(include_str!("../../../disruption/src/blocker.rs"));
    codes.extend(codes_in(include_str!("../../../disruption/src/unconsolidatable.rs")));
    for source in [
        include_str!("../../../decide/src/forecast.rs"),
        include_str!("../../../decide/src/drift_obstacles.rs"),
    ] {
        let here = source.split(" code: \"").skip(1);
        codes.extend(here.filter_map(|rest| rest.split('"').next()));
    }
    assert!(codes.len() > 30 && codes.contains(&"Later") && codes.contains(&"Unreadable"));
    // The obstacles of empty nodes are those of emptiness.
    codes.retain(|code| *code != "LeftToEmptiness");
    codes.retain(|code| !code.is_empty());
    codes.sort_unstable();
    codes.dedup();
    let manual = include_str!("../../../../docs/consolidation-report.md");
    let (_, table) = manual.split_once("| code | meaning |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut documented: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    documented.sort_unstable();
    assert_eq!(documented, codes);
}

#[test]
fn rebalancing_prints_the_target_and_the_steps_that_lead_there() {
    let (code, document) = document(&["simulate", "--rebalance"], &cluster());
    assert_eq!((code, &document["kind"]), (1, &json!("RebalanceReport")));
    assert_eq!(document["nodes"], 4);
    let (target, after) = (&document["target"], &document["after"]);
    assert_eq!(target["stayingNodes"], 1, "the node that is held");
    let price = |value: &Value| value["pricePerHour"].as_f64().unwrap();
    assert!(price(target) <= price(after), "{document}");
    let steps = document["steps"].as_array().unwrap();
    assert_eq!(steps[0]["reason"], "Empty");
    let mut left = price(&document);
    for step in steps {
        left -= step["savingsPerHour"].as_f64().unwrap();
        assert!(
            (step["pricePerHourAfter"].as_f64().unwrap() - left).abs() < 1e-9,
            "{step}"
        );
    }
    assert!((price(after) - left).abs() < 1e-9);
    let table = run(&["simulate", "--rebalance"], &cluster());
    assert!(
        table.stdout.contains("Today: 4 nodes") && table.stdout.contains("After all steps"),
        "{}",
        table.stdout
    );
    let nothing = run(&["simulate", "--rebalance"], &open_pool());
    assert_eq!(nothing.code, 0, "{}", nothing.stderr);
    assert!(
        nothing.stdout.contains("No step would save anything"),
        "{}",
        nothing.stdout
    );
}
