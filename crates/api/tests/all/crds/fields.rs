//! Types, defaults and bounds, field by field.

use kerf_api::Provider;
use serde_json::{Value, json};

use super::schema::{DURATION, DURATION_OR_NEVER, LABEL_VALUE, QUALIFIED_NAME, QUANTITY, core, facts, field, messages};

#[test]
fn fields_of_node_pools() {
    let template = "spec.template.spec";
    for (path, want) in [
        // API-026
        ("spec", json!({"type": "object", "required": ["template"]})),
        ("spec.template", json!({"type": "object", "required": ["spec"]})),
        // API-027, API-014
        (
            "spec.template.metadata.labels",
            json!({"type": "object", "maxProperties": 100, "x-kubernetes-map-type": "atomic"}),
        ),
        (
            "spec.template.metadata.labels{}",
            json!({"type": "string", "maxLength": 63, "pattern": LABEL_VALUE}),
        ),
        // API-028
        (
            "spec.template.metadata.annotations",
            json!({"type": "object", "x-kubernetes-map-type": "granular"}),
        ),
        // API-029, API-015
        (
            "spec.template.spec.taints",
            json!({"type": "array", "x-kubernetes-list-type": "atomic"}),
        ),
        (
            "spec.template.spec.startupTaints",
            json!({"type": "array", "x-kubernetes-list-type": "atomic"}),
        ),
        (
            "spec.template.spec.taints[]",
            json!({"type": "object", "required": ["effect", "key"]}),
        ),
        (
            "spec.template.spec.taints[].key",
            json!({"type": "string", "minLength": 1, "pattern": QUALIFIED_NAME}),
        ),
        (
            "spec.template.spec.taints[].value",
            json!({"type": "string", "pattern": QUALIFIED_NAME}),
        ),
        (
            "spec.template.spec.startupTaints[].effect",
            json!({"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]}),
        ),
        (
            "spec.template.spec.startupTaints[].timeAdded",
            json!({"type": "string", "format": "date-time"}),
        ),
        // API-030
        (
            template,
            json!({"type": "object", "required": ["nodeClassRef", "requirements"]}),
        ),
        (
            "spec.template.spec.requirements",
            json!({"type": "array", "maxItems": 100, "x-kubernetes-list-type": "atomic"}),
        ),
        // API-031
        (
            "spec.template.spec.nodeClassRef",
            json!({"type": "object", "required": ["group", "kind", "name"]}),
        ),
        (
            "spec.template.spec.nodeClassRef.group",
            json!({"type": "string", "pattern": "^[^/]*$"}),
        ),
        // API-032, API-016
        (
            "spec.template.spec.terminationGracePeriod",
            json!({"type": "string", "pattern": DURATION}),
        ),
        // API-033, API-017, API-049
        (
            "spec.template.spec.expireAfter",
            json!({"type": "string", "default": "720h", "pattern": DURATION_OR_NEVER}),
        ),
        // API-034, API-035, API-050
        (
            "spec.disruption",
            json!({"type": "object", "default": {"consolidateAfter": "0s"}, "required": ["consolidateAfter"]}),
        ),
        // API-228
        (
            "spec.disruption.consolidateAfter",
            json!({"type": "string", "pattern": DURATION_OR_NEVER}),
        ),
        // API-036
        (
            "spec.disruption.consolidationPolicy",
            json!({
                "type": "string",
                "default": "WhenEmptyOrUnderutilized",
                "enum": ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"],
            }),
        ),
        // API-037, API-051
        (
            "spec.disruption.budgets",
            json!({
                "type": "array", "default": [{"nodes": "10%"}], "maxItems": 50, "x-kubernetes-list-type": "atomic",
            }),
        ),
        // API-038, API-018
        (
            "spec.disruption.budgets[]",
            json!({"type": "object", "required": ["nodes"]}),
        ),
        (
            "spec.disruption.budgets[].nodes",
            json!({"type": "string", "default": "10%", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$"}),
        ),
        // API-039
        (
            "spec.disruption.budgets[].reasons",
            json!({"type": "array", "maxItems": 50, "x-kubernetes-list-type": "set"}),
        ),
        (
            "spec.disruption.budgets[].reasons[]",
            json!({"type": "string", "enum": ["Underutilized", "Empty", "Drifted"]}),
        ),
        // API-040, API-019
        (
            "spec.disruption.budgets[].schedule",
            json!({
                "type": "string",
                "pattern":
                    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$",
            }),
        ),
        // API-041, API-020, DIS-078
        (
            "spec.disruption.budgets[].duration",
            json!({"type": "string", "pattern": "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"}),
        ),
        // API-042, API-021
        ("spec.limits", json!({"type": "object"})),
        (
            "spec.limits{}",
            json!({
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": QUANTITY,
                "x-kubernetes-int-or-string": true,
            }),
        ),
        // API-043
        (
            "spec.weight",
            json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 100}),
        ),
        // API-044, API-063
        (
            "spec.replicas",
            json!({"type": "integer", "format": "int64", "minimum": 0}),
        ),
        // API-045, API-232
        (
            "status.nodes",
            json!({"type": "integer", "format": "int64", "default": 0}),
        ),
        ("status", json!({"type": "object"})),
        // API-046
        ("status.resources", json!({"type": "object"})),
        // API-047
        (
            "status.nodeClassObservedGeneration",
            json!({"type": "integer", "format": "int64"}),
        ),
        // API-048
        (
            "status.conditions",
            json!({
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            }),
        ),
        (
            "status.conditions[]",
            json!({"type": "object", "required": ["lastTransitionTime", "message", "reason", "status", "type"]}),
        ),
        (
            "status.conditions[].message",
            json!({"type": "string", "maxLength": 32768}),
        ),
        (
            "status.conditions[].status",
            json!({"type": "string", "enum": ["True", "False", "Unknown"]}),
        ),
        // API-022
        (
            "status.conditions[].reason",
            json!({
                "type": "string", "minLength": 1, "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            }),
        ),
    ] {
        assert_eq!(facts("nodepools", path), want, "{path}");
    }
    assert_eq!(core("nodepools", "status.conditions[].type")["maxLength"], json!(316));
}

#[test]
fn fields_of_node_claims() {
    for path in [
        // API-092
        "taints",
        "taints[]",
        "taints[].key",
        "taints[].value",
        "taints[].effect",
        "startupTaints",
        "startupTaints[]",
        // API-093
        "requirements",
        // API-095
        "nodeClassRef",
        "nodeClassRef.group",
        // API-096
        "terminationGracePeriod",
        // API-097
        "expireAfter",
    ] {
        let pool = facts("nodepools", &format!("spec.template.spec.{path}"));
        assert_eq!(facts("nodeclaims", &format!("spec.{path}")), pool, "{path}");
    }
    // API-095
    assert!(messages(&core("nodeclaims", "spec.nodeClassRef")).is_empty());
    // API-094, API-099
    for path in ["spec.resources.requests{}", "status.capacity{}", "status.allocatable{}"] {
        assert_eq!(facts("nodeclaims", path)["pattern"], json!(QUANTITY), "{path}");
    }
    // API-098
    for path in ["status.nodeName", "status.providerID", "status.imageID"] {
        assert_eq!(facts("nodeclaims", path), json!({"type": "string"}), "{path}");
    }
    // API-100
    assert_eq!(
        facts("nodeclaims", "status.lastPodEventTime"),
        json!({"type": "string", "format": "date-time"})
    );
    // API-101, API-022, API-227
    assert_eq!(
        facts("nodeclaims", "status.conditions[]")["required"],
        json!(["lastTransitionTime", "status", "type"])
    );
    assert_eq!(
        facts("nodeclaims", "status.conditions[].reason"),
        json!({"type": "string", "maxLength": 1024, "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"})
    );
}

#[test]
fn fields_of_overlays_and_kwok_classes() {
    // API-121
    assert_eq!(core("nodeoverlays", "spec")["required"], json!(["requirements"]));
    assert_eq!(
        facts("nodeoverlays", "spec.requirements"),
        facts("nodeclaims", "spec.requirements")
    );
    assert_eq!(
        core("nodeoverlays", "spec.requirements[]")["properties"]["minValues"],
        Value::Null
    );
    // API-122, API-023
    assert_eq!(
        facts("nodeoverlays", "spec.price"),
        json!({"type": "string", "pattern": r"^\d+(\.\d+)?$"})
    );
    // API-123
    assert_eq!(
        facts("nodeoverlays", "spec.priceAdjustment")["pattern"],
        json!(r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$")
    );
    // API-124
    assert_eq!(
        messages(&core("nodeoverlays", "spec.capacity")),
        ["invalid resource restricted"]
    );
    // API-125
    assert_eq!(
        facts("nodeoverlays", "spec.weight"),
        json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 10000})
    );
    // API-126
    assert_eq!(
        messages(&core("nodeoverlays", "spec")),
        ["cannot set both 'price' and 'priceAdjustment'"]
    );
    let kwok = |path| field(Provider::Kwok, "kwoknodeclasses", path);
    // API-224
    assert_eq!(kwok("spec")["properties"].as_object().unwrap().len(), 1);
    assert_eq!(kwok("spec.nodeRegistrationDelay")["pattern"], json!(DURATION));
    // API-225
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2024-01-01T01:01:01Z",
    });
    assert_eq!(kwok("status")["default"], json!({"conditions": [ready]}));
    assert_eq!(kwok("status.conditions")["x-kubernetes-list-type"], Value::Null);
}

#[test]
fn requirement_elements() {
    for (plural, path) in [
        ("nodepools", "spec.template.spec.requirements[]"),
        ("nodeclaims", "spec.requirements[]"),
        ("nodeoverlays", "spec.requirements[]"),
    ] {
        let part = |name: &str| facts(plural, &format!("{path}.{name}"));
        assert_eq!(facts(plural, path)["required"], json!(["key", "operator"]));
        // API-134
        assert_eq!(
            part("key"),
            json!({"type": "string", "maxLength": 316, "pattern": QUALIFIED_NAME})
        );
        // API-135, API-227
        assert_eq!(
            part("operator")["enum"],
            json!(["Gte", "Lte", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        );
        // API-136
        assert_eq!(
            part("values"),
            json!({
                "type": "array", "x-kubernetes-list-type": "atomic", "maxLength": 63, "pattern": LABEL_VALUE,
            })
        );
        if plural != "nodeoverlays" {
            // API-137
            assert_eq!(
                part("minValues"),
                json!({"type": "integer", "minimum": 1, "maximum": 50})
            );
        }
    }
}
