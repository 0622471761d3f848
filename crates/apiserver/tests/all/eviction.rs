//! The subresource `eviction` and the budgets it charges.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, EvictParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::{Harness, code, from, message, pod, reason};

async fn running_pod(pods: &Api<Pod>, name: &str, ready: bool) {
    pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    crate::support::bind(pods, name, "n").await.unwrap();
    let ready = if ready { "True" } else { "False" };
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
}

async fn budget(h: &Harness, name: &str, extra: Value, status: Value) {
    let budgets: Api<PodDisruptionBudget> = h.api();
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1});
    for (k, v) in extra.as_object().unwrap() {
        spec[k] = v.clone();
    }
    let object = from(json!({"metadata": {"name": name}, "spec": spec}));
    budgets.create(&PostParams::default(), &object).await.unwrap();
    let patch = json!({"status": status});
    budgets
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn evictions_are_charged_to_the_budget() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    for name in ["a", "b", "c"] {
        running_pod(&pods, name, true).await;
    }
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2,
        "expectedPods": 3});
    budget(&h, "web", json!({}), status).await;

    let dry = EvictParams {
        post_options: PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        ..EvictParams::default()
    };
    pods.evict("a", &dry).await.unwrap();
    assert_eq!(pods.get("a").await.unwrap().metadata.deletion_timestamp, None);

    pods.evict("a", &EvictParams::default()).await.unwrap();
    assert!(pods.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let budgets: Api<PodDisruptionBudget> = h.api();
    let charged = budgets.get("web").await.unwrap().status.unwrap();
    assert_eq!(charged.disruptions_allowed, Some(0));
    assert!(charged.disrupted_pods.unwrap().contains_key("a"));

    let error = pods.evict("b", &EvictParams::default()).await.unwrap_err();
    assert_eq!((code(&error), reason(&error).as_str()), (429, "TooManyRequests"));
    assert_eq!(
        message(&error),
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    let causes = &crate::support::status(&error).details.as_ref().unwrap().causes;
    assert_eq!(causes[0].reason, "DisruptionBudget");
    assert_eq!(
        causes[0].message,
        "The disruption budget web needs 2 healthy pods and has 3 currently"
    );
    assert_eq!(
        code(&pods.evict("nope", &EvictParams::default()).await.unwrap_err()),
        404
    );
    // A pod that is already going needs no budget, nor does one that never ran.
    pods.evict("a", &EvictParams::default()).await.unwrap();
    pods.create(&PostParams::default(), &pod("pending")).await.unwrap();
    pods.evict("pending", &EvictParams::default()).await.unwrap();
    assert_eq!(code(&pods.get("pending").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn a_budget_nobody_has_looked_at_makes_evictions_wait() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    running_pod(&pods, "a", true).await;
    budget(&h, "web", json!({}), json!({"disruptionsAllowed": 1})).await;
    let path = "/api/v1/namespaces/default/pods/a/eviction";
    let (code, headers, text) = h.raw("POST", path, "", "application/json", Some(json!({}))).await;
    assert_eq!((code, headers["retry-after"].to_str().unwrap()), (429, "10"));
    assert!(text.contains("The disruption budget web is still being processed by the server."));
}

#[tokio::test(start_paused = true)]
async fn two_budgets_for_one_pod_are_an_error() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    running_pod(&pods, "a", true).await;
    for name in ["one", "two"] {
        budget(
            &h,
            name,
            json!({}),
            json!({"observedGeneration": 1, "disruptionsAllowed": 1}),
        )
        .await;
    }
    let error = pods.evict("a", &EvictParams::default()).await.unwrap_err();
    assert_eq!(code(&error), 500);
    assert!(message(&error).starts_with("This pod has more than one PodDisruptionBudget"));
}

#[tokio::test(start_paused = true)]
async fn unhealthy_pods_follow_their_policy() {
    for (policy, healthy, expected) in [
        ("AlwaysAllow", 0, 200),
        ("IfHealthyBudget", 0, 429),
        ("IfHealthyBudget", 1, 200),
    ] {
        let h = Harness::new();
        let pods: Api<Pod> = h.api();
        running_pod(&pods, "sick", false).await;
        let status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": healthy,
            "desiredHealthy": 1});
        budget(&h, "web", json!({"unhealthyPodEvictionPolicy": policy}), status).await;
        let found = match pods.evict("sick", &EvictParams::default()).await {
            Ok(_) => 200,
            Err(error) => code(&error),
        };
        assert_eq!(found, expected, "{policy} with {healthy} healthy");
    }
}
