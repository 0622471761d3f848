//! LimitRanges: defaults and bounds of new pods.

use serde_json::{Value, json};

use crate::support::{Harness, pod_with_resources};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn with_limits(limits: Value) -> Harness {
    let h = Harness::new();
    let range = json!({"metadata": {"name": "bounds"}, "spec": {"limits": limits}});
    let path = "/api/v1/namespaces/default/limitranges";
    assert_eq!(h.call("POST", path, "", Some(range)).await.0, 201);
    h
}

#[tokio::test(start_paused = true)]
async fn containers_get_default_requests_and_limits() {
    let h =
        with_limits(json!([{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"memory": "64Mi"}}]))
            .await;
    for (given, requests, limits) in [
        (
            json!({}),
            json!({"cpu": "500m", "memory": "64Mi"}),
            json!({"cpu": "500m"}),
        ),
        (
            json!({"requests": {"cpu": "100m"}}),
            json!({"cpu": "100m", "memory": "64Mi"}),
            json!({"cpu": "500m"}),
        ),
        // A limit is also a request before the LimitRange applies.
        (
            json!({"limits": {"cpu": "2"}}),
            json!({"cpu": "2", "memory": "64Mi"}),
            json!({"cpu": "2"}),
        ),
    ] {
        let (code, made) = h
            .call(
                "POST",
                &format!("{PODS}?dryRun=All"),
                "",
                Some(pod_with_resources("p", &given)),
            )
            .await;
        assert_eq!(code, 201, "{made}");
        let found = &made["spec"]["containers"][0]["resources"];
        assert_eq!((&found["requests"], &found["limits"]), (&requests, &limits), "{given}");
    }
    let (_, made) = h
        .call("POST", PODS, "", Some(pod_with_resources("p", &json!({}))))
        .await;
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c"
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
}

#[tokio::test(start_paused = true)]
async fn pods_outside_the_bounds_are_refused() {
    let h = with_limits(json!([
        {"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"}},
        {"type": "Pod", "max": {"memory": "1Gi"}},
    ]))
    .await;
    for (given, why) in [
        (
            json!({"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi"}}),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            json!({"limits": {"cpu": "3", "memory": "1Gi"}}),
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
        (json!({}), "maximum memory usage per Pod is 1Gi.  No limit is specified"),
        (
            json!({"limits": {"memory": "2Gi"}}),
            "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
        ),
    ] {
        let (code, status) = h.call("POST", PODS, "", Some(pod_with_resources("p", &given))).await;
        assert_eq!(
            (code, status["message"].as_str()),
            (403, Some(&*format!("pods \"p\" is forbidden: {why}")))
        );
    }
}
