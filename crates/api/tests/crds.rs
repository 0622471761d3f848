//! What the definitions say, statement by statement. What API servers make of them is tested in the API server's crate.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use kerf_api::{Crd, Provider, crds};
use regex::Regex;
use serde_json::{Value, json};

fn crd(provider: Provider, plural: &str) -> Crd {
    crds(provider)
        .into_iter()
        .find(|crd| crd.name.starts_with(&format!("{plural}.")))
        .unwrap()
}

fn version(plural: &str) -> Value {
    crd(Provider::Kwok, plural).value["spec"]["versions"][0].clone()
}

/// The schema of a field: `spec.budgets[].nodes`, `[]` for items and `{}` for the values of a map.
fn field(provider: Provider, plural: &str, path: &str) -> Value {
    let crd = crd(provider, plural);
    let mut schema = &crd.value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let name = part.trim_end_matches("[]").trim_end_matches("{}");
        schema = &schema["properties"][name];
        if part.ends_with("[]") {
            schema = &schema["items"];
        } else if part.ends_with("{}") {
            schema = &schema["additionalProperties"];
        }
        assert!(!schema.is_null(), "{plural} has no {path}");
    }
    schema.clone()
}

fn core(plural: &str, path: &str) -> Value {
    field(Provider::Core, plural, path)
}

/// The schema of a field without description, nested fields and rules.
fn facts(plural: &str, path: &str) -> Value {
    let mut schema = core(plural, path);
    let fields = schema.as_object_mut().unwrap();
    for key in [
        "description",
        "properties",
        "items",
        "additionalProperties",
        "x-kubernetes-validations",
    ] {
        fields.remove(key);
    }
    schema
}

fn messages(schema: &Value) -> Vec<&str> {
    let rules = schema["x-kubernetes-validations"].as_array();
    rules
        .into_iter()
        .flatten()
        .map(|rule| rule["message"].as_str().unwrap())
        .collect()
}

const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const DURATION: &str = "^([0-9]+(s|m|h))+$";
const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

#[test]
fn kinds() {
    for (plural, want, scope, short, category, subresources) in [
        // API-001
        (
            "nodepools",
            json!(["karpenter.sh", "v1", "NodePool", "NodePoolList", "nodepool"]),
            "Cluster",
            Value::Null,
            "karpenter",
            json!({"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}}),
        ),
        // API-002
        (
            "nodeclaims",
            json!(["karpenter.sh", "v1", "NodeClaim", "NodeClaimList", "nodeclaim"]),
            "Cluster",
            Value::Null,
            "karpenter",
            json!({"status": {}}),
        ),
        // API-003
        (
            "nodeoverlays",
            json!([
                "karpenter.sh",
                "v1alpha1",
                "NodeOverlay",
                "NodeOverlayList",
                "nodeoverlay"
            ]),
            "Cluster",
            json!(["overlays"]),
            "karpenter",
            json!({"status": {}}),
        ),
        (
            "capacitybuffers",
            json!([
                "autoscaling.x-k8s.io",
                "v1beta1",
                "CapacityBuffer",
                "CapacityBufferList",
                "capacitybuffer"
            ]),
            "Namespaced",
            json!(["cb"]),
            "autoscaling",
            json!({"status": {}}),
        ),
        // API-005
        (
            "kwoknodeclasses",
            json!([
                "karpenter.kwok.sh",
                "v1alpha1",
                "KWOKNodeClass",
                "KWOKNodeClassList",
                "kwoknodeclass"
            ]),
            "Cluster",
            json!(["kwoknc", "kwokncs"]),
            "karpenter",
            json!({"status": {}}),
        ),
    ] {
        let spec = &crd(Provider::Kwok, plural).value["spec"];
        let (names, version) = (&spec["names"], &spec["versions"][0]);
        let got = json!([
            spec["group"],
            version["name"],
            names["kind"],
            names["listKind"],
            names["singular"]
        ]);
        assert_eq!(got, want);
        assert_eq!(
            (&spec["scope"], &names["shortNames"]),
            (&json!(scope), &short),
            "{plural}"
        );
        // API-008
        assert_eq!(names["categories"], json!([category]), "{plural}");
        assert_eq!(version["subresources"], subresources, "{plural}");
        assert_eq!(
            (&version["served"], &version["storage"]),
            (&json!(true), &json!(true)),
            "{plural}"
        );
        // API-006
        assert_eq!(
            (spec["versions"].as_array().unwrap().len(), &spec["conversion"]),
            (1, &Value::Null),
            "{plural}"
        );
    }
}

#[test]
fn spec_is_required_where_it_says_something() {
    // API-007
    for plural in ["nodepools", "nodeclaims", "nodeoverlays", "capacitybuffers"] {
        assert_eq!(
            field(Provider::Kwok, plural, "")["required"],
            json!(["spec"]),
            "{plural}"
        );
    }
    assert_eq!(field(Provider::Kwok, "kwoknodeclasses", "")["required"], Value::Null);
}

#[test]
fn printer_columns() {
    let columns = |plural: &str| -> Vec<String> {
        let version = version(plural);
        let columns = version["additionalPrinterColumns"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |column: &Value, key: &str| column[key].as_str().unwrap().to_owned();
        columns
            .iter()
            .map(|column| {
                let priority = column["priority"]
                    .as_i64()
                    .map(|p| format!(" p{p}"))
                    .unwrap_or_default();
                format!(
                    "{} {} {}{priority}",
                    text(column, "name"),
                    text(column, "type"),
                    text(column, "jsonPath")
                )
            })
            .collect()
    };
    // API-009
    assert_eq!(
        columns("nodepools"),
        [
            "NodeClass string .spec.template.spec.nodeClassRef.name",
            "Nodes string .status.nodes",
            r#"Ready string .status.conditions[?(@.type=="Ready")].status"#,
            "Age date .metadata.creationTimestamp",
            "Weight integer .spec.weight p1",
            "CPU string .status.resources.cpu p1",
            "Memory string .status.resources.memory p1",
        ]
    );
    // API-010
    assert_eq!(
        columns("nodeclaims"),
        [
            r"Type string .metadata.labels.node\.kubernetes\.io/instance-type",
            r"Capacity string .metadata.labels.karpenter\.sh/capacity-type",
            r"Zone string .metadata.labels.topology\.kubernetes\.io/zone",
            "Node string .status.nodeName",
            r#"Ready string .status.conditions[?(@.type=="Ready")].status"#,
            "Age date .metadata.creationTimestamp",
            "ImageID string .status.imageID p1",
            "ID string .status.providerID p1",
            r"NodePool string .metadata.labels.karpenter\.sh/nodepool p1",
            "NodeClass string .spec.nodeClassRef.name p1",
            r#"Drifted string .status.conditions[?(@.type=="Drifted")].status p1"#,
        ]
    );
    // API-011
    assert_eq!(
        columns("nodeoverlays"),
        [
            r#"Ready string .status.conditions[?(@.type=="Ready")].status"#,
            "Age date .metadata.creationTimestamp",
            "Weight integer .spec.weight p1",
        ]
    );
    // API-013
    assert!(columns("kwoknodeclasses").is_empty());
}

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
        // API-041, API-020
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

#[test]
fn rules_and_their_messages() {
    let domain = "label domain \"karpenter.sh\" is restricted";
    let (pool, host) = (
        "label \"karpenter.sh/nodepool\" is restricted",
        "label \"kubernetes.io/hostname\" is restricted",
    );
    let set = [
        "requirements with operator 'In' must have a value defined",
        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    ];
    for (plural, path, want) in [
        (
            "nodepools",
            "spec",
            vec![
                // API-053
                "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
                // API-054
                "only 'limits.nodes' is supported on static NodePools",
                // API-055
                "'weight' is not supported on static NodePools",
            ],
        ),
        // API-056
        (
            "nodepools",
            "spec.disruption.budgets",
            vec!["'schedule' must be set with 'duration'"],
        ),
        // API-057, API-058, API-060
        (
            "nodepools",
            "spec.template.spec.nodeClassRef",
            vec!["nodeClassRef.group is immutable", "nodeClassRef.kind is immutable"],
        ),
        // API-059
        (
            "nodepools",
            "spec.template.spec.nodeClassRef.group",
            vec!["group may not be empty"],
        ),
        (
            "nodepools",
            "spec.template.spec.nodeClassRef.kind",
            vec!["kind may not be empty"],
        ),
        ("nodeclaims", "spec.nodeClassRef.name", vec!["name may not be empty"]),
        // API-091
        ("nodeclaims", "spec", vec!["spec is immutable"]),
        // API-138
        ("nodepools", "spec.template.spec.requirements", set.to_vec()),
        ("nodeclaims", "spec.requirements", set.to_vec()),
        // API-127
        (
            "nodeoverlays",
            "spec.requirements",
            vec![
                "requirements with operator 'NotIn' must have a value defined",
                set[0],
                "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
            ],
        ),
        // API-145, API-147, API-148, API-227
        ("nodepools", "spec.template.metadata.labels", vec![domain, pool, host]),
        (
            "nodepools",
            "spec.template.spec.requirements[].key",
            vec![domain, pool, host],
        ),
        ("nodeclaims", "spec.requirements[].key", vec![domain, host]),
        ("nodeoverlays", "spec.requirements[].key", vec![domain, host]),
    ] {
        let schema = core(plural, path);
        assert_eq!(messages(&schema), want, "{plural} {path}");
        if want.contains(&domain) {
            // API-145, API-229: admission judges a domain by its ending.
            let rule = schema["x-kubernetes-validations"][0]["rule"].as_str().unwrap();
            assert!(
                rule.contains(".find(\"^([^/]+)\").endsWith(\"karpenter.sh\")"),
                "{rule}"
            );
        }
    }
}

#[test]
fn providers_close_their_own_domain() {
    let rule = |provider, plural: &str, path: &str| {
        let schema = field(provider, plural, path);
        let rules = schema["x-kubernetes-validations"].as_array().unwrap();
        let rule = rules.iter().find(|rule| {
            !rule["message"].as_str().unwrap().contains("kubernetes.io/hostname")
                && !rule["message"].as_str().unwrap().contains("karpenter.sh")
        });
        rule.map(|rule| {
            (
                rule["message"].as_str().unwrap().to_owned(),
                rule["rule"].as_str().unwrap().to_owned(),
            )
        })
    };
    let (pool_keys, pool_labels) = ("spec.template.spec.requirements[].key", "spec.template.metadata.labels");
    // API-150
    let (message, text) = rule(Provider::Kwok, "nodepools", pool_keys).unwrap();
    assert_eq!(message, "label domain \"karpenter.kwok.sh\" is restricted");
    for name in [
        "kwoknodeclass",
        "instance-cpu",
        "instance-memory",
        "instance-family",
        "instance-size",
    ] {
        assert!(text.contains(&format!("\"karpenter.kwok.sh/{name}\"")), "{name}");
    }
    assert_eq!(
        rule(Provider::Kwok, "nodeclaims", "spec.requirements[].key"),
        Some((message, text))
    );
    assert_eq!(rule(Provider::Kwok, "nodepools", pool_labels), None);
    assert_eq!(rule(Provider::Kwok, "nodeoverlays", "spec.requirements[].key"), None);
    // API-151
    for (plural, path) in [
        ("nodepools", pool_keys),
        ("nodepools", pool_labels),
        ("nodeclaims", "spec.requirements[].key"),
        ("nodeoverlays", "spec.requirements[].key"),
    ] {
        let (message, _) = rule(Provider::Aws, plural, path).unwrap();
        assert_eq!(
            message, "label domain \"karpenter.k8s.aws\" is restricted",
            "{plural} {path}"
        );
        assert_eq!(rule(Provider::Core, plural, path), None, "{plural} {path}");
    }
}

#[test]
fn patterns_admit_and_refuse() {
    let check = |plural: &str, path: &str, admitted: &[&str], refused: &[&str]| {
        let pattern = Regex::new(core(plural, path)["pattern"].as_str().unwrap()).unwrap();
        let wrong_yes = admitted
            .iter()
            .filter(|text| !pattern.is_match(text))
            .collect::<Vec<_>>();
        let wrong_no = refused.iter().filter(|text| pattern.is_match(text)).collect::<Vec<_>>();
        assert!(
            wrong_yes.is_empty() && wrong_no.is_empty(),
            "{path}: refused {wrong_yes:?}, admitted {wrong_no:?}"
        );
    };
    let budget = |name: &str| format!("spec.disruption.budgets[].{name}");
    // API-064
    check(
        "nodepools",
        &budget("schedule"),
        &["@annually", "@annuallyfoo", "a b c d e", "0 9 * * mon-fri", "@midnight"],
        &["@every 1h", "*", "* * * *"],
    );
    // API-065
    check(
        "nodepools",
        &budget("duration"),
        &["2h20m0s", "5m", "1h"],
        &["30s", "-1h", "1.5h", "10ms"],
    );
    // API-066
    check(
        "nodepools",
        &budget("nodes"),
        &["0", "10", "0%", "100%", "1000"],
        &["5.5%", "101%", "-1", "%"],
    );
    // API-032, API-228
    check(
        "nodepools",
        "spec.template.spec.terminationGracePeriod",
        &["0s", "1h30m"],
        &["Never", "1.5h", ""],
    );
    check(
        "nodepools",
        "spec.disruption.consolidateAfter",
        &["0s", "Never", "60m"],
        &["never", "-1h", "10ms"],
    );
    // API-029
    check(
        "nodepools",
        "spec.template.spec.taints[].value",
        &["a", "a.b/c"],
        &["", "a b"],
    );
    // API-134
    check(
        "nodepools",
        "spec.template.spec.requirements[].key",
        &["test", "test.com/test"],
        &["Test.com/test", "test/", "/test", "test/test/test", "test.com.com}"],
    );
    // API-128
    check(
        "nodeoverlays",
        "spec.priceAdjustment",
        &[
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
        ],
        &["1", "1.3", "1%", "-100.0%", "-101%", "-.5%", "+5.", "+5.%"],
    );
    // API-129
    check(
        "nodeoverlays",
        "spec.price",
        &["0", "43", "34.43", "007"],
        &[
            "+42", "-1", ".5", "42.", "42%", "3,14", "1e10", "0x42", "ten", " 1", "42.0.0", "-", ".",
        ],
    );
}

#[test]
fn quantities_the_schema_admits_are_read() {
    // API-021
    let pattern = Regex::new(QUANTITY).unwrap();
    for text in ["1", "+1", "-1.5", ".5", "5.", "500m", "2Gi", "1e3", "1E-3", "3n", "7Ei"] {
        assert!(pattern.is_match(text), "{text}");
        assert!(text.parse::<kerf_model::quantity::Quantity>().is_ok(), "{text}");
    }
}

#[test]
fn shipped_text_is_the_data_and_has_no_marks_left() {
    for provider in [Provider::Core, Provider::Kwok, Provider::Aws] {
        for crd in crds(provider) {
            let read: Value = serde_saphyr::from_str(&crd.yaml).unwrap();
            assert_eq!(read, crd.value);
            assert_eq!(crd.value["metadata"]["name"], json!(crd.name));
            assert!(!crd.yaml.contains("provider rules"), "{}", crd.name);
        }
    }
}

/// Everything but descriptions and the generator's annotation.
fn structure(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, value)| key.as_str() != "description" || !value.is_string())
            .filter(|(key, _)| key.as_str() != "controller-gen.kubebuilder.io/version")
            .map(|(key, value)| (key.clone(), structure(value)))
            .filter(|(key, value)| key != "annotations" || value != &json!({}))
            .map(|(key, value)| {
                // Orders that mean nothing.
                let value = if key == "required" { sorted(value) } else { value };
                (key, value)
            })
            .collect(),
        Value::Array(items) => items.iter().map(structure).collect(),
        other => other.clone(),
    }
}

fn sorted(value: Value) -> Value {
    let Value::Array(mut items) = value else { return value };
    items.sort_by_key(ToString::to_string);
    Value::Array(items)
}

#[test]
#[ignore = "needs KERF_CONTRACT_DIR"]
fn structure_equals_the_contract() {
    // API-004, API-012, API-227
    let folder = std::path::PathBuf::from(std::env::var_os("KERF_CONTRACT_DIR").unwrap()).join("crds");
    for (provider, own) in [
        (Provider::Core, "core"),
        (Provider::Kwok, "kwok"),
        (Provider::Aws, "aws"),
    ] {
        for crd in crds(provider) {
            let (plural, group) = crd.name.split_once('.').unwrap();
            let file = format!("{group}_{plural}.yaml");
            let path = [own, "core"]
                .map(|part| folder.join(part).join(&file))
                .into_iter()
                .find(|path| path.exists());
            let want: Value = serde_saphyr::from_str(&std::fs::read_to_string(path.unwrap()).unwrap()).unwrap();
            let (got, want) = (structure(&crd.value), structure(&want));
            let text = |value: &Value| serde_json::to_string_pretty(value).unwrap();
            for (got, want) in text(&got).lines().zip(text(&want).lines()) {
                assert_eq!(got, want, "{own} {}", crd.name);
            }
            assert_eq!(got, want, "{own} {}", crd.name);
            let described = crd
                .yaml
                .lines()
                .filter(|line| line.trim_start().starts_with("description:"));
            let theirs = want_descriptions(&folder);
            for line in described {
                let text = line.trim().trim_start_matches("description:").trim();
                assert!(!theirs.contains(&format!("description: {text}")), "copied text: {text}");
            }
        }
    }
}

fn want_descriptions(folder: &std::path::Path) -> String {
    let folders = ["core", "kwok", "aws"].map(|part| std::fs::read_dir(folder.join(part)).unwrap());
    let files = folders
        .into_iter()
        .flatten()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    files.collect()
}
