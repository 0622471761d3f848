//! Server-side apply as its users see it.

use super::apply::LAST_APPLIED;
use super::*;
use crate::patch::Gvk;
use crate::schema::CompiledCrd;
use jiff::Timestamp;
use serde_json::{Value, json};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).expect("a time")
}

fn writer(manager: &str, second: i64) -> Writer<'_> {
    Writer {
        manager,
        subresource: "",
        now: at(second),
    }
}

fn deployment() -> Gvk {
    Gvk::new("apps", "v1", "Deployment")
}

fn apply(live: Option<&Value>, applied: &Value, manager: &str, force: bool) -> Result<Value, ApplyError> {
    server_side_apply(
        live,
        applied,
        writer(manager, 0),
        force,
        &BuiltinSchema::of(&deployment()),
        &deployment(),
    )
}

fn configuration(replicas: i64, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {
        "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "a", "image": image, "ports": [{"containerPort": 80}]}]}},
    }})
}

#[test]
fn the_first_apply_records_what_it_set() {
    let created = apply(None, &configuration(2, "i:1"), "kubectl", false).expect("applies");
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{"manager": "kubectl", "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
                ".": {}, "f:name": {}, "f:image": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
            }}}}},
        }}])
    );
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let created = apply(None, &configuration(2, "i:1"), "kubectl", false).expect("applies");
    let schema = BuiltinSchema::of(&deployment());
    let again = server_side_apply(
        Some(&created),
        &configuration(2, "i:1"),
        writer("kubectl", 60),
        false,
        &schema,
        &deployment(),
    );
    assert_eq!(again.expect("applies"), created);
}

#[test]
fn fields_no_longer_applied_are_removed() {
    let created = apply(None, &configuration(2, "i:1"), "kubectl", false).expect("applies");
    let less = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}]}}}});
    let after = apply(Some(&created), &less, "kubectl", false).expect("applies");
    assert_eq!(
        after["spec"],
        json!({"template": {"spec": {"containers": [{"name": "a", "image": "i:1"}]}}})
    );
    assert_eq!(after["metadata"].get("labels"), None);
}

#[test]
fn a_removed_list_entry_goes_with_its_unowned_defaults() {
    let two = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}}}});
    let mut live = apply(None, &two, "kubectl", false).expect("applies");
    live["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = "Always".into();
    let one = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i"}]}}}});
    let after = apply(Some(&live), &one, "kubectl", false).expect("applies");
    assert_eq!(
        after["spec"]["template"]["spec"]["containers"],
        json!([{"name": "a", "image": "i"}])
    );
}

#[test]
fn another_managers_value_is_a_conflict_unless_equal_or_forced() {
    let created = apply(None, &configuration(2, "i:1"), "kubectl", false).expect("applies");
    let mut scaled = created.clone();
    scaled["spec"]["replicas"] = 5.into();
    let live = track_update(
        Some(&created),
        scaled,
        writer("scaler", 1),
        &BuiltinSchema::of(&deployment()),
        &deployment(),
    );
    let names: Vec<&Value> = live["metadata"]["managedFields"]
        .as_array()
        .expect("books")
        .iter()
        .map(|m| &m["manager"])
        .collect();
    assert_eq!(names, ["kubectl", "scaler"]);
    assert!(
        !live["metadata"]["managedFields"][0].to_string().contains("f:replicas"),
        "ownership moved"
    );

    let error = apply(Some(&live), &configuration(3, "i:1"), "kubectl", false).expect_err("the scaler owns it");
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"scaler\" using apps/v1: .spec.replicas"
    );
    let shared = apply(Some(&live), &configuration(5, "i:1"), "kubectl", false).expect("equal values are shared");
    assert_eq!(shared["metadata"]["managedFields"].as_array().map(Vec::len), Some(2));
    let forced = apply(Some(&live), &configuration(3, "i:1"), "kubectl", true).expect("forced");
    assert_eq!(forced["spec"]["replicas"], 3);
    assert_eq!(
        forced["metadata"]["managedFields"].as_array().map(Vec::len),
        Some(1),
        "the scaler owns nothing now"
    );
}

#[test]
fn several_conflicts_are_listed_by_manager() {
    let created = apply(None, &configuration(2, "i:1"), "one", false).expect("applies");
    let error = apply(Some(&created), &configuration(3, "i:2"), "two", false).expect_err("one owns both");
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.replicas\n- .spec.template.spec.containers[name=\"a\"].image"
    );
}

#[test]
fn shared_fields_survive_until_the_last_owner_lets_go() {
    let created = apply(None, &configuration(2, "i:1"), "one", false).expect("applies");
    let shared = apply(Some(&created), &json!({"spec": {"replicas": 2}}), "two", false).expect("equal");
    let without = json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i:1"}]}}}});
    let after = apply(Some(&shared), &without, "one", false).expect("applies");
    assert_eq!(after["spec"]["replicas"], 2);
    let gone = apply(Some(&after), &json!({"metadata": {"name": "web"}}), "two", false).expect("applies");
    assert_eq!(gone["spec"].get("replicas"), None);
}

#[test]
fn an_object_without_books_is_credited_to_before_first_apply() {
    let live = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
    let error = apply(Some(&live), &json!({"spec": {"replicas": 2}}), "kubectl", false).expect_err("somebody set it");
    assert!(
        error
            .to_string()
            .contains("conflict with \"before-first-apply\" using apps/v1: .spec.replicas"),
        "{error}"
    );
}

#[test]
fn kubectl_may_go_over_from_client_side_apply() {
    let mut live = configuration(1, "i:1");
    live["metadata"]["annotations"] = json!({LAST_APPLIED: configuration(1, "i:1").to_string()});
    assert!(apply(Some(&live), &configuration(2, "i:1"), "kubectl", false).is_ok());
    let error = apply(Some(&live), &configuration(2, "i:1"), "someone", false).expect_err("not theirs");
    assert!(error.to_string().contains("before-first-apply"), "{error}");
}

#[test]
fn sets_merge_by_value_and_orders_hold() {
    let first = json!({"metadata": {"finalizers": ["a", "b"]}});
    let live = apply(None, &first, "one", false).expect("applies");
    let both = apply(Some(&live), &json!({"metadata": {"finalizers": ["c"]}}), "two", false).expect("no conflict");
    assert_eq!(both["metadata"]["finalizers"], json!(["a", "b", "c"]));
    let after = apply(Some(&both), &json!({"metadata": {"finalizers": ["b"]}}), "one", false).expect("applies");
    let mut left: Vec<&str> = after["metadata"]["finalizers"]
        .as_array()
        .expect("list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["b", "c"]);
}

#[test]
fn shared_entries_take_the_applied_order_and_strangers_keep_their_place() {
    let names = |object: &Value| -> Vec<String> {
        let containers = object["spec"]["template"]["spec"]["containers"]
            .as_array()
            .expect("list");
        containers
            .iter()
            .filter_map(|c| c["name"].as_str())
            .map(str::to_owned)
            .collect()
    };
    let of = |names: &[&str]| {
        let containers: Vec<Value> = names.iter().map(|n| json!({"name": n})).collect();
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    };
    for (live, applied, expected) in [
        (&["a", "x", "b"][..], &["b", "a"][..], &["x", "b", "a"][..]),
        (&["a", "b"], &["a", "new", "b"], &["a", "new", "b"]),
        (&["x", "a"], &["new", "a"], &["x", "new", "a"]),
        (&["a", "x"], &["a", "new"], &["a", "x", "new"]),
        (&["a", "b", "c"], &["c", "b", "a"], &["c", "b", "a"]),
    ] {
        let created = apply(None, &of(live), "one", false).expect("applies");
        let after = apply(Some(&created), &of(applied), "two", false).expect("no conflict");
        assert_eq!(names(&after), expected, "{live:?} {applied:?}");
    }
}

#[test]
fn malformed_configurations_are_refused() {
    let own_books = apply(None, &json!({"metadata": {"managedFields": []}}), "x", false).expect_err("not yours");
    assert_eq!(own_books.to_string(), "metadata.managedFields must be nil");
    let nameless = json!({"spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}});
    let error = apply(None, &nameless, "x", false)
        .expect_err("containers have names")
        .to_string();
    assert!(error.contains("omits key field \"name\""), "{error}");
}

#[test]
fn custom_resources_merge_by_their_schema() {
    let crd = json!({
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                    "plain": {"type": "array", "items": {"type": "string"}}}},
                "status": {"type": "object", "properties": {"conditions": {"type": "array",
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                    "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}}}},
            }}},
        }]},
    });
    let compiled = CompiledCrd::compile(&crd).expect("a CRD");
    let version = compiled.version("v1").expect("v1");
    let gvk = Gvk::new("example.org", "v1", "Thing");
    let status = |ty: &str| json!({"status": {"conditions": [{"type": ty, "status": "True"}]}});
    let one = server_side_apply(None, &status("A"), writer("one", 0), false, version, &gvk).expect("applies");
    let two =
        server_side_apply(Some(&one), &status("B"), writer("two", 0), false, version, &gvk).expect("another entry");
    assert_eq!(two["status"]["conditions"].as_array().map(Vec::len), Some(2));
    let spec = json!({"spec": {"atomic": {"a": "1"}, "plain": ["x"]}});
    let three = server_side_apply(Some(&two), &spec, writer("one", 0), true, version, &gvk).expect("applies");
    assert_eq!(three["status"]["conditions"], json!([{"type": "B", "status": "True"}]));
    let more = json!({"spec": {"atomic": {"b": "2"}, "plain": ["y"]}});
    let error =
        server_side_apply(Some(&three), &more, writer("two", 0), false, version, &gvk).expect_err("owned whole");
    assert!(error.to_string().contains("- .spec.atomic\n- .spec.plain"), "{error}");
}

#[test]
fn ordinary_writes_keep_books_too() {
    let schema = BuiltinSchema::of(&deployment());
    let created = track_update(
        None,
        json!({"metadata": {"name": "web", "labels": {"a": "1"}}, "spec": {"replicas": 1}}),
        writer("m", 0),
        &schema,
        &deployment(),
    );
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {".": {}, "f:replicas": {}}})
    );
    assert!(!was_applied(&created));
    let unchanged = track_update(Some(&created), created.clone(), writer("m", 9), &schema, &deployment());
    assert_eq!(unchanged, created);
    let mut status = created.clone();
    status["status"] = json!({"replicas": 1});
    let by_status = Writer {
        manager: "m",
        subresource: "status",
        now: at(5),
    };
    let after = track_update(Some(&created), status, by_status, &schema, &deployment());
    assert_eq!(after["metadata"]["managedFields"][1]["subresource"], "status");
    let mut reset = after.clone();
    reset["metadata"]["managedFields"] = json!([]);
    let cleared = track_update(Some(&after), reset, writer("m", 9), &schema, &deployment());
    assert_eq!(cleared["metadata"].get("managedFields"), None);
}
