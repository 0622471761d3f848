//! The texts users read in the ValidationSucceeded condition.

#![expect(clippy::needless_pass_by_value, reason = "JSON literals read best as they are")]

use kerf_api::{LabelRules, NodeOverlay, NodePool, decode, validate};
use serde_json::{Value, json};

const WELL_KNOWN: &str = "karpenter.sh/capacity-type karpenter.sh/nodepool kubernetes.io/arch kubernetes.io/os \
     node.kubernetes.io/instance-type node.kubernetes.io/windows-build topology.kubernetes.io/region \
     topology.kubernetes.io/zone";

fn restricted(key: &str) -> String {
    format!(
        "using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a well known \
         label: [{WELL_KNOWN}], or a custom label that does not use a restricted domain: [karpenter.sh]"
    )
}

fn pool(labels: Value, spec: Value) -> validate::Findings {
    let mut spec = spec;
    spec["nodeClassRef"] = json!({"group": "g", "kind": "K", "name": "n"});
    if spec["requirements"].is_null() {
        spec["requirements"] = json!([]);
    }
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let pool: NodePool = decode(&json!({"metadata": {"name": "p"}, "spec": {"template": template}})).unwrap();
    validate::node_pool(&pool.spec, &LabelRules::core())
}

fn labels(labels: Value) -> String {
    pool(labels, json!({})).message()
}

fn requirement(key: &str, operator: &str, values: Value, min_values: Value) -> validate::Findings {
    let mut requirement = json!({"key": key, "operator": operator, "values": values});
    if !min_values.is_null() {
        requirement["minValues"] = min_values;
    }
    pool(json!({}), json!({"requirements": [requirement]}))
}

#[test]
fn template_labels() {
    // API-068, LIF-160
    assert_eq!(
        labels(json!({"karpenter.sh/nodepool": "x"})),
        "invalid key name \"karpenter.sh/nodepool\" in labels, restricted"
    );
    // API-069, API-083
    for key in [
        "a b",
        &format!("{}/x", "a".repeat(254)),
        &"n".repeat(64),
        "a/b/c",
        "/x",
        "x/",
    ] {
        let message = labels(json!({key: "x"}));
        assert!(
            message.starts_with(&format!("invalid key name \"{key}\" in labels, \"")),
            "{message}"
        );
    }
    // API-070
    let message = labels(json!({"team": "a b"}));
    assert!(
        message.starts_with("invalid value: a b for label[team], must "),
        "{message}"
    );
    // API-071
    let key = "karpenter.sh/x";
    assert_eq!(
        labels(json!({key: "x"})),
        format!("invalid key name \"{key}\" in labels, {}", restricted(key))
    );
    assert_eq!(
        labels(json!({"team": "", "kubernetes.io/arch": "amd64", "karpenter.sh/capacity-type": "spot"})),
        ""
    );
}

#[test]
fn template_taints() {
    let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
    let check =
        |taints: Value, startup: Value| pool(json!({}), json!({"taints": taints, "startupTaints": startup})).message();
    // API-072, LIF-161
    let (a, b) = (taint("a", "1", "NoSchedule"), taint("a", "2", "NoSchedule"));
    assert_eq!(
        check(json!([a, b]), json!([])),
        "duplicate taint Key/Effect pair a=NoSchedule"
    );
    assert_eq!(
        check(json!([a]), json!([b])),
        "duplicate taint Key/Effect pair a=NoSchedule"
    );
    assert_eq!(check(json!([a, taint("a", "1", "NoExecute")]), json!([])), "");
    // API-073
    assert_eq!(check(json!([taint("a", "", "")]), json!([])), "");
    for (taint, start) in [
        (taint("", "", "NoSchedule"), "invalid key \"\" in taints, "),
        (taint("a b", "", "NoSchedule"), "invalid key \"a b\" in taints, "),
        (
            taint("a", "a b", "NoSchedule"),
            "invalid value \"a b\" for key \"a\" in taints, ",
        ),
        (
            taint("a", "", "Never"),
            "invalid effect \"Never\" for key \"a\" in taints, ",
        ),
    ] {
        let message = check(json!([taint]), json!([]));
        assert!(message.starts_with(start), "{message}");
    }
}

#[test]
fn requirement_texts() {
    let long = "v".repeat(70);
    for (key, operator, values, min_values, want) in [
        // API-076, API-233
        (
            "team",
            "Like",
            json!(["a"]),
            Value::Null,
            "key team has an unsupported operator Like not in [Gte Lte In NotIn Exists DoesNotExist Gt Lt]".to_owned(),
        ),
        // API-077, API-144
        ("karpenter.sh/x", "Exists", json!([]), Value::Null, restricted("karpenter.sh/x")),
        ("kubernetes.io/hostname", "Exists", json!([]), Value::Null, restricted("kubernetes.io/hostname")),
        // API-079, LIF-162
        ("team", "In", json!([]), Value::Null, "key team with operator In must have a value defined".to_owned()),
        (
            "team",
            "In",
            json!(["a"]),
            json!(2),
            "key team with operator In must have at least minimum number of values defined in 'values' field".to_owned(),
        ),
        // API-080
        ("n", "Gt", json!([]), Value::Null, "key n with operator Gt must have a single positive integer value".to_owned()),
        ("n", "Lt", json!(["1", "2"]), Value::Null, "key n with operator Lt must have a single positive integer value".to_owned()),
        ("n", "Gte", json!(["-1"]), Value::Null, "key n with operator Gte must have a single positive integer value".to_owned()),
        ("n", "Lte", json!(["x"]), Value::Null, "key n with operator Lte must have a single positive integer value".to_owned()),
        // API-081, LIF-163
        (
            "karpenter.sh/capacity-type",
            "In",
            json!(["cheap", "dear"]),
            Value::Null,
            "no valid values found in [cheap dear] for karpenter.sh/capacity-type, expected one of: map[on-demand:{} \
             reserved:{} spot:{}], got: [cheap dear]"
                .to_owned(),
        ),
        (
            "karpenter.sh/capacity-type",
            "In",
            json!(["spot", "dear"]),
            json!(2),
            "not enough valid values found in [spot dear] for karpenter.sh/capacity-type, expected at least 2 valid values \
             from: [on-demand reserved spot], got: 1"
                .to_owned(),
        ),
    ] {
        let message = requirement(key, operator, values, min_values).message();
        // API-074
        let wrapped = format!("invalid value: {want} in requirements, restricted");
        assert!(message.contains(&wrapped), "{message}");
    }
    // API-078, API-083, API-136
    for (key, value, start) in [
        ("a b", "x", "invalid value: key a b is not a qualified name, "),
        ("team", "???", "invalid value: invalid value ??? for key team, "),
        ("team", long.as_str(), "invalid value: invalid value vvv"),
    ] {
        let message = requirement(key, "In", json!([value]), Value::Null).message();
        assert!(message.starts_with(start), "{message}");
    }
    // LIF-162
    for (operator, values) in [
        ("NotIn", json!([])),
        ("Exists", json!(["a"])),
        ("DoesNotExist", json!(["a"])),
    ] {
        assert!(
            requirement("team", operator, values, Value::Null).is_valid(),
            "{operator}"
        );
    }
    // API-149, API-152
    assert!(requirement("karpenter.sh/capacity-type", "In", json!(["spot"]), Value::Null).is_valid());
    assert!(requirement("kops.k8s.io/x", "Exists", json!([]), Value::Null).is_valid());
}

#[test]
fn a_pool_may_not_require_its_own_name() {
    // API-074
    assert_eq!(
        requirement("karpenter.sh/nodepool", "Exists", json!([]), Value::Null).message(),
        "invalid key: \"karpenter.sh/nodepool\" in requirements, restricted"
    );
}

#[test]
fn the_consolidation_policy_is_left_to_the_schema() {
    // API-082
    for policy in ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] {
        let class = json!({"group": "g", "kind": "K", "name": "n"});
        let pool: NodePool = decode(&json!({"metadata": {"name": "p"}, "spec": {
            "template": {"spec": {"requirements": [], "nodeClassRef": class}},
            "disruption": {"consolidateAfter": "0s", "consolidationPolicy": policy},
        }}))
        .unwrap();
        assert!(validate::node_pool(&pool.spec, &LabelRules::core()).is_valid());
    }
}

#[test]
fn old_keys_are_judged_as_new_ones() {
    // API-075
    let rules = LabelRules::core().with_restricted_domain("beta.kubernetes.io");
    let requirement = kerf_api::Requirement::new("beta.kubernetes.io/arch", kerf_api::Operator::In, ["amd64"]);
    assert!(validate::requirement(&requirement, &rules).0.is_empty());
}

#[test]
fn unknown_capacity_types_beside_known_ones_are_only_reported() {
    // API-081, LIF-163
    let findings = requirement(
        "karpenter.sh/capacity-type",
        "In",
        json!(["spot", "cheap"]),
        Value::Null,
    );
    assert!(findings.is_valid());
    assert_eq!(
        findings.partly_known,
        [validate::PartlyKnown {
            key: "karpenter.sh/capacity-type".to_owned(),
            valid: vec!["spot".to_owned()],
            invalid: vec!["cheap".to_owned()],
        }]
    );
    assert!(requirement("karpenter.sh/capacity-type", "NotIn", json!(["cheap"]), Value::Null).is_valid());
}

#[test]
fn all_findings_are_joined_in_order() {
    // API-067, API-233, LIF-159
    let message = pool(
        json!({"karpenter.sh/nodepool": "x", "karpenter.sh/a": "x"}),
        json!({
            "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}],
            "requirements": [
                {"key": "karpenter.sh/nodepool", "operator": "Exists"},
                {"key": "team", "operator": "In"},
            ],
        }),
    )
    .message();
    let parts = [
        format!(
            "invalid key name \"karpenter.sh/a\" in labels, {}",
            restricted("karpenter.sh/a")
        ),
        "invalid key name \"karpenter.sh/nodepool\" in labels, restricted".to_owned(),
        "duplicate taint Key/Effect pair a=NoSchedule".to_owned(),
        "invalid value: key team with operator In must have a value defined in requirements, restricted".to_owned(),
        "invalid key: \"karpenter.sh/nodepool\" in requirements, restricted".to_owned(),
    ];
    assert_eq!(message, parts.join("; "));
}

#[test]
fn overlays() {
    let check = |spec: Value| {
        let overlay: NodeOverlay = decode(&json!({"metadata": {"name": "o"}, "spec": spec})).unwrap();
        validate::node_overlay(&overlay.spec, &LabelRules::core()).message()
    };
    // API-130, API-131
    assert_eq!(
        check(json!({"requirements": [{"key": "team", "operator": "NotIn"}]})),
        "invalid value: key team with operator NotIn must have a value defined in requirements, restricted"
    );
    assert_eq!(
        check(json!({"requirements": [], "capacity": {"cpu": 1, "nodes": 1, "x.io/gpu": 1}})),
        "invalid capacity: cpu in resource, restricted"
    );
    // API-121, API-147
    assert_eq!(
        check(json!({"requirements": [{"key": "karpenter.sh/nodepool", "operator": "Exists"}]})),
        ""
    );
}
