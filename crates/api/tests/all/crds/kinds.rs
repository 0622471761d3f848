//! Names, scope, versions, subresources and printer columns.

use kerf_api::Provider;
use serde_json::{Value, json};

use super::schema::{crd, field};

fn version(plural: &str) -> Value {
    crd(Provider::Kwok, plural).value["spec"]["versions"][0].clone()
}

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
        (
            "noderepairpolicies",
            json!([
                "kerf.sh",
                "v1alpha1",
                "NodeRepairPolicy",
                "NodeRepairPolicyList",
                "noderepairpolicy"
            ]),
            "Cluster",
            json!(["nrp"]),
            "karpenter",
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
    for plural in [
        "nodepools",
        "nodeclaims",
        "nodeoverlays",
        "capacitybuffers",
        "noderepairpolicies",
    ] {
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
