//! The drift hash against the numbers users' objects already carry.

#![expect(clippy::needless_pass_by_value, reason = "JSON literals read best as they are")]

use std::collections::BTreeMap;

use kerf_api::hash::{self, has_drifted, list, primitive, string_map};
use kerf_api::{NodePool, annotations, decode};
use serde_json::{Value, json};

/// A pool whose template has the given metadata and spec fields beside its class.
fn pool(metadata: Value, spec: Value) -> NodePool {
    pool_with_class("karpenter.kwok.sh", "KWOKNodeClass", metadata, spec)
}

fn pool_with_class(group: &str, kind: &str, metadata: Value, mut spec: Value) -> NodePool {
    spec["nodeClassRef"] = json!({"group": group, "kind": kind, "name": "default"});
    if spec["requirements"].is_null() {
        spec["requirements"] = json!([]);
    }
    let template = json!({"metadata": metadata, "spec": spec});
    decode(&json!({"metadata": {"name": "p"}, "spec": {"template": template}})).unwrap()
}

const A: &str = "12745407319442031341";
const F: &str = "845502862369909111";

#[test]
fn vectors() {
    // API-203: the version says v3 because all of these hold.
    assert_eq!(hash::NODE_POOL_HASH_VERSION, "v3");
    let expire = json!({"expireAfter": "720h"});
    let with = |key: &str, value: Value| {
        let mut spec = expire.clone();
        spec[key] = value;
        spec
    };
    let (one, other) = (
        json!({"key": "a", "value": "b", "effect": "NoSchedule"}),
        json!({"key": "c", "effect": "NoExecute"}),
    );
    let key = json!([{"key": "key", "effect": "NoExecute"}]);
    for (pool, want) in [
        // API-196, DIS-228
        (pool(json!({}), expire.clone()), A),
        (pool(Value::Null, expire.clone()), A),
        // API-191: durations are their nanoseconds. API-195, DIS-224: Never counts as unset.
        (pool(json!({}), json!({"expireAfter": "Never"})), "7428780003907761376"),
        (pool(json!({}), json!({})), "7428780003907761376"),
        (
            pool_with_class("karpenter.k8s.aws", "EC2NodeClass", json!({}), expire.clone()),
            "6821555240594823858",
        ),
        (
            pool(json!({"labels": {"team": "a"}}), expire.clone()),
            "10172464548043488983",
        ),
        // API-193: the order of taints means nothing.
        (
            pool(json!({}), with("taints", json!([one, other]))),
            "10993805213601510592",
        ),
        (
            pool(json!({}), with("taints", json!([other, one]))),
            "10993805213601510592",
        ),
        // API-194: present and empty is not absent.
        (pool(json!({}), with("taints", json!([]))), F),
        // API-197, DIS-230: equal taints cancel out.
        (pool(json!({}), with("taints", json!([one, one]))), F),
        // DIS-229
        (
            pool(
                json!({
                    "labels": {"keyLabel": "valueLabel"},
                    "annotations": {"keyAnnotation": "valueAnnotation", "keyAnnotation2": "valueAnnotation2"},
                }),
                json!({
                    "taints": key, "startupTaints": key, "terminationGracePeriod": "5m", "expireAfter": "5m",
                }),
            ),
            "17066057431569812298",
        ),
        // API-198
        (pool(json!({}), json!({"expireAfter": "43200m"})), A),
    ] {
        assert_eq!(pool.drift_hash(), want, "{:?}", pool.spec.template);
    }
}

// DIS-226, DIS-227: computed apart from this code, from the rules as they are written down.
#[test]
fn every_field_goes_in_under_its_own_name() {
    let month = |more: Value| {
        let mut spec = json!({"expireAfter": "720h"});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        spec
    };
    let (one, other) = (
        json!([{"key": "a", "value": "b", "effect": "NoSchedule"}]),
        json!([{"key": "c", "effect": "NoExecute"}]),
    );
    let cni = json!([{"key": "cni", "value": "true", "effect": "NoSchedule"}]);
    let mut gpu = pool(Value::Null, month(json!({})));
    "gpu".clone_into(&mut gpu.spec.template.spec.node_class_ref.name);
    let mut foreign = pool_with_class(
        "example.com",
        "OtherClass",
        Value::Null,
        json!({"expireAfter": "1h", "terminationGracePeriod": "30m"}),
    );
    "x".clone_into(&mut foreign.spec.template.spec.node_class_ref.name);
    for (pool, want) in [
        (
            pool(json!({"annotations": {"a": "b"}}), month(json!({}))),
            "9505444035315263291",
        ),
        (
            pool(json!({"labels": {"team": "a", "tier": "web"}}), month(json!({}))),
            "5187040843980608212",
        ),
        (
            pool(Value::Null, month(json!({"startupTaints": cni}))),
            "14739555480542858247",
        ),
        (
            pool(Value::Null, json!({"terminationGracePeriod": "90s"})),
            "7147274018578755725",
        ),
        (gpu, "7411181570941203638"),
        (foreign, "3618147964511412931"),
        // The same taints in the other list each are another template.
        (
            pool(Value::Null, month(json!({"taints": one, "startupTaints": other}))),
            "3302170435415930813",
        ),
        (
            pool(Value::Null, month(json!({"taints": other, "startupTaints": one}))),
            "11591479153381743369",
        ),
    ] {
        assert_eq!(pool.drift_hash(), want, "{:?}", pool.spec.template);
    }
}

#[test]
fn only_the_template_without_requirements_counts() {
    // API-187, API-188, API-204, DIS-223
    let mut changed = pool(
        json!({}),
        json!({"expireAfter": "720h", "requirements": [{"key": "a", "operator": "Exists"}]}),
    );
    changed.spec.weight = Some(3);
    changed.spec.replicas = Some(3);
    changed.spec.limits.insert("cpu".to_owned(), "1".parse().unwrap());
    changed.spec.disruption = Some(kerf_api::Disruption::default());
    assert_eq!(changed.drift_hash(), A);
    for (metadata, spec) in [
        (json!({"labels": {"a": "b"}}), json!({"expireAfter": "720h"})),
        (json!({"annotations": {"a": "b"}}), json!({"expireAfter": "720h"})),
        (json!({"labels": {}}), json!({"expireAfter": "720h"})),
        (json!({}), json!({"expireAfter": "0s"})),
        (
            json!({}),
            json!({"expireAfter": "720h", "terminationGracePeriod": "0s"}),
        ),
    ] {
        assert_ne!(pool(metadata, spec).drift_hash(), A);
    }
}

#[test]
fn building_blocks() {
    // API-189, DIS-225: the published FNV-1 values, which differ from FNV-1a.
    assert_eq!(primitive(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(primitive(b"a"), 0xaf63_bd4c_8601_b7be);
    assert_eq!(primitive(b"foobar"), 0x340d_8765_a4dd_a9c2);
    // API-193, API-194
    assert_eq!(list([]), 0);
    assert_eq!(list([7, 9]), list([9, 7]));
    assert_eq!(string_map(&BTreeMap::new()), primitive(&0_u64.to_le_bytes()));
    // API-190
    let le = |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
    let pair = primitive(&le(&[primitive(b"team"), primitive(b"a")]));
    let map = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    assert_eq!(string_map(&map), primitive(&le(&[pair])));
    // API-192: fields in another order give another hash, and a field without value is as if it were not there.
    let of = |fields: &[(&str, Option<u64>)]| {
        let mut hash = hash::StructHash::new("T");
        fields.iter().for_each(|(name, value)| hash.field(name, *value));
        hash.finish()
    };
    assert_ne!(
        of(&[("A", Some(1)), ("B", Some(2))]),
        of(&[("B", Some(2)), ("A", Some(1))])
    );
    assert_eq!(of(&[("A", None), ("B", Some(2))]), of(&[("B", Some(2))]));
}

#[test]
fn drift_needs_all_four_annotations_and_one_version() {
    // API-202, DIS-221, DIS-222
    let marks = |hash: Option<&str>, version: Option<&str>| -> BTreeMap<String, String> {
        let hash = hash.map(|hash| (annotations::NODE_POOL_HASH.to_owned(), hash.to_owned()));
        let version = version.map(|version| (annotations::NODE_POOL_HASH_VERSION.to_owned(), version.to_owned()));
        hash.into_iter().chain(version).collect()
    };
    let pool = marks(Some("1"), Some(hash::NODE_POOL_HASH_VERSION));
    assert_eq!(hash::NODE_POOL_HASH_VERSION, "v3");
    for (claim, drifted) in [
        (marks(Some("2"), Some("v3")), true),
        (marks(Some("1"), Some("v3")), false),
        (marks(Some("2"), Some("v2")), false),
        (marks(Some("2"), None), false),
        (marks(None, Some("v3")), false),
        (marks(Some("not a number"), Some("v3")), false),
    ] {
        assert_eq!(has_drifted(&pool, &claim), drifted, "{claim:?}");
        assert!(!has_drifted(&BTreeMap::new(), &claim));
    }
}
