//! ResourceQuotas: what they refuse, and the amounts in their status.

use serde_json::{Value, json};

use crate::support::{Harness, pod_with_resources};

const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn with_quota(spec: Value) -> Harness {
    let h = Harness::new();
    let quota = json!({"metadata": {"name": "team"}, "spec": spec});
    assert_eq!(h.call("POST", QUOTAS, "", Some(quota)).await.0, 201);
    h
}

async fn used(h: &Harness) -> Value {
    h.call("GET", &format!("{QUOTAS}/team"), "", None).await.1["status"]["used"].clone()
}

async fn create(h: &Harness, pod: Value) -> (u16, String) {
    let (code, made) = h.call("POST", PODS, "", Some(pod)).await;
    (code, made["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn the_status_follows_the_objects() {
    let h = Harness::new();
    assert_eq!(
        create(&h, pod_with_resources("old", &json!({"requests": {"cpu": "250m"}})))
            .await
            .0,
        201
    );
    let hard = json!({"pods": "5", "requests.cpu": "2", "count/configmaps": "3", "memory": "1Gi"});
    let quota = json!({"metadata": {"name": "team"}, "spec": {"hard": hard}});
    let (_, made) = h.call("POST", QUOTAS, "", Some(quota)).await;
    assert_eq!(made["status"]["hard"], hard);
    let expected = json!({"pods": "1", "requests.cpu": "250m", "count/configmaps": "0", "memory": "0"});
    assert_eq!(made["status"]["used"], expected);

    assert_eq!(
        create(
            &h,
            pod_with_resources("new", &json!({"requests": {"cpu": "1", "memory": "64Mi"}}))
        )
        .await
        .0,
        201
    );
    let map = json!({"metadata": {"name": "m"}});
    h.call("POST", "/api/v1/namespaces/default/configmaps", "", Some(map))
        .await;
    let expected = json!({"pods": "2", "requests.cpu": "1250m", "count/configmaps": "1", "memory": "64Mi"});
    assert_eq!(used(&h).await, expected);

    // A finished pod and a deleted one free what they used.
    let done = json!({"status": {"phase": "Succeeded"}});
    h.raw(
        "PATCH",
        &format!("{PODS}/new/status"),
        "",
        "application/merge-patch+json",
        Some(done),
    )
    .await;
    h.call("DELETE", &format!("{PODS}/old"), "", None).await;
    let expected = json!({"pods": "0", "requests.cpu": "0", "count/configmaps": "1", "memory": "0"});
    assert_eq!(used(&h).await, expected);
    assert_eq!(
        create(
            &h,
            pod_with_resources("dry", &json!({"requests": {"cpu": "1", "memory": "1Mi"}}))
        )
        .await
        .0,
        201
    );

    let change =
        json!({"spec": {"hard": {"pods": "7", "requests.cpu": null, "count/configmaps": null, "memory": null}}});
    h.raw(
        "PATCH",
        &format!("{QUOTAS}/team"),
        "",
        "application/merge-patch+json",
        Some(change),
    )
    .await;
    assert_eq!(used(&h).await, json!({"pods": "1"}));
}

#[tokio::test(start_paused = true)]
async fn what_exceeds_a_quota_is_refused() {
    let h = with_quota(json!({"hard": {"pods": "2", "requests.cpu": "1", "limits.cpu": "3"}})).await;
    let sized = |name: &str, cpu: &str| {
        let mut pod = pod_with_resources(name, &json!({"requests": {"cpu": cpu}}));
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({"cpu": "1"});
        pod
    };
    assert_eq!(create(&h, sized("a", "600m")).await.0, 201);
    let refused = "pods \"b\" is forbidden: exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=600m, \
                   limited: requests.cpu=1";
    assert_eq!(create(&h, sized("b", "500m")).await, (403, refused.to_owned()));
    assert_eq!(create(&h, sized("b", "400m")).await.0, 201);
    let refused = "pods \"c\" is forbidden: exceeded quota: team, requested: pods=1,requests.cpu=100m, used: \
                   pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1";
    assert_eq!(create(&h, sized("c", "100m")).await, (403, refused.to_owned()));
    let refused = "pods \"d\" is forbidden: failed quota: team: must specify limits.cpu for: c; requests.cpu for: c";
    assert_eq!(
        create(&h, pod_with_resources("d", &json!({"requests": {}}))).await,
        (403, refused.to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn scopes_select_pods() {
    for (scope, named, counted) in [
        (json!({"scopes": ["BestEffort"]}), "plain", "1"),
        (json!({"scopes": ["NotBestEffort"]}), "plain", "0"),
        (json!({"scopes": ["Terminating"]}), "short", "1"),
        (json!({"scopes": ["NotTerminating", "BestEffort"]}), "short", "0"),
        (
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]},
            ]}}),
            "critical",
            "1",
        ),
        (
            json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}),
            "plain",
            "0",
        ),
    ] {
        let mut spec = scope.clone();
        spec["hard"] = json!({"pods": "9"});
        let h = with_quota(spec).await;
        let mut pod = pod_with_resources(named, &json!({"requests": {}}));
        match named {
            "short" => pod["spec"]["activeDeadlineSeconds"] = 60.into(),
            "critical" => pod["spec"]["priorityClassName"] = "system-node-critical".into(),
            _ => {}
        }
        assert_eq!(create(&h, pod).await.0, 201);
        assert_eq!(used(&h).await, json!({"pods": counted}), "{scope} {named}");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_services_and_quotas_are_counted() {
    let hard = json!({
        "persistentvolumeclaims": "9", "requests.storage": "10Gi", "fast.storageclass.storage.k8s.io/requests.storage": "10Gi",
        "services": "9", "services.nodeports": "9", "resourcequotas": "2", "count/deployments.apps": "1",
    });
    let h = with_quota(json!({"hard": hard})).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}},
    }});
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]}});
    for (path, object) in [("persistentvolumeclaims", claim), ("services", service)] {
        let (code, made) = h
            .call("POST", &format!("/api/v1/namespaces/default/{path}"), "", Some(object))
            .await;
        assert_eq!(code, 201, "{made}");
    }
    let expected = json!({
        "persistentvolumeclaims": "1", "requests.storage": "4Gi", "fast.storageclass.storage.k8s.io/requests.storage": "4Gi",
        "services": "1", "services.nodeports": "2", "resourcequotas": "1", "count/deployments.apps": "0",
    });
    assert_eq!(used(&h).await, expected);
    let (_, table) = h
        .call("GET", QUOTAS, "application/json;as=Table;g=meta.k8s.io;v=v1", None)
        .await;
    let cells = table["rows"][0]["cells"].to_string();
    assert!(
        cells.contains("requests.storage: 4Gi/10Gi, resourcequotas: 1/2, services: 1/9"),
        "{cells}"
    );
}
