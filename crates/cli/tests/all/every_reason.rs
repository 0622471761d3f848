//! `kerf explain node/NAME` answers for every reason that might take the node: drift, age, repair and consolidation.

use crate::consolidate::{codes, document, node, pool, run, running_replica};
use serde_json::{Value, json};

const DAY: &str = "2026-01-04T08:00:00Z";

/// A pool with these budgets, and a node of it that drifted, with a pod.
fn drifted(budgets: &Value) -> Vec<Value> {
    let mut items = pool(&json!({"consolidateAfter": "30s", "budgets": budgets}));
    let mut one = node("one", "m5.large", 2);
    let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "", "lastTransitionTime": DAY});
    let conditions = one[1]["status"]["conditions"].as_array_mut().expect("conditions");
    conditions.push(drifted);
    items.extend(one);
    items.push(running_replica("p", "one", "1", &json!({})));
    items
}

fn obstacle<'a>(explanation: &'a Value, code: &str, reason: &str) -> &'a Value {
    let obstacles = explanation["obstacles"].as_array().expect("obstacles");
    let found = obstacles
        .iter()
        .find(|one| one["code"] == code && one["reason"] == reason);
    assert!(found.is_some(), "{code} for {reason} in {explanation}");
    found.expect("it was looked at")
}

#[test]
fn a_budget_that_holds_drift_is_named_beside_what_holds_consolidation() {
    let items = drifted(&json!([{"nodes": "0", "reasons": ["Drifted"]}]));
    let (code, explanation) = document(&["explain", "node/one"], &items);
    assert_eq!((code, &explanation["verdict"]), (1, &json!("Stays")), "{explanation}");
    let budget = obstacle(&explanation, "Budget", "Drifted");
    assert_eq!(budget["objects"], json!(["nodepool/default"]));
    let remedy = budget["remedy"].as_str().expect("a remedy");
    assert!(
        remedy.starts_with("raise spec.disruption.budgets for Drifted"),
        "{remedy}"
    );
    obstacle(&explanation, "NotCheaper", "Underutilized");
}

#[test]
fn drift_that_nothing_holds_takes_the_node() {
    let (code, explanation) = document(&["explain", "node/one"], &drifted(&json!([{"nodes": "100%"}])));
    assert_eq!((code, &explanation["verdict"]), (0, &json!("Goes")), "{explanation}");
    assert_eq!(explanation["move"]["reason"], "Drifted");
}

#[test]
fn drift_is_not_called_a_saving() {
    let mut items = drifted(&json!([{"nodes": "100%"}]));
    let text = |items: &[Value]| {
        let outcome = run(&["explain", "node/one"], items);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stdout
    };
    let explained = text(&items);
    let headline = "Node one would go now: it has drifted, and a new node takes its pods (Drifted).\n";
    assert!(explained.starts_with(headline), "{explained}");
    // Without a known price of the node there are no savings.
    for item in &mut items {
        let labels = &mut item["metadata"]["labels"];
        if labels.get("node.kubernetes.io/instance-type").is_some() {
            labels["node.kubernetes.io/instance-type"] = json!("unheard-of");
        }
    }
    let explained = text(&items);
    for fact in ["price         unknown\n", "saves         unknown\n"] {
        assert!(explained.contains(fact), "{explained}");
    }
}

#[test]
fn pods_that_drift_need_not_wait_for_hold_consolidation_alone() {
    let mut items = drifted(&json!([{"nodes": "0", "reasons": ["Drifted"]}]));
    let last = items.len() - 1;
    items[last]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    for item in &mut items {
        if item["kind"] == "NodeClaim" {
            item["spec"]["terminationGracePeriod"] = json!("1h");
        }
    }
    let (_, explanation) = document(&["explain", "node/one"], &items);
    obstacle(&explanation, "PodAnnotation", "Underutilized");
    obstacle(&explanation, "Budget", "Drifted");
}

#[test]
fn a_pod_without_another_place_holds_drift() {
    let mut items = drifted(&json!([{"nodes": "100%"}]));
    let last = items.len() - 1;
    items[last]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "one"});
    let (_, explanation) = document(&["explain", "node/one"], &items);
    let message = obstacle(&explanation, "Unplaceable", "Drifted")["message"].clone();
    assert!(
        message.as_str().is_some_and(|message| message.contains("default/p")),
        "{message}"
    );
}

#[test]
fn drift_of_a_static_pool_says_what_it_waits_for() {
    let with = |gate: &str, limit: &str, replicas: u32| {
        let mut items = drifted(&json!([{"nodes": "100%"}]));
        for item in items.iter_mut().filter(|item| item["kind"] == "NodePool") {
            item["spec"]["replicas"] = json!(replicas);
            item["spec"]["limits"] = json!({"nodes": limit});
        }
        document(&["explain", "node/one", "--feature-gates", gate], &items).1
    };
    for (gate, limit, replicas, code) in [
        ("StaticCapacity=false", "9", 1, "StaticCapacityDisabled"),
        ("StaticCapacity=true", "9", 0, "MoreThanReplicas"),
        ("StaticCapacity=true", "1", 1, "NoRoomForReplacement"),
    ] {
        let explanation = with(gate, limit, replicas);
        assert_eq!(codes(&explanation), ["Static", code], "{explanation}");
    }
    assert_eq!(with("StaticCapacity=true", "2", 1)["verdict"], "Goes");
}

#[test]
fn an_age_limit_is_named() {
    let mut items = drifted(&json!([{"nodes": "0"}]));
    for item in items.iter_mut().filter(|item| item["kind"] == "NodeClaim") {
        item["spec"]["expireAfter"] = json!("720h");
    }
    let (_, explanation) = document(&["explain", "node/one"], &items);
    assert_eq!(explanation["expires"], "2026-02-03T08:00:00Z");
}

/// A node that is not ready since the time of its creation.
fn unhealthy() -> Vec<Value> {
    let mut items = drifted(&json!([{"nodes": "0"}]));
    for item in items.iter_mut().filter(|item| item["kind"] == "Node") {
        item["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": DAY}]);
    }
    items
}

/// What becomes of the unhealthy conditions of node one.
fn repairs(items: &[Value], gate: &str) -> Value {
    let gate = format!("NodeRepair={gate}");
    document(&["explain", "node/one", "--feature-gates", &gate], items).1["repairs"].clone()
}

/// A policy about nodes that are not ready for an hour.
fn repair_policy(spec: Value) -> Value {
    let mut full = json!({"unhealthyConditions": [{"type": "Ready", "status": "False", "toleration": "1h"}]});
    if let (Some(full), Value::Object(spec)) = (full.as_object_mut(), spec) {
        full.extend(spec);
    }
    json!({"apiVersion": "kerf.sh/v1alpha1", "kind": "NodeRepairPolicy", "metadata": {"name": "p"}, "spec": full})
}

/// A Node without a claim.
fn stranger(name: &str, ready: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": format!("other://{name}")},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": DAY}]}})
}

fn claims(items: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    items.iter_mut().filter(|item| item["kind"] == "NodeClaim")
}

#[test]
fn repair_says_what_it_does_when_and_by_which_rule() {
    let mut items = unhealthy();
    assert_eq!(
        repairs(&items, "false"),
        json!(["Ready is False: the node is not repaired (the feature gate NodeRepair is off)"])
    );
    assert_eq!(
        repairs(&items, "true"),
        // LIF-149, LIF-150
        json!(["Ready is False: the node is replaced now (the provider's rule)"])
    );
    let window = json!([{"schedule": "0 2 * * *", "duration": "3h"}]);
    items.push(
        json!({"apiVersion": "kerf.sh/v1alpha1", "kind": "NodeRepairPolicy", "metadata": {"name": "slow"},
        "spec": {"action": "Drain", "maintenanceWindows": window,
            "unhealthyConditions": [{"type": "Ready", "status": "False", "toleration": "1h"}]}}),
    );
    let policy = repairs(&items, "true");
    let text = policy[0].as_str().expect("a repair");
    assert!(
        text.starts_with("Ready is False: the node would be drained (NodeRepairPolicy slow, whose next maintenance window opens at 2026-01-"),
        "{text}"
    );
    assert!(repairs(&drifted(&json!([])), "true").is_null(), "a healthy node");
}

// LIF-147
#[test]
fn a_node_without_exactly_one_claim_is_not_repaired() {
    let said = |why: &str| json!([format!("Ready is False: the node is not repaired ({why})")]);
    let mut items = unhealthy();
    let claim = items
        .iter()
        .position(|item| item["kind"] == "NodeClaim")
        .expect("a claim");
    let mut twin = items[claim].clone();
    twin["metadata"]["name"] = json!("twin");
    items.push(twin);
    assert_eq!(repairs(&items, "true"), said("2 NodeClaims have its provider id"));
    items.retain(|item| item["kind"] != "NodeClaim");
    assert_eq!(repairs(&items, "true"), said("no NodeClaim has its provider id"));
}

// LIF-149
#[test]
fn repair_is_held_by_unhealthy_nodes_of_the_pool_or_without_a_pool_of_the_cluster() {
    let waits = |whose: &str| {
        json!([format!(
            "Ready is False: the node would be replaced (the provider's rule, which waits: more than 20 % of the {whose} nodes are unhealthy)"
        )])
    };
    let replaced = json!(["Ready is False: the node is replaced now (the provider's rule)"]);
    let mut items = unhealthy();
    items.push(stranger("sick", "False"));
    assert_eq!(repairs(&items, "true"), replaced, "it is of no concern to the pool");
    let mut more = items.clone();
    more.extend(node("two", "m5.large", 2));
    for item in more.iter_mut().filter(|item| item["metadata"]["name"] == "two") {
        item["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": DAY}]);
    }
    assert_eq!(repairs(&more, "true"), waits("NodePool's"));
    for item in items
        .iter_mut()
        .filter(|item| item["metadata"]["labels"]["karpenter.sh/nodepool"] == "default")
    {
        let labels = item["metadata"]["labels"].as_object_mut().expect("labels");
        labels.remove("karpenter.sh/nodepool");
    }
    assert_eq!(repairs(&items, "true"), waits("cluster's"));
    items.extend((0..4).map(|number| stranger(&format!("sound-{number}"), "True")));
    assert_eq!(repairs(&items, "true"), replaced);
}

#[test]
fn a_repair_policy_counts_nodes_with_a_claim() {
    let mut items = unhealthy();
    items.extend(node("two", "m5.large", 2));
    items.extend([stranger("sick", "False"), stranger("sick-too", "False")]);
    items.push(repair_policy(json!({"maxUnhealthy": "50%"})));
    let replaced = json!(["Ready is False: the node is replaced now (NodeRepairPolicy p)"]);
    assert_eq!(repairs(&items, "false"), replaced);
    let last = items.len() - 1;
    items[last] = repair_policy(json!({"maxUnhealthy": "0"}));
    let waits = "Ready is False: the node would be replaced (NodeRepairPolicy p, which waits: more nodes are unhealthy than maxUnhealthy allows)";
    assert_eq!(repairs(&items, "false"), json!([waits]));
    items[last] = repair_policy(json!({"maxUnhealthy": "0", "action": "Report"}));
    let reported = json!(["Ready is False: the node is reported in an event now (NodeRepairPolicy p)"]);
    assert_eq!(repairs(&items, "false"), reported);
}

#[test]
fn a_drain_heeds_annotations_and_budgets() {
    let waits = |why: &str| {
        json!([format!(
            "Ready is False: the node would be drained (NodeRepairPolicy p, which waits: {why})"
        )])
    };
    let mut items = unhealthy();
    items.push(repair_policy(json!({"action": "Drain"})));
    let budgets = waits("disruption budgets of NodePool default allow no more nodes to go");
    assert_eq!(repairs(&items, "false"), budgets);
    let protection = json!({"karpenter.sh/do-not-disrupt": "true"});
    for claim in claims(&mut items) {
        claim["metadata"]["annotations"] = protection.clone();
    }
    let carries = |carrier: &str| waits(&format!("{carrier} carries karpenter.sh/do-not-disrupt"));
    assert_eq!(repairs(&items, "false"), carries("its NodeClaim"));
    for item in items.iter_mut().filter(|item| item["kind"] == "Node") {
        item["metadata"]["annotations"] = protection.clone();
    }
    assert_eq!(repairs(&items, "false"), carries("the Node"));
    // DIS-086
    let mut items = unhealthy();
    items.push(repair_policy(json!({"action": "Drain"})));
    items.retain(|item| item["kind"] != "NodePool");
    let missing = waits("NodePool default, whose disruption budgets it needs, is missing");
    assert_eq!(repairs(&items, "false"), missing);
    // The node itself is not ready, and does not use up what its own drain needs.
    let mut items = unhealthy();
    items.push(repair_policy(json!({"action": "Drain"})));
    for item in items.iter_mut().filter(|item| item["kind"] == "NodePool") {
        item["spec"]["disruption"]["budgets"] = json!([{"nodes": "1"}]);
    }
    let drained = json!(["Ready is False: the node is drained now (NodeRepairPolicy p)"]);
    assert_eq!(repairs(&items, "false"), drained);
}

#[test]
fn a_repair_policy_that_cannot_be_read_holds_the_providers_rule() {
    let mut items = unhealthy();
    items.push(repair_policy(json!({"unhealthyConditions": "Ready=False"})));
    let waits = "Ready is False: the node would be replaced (the provider's rule, which waits: NodeRepairPolicy p, which may take its place, cannot be read)";
    assert_eq!(repairs(&items, "true"), json!([waits]));
}

// LIF-146
#[test]
fn the_class_of_a_node_decides_whose_rules_count() {
    let mut items = unhealthy();
    for item in items.iter_mut().filter(|item| item["kind"] == "Node") {
        let since = "2026-01-05T07:40:00Z";
        item["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": since}]);
    }
    let now = json!(["Ready is False: the node is replaced now (the provider's rule)"]);
    assert_eq!(repairs(&items, "true"), now, "ten minutes of the KWOK provider");
    for claim in claims(&mut items) {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        claim["spec"]["nodeClassRef"] = class;
    }
    let later = json!(["Ready is False: the node is replaced from 2026-01-05T08:10:00Z on (the provider's rule)"]);
    assert_eq!(repairs(&items, "true"), later, "half an hour of the AWS provider");
}
