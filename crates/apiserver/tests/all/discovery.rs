//! The resources that are served, and the answer for others.

use kube::api::GroupVersionKind;
use serde_json::{Value, json};

use crate::custom_resources::install_widgets;
use crate::support::Harness;

#[tokio::test(start_paused = true)]
async fn discovery_lists_what_is_served() {
    let h = Harness::new();
    install_widgets(&h).await;
    let groups = kube::discovery::Discovery::new(h.client()).run().await.unwrap();
    let gvk = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let (resource, capabilities) = groups.resolve_gvk(&gvk).unwrap();
    assert_eq!(resource.plural, "widgets");
    assert!(
        capabilities
            .subresources
            .iter()
            .any(|(r, _)| r.plural.ends_with("status"))
    );
    assert!(groups.has_group("apps") && groups.has_group("policy"));

    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (code, headers, text) = h.raw("GET", "/apis", accept, "", None).await;
    assert_eq!(code, 200);
    assert!(
        headers["content-type"]
            .to_str()
            .unwrap()
            .contains("as=APIGroupDiscoveryList")
    );
    let all: Value = serde_json::from_str(&text).unwrap();
    let group = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["metadata"]["name"] == "example.com")
        .unwrap();
    let widget = &group["versions"][0]["resources"][0];
    assert_eq!(
        (widget["scope"].as_str(), widget["shortNames"][0].as_str()),
        (Some("Cluster"), Some("wd"))
    );

    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(h.raw("GET", path, "", "", None).await.2, "ok");
    }
    assert_eq!(h.call("GET", "/version", "", None).await.1["minor"], "36");
    let (_, index) = h.call("GET", "/openapi/v3", "", None).await;
    assert!(index["paths"]["apis/example.com/v1"]["serverRelativeURL"].is_string());
    let (code, document) = h.call("GET", "/openapi/v3/apis/example.com/v1", "", None).await;
    assert_eq!((code, document["openapi"].as_str()), (200, Some("3.0.0")));
}

/// `kubectl apply` reads it before it applies a `List`, and gives up without it.
#[tokio::test(start_paused = true)]
async fn an_openapi_v2_document_that_describes_nothing_is_served() {
    let h = Harness::new();
    let (code, document) = h.call("GET", "/openapi/v2", "", None).await;
    assert_eq!((code, document["swagger"].as_str()), (200, Some("2.0")));
    for separator in ["@", "."] {
        let accept = format!("application/com.github.proto-openapi.spec.v2{separator}v1.0+protobuf");
        let (code, headers, body) = h.raw("GET", "/openapi/v2", &accept, "", None).await;
        assert_eq!(code, 200);
        assert_eq!(
            headers["content-type"],
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        );
        let info = body.strip_prefix("\n\u{3}2.0\u{12}\u{19}").expect("swagger, then info");
        assert_eq!(info, "\n\nKubernetes\u{12}\u{b}unversionedB\0");
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_allow_everything() {
    let h = Harness::new();
    let body = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, review) = h.call("POST", path, "", Some(body)).await;
    assert_eq!((code, review["status"]["allowed"].as_bool()), (201, Some(true)));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_served_is_a_clean_refusal() {
    let h = Harness::new();
    for (method, path, expected) in [
        ("GET", "/api/v1/unicorns", 404),
        ("GET", "/apis/nope/v1/things", 404),
        ("GET", "/nope", 404),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("GET", "/api/v1/namespaces/default/pods/p/log", 400),
        ("GET", "/api/v1/namespaces/default/pods?limit=x", 400),
        ("GET", "/api/v1/namespaces/default/pods?labelSelector=a+b", 400),
        ("POST", "/api/v1/namespaces/default/pods?dryRun=Some", 422),
    ] {
        let (code, status) = h.call(method, path, "", Some(json!({}))).await;
        assert_eq!(code, expected, "{method} {path}: {status}");
        assert_eq!(status["kind"], "Status", "{method} {path}");
    }
    let (code, _, _) = h
        .raw("PATCH", "/api/v1/namespaces/default", "", "text/plain", Some(json!({})))
        .await;
    assert_eq!(code, 415);
    let big = json!({"metadata": {"name": "x"}, "data": {"k": "x".repeat(4 << 20)}});
    assert_eq!(
        h.call("POST", "/api/v1/namespaces/default/configmaps", "", Some(big))
            .await
            .0,
        413
    );
}

#[tokio::test(start_paused = true)]
async fn kinds_and_fields_are_described_to_kubectl_explain() {
    let h = Harness::new();
    for (group, schema, field) in [
        ("apis/apps/v1", "io.k8s.api.apps.v1.DeploymentSpec", "replicas"),
        ("apis/batch/v1", "io.k8s.api.batch.v1.CronJobSpec", "schedule"),
        ("api/v1", "io.k8s.api.core.v1.ResourceQuotaSpec", "hard"),
        ("api/v1", "io.k8s.api.core.v1.Container", "resources"),
    ] {
        let (_, document) = h.call("GET", &format!("/openapi/v3/{group}"), "", None).await;
        let schema_of = &document["components"]["schemas"][schema];
        for description in [
            &schema_of["description"],
            &schema_of["properties"][field]["description"],
        ] {
            assert!(
                description.as_str().is_some_and(|text| text.len() > 20),
                "{schema} {field}: {schema_of}"
            );
        }
    }
}
