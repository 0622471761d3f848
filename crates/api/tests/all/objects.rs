//! Objects decode into their types and encode back without losing or adding a field (DEP-033, DEP-034), and objects of the
//! wrong shape are refused by name.

use kerf_api::{
    Budget, CapacityBuffer, ConsolidationPolicy, KwokNodeClass, NodeClaim, NodeOverlay, NodePool, NodeRepairPolicy,
    Operator, RepairAction, decode,
};
use kerf_units::duration::GoDuration;
use kube::Resource;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn same<K>(sample: &Value)
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Serialize,
{
    let object: K = decode(sample).unwrap();
    assert_eq!(&serde_json::to_value(&object).unwrap(), sample);
}

fn full_pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default", "generation": 3, "creationTimestamp": "2024-06-07T08:09:10Z"},
        "spec": {
            "template": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"note": ""}},
                "spec": {
                    "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "c", "effect": "NoExecute", "timeAdded": "2024-06-07T08:09:10Z"}],
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"], "minValues": 1},
                        {"key": "spot", "operator": "DoesNotExist"},
                    ],
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                    "terminationGracePeriod": "60m",
                    "expireAfter": "Never",
                },
            },
            "disruption": {
                "consolidateAfter": "90s",
                "consolidationPolicy": "Balanced",
                "budgets": [
                    {"nodes": "10%"},
                    {"nodes": "0", "reasons": ["Drifted"], "schedule": "0 9 * * mon-fri", "duration": "8h0m"},
                ],
            },
            "limits": {"cpu": 1000, "memory": "1000Gi", "nodes": "10"},
            "weight": 10,
            "replicas": 3,
        },
        "status": {
            "nodes": 0,
            "resources": {"cpu": "0"},
            "nodeClassObservedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": "Unknown", "observedGeneration": 3, "reason": "AwaitingReconciliation",
                "message": "object is awaiting reconciliation", "lastTransitionTime": "2024-06-07T08:09:10Z",
            }],
        },
    })
}

#[test]
fn node_pools_come_back() {
    // API-052, API-228
    same::<NodePool>(&full_pool());
    same::<NodePool>(&json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "least"},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
        }}},
    }));
}

#[test]
fn absent_and_empty_stay_apart() {
    // API-051, API-194, API-230
    let mut sample = full_pool();
    sample["spec"]["template"]["spec"]["taints"] = json!([]);
    sample["spec"]["template"]["metadata"]["labels"] = json!({});
    sample["spec"]["disruption"]["budgets"] = json!([]);
    same::<NodePool>(&sample);
    let pool: NodePool = decode(&sample).unwrap();
    assert!(pool.spec.disruption().budgets().is_empty());
}

#[test]
fn node_claims_come_back() {
    same::<NodeClaim>(&json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": "default-x7k2p", "generateName": "default-", "finalizers": ["karpenter.sh/termination"],
            "labels": {"karpenter.sh/nodepool": "default"},
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": "1",
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "requirements": [{"key": "cpu-count", "operator": "Gte", "values": ["4"]}],
            "resources": {"requests": {"cpu": "1100m", "pods": "7"}},
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "720h",
        },
        "status": {
            "nodeName": "n", "providerID": "kwok://n", "imageID": "i",
            "capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"},
            "lastPodEventTime": "2024-06-07T08:09:10Z",
            // API-101: neither reason nor message.
            "conditions": [{"type": "Launched", "status": "True", "lastTransitionTime": "2024-06-07T08:09:10Z"}],
        },
    }));
}

#[test]
fn the_other_kinds_come_back() {
    same::<NodeRepairPolicy>(&json!({
        "apiVersion": "kerf.sh/v1alpha1",
        "kind": "NodeRepairPolicy",
        "metadata": {"name": "gpu"},
        "spec": {
            "selector": {
                "matchLabels": {"team": "a"},
                "matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "Exists"}],
            },
            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "toleration": "10m"}],
            "action": "Drain",
            "maxUnhealthy": "30%",
            "maintenanceWindows": [{"schedule": "0 2 * * *", "duration": "2h"}],
        },
        "status": {"nodes": 3, "unhealthyNodes": 1, "overdueNodes": 0, "conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2024-06-07T08:09:10Z",
        }]},
    }));
    same::<NodeRepairPolicy>(&json!({
        "apiVersion": "kerf.sh/v1alpha1",
        "kind": "NodeRepairPolicy",
        "metadata": {"name": "least"},
        "spec": {"unhealthyConditions": [{"type": "Ready", "status": "False", "toleration": "0s"}], "action": "Explode"},
    }));
    same::<NodeOverlay>(&json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "o"},
        "spec": {
            "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}],
            "priceAdjustment": "-10%", "capacity": {"smarter-devices/fuse": 1}, "weight": 10000,
        },
        "status": {},
    }));
    same::<CapacityBuffer>(&json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "b", "namespace": "team"},
        "spec": {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
            "scalableRef": {"apiGroup": "", "kind": "Deployment", "name": "web"},
            "replicas": 0, "percentage": 20, "limits": {"cpu": "10"},
        },
        "status": {"podTemplateRef": {"name": "t"}, "podTemplateGeneration": 2, "replicas": 3},
    }));
    // API-007
    same::<KwokNodeClass>(&json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
    }));
    // API-224
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "slow"},
        "spec": {"nodeRegistrationDelay": "90s"},
    });
    same::<KwokNodeClass>(&class);
    let class: KwokNodeClass = decode(&class).unwrap();
    assert_eq!(class.node_registration_delay(), GoDuration::from_secs(90));
    assert_eq!(
        KwokNodeClass::new("default").node_registration_delay(),
        GoDuration::ZERO
    );
}

#[test]
fn defaults_are_filled_in_when_read() {
    let mut sample = full_pool();
    sample["spec"].as_object_mut().unwrap().remove("disruption");
    sample["spec"].as_object_mut().unwrap().remove("weight");
    sample["spec"]["template"]["spec"]
        .as_object_mut()
        .unwrap()
        .remove("expireAfter");
    let pool: NodePool = decode(&sample).unwrap();
    // API-049
    let disruption = pool.spec.disruption();
    assert_eq!(
        disruption.budgets(),
        [Budget {
            nodes: "10%".to_owned(),
            ..Budget::default()
        }]
    );
    assert_eq!(
        disruption.consolidation_policy(),
        ConsolidationPolicy::WhenEmptyOrUnderutilized
    );
    assert_eq!(disruption.consolidate_after.value(), Some(GoDuration::ZERO));
    assert_eq!(
        pool.spec.template.spec.expire_after(),
        Some(GoDuration::from_secs(720 * 3600))
    );
    // API-043, API-044
    assert_eq!((pool.spec.weight(), pool.spec.is_static()), (0, true));
}

#[test]
fn objects_of_another_shape_are_refused_by_name_and_field() {
    let wrong = |pointer: &str, value: Value| {
        let mut sample = full_pool();
        *sample.pointer_mut(pointer).unwrap() = value;
        decode::<NodePool>(&sample).unwrap_err().to_string()
    };
    assert_eq!(
        wrong("/spec/limits/memory", json!("lots")),
        "NodePool \"default\" cannot be read: field spec.limits.memory: quantity \"lots\" does not begin with a number; \
         write one such as 500m or 2Gi; correct the object"
    );
    for (pointer, value, field) in [
        ("/spec/limits", json!([]), "field spec.limits:"),
        (
            "/spec/template/spec/requirements/1",
            json!({"key": "a"}),
            "field spec.template.spec.requirements.1:",
        ),
        (
            "/spec/template/spec/expireAfter",
            json!("soon"),
            "field spec.template.spec.expireAfter:",
        ),
        (
            "/spec/disruption/budgets/0/nodes",
            json!(3),
            "field spec.disruption.budgets.0.nodes:",
        ),
        (
            "/spec/disruption/consolidationPolicy",
            json!("whenEmpty"),
            "field spec.disruption.consolidationPolicy:",
        ),
        (
            "/status/conditions/0/status",
            json!("Maybe"),
            "field status.conditions.0.status:",
        ),
        ("/spec/template", json!(null), "field spec.template:"),
    ] {
        let error = wrong(pointer, value);
        assert!(error.contains(field), "{error}");
    }
    let error = decode::<NodePool>(&json!({"metadata": {"name": "x"}})).unwrap_err();
    assert_eq!(
        (error.field.as_str(), error.problem.as_str()),
        (".", "missing field `spec`")
    );
    assert!(decode::<NodeClaim>(&json!("x")).is_err());
}

#[test]
fn unknown_operators_survive_until_validation() {
    // API-076
    let mut sample = full_pool();
    sample["spec"]["template"]["spec"]["requirements"][0]["operator"] = json!("Like");
    same::<NodePool>(&sample);
    let pool: NodePool = decode(&sample).unwrap();
    assert_eq!(
        pool.spec.template.spec.requirements[0].operator,
        Operator::Unsupported("Like".into())
    );
}

#[test]
fn overlays_are_ordered_by_weight_then_later_name() {
    // API-133
    let overlay = |name: &str, weight: Option<i32>| {
        let mut overlay = NodeOverlay { ..Default::default() };
        overlay.metadata.name = Some(name.to_owned());
        overlay.spec.weight = weight;
        overlay
    };
    let mut overlays = [
        overlay("a", None),
        overlay("b", Some(0)),
        overlay("c", Some(1)),
        overlay("d", Some(10)),
    ];
    overlays.sort_by(NodeOverlay::compare_precedence);
    let names: Vec<_> = overlays
        .iter()
        .filter_map(|overlay| overlay.metadata.name.as_deref())
        .collect();
    assert_eq!(names, ["d", "c", "b", "a"]);
}

/// Leaves out parts of an object at random; what is required stays.
fn pruned(value: &Value, keep: &mut impl FnMut() -> bool) -> Value {
    const REQUIRED: [&str; 15] = [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "group",
        "key",
        "operator",
        "effect",
        "template",
        "requirements",
        "nodeClassRef",
        "consolidateAfter",
        "nodes",
        "type",
        "lastTransitionTime",
    ];
    match value {
        Value::Object(fields) => {
            let mut kept = serde_json::Map::new();
            for (key, value) in fields {
                if REQUIRED.contains(&key.as_str()) || matches!(key.as_str(), "spec" | "status") || keep() {
                    kept.insert(key.clone(), pruned(value, keep));
                }
            }
            Value::Object(kept)
        }
        Value::Array(items) => items.iter().map(|item| pruned(item, keep)).collect(),
        other => other.clone(),
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        _ => false,
    }
}

proptest! {
    #[test]
    fn nothing_is_added_to_partial_objects(bits in proptest::collection::vec(any::<bool>(), 64)) {
        let mut bits = bits.into_iter().cycle();
        let mut sample = pruned(&full_pool(), &mut || bits.next().unwrap_or(true));
        // Empty maps and lists that were emptied here are not what the test is about.
        if sample["status"]["resources"] == json!({}) {
            sample["status"].as_object_mut().unwrap().remove("resources");
        }
        if sample["spec"]["limits"] == json!({}) {
            sample["spec"].as_object_mut().unwrap().remove("limits");
        }
        let pool: NodePool = decode(&sample).unwrap();
        let back = serde_json::to_value(&pool).unwrap();
        prop_assert!(!has_null(&back));
        prop_assert_eq!(back, sample);
    }
}

#[test]
fn a_repair_policy_says_what_it_does_not_say() {
    let policy = |spec: Value| {
        let object: NodeRepairPolicy = decode(&json!({
            "apiVersion": "kerf.sh/v1alpha1", "kind": "NodeRepairPolicy", "metadata": {"name": "a"}, "spec": spec,
        }))
        .unwrap();
        (object.spec.action(), object.spec.max_unhealthy().to_owned())
    };
    assert_eq!(
        policy(json!({"unhealthyConditions": []})),
        (RepairAction::Replace, "20%".to_owned())
    );
    assert_eq!(
        policy(json!({"unhealthyConditions": [], "action": "Report", "maxUnhealthy": "3"})),
        (RepairAction::Report, "3".to_owned())
    );
}
