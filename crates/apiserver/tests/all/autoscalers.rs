//! HorizontalPodAutoscalers in both of their versions.

use serde_json::{Value, json};

use crate::support::Harness;

fn path(version: &str) -> String {
    format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers")
}

async fn read(h: &Harness, version: &str) -> Value {
    h.call("GET", &format!("{}/web", path(version)), "", None).await.1
}

fn utilization(percent: i32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

#[tokio::test(start_paused = true)]
async fn the_versions_of_an_autoscaler_are_converted() {
    let h = Harness::new();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let v1 = json!({"metadata": {"name": "web"}, "spec": {
        "scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": 80,
    }});
    let (code, made) = h.call("POST", &path("v1"), "", Some(v1.clone())).await;
    assert_eq!((code, &made["spec"]), (201, &v1["spec"]), "{made}");
    let newer = read(&h, "v2").await;
    assert_eq!(newer["apiVersion"], "autoscaling/v2");
    assert_eq!(newer["spec"]["metrics"], json!([utilization(80)]));

    // What the older version has no field for survives a change through it.
    let memory = json!({"type": "Resource", "resource": {
        "name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"},
    }});
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
    let change = json!({"spec": {"metrics": [memory, utilization(80)], "behavior": behavior}});
    let merge = "application/merge-patch+json";
    let at = |version: &str| format!("{}/web", path(version));
    h.raw("PATCH", &at("v2"), "", merge, Some(change)).await;
    let change = json!({"spec": {"targetCPUUtilizationPercentage": 50}});
    let (code, _, text) = h.raw("PATCH", &at("v1"), "", merge, Some(change)).await;
    assert_eq!(code, 200, "{text}");
    let newer = read(&h, "v2").await;
    assert_eq!(newer["spec"]["metrics"], json!([utilization(50), memory]));
    assert_eq!(newer["spec"]["behavior"], behavior);
    assert_eq!(newer["metadata"].get("annotations"), None);
}

#[tokio::test(start_paused = true)]
async fn the_group_serves_both_versions_and_describes_scales() {
    let h = Harness::new();
    let (_, group) = h.call("GET", "/apis/autoscaling", "", None).await;
    assert_eq!(group["preferredVersion"]["version"], "v2");
    assert_eq!(group["versions"].as_array().map(Vec::len), Some(2));
    let (_, document) = h.call("GET", "/openapi/v3/apis/apps/v1", "", None).await;
    let scale = &document["components"]["schemas"]["io.k8s.api.autoscaling.v1.Scale"];
    assert_eq!(
        scale["description"],
        "Scale represents a scaling request for a resource."
    );
    let path = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"];
    let answer = &path["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(answer, "#/components/schemas/io.k8s.api.autoscaling.v1.Scale");
    assert_eq!(path["put"]["x-kubernetes-group-version-kind"]["kind"], "Scale");
}
