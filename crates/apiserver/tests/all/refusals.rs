//! Manifests and changes that are refused, with the field at fault.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::{Harness, code, from, message, pod};
use crate::{pod_spec, refusal, template};

#[tokio::test(start_paused = true)]
async fn malformed_manifests_are_refused_with_the_field() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    let deployments: Api<Deployment> = h.api();
    let nodes: Api<Node> = h.all();
    let budgets: Api<PodDisruptionBudget> = h.api();
    let with = |spec: Value| json!({"metadata": {"name": "p"}, "spec": spec});
    let container = |extra: Value| {
        let mut c = json!({"name": "c", "image": "i"});
        for (k, v) in extra.as_object().unwrap() {
            c[k] = v.clone();
        }
        json!({"metadata": {"name": "p"}, "spec": {"containers": [c]}})
    };
    for (object, expected) in [
        (
            with(json!({})),
            "422 Invalid: Pod \"p\" is invalid: spec.containers: Required value",
        ),
        (
            with(json!({"containers": [{"image": "i"}]})),
            "422 Invalid: Pod \"p\" is invalid: spec.containers[0].name: Required value",
        ),
        (
            with(json!({"containers": [{"name": "c"}]})),
            "422 Invalid: Pod \"p\" is invalid: spec.containers[0].image: Required value",
        ),
        (
            with(json!({"containers": "x"})),
            "400 BadRequest: Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal string into Go \
             struct field Pod.spec.containers of type []v1.Container",
        ),
        (
            container(json!({"resources": {"requests": {"cpu": "many"}}})),
            "400 BadRequest: Pod in version \"v1\" cannot be handled as a Pod: quantities must match",
        ),
        (
            container(json!({"resources": {"requests": {"cpu": "1e999999999999"}}})),
            "the exponent of quantity \"1e999999999999\" does not fit 32 bits",
        ),
        (
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            container(json!({"resources": {"requests": {"cpu": "-1"}}})),
            "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            container(json!({"ports": [{"containerPort": 70000}]})),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
            "spec.containers[0].volumeMounts[0].name",
        ),
        (
            json!({"metadata": {"name": "Bad_Name"}, "spec": pod_spec()}),
            "metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain",
        ),
        (
            json!({"metadata": {"name": "p", "labels": {"a b": "c"}}, "spec": pod_spec()}),
            "metadata.labels: Invalid value: \"a b\": name part must consist of",
        ),
        (
            json!({"metadata": {}, "spec": pod_spec()}),
            "name or generateName is required",
        ),
        (
            json!({"apiVersion": "v2", "metadata": {"name": "p"}, "spec": pod_spec()}),
            "400 BadRequest: the API version in the data (v2) does not match the expected API version (v1)",
        ),
        (
            json!({"metadata": {"name": "p", "namespace": "other"}, "spec": pod_spec()}),
            "400 BadRequest: the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let found = refusal(&pods, object).await;
        assert!(found.contains(expected), "{found}\nhas no\n{expected}");
    }
    let mut wrong = template();
    wrong["metadata"]["labels"]["app"] = "api".into();
    let object = with(json!({"selector": {"matchLabels": {"app": "web"}}, "template": wrong}));
    let found = refusal(&deployments, object).await;
    assert!(found.contains("`selector` does not match template `labels`"), "{found}");
    let found = refusal(&deployments, with(json!({"template": template()}))).await;
    assert!(found.contains("spec.selector: Required value"), "{found}");
    let taints = json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]);
    let found = refusal(&nodes, with(json!({"taints": taints}))).await;
    assert!(found.contains("spec.taints[1]: Duplicate value"), "{found}");
    let found = refusal(&budgets, with(json!({"minAvailable": 1, "maxUnavailable": 1}))).await;
    assert!(
        found.contains("minAvailable and maxUnavailable cannot be both set"),
        "{found}"
    );
}

#[tokio::test(start_paused = true)]
async fn causes_name_each_field() {
    let h = Harness::new();
    let path = "/api/v1/namespaces/default/pods";
    let body = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"image": "i"}], "restartPolicy": "Maybe"}});
    let (code, status) = h.call("POST", path, "", Some(body)).await;
    assert_eq!(code, 422);
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|c| c["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.containers[0].name", "spec.restartPolicy"]);
    assert_eq!(causes[1]["reason"], "FieldValueNotSupported");
    assert_eq!(status["details"]["kind"], "Pod");
}

#[tokio::test(start_paused = true)]
async fn schedules_that_cannot_be_read_are_refused() {
    let h = Harness::new();
    let path = "/apis/batch/v1/namespaces/default/cronjobs";
    let mut pods = template();
    pods["spec"]["restartPolicy"] = "Never".into();
    for (schedule, expected) in [
        (
            json!("*/1****"),
            Some("spec.schedule: Invalid value: \"*/1****\": expected exactly 5 fields, found 1: [*/1****]"),
        ),
        (json!("TZ=UTC 0 * * * *"), Some("spec.schedule: Invalid value: ")),
        (json!(""), Some("spec.schedule: Required value")),
        (json!("*/5 * * * *"), None),
        (json!("@hourly"), None),
    ] {
        let body = json!({"metadata": {"generateName": "c-"}, "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": pods}}}});
        let (code, answer) = h.call("POST", path, "", Some(body)).await;
        match expected {
            None => assert_eq!(code, 201, "{answer}"),
            Some(expected) => {
                let message = answer["message"].as_str().unwrap_or_default();
                assert_eq!(code, 422, "{answer}");
                assert!(message.contains(expected), "{message}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_warn_or_fail() {
    let h = Harness::new();
    let path = "/api/v1/namespaces/default/pods";
    let body =
        || Some(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "color": 1}]}}));
    let (code, status) = h
        .call("POST", &format!("{path}?fieldValidation=Strict"), "", body())
        .await;
    assert_eq!(code, 400);
    let text = status["message"].as_str().unwrap();
    assert!(
        text.contains("strict decoding error: unknown field \"spec.containers[0].color\""),
        "{text}"
    );
    let (code, headers, _) = h.raw("POST", path, "", "application/json", body()).await;
    assert_eq!(code, 201);
    assert_eq!(
        headers["warning"],
        "299 - \"unknown field \\\"spec.containers[0].color\\\"\""
    );
    let (_, stored) = h.call("GET", &format!("{path}/p"), "", None).await;
    assert_eq!(stored["spec"]["containers"][0].get("color"), None);
}

#[tokio::test(start_paused = true)]
async fn what_may_not_change_does_not() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    let params = PatchParams::default();
    let mut gated = pod("p");
    gated.spec.as_mut().unwrap().scheduling_gates = Some(vec![from(json!({"name": "wait"}))]);
    pods.create(&PostParams::default(), &gated).await.unwrap();
    let patch = json!({"spec": {"schedulerName": "other"}});
    let error = pods.patch("p", &params, &Patch::Merge(&patch)).await.unwrap_err();
    assert!(
        message(&error).contains("spec: Forbidden: pod updates may not change fields other than"),
        "{error}"
    );
    let patch = json!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
    let error = crate::support::bind(&pods, "p", "n").await.unwrap_err();
    assert!(message(&error).contains("non-empty .spec.schedulingGates"), "{error}");
    pods.patch("p", &params, &Patch::Strategic(&patch)).await.unwrap();
    let patch = json!({"spec": {"schedulingGates": null, "nodeSelector": {"a": "b"}}});
    pods.patch("p", &params, &Patch::Merge(&patch)).await.unwrap();
    let patch = json!({"spec": {"nodeSelector": {"a": "c"}}});
    assert_eq!(
        code(&pods.patch("p", &params, &Patch::Merge(&patch)).await.unwrap_err()),
        422
    );

    let sets: Api<ReplicaSet> = h.api();
    sets.create(&PostParams::default(), &crate::support::replica_set("rs", 1))
        .await
        .unwrap();
    let patch = json!({"spec": {"selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}}}});
    let error = sets.patch("rs", &params, &Patch::Merge(&patch)).await.unwrap_err();
    assert!(message(&error).contains("field is immutable"), "{error}");
}
