//! The CRDs on a real API server, and the embedded API server compared with it.

use kerf_sandbox::Sandbox;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::merge::merge;
use crate::real_control_plane::control_plane::ControlPlane;
use crate::real_control_plane::harness::install_definitions;
use kerf_runtime::client::ApiLayers;

/// An object, and a part of what the server says if it refuses it.
type Row = (Value, Option<&'static str>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_crds_are_accepted_with_their_rules() {
    let _turn = crate::real_control_plane::harness::turn().await;
    let plane = ControlPlane::start().await;
    let real = plane.client(&ApiLayers::new());
    install_definitions(&real).await;
    let sandbox = Sandbox::builder().build().await.expect("a sandbox");
    let embedded = sandbox.client();

    let rows = [pools(), classes_and_claims(), overlays(), buffers()].concat();
    let mut wrong = Vec::new();
    for (index, (mut object, refused)) in rows.into_iter().enumerate() {
        object["metadata"]["name"] = format!("row-{index}").into();
        let answers = (create(&real, &object).await, create(&embedded, &object).await);
        judge(&mut wrong, &object, refused, answers);
    }
    for (object, patch, refused) in changes() {
        for client in [&real, &embedded] {
            let created = create(client, &object).await;
            assert!(created.is_ok(), "{object} {created:?}");
        }
        let answers = (
            change(&real, &object, &patch).await,
            change(&embedded, &object, &patch).await,
        );
        judge(&mut wrong, &json!({"object": object, "patch": patch}), refused, answers);
    }
    assert!(wrong.is_empty(), "{} rows\n{}", wrong.len(), wrong.join("\n\n"));
}

/// What a server says: the spec it stores, or the status without what names the request.
type Answer = Result<Value, Value>;

fn judge(wrong: &mut Vec<String>, object: &Value, refused: Option<&str>, (real, embedded): (Answer, Answer)) {
    let as_wanted = match (&real, refused) {
        (Ok(_), None) => true,
        (Err(status), Some(part)) => status["message"].as_str().is_some_and(|message| message.contains(part)),
        (Ok(_), Some(_)) | (Err(_), None) => false,
    };
    if !as_wanted || real != embedded {
        wrong.push(format!(
            "{object}\nwanted {refused:?}\nreal     {real:?}\nembedded {embedded:?}"
        ));
    }
}

async fn create(client: &Client, object: &Value) -> Answer {
    let (api, object) = parts(client, object);
    answer(api.create(&PostParams::default(), &object).await)
}

async fn change(client: &Client, object: &Value, patch: &Value) -> Answer {
    let (api, object) = parts(client, object);
    let name = object.metadata.name.unwrap_or_default();
    answer(api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await)
}

fn parts(client: &Client, object: &Value) -> (Api<DynamicObject>, DynamicObject) {
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    let types = object.types.clone().expect("a kind");
    let kind = GroupVersionKind::try_from(&types).expect("a group");
    let resource = ApiResource::from_gvk(&kind);
    let api = if kind.kind == "CapacityBuffer" {
        Api::default_namespaced_with(client.clone(), &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    };
    (api, object)
}

fn answer(result: Result<DynamicObject, kube::Error>) -> Answer {
    match result {
        Ok(object) => Ok(object.data["spec"].clone()),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.as_ref().map(|details| json!(details.causes));
            Err(json!({
                "code": status.code, "reason": status.reason, "message": status.message, "causes": causes,
            }))
        }
        Err(other) => Err(json!({"no answer": other.to_string()})),
    }
}

fn pool(spec: Value) -> Value {
    let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {}, "spec": {
        "template": {"spec": {"requirements": [], "nodeClassRef": class()}}}});
    merge(&mut pool["spec"], spec);
    pool
}

fn class() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}

fn with_requirement(requirement: &Value) -> Value {
    pool(json!({"template": {"spec": {"requirements": [requirement]}}}))
}

fn with_label(key: &str) -> Value {
    pool(json!({"template": {"metadata": {"labels": {key: "x"}}}}))
}

fn with_key(key: &str) -> Value {
    with_requirement(&json!({"key": key, "operator": "Exists"}))
}

const SINGLE: &str = "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value";

fn pools() -> Vec<Row> {
    let budget = |budget: Value| pool(json!({"disruption": {"consolidateAfter": "0s", "budgets": [budget]}}));
    let zone = "topology.kubernetes.io/zone";
    vec![
        (pool(json!({})), None),
        (
            pool(json!({"weight": 100, "limits": {"cpu": "10", "memory": "10Gi"}})),
            None,
        ),
        (pool(json!({"weight": 101})), Some("spec.weight")),
        (pool(json!({"template": null})), Some("spec.template")),
        (pool(json!({"replicas": -1})), Some("spec.replicas")),
        (pool(json!({"limits": {"cpu": "ten"}})), Some("spec.limits.cpu")),
        // API-054
        (pool(json!({"replicas": 1, "limits": {"nodes": "5"}})), None),
        (
            pool(json!({"replicas": 1, "limits": {"cpu": "5"}})),
            Some("only 'limits.nodes' is supported on static NodePools"),
        ),
        // API-055
        (
            pool(json!({"replicas": 1, "weight": 1})),
            Some("'weight' is not supported on static NodePools"),
        ),
        // API-056
        (
            budget(json!({"nodes": "10%", "schedule": "@daily", "duration": "1h"})),
            None,
        ),
        (
            budget(json!({"nodes": "10%", "schedule": "@daily"})),
            Some("'schedule' must be set with 'duration'"),
        ),
        (
            budget(json!({"nodes": "10%", "duration": "1h"})),
            Some("'schedule' must be set with 'duration'"),
        ),
        (
            budget(json!({"nodes": "101%"})),
            Some("spec.disruption.budgets[0].nodes"),
        ),
        (
            budget(json!({"nodes": "1", "reasons": ["Boredom"]})),
            Some("Unsupported value"),
        ),
        // KWK-136
        (
            pool(json!({"disruption": {"consolidateAfter": "-1s"}})),
            Some("spec.disruption.consolidateAfter"),
        ),
        (
            pool(json!({"disruption": {"consolidateAfter": "1m", "consolidationPolicy": "WhenEmptyOrUnderutilized"}})),
            None,
        ),
        (
            pool(json!({"disruption": {"consolidateAfter": "soon"}})),
            Some("spec.disruption.consolidateAfter"),
        ),
        (
            pool(json!({"disruption": {"consolidateAfter": "1s", "consolidationPolicy": "Never"}})),
            Some("Unsupported value"),
        ),
        // API-059
        (
            pool(json!({"template": {"spec": {"nodeClassRef": {"group": ""}}}})),
            Some("group may not be empty"),
        ),
        (
            pool(json!({"template": {"spec": {"nodeClassRef": {"kind": ""}}}})),
            Some("kind may not be empty"),
        ),
        // API-138, KWK-135, KWK-137
        (
            with_requirement(&json!({"key": zone, "operator": "In", "values": ["a"], "minValues": 1})),
            None,
        ),
        (
            with_requirement(&json!({"key": zone, "operator": "Among", "values": ["a"]})),
            Some("Unsupported value"),
        ),
        (
            with_requirement(&json!({"key": zone, "operator": "In", "values": []})),
            Some("requirements with operator 'In' must have a value defined"),
        ),
        (
            with_requirement(&json!({"key": "example.com/cpu", "operator": "Gt", "values": ["4"]})),
            None,
        ),
        (
            with_requirement(&json!({"key": "example.com/cpu", "operator": "Gt", "values": ["4", "5"]})),
            Some(SINGLE),
        ),
        (
            with_requirement(&json!({"key": "example.com/cpu", "operator": "Lt", "values": ["4", "5"]})),
            Some(SINGLE),
        ),
        (
            with_requirement(&json!({"key": "example.com/cpu", "operator": "Gte", "values": ["4", "5"]})),
            Some(SINGLE),
        ),
        (
            with_requirement(&json!({"key": "example.com/cpu", "operator": "Lte", "values": ["4", "5"]})),
            Some(SINGLE),
        ),
        (
            with_requirement(&json!({"key": "example.com/cpu", "operator": "Lte", "values": ["-4"]})),
            Some(SINGLE),
        ),
        // The rule itself fails on what is no number.
        (
            with_requirement(&json!({"key": "example.com/cpu", "operator": "Lt", "values": ["four"]})),
            Some("spec.template.spec.requirements"),
        ),
        (
            with_requirement(&json!({"key": zone, "operator": "In", "values": ["a"], "minValues": 2})),
            Some("requirements with 'minValues' must have at least that many values"),
        ),
        (
            with_requirement(&json!({"key": zone, "operator": "In", "values": ["a"], "minValues": 51})),
            Some("minValues"),
        ),
        (
            with_requirement(&json!({"key": zone, "operator": "In", "values": ["a"], "minValues": 0})),
            Some("minValues"),
        ),
        (
            with_requirement(&json!({"key": zone, "operator": "In", "values": ["a"], "minValues": -1})),
            Some("minValues"),
        ),
        (with_key("not a key"), Some("spec.template.spec.requirements[0].key")),
        // API-145, API-147, API-148, KWK-134, KWK-135
        (with_key("karpenter.sh/capacity-type"), None),
        (
            with_key("karpenter.sh/own"),
            Some("label domain \"karpenter.sh\" is restricted"),
        ),
        (
            with_key("karpenter.sh/nodepool"),
            Some("label \"karpenter.sh/nodepool\" is restricted"),
        ),
        (
            with_key("kubernetes.io/hostname"),
            Some("label \"kubernetes.io/hostname\" is restricted"),
        ),
        (with_label("example.com/team"), None),
        (with_label("node-restriction.kubernetes.io/custom-label"), None),
        (with_label("sub.node-restriction.kubernetes.io/custom-label"), None),
        (
            with_label("karpenter.sh/own"),
            Some("label domain \"karpenter.sh\" is restricted"),
        ),
        (
            with_label("karpenter.sh/nodepool"),
            Some("label \"karpenter.sh/nodepool\" is restricted"),
        ),
        (
            with_label("kubernetes.io/hostname"),
            Some("label \"kubernetes.io/hostname\" is restricted"),
        ),
        // API-150
        (with_key("karpenter.kwok.sh/instance-cpu"), None),
        (
            with_key("karpenter.kwok.sh/own"),
            Some("label domain \"karpenter.kwok.sh\" is restricted"),
        ),
    ]
}

fn claim(spec: Value) -> Value {
    let mut claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {}, "spec": {
        "requirements": [], "nodeClassRef": class()}});
    merge(&mut claim["spec"], spec);
    claim
}

fn classes_and_claims() -> Vec<Row> {
    let class = |spec: Value| json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {}, "spec": spec});
    let key = |key: &str| claim(json!({"requirements": [{"key": key, "operator": "Exists"}]}));
    vec![
        (class(json!({})), None),
        (class(json!({"nodeRegistrationDelay": "30s"})), None),
        (claim(json!({})), None),
        (
            claim(json!({"nodeClassRef": {"name": ""}})),
            Some("name may not be empty"),
        ),
        (claim(json!({"nodeClassRef": null})), Some("spec.nodeClassRef")),
        (claim(json!({"expireAfter": "old"})), Some("spec.expireAfter")),
        (
            claim(json!({"taints": [{"key": "a", "effect": "Sometimes"}]})),
            Some("Unsupported value"),
        ),
        (key("karpenter.sh/nodepool"), None),
        (
            key("karpenter.sh/own"),
            Some("label domain \"karpenter.sh\" is restricted"),
        ),
        (
            key("kubernetes.io/hostname"),
            Some("label \"kubernetes.io/hostname\" is restricted"),
        ),
    ]
}

fn overlays() -> Vec<Row> {
    let overlay = |spec: Value| {
        let mut overlay = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {}, "spec": {
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}});
        merge(&mut overlay["spec"], spec);
        overlay
    };
    let requirement = |operator: &str, values: Value| {
        overlay(json!({"requirements": [{"key": "example.com/own", "operator": operator, "values": values}]}))
    };
    vec![
        (overlay(json!({"price": "0.5", "weight": 10})), None),
        (overlay(json!({"capacity": {"example.com/gpu": "2"}})), None),
        // API-127
        (
            requirement("NotIn", json!([])),
            Some("requirements with operator 'NotIn' must have a value defined"),
        ),
        (
            requirement("In", json!([])),
            Some("requirements with operator 'In' must have a value defined"),
        ),
        (
            requirement("Gt", json!(["1", "2"])),
            Some("requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value"),
        ),
        (
            overlay(json!({"price": "1", "priceAdjustment": "+10%"})),
            Some("cannot set both 'price' and 'priceAdjustment'"),
        ),
        (
            overlay(json!({"capacity": {"cpu": "2"}})),
            Some("invalid resource restricted"),
        ),
        (overlay(json!({"price": "cheap"})), Some("spec.price")),
    ]
}

fn buffers() -> Vec<Row> {
    let buffer = |spec: Value| json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {}, "spec": spec});
    let scalable = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    vec![
        (buffer(json!({"podTemplateRef": {"name": "web"}, "replicas": 2})), None),
        (buffer(json!({"scalableRef": scalable, "percentage": 10})), None),
        (
            buffer(json!({"podTemplateRef": {"name": "web"}})),
            Some("If podTemplateRef is set, replicas or limits must also be set"),
        ),
        (
            buffer(json!({"podTemplateRef": {"name": "web"}, "replicas": 2, "scalableRef": scalable})),
            Some("You must define either PodTemplateRef or ScalableRef, but not both"),
        ),
        (
            buffer(json!({"podTemplateRef": {"name": ""}, "replicas": 2})),
            Some("spec.podTemplateRef.name"),
        ),
        (
            buffer(json!({"podTemplateRef": {"name": "web"}, "replicas": -2})),
            Some("spec.replicas"),
        ),
    ]
}

/// Objects, changes of them, and what refuses the change.
fn changes() -> Vec<(Value, Value, Option<&'static str>)> {
    let named = |name: &str, mut object: Value| {
        object["metadata"]["name"] = name.into();
        object
    };
    let class_ref = |patch: Value| json!({"spec": {"template": {"spec": {"nodeClassRef": patch}}}});
    let modes =
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes";
    vec![
        // API-091
        (
            named("change-claim", claim(json!({}))),
            json!({"spec": {"expireAfter": "1h"}}),
            Some("spec is immutable"),
        ),
        // API-057, API-058
        (
            named("change-group", pool(json!({}))),
            class_ref(json!({"group": "other.sh"})),
            Some("nodeClassRef.group is immutable"),
        ),
        (
            named("change-kind", pool(json!({}))),
            class_ref(json!({"kind": "OtherClass"})),
            Some("nodeClassRef.kind is immutable"),
        ),
        (
            named("change-name", pool(json!({}))),
            class_ref(json!({"name": "other"})),
            None,
        ),
        // API-053
        (
            named("change-mode", pool(json!({}))),
            json!({"spec": {"replicas": 1}}),
            Some(modes),
        ),
        (
            named("change-back", pool(json!({"replicas": 1}))),
            json!({"spec": {"replicas": null}}),
            Some(modes),
        ),
        (
            named("change-replicas", pool(json!({"replicas": 1}))),
            json!({"spec": {"replicas": 3}}),
            None,
        ),
    ]
}
