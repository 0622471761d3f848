//! NodeClaim, NodeOverlay, CapacityBuffer and KWOKNodeClass (sections 3, 4, 11 and 12 of `docs/behaviour/api.md`).

use serde_json::json;

use super::fixture::{accepts, create, refuses, sample, update, with};

const CLAIM: &str = "NodeClaim";
const OVERLAY: &str = "NodeOverlay";
const BUFFER: &str = "CapacityBuffer";
const CLASS: &str = "KWOKNodeClass";

// API-091
#[test]
fn a_claims_spec_is_immutable() {
    let changed = with(sample(CLAIM), "spec.expireAfter", json!("1h"));
    assert_eq!(
        update(CLAIM, sample(CLAIM), changed),
        ["spec: Invalid value: spec is immutable"]
    );
    let status = with(sample(CLAIM), "status", json!({"nodeName": "n1"}));
    assert!(update(CLAIM, sample(CLAIM), status).is_empty());
}

// API-097, API-094, API-096
#[test]
fn claim_fields() {
    let stored = create(CLAIM, sample(CLAIM)).expect("accepted");
    assert_eq!(stored["spec"]["expireAfter"], "720h");
    accepts(
        CLAIM,
        "spec.resources",
        json!({"requests": {"cpu": "100m", "memory": "1Gi", "pods": 3}}),
    );
    refuses(
        CLAIM,
        "spec.terminationGracePeriod",
        json!("Never"),
        "spec.terminationGracePeriod: Invalid value: \"Never\": spec.terminationGracePeriod in body should match '^([0-9]+(s|m|h))+$'",
    );
}

// API-101
#[test]
fn claim_conditions_are_laxer() {
    let time = "2026-01-01T00:00:00Z";
    let bare = json!([{"type": "Launched", "status": "Unknown", "lastTransitionTime": time}]);
    create(CLAIM, with(sample(CLAIM), "status", json!({"conditions": bare}))).expect("accepted");
    let empty = json!([{"type": "Launched", "status": "True", "reason": "", "lastTransitionTime": time}]);
    create(CLAIM, with(sample(CLAIM), "status", json!({"conditions": empty}))).expect("accepted");
    for field in ["type", "status", "lastTransitionTime"] {
        let mut partial = json!({"type": "Launched", "status": "True", "lastTransitionTime": time});
        partial.as_object_mut().expect("an object").remove(field);
        let text = format!("status.conditions[0].{field}: Required value");
        refuses(CLAIM, "status", json!({"conditions": [partial]}), &text);
    }
}

// API-100
#[test]
fn the_last_pod_event_is_a_time() {
    accepts(CLAIM, "status", json!({"lastPodEventTime": "2026-01-01T00:00:00Z"}));
    let at = "status.lastPodEventTime";
    refuses(
        CLAIM,
        "status",
        json!({"lastPodEventTime": "x"}),
        &format!("{at}: Invalid value: \"x\": {at} in body must be of type date-time: \"x\""),
    );
}

// API-122, API-129, API-023
#[test]
fn overlay_prices() {
    for good in ["0", "43", "34.43", "007"] {
        accepts(OVERLAY, "spec.price", json!(good));
    }
    for bad in [
        "+42", "-1", ".5", "42.", "42%", "3,14", "1e10", "0x42", "text", " 1", "42.0.0", "-", ".",
    ] {
        let text = format!("spec.price: Invalid value: {bad:?}: spec.price in body should match '^\\d+(\\.\\d+)?$'");
        refuses(OVERLAY, "spec.price", json!(bad), &text);
    }
}

// API-123, API-128
#[test]
fn overlay_price_adjustments() {
    for good in [
        "+1%",
        "-1%",
        "-0%",
        "-99.99%",
        "-100%",
        "+100.102%",
        "+298%",
        "+.5%",
        "+43",
        "-43",
        "-129",
        "+34.43",
        "-34.43",
        "+.5",
        "-.5",
    ] {
        accepts(OVERLAY, "spec.priceAdjustment", json!(good));
    }
    let pattern = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";
    let at = "spec.priceAdjustment";
    for bad in ["1", "1.3", "1%", "-100.0%", "-101%", "-.5%", "+5.", "+5.%"] {
        refuses(
            OVERLAY,
            at,
            json!(bad),
            &format!("{at}: Invalid value: {bad:?}: {at} in body should match '{pattern}'"),
        );
    }
}

// API-126
#[test]
fn an_overlay_has_one_kind_of_price() {
    let both = with(
        with(sample(OVERLAY), "spec.price", json!("1")),
        "spec.priceAdjustment",
        json!("+1"),
    );
    assert_eq!(
        create(OVERLAY, both).expect_err("refused"),
        ["spec: Invalid value: cannot set both 'price' and 'priceAdjustment'"]
    );
}

// API-124, API-130
#[test]
fn overlays_may_not_add_ordinary_resources() {
    for resource in ["nodes", "example.com/gpu", "hugepages-2Mi"] {
        accepts(OVERLAY, "spec.capacity", json!({resource: "1"}));
    }
    for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
        refuses(
            OVERLAY,
            "spec.capacity",
            json!({resource: "1"}),
            "spec.capacity: Invalid value: invalid resource restricted",
        );
    }
}

// API-125
#[test]
fn overlay_weights() {
    accepts(OVERLAY, "spec.weight", json!(1));
    accepts(OVERLAY, "spec.weight", json!(10_000));
    let at = "spec.weight";
    refuses(
        OVERLAY,
        at,
        json!(0),
        &format!("{at}: Invalid value: 0: {at} in body should be greater than or equal to 1"),
    );
    refuses(
        OVERLAY,
        at,
        json!(10_001),
        &format!("{at}: Invalid value: 10001: {at} in body should be less than or equal to 10000"),
    );
}

// API-217
#[test]
fn buffers_name_one_thing_and_how_much() {
    let amount = "spec: Invalid value: If podTemplateRef is set, replicas or limits must also be set";
    refuses(BUFFER, "spec", json!({"podTemplateRef": {"name": "t"}}), amount);
    accepts(BUFFER, "spec", json!({"podTemplateRef": {"name": "t"}, "replicas": 1}));
    accepts(
        BUFFER,
        "spec",
        json!({"podTemplateRef": {"name": "t"}, "limits": {"cpu": "1"}}),
    );
    let both =
        json!({"podTemplateRef": {"name": "t"}, "replicas": 1, "scalableRef": {"kind": "Deployment", "name": "d"}});
    refuses(
        BUFFER,
        "spec",
        both,
        "spec: Invalid value: You must define either PodTemplateRef or ScalableRef, but not both",
    );
}

// API-211, API-218, API-219
#[test]
fn what_buffers_accept() {
    let stored = create(BUFFER, sample(BUFFER)).expect("neither reference is accepted");
    assert_eq!(
        stored["spec"]["provisioningStrategy"],
        "buffer.x-k8s.io/active-capacity"
    );
    let target = json!({"kind": "Deployment", "name": "d"});
    for spec in [
        json!({"scalableRef": target}),
        json!({"scalableRef": {"apiGroup": "", "kind": "Deployment", "name": "d"}}),
        json!({"scalableRef": target, "replicas": 0}),
        json!({"scalableRef": target, "percentage": 0}),
        json!({"scalableRef": target, "replicas": 2, "percentage": 10}),
    ] {
        accepts(BUFFER, "spec", spec);
    }
}

// API-212, API-213, API-214
#[test]
fn buffer_fields_have_bounds() {
    refuses(
        BUFFER,
        "spec",
        json!({"podTemplateRef": {}, "replicas": 1}),
        "spec.podTemplateRef.name: Required value",
    );
    let short = "in body should be at least 1 chars long";
    for (spec, at) in [
        (
            json!({"podTemplateRef": {"name": ""}, "replicas": 1}),
            "spec.podTemplateRef.name",
        ),
        (
            json!({"scalableRef": {"kind": "", "name": "d"}}),
            "spec.scalableRef.kind",
        ),
        (
            json!({"scalableRef": {"kind": "Deployment", "name": ""}}),
            "spec.scalableRef.name",
        ),
    ] {
        refuses(
            BUFFER,
            "spec",
            spec,
            &format!("{at}: Invalid value: \"\": {at} {short}"),
        );
    }
    for field in ["replicas", "percentage"] {
        let at = format!("spec.{field}");
        refuses(
            BUFFER,
            &at,
            json!(-1),
            &format!("{at}: Invalid value: -1: {at} in body should be greater than or equal to 0"),
        );
    }
}

// API-224
#[test]
fn the_registration_delay_is_a_duration() {
    accepts(CLASS, "spec.nodeRegistrationDelay", json!("1m30s"));
    let at = "spec.nodeRegistrationDelay";
    refuses(
        CLASS,
        at,
        json!("Never"),
        &format!("{at}: Invalid value: \"Never\": {at} in body should match '^([0-9]+(s|m|h))+$'"),
    );
}

// API-225
#[test]
fn a_kwok_class_is_born_ready() {
    let stored = create(CLASS, sample(CLASS)).expect("accepted");
    assert_eq!(
        stored["status"],
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2024-01-01T01:01:01Z"}]})
    );
}
