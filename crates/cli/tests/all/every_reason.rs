//! `kerf explain node/NAME` answers for every reason that might take the node: drift, age, repair and consolidation.

use crate::consolidate::{codes, document, node, pod, pool, run};
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
    items.push(pod("p", "one", "1", &json!({})));
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
    // Nothing is saved where nobody knows what the node costs.
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

#[test]
fn repair_says_what_it_does_when_and_by_which_rule() {
    let repairs = |items: &[Value], gate: &str| {
        let gate = format!("NodeRepair={gate}");
        document(&["explain", "node/one", "--feature-gates", &gate], items).1["repairs"].clone()
    };
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
