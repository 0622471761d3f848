//! Requirement elements of NodePools, NodeClaims and NodeOverlays (sections 5 and 6 of `docs/behaviour/api.md`).

use serde_json::{Value, json};

use super::fixture::{accepts, refuses, requirements_path};

const ALL: [&str; 3] = ["NodePool", "NodeClaim", "NodeOverlay"];
const WITH_MIN_VALUES: [&str; 2] = ["NodePool", "NodeClaim"];

fn one(requirement: Value) -> Value {
    Value::Array(vec![requirement])
}

fn exists(key: &str) -> Value {
    one(json!({"key": key, "operator": "Exists"}))
}

// API-134
#[test]
fn keys_are_qualified_names() {
    let pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
    for kind in ALL {
        let path = requirements_path(kind);
        accepts(kind, path, exists("example.com/Key_1"));
        for bad in ["Test.com/test", "test/", "/test", "test/test/test", "test.com.com}"] {
            let text = format!("{path}[0].key: Invalid value: {bad:?}: {path}[0].key in body should match '{pattern}'");
            refuses(kind, path, exists(bad), &text);
        }
        refuses(
            kind,
            path,
            exists(&"a".repeat(317)),
            &format!("{path}[0].key: Too long: may not be more than 316 bytes"),
        );
        refuses(
            kind,
            path,
            one(json!({"operator": "Exists"})),
            &format!("{path}[0].key: Required value"),
        );
    }
}

// API-135
#[test]
fn operators_are_listed_in_order() {
    for kind in ALL {
        let path = requirements_path(kind);
        refuses(
            kind,
            path,
            one(json!({"key": "a", "operator": "Near"})),
            &format!(
                "{path}[0].operator: Unsupported value: \"Near\": supported values: \"Gte\", \"Lte\", \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\""
            ),
        );
        refuses(
            kind,
            path,
            one(json!({"key": "a"})),
            &format!("{path}[0].operator: Required value"),
        );
    }
}

// API-136
#[test]
fn values_are_not_checked_by_the_schema() {
    for kind in ALL {
        accepts(
            kind,
            requirements_path(kind),
            one(json!({"key": "a", "operator": "In", "values": ["???", "x".repeat(70)]})),
        );
    }
}

// API-137
#[test]
fn min_values_has_bounds() {
    for kind in WITH_MIN_VALUES {
        let path = requirements_path(kind);
        let many: Vec<String> = (0..60).map(|i| format!("v{i}")).collect();
        accepts(
            kind,
            path,
            one(json!({"key": "a", "operator": "In", "values": many, "minValues": 50})),
        );
        accepts(
            kind,
            path,
            one(json!({"key": "a", "operator": "Exists", "minValues": 5})),
        );
        accepts(kind, path, one(json!({"key": "a", "operator": "In", "values": many})));
        for (n, text) in [(0, "greater than or equal to 1"), (51, "less than or equal to 50")] {
            let text = format!("{path}[0].minValues: Invalid value: {n}: {path}[0].minValues in body should be {text}");
            refuses(
                kind,
                path,
                one(json!({"key": "a", "operator": "Exists", "minValues": n})),
                &text,
            );
        }
    }
    refuses(
        "NodeOverlay",
        "spec.requirements",
        one(json!({"key": "a", "operator": "Exists", "minValues": 1})),
        "unknown field \"spec.requirements[0].minValues\"",
    );
}

// API-138, API-141
#[test]
fn operators_and_values_have_to_agree() {
    for kind in WITH_MIN_VALUES {
        let path = requirements_path(kind);
        let refused = |requirement: Value, text: &str| {
            refuses(kind, path, one(requirement), &format!("{path}: Invalid value: {text}"));
        };
        let no_values = "requirements with operator 'In' must have a value defined";
        refused(json!({"key": "a", "operator": "In", "values": []}), no_values);
        let bound = "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value";
        for operator in ["Gt", "Lt", "Gte", "Lte"] {
            accepts(
                kind,
                path,
                one(json!({"key": "a", "operator": operator, "values": ["0"]})),
            );
            for values in [json!([]), json!(["1", "2"]), json!(["-1"])] {
                refused(json!({"key": "a", "operator": operator, "values": values}), bound);
            }
        }
        let few = "requirements with 'minValues' must have at least that many values specified in the 'values' field";
        refused(
            json!({"key": "a", "operator": "In", "values": ["x"], "minValues": 2}),
            few,
        );
    }
}

// API-127
#[test]
fn overlays_word_their_rules_differently() {
    let path = "spec.requirements";
    let refused = |requirement: Value, text: &str| {
        refuses(
            "NodeOverlay",
            path,
            one(requirement),
            &format!("{path}: Invalid value: {text}"),
        );
    };
    refused(
        json!({"key": "a", "operator": "NotIn", "values": []}),
        "requirements with operator 'NotIn' must have a value defined",
    );
    refused(
        json!({"key": "a", "operator": "In", "values": []}),
        "requirements with operator 'In' must have a value defined",
    );
    refused(
        json!({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
        "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
    );
}

// API-139
#[test]
fn rules_that_cannot_be_evaluated_say_why() {
    for kind in WITH_MIN_VALUES {
        let path = requirements_path(kind);
        let text = "requirements with operator 'In' must have a value defined";
        refuses(
            kind,
            path,
            one(json!({"key": "a", "operator": "In"})),
            &format!("{path}: Invalid value: \"array\": no such key: values evaluating rule: {text}"),
        );
        let bound = "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value";
        for operator in ["Gt", "Lt", "Gte", "Lte"] {
            refuses(
                kind,
                path,
                one(json!({"key": "a", "operator": operator})),
                &format!("{path}: Invalid value: \"array\": no such key: values evaluating rule: {bound}"),
            );
        }
        refuses(
            kind,
            path,
            one(json!({"key": "a", "operator": "Gt", "values": ["many"]})),
            &format!(
                "{path}: Invalid value: \"array\": type conversion error from 'string' to 'int' evaluating rule: {bound}"
            ),
        );
    }
}

// API-140, API-142
#[test]
fn other_combinations_pass_admission() {
    for kind in WITH_MIN_VALUES {
        let path = requirements_path(kind);
        for requirement in [
            json!({"key": "a", "operator": "NotIn"}),
            json!({"key": "a", "operator": "NotIn", "values": []}),
            json!({"key": "a", "operator": "Exists", "values": ["x"]}),
            json!({"key": "a", "operator": "DoesNotExist", "values": ["x"]}),
        ] {
            accepts(kind, path, one(requirement));
        }
        accepts(
            kind,
            path,
            json!([{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "NotIn", "values": ["x"]}]),
        );
    }
}

// API-030, API-093, API-121
#[test]
fn at_most_a_hundred_requirements() {
    for kind in ALL {
        let path = requirements_path(kind);
        let many = |n: usize| Value::Array(vec![json!({"key": "a", "operator": "Exists"}); n]);
        accepts(kind, path, many(0));
        accepts(kind, path, many(100));
        refuses(
            kind,
            path,
            many(101),
            &format!("{path}: Too many: 101: must have at most 100 items"),
        );
    }
}

// API-145, API-146, API-148
#[test]
fn keys_in_closed_domains_are_refused() {
    for kind in ALL {
        let path = requirements_path(kind);
        for (key, text) in [
            ("karpenter.sh/custom", "label domain \"karpenter.sh\" is restricted"),
            ("notkarpenter.sh/x", "label domain \"karpenter.sh\" is restricted"),
            ("karpenter.sh", "label domain \"karpenter.sh\" is restricted"),
            ("sub.karpenter.sh/x", "label domain \"karpenter.sh\" is restricted"),
            (
                "kubernetes.io/hostname",
                "label \"kubernetes.io/hostname\" is restricted",
            ),
        ] {
            refuses(
                kind,
                path,
                exists(key),
                &format!("{path}[0].key: Invalid value: {key:?}: {text}"),
            );
        }
        // API-149, API-152
        for key in [
            "karpenter.sh/capacity-type",
            "kubernetes.io/arch",
            "topology.k8s.io/x",
            "kops.k8s.io/x",
        ] {
            accepts(kind, path, exists(key));
        }
    }
}

// API-147
#[test]
fn the_pool_label_is_for_claims_and_overlays() {
    let key = "karpenter.sh/nodepool";
    let path = requirements_path("NodePool");
    refuses(
        "NodePool",
        path,
        exists(key),
        &format!("{path}[0].key: Invalid value: {key:?}: label {key:?} is restricted"),
    );
    accepts("NodeClaim", "spec.requirements", exists(key));
    accepts("NodeOverlay", "spec.requirements", exists(key));
}

// API-150
#[test]
fn the_kwok_domain_is_closed_for_pools_and_claims() {
    for kind in WITH_MIN_VALUES {
        let path = requirements_path(kind);
        for name in [
            "kwoknodeclass",
            "instance-cpu",
            "instance-memory",
            "instance-family",
            "instance-size",
        ] {
            accepts(kind, path, exists(&format!("karpenter.kwok.sh/{name}")));
        }
        let key = "karpenter.kwok.sh/foo";
        let text = "label domain \"karpenter.kwok.sh\" is restricted";
        refuses(
            kind,
            path,
            exists(key),
            &format!("{path}[0].key: Invalid value: {key:?}: {text}"),
        );
    }
    accepts("NodeOverlay", "spec.requirements", exists("karpenter.kwok.sh/foo"));
}
