//! What the server knows about Kubernetes kinds: defaults, refusals, scale, eviction, custom resources, discovery.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is wrong")]

mod support;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, ApiResource, DynamicObject, EvictParams, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use support::{Harness, code, from, message, pod, reason};

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()})
}

async fn refusal<K>(api: &Api<K>, object: Value) -> String
where
    K: kube::Resource + Clone,
{
    // The objects are wrong on purpose: they go out as they are.
    let request = kube::api::Request::new(api.resource_url())
        .create(&PostParams::default(), serde_json::to_vec(&object).unwrap())
        .unwrap();
    let error = api.clone().into_client().request::<Value>(request).await.unwrap_err();
    format!("{} {}: {}", code(&error), reason(&error), message(&error))
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_its_defaults() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    let made = pods
        .create(
            &PostParams::default(),
            &from(json!({"metadata": {"name": "p"}, "spec": {
                "hostNetwork": true,
                "containers": [{
                    "name": "c", "image": "repo:5000/i:v1", "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                }],
            }})),
        )
        .await
        .unwrap();
    let spec = made.spec.unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    assert_eq!(spec.termination_grace_period_seconds, Some(30));
    assert_eq!(spec.scheduler_name.as_deref(), Some("default-scheduler"));
    assert_eq!(spec.dns_policy.as_deref(), Some("ClusterFirst"));
    assert_eq!(spec.priority, Some(0));
    let tolerations = spec.tolerations.unwrap();
    assert_eq!(tolerations.len(), 2);
    assert!(tolerations.iter().all(|t| t.toleration_seconds == Some(300)));
    let container = &spec.containers[0];
    assert_eq!(container.image_pull_policy.as_deref(), Some("IfNotPresent"));
    let port = &container.ports.as_ref().unwrap()[0];
    assert_eq!((port.protocol.as_deref(), port.host_port), (Some("TCP"), Some(80)));
    let requests = container.resources.as_ref().unwrap().requests.as_ref().unwrap();
    assert_eq!(
        (requests["cpu"].0.as_str(), requests["memory"].0.as_str()),
        ("500m", "1Gi")
    );
    let status = made.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(status.qos_class.as_deref(), Some("Burstable"));
}

#[tokio::test(start_paused = true)]
async fn priority_comes_from_the_class() {
    let h = Harness::new();
    let classes: Api<PriorityClass> = h.all();
    let pods: Api<Pod> = h.api();
    let class = |name: &str, value: i32, global: bool| {
        from(json!({"metadata": {"name": name}, "value": value, "globalDefault": global}))
    };
    classes
        .create(&PostParams::default(), &class("high", 1000, false))
        .await
        .unwrap();
    classes
        .create(&PostParams::default(), &class("usual", 10, true))
        .await
        .unwrap();
    let mut wanted = pod("high");
    wanted.spec.as_mut().unwrap().priority_class_name = Some("high".to_owned());
    let made = pods.create(&PostParams::default(), &wanted).await.unwrap();
    assert_eq!(made.spec.unwrap().priority, Some(1000));
    let made = pods
        .create(&PostParams::default(), &pod("usual"))
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(
        (made.priority, made.priority_class_name.as_deref()),
        (Some(10), Some("usual"))
    );
    let mut critical = pod("critical");
    critical.spec.as_mut().unwrap().priority_class_name = Some("system-node-critical".to_owned());
    let made = pods.create(&PostParams::default(), &critical).await.unwrap();
    assert_eq!(made.spec.unwrap().priority, Some(2_000_001_000));
    let mut unknown = pod("unknown");
    unknown.spec.as_mut().unwrap().priority_class_name = Some("nope".to_owned());
    let error = pods.create(&PostParams::default(), &unknown).await.unwrap_err();
    assert_eq!(code(&error), 403);
    assert!(message(&error).contains("no PriorityClass with name nope was found"));
}

#[tokio::test(start_paused = true)]
async fn workloads_get_their_defaults() {
    let h = Harness::new();
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template()});
    let deployments: Api<Deployment> = h.api();
    let object = json!({"metadata": {"name": "x"}, "spec": spec});
    let made = deployments
        .create(&PostParams::default(), &from(object.clone()))
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!((made.replicas, made.revision_history_limit), (Some(1), Some(10)));
    assert_eq!(made.strategy.unwrap().type_.as_deref(), Some("RollingUpdate"));
    assert_eq!(made.template.spec.unwrap().restart_policy.as_deref(), Some("Always"));

    let sets: Api<StatefulSet> = h.api();
    let made = sets
        .create(&PostParams::default(), &from(object.clone()))
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(made.pod_management_policy.as_deref(), Some("OrderedReady"));
    let daemons: Api<DaemonSet> = h.api();
    let made = daemons
        .create(&PostParams::default(), &from(object))
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(made.update_strategy.unwrap().type_.as_deref(), Some("RollingUpdate"));

    let jobs: Api<Job> = h.api();
    let mut job_template = template();
    job_template["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": job_template}});
    let made = jobs.create(&PostParams::default(), &from(job)).await.unwrap();
    let spec = made.spec.unwrap();
    assert_eq!(
        (spec.completions, spec.parallelism, spec.backoff_limit),
        (Some(1), Some(1), Some(6))
    );
    let selector = spec.selector.unwrap().match_labels.unwrap();
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    assert_eq!(
        selector["batch.kubernetes.io/controller-uid"],
        made.metadata.uid.unwrap()
    );
    assert_eq!(labels["job-name"], "j");
}

#[tokio::test(start_paused = true)]
async fn other_kinds_get_their_defaults() {
    let h = Harness::new();
    let params = PostParams::default();
    let secrets: Api<Secret> = h.api();
    let made = secrets
        .create(
            &params,
            &from(json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}})),
        )
        .await
        .unwrap();
    assert_eq!(made.type_.as_deref(), Some("Opaque"));
    assert_eq!(made.data.unwrap()["k"].0, b"v");
    let services: Api<Service> = h.api();
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = services.create(&params, &from(service)).await.unwrap().spec.unwrap();
    assert_eq!(made.type_.as_deref(), Some("ClusterIP"));
    assert!(made.cluster_ip.unwrap().starts_with("10.96."));

    let classes: Api<StorageClass> = h.all();
    let class = json!({
        "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "csi.example.com",
    });
    let made = classes.create(&params, &from(class)).await.unwrap();
    assert_eq!(made.volume_binding_mode.as_deref(), Some("Immediate"));
    let claims: Api<PersistentVolumeClaim> = h.api();
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = claims.create(&params, &from(claim)).await.unwrap();
    assert_eq!(made.spec.unwrap().storage_class_name.as_deref(), Some("fast"));
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"));
}

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
    let error = support::bind(&pods, "p", "n").await.unwrap_err();
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
    sets.create(&PostParams::default(), &support::replica_set("rs", 1))
        .await
        .unwrap();
    let patch = json!({"spec": {"selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}}}});
    let error = sets.patch("rs", &params, &Patch::Merge(&patch)).await.unwrap_err();
    assert!(message(&error).contains("field is immutable"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn scale_reads_and_sets_the_replicas() {
    let h = Harness::new();
    let sets: Api<ReplicaSet> = h.api();
    sets.create(&PostParams::default(), &support::replica_set("rs", 2))
        .await
        .unwrap();
    let scale = sets.get_scale("rs").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=rs"));
    let patch = json!({"spec": {"replicas": 5}});
    sets.patch_scale("rs", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let after = sets.get("rs").await.unwrap();
    assert_eq!(
        (after.spec.unwrap().replicas, after.metadata.generation),
        (Some(5), Some(2))
    );
    let mut stale = serde_json::to_value(sets.get_scale("rs").await.unwrap()).unwrap();
    stale["metadata"]["resourceVersion"] = "1".into();
    let path = "/apis/apps/v1/namespaces/default/replicasets/rs/scale";
    assert_eq!(h.call("PUT", path, "", Some(stale)).await.0, 409);
}

async fn running_pod(pods: &Api<Pod>, name: &str, ready: bool) {
    pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    support::bind(pods, name, "n").await.unwrap();
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
    let causes = &support::status(&error).details.as_ref().unwrap().causes;
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

fn widgets_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["toys"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {
                        "type": "object", "required": ["size"],
                        "properties": {
                            "size": {"type": "string", "enum": ["S", "L"]},
                            "replicas": {"type": "integer", "default": 3},
                            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                        },
                        "x-kubernetes-validations": [
                            {"rule": "self.replicas < 10", "message": "too many"},
                        ],
                    },
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

fn widgets(h: &Harness) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("example.com", "v1", "Widget");
    Api::all_with(h.client(), &ApiResource::from_gvk_with_plural(&gvk, "widgets"))
}

async fn install_widgets(h: &Harness) -> Value {
    let (code, crd) = h
        .call(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "",
            Some(widgets_crd()),
        )
        .await;
    assert_eq!(code, 201, "{crd}");
    crd
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_at_once() {
    let h = Harness::new();
    assert_eq!(h.call("GET", "/apis/example.com/v1/widgets", "", None).await.0, 404);
    let crd = install_widgets(&h).await;
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|c| c["status"] == "True"));
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "WidgetList");

    let api = widgets(&h);
    let widget = |spec: Value| -> DynamicObject {
        from(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}))
    };
    let params = PostParams::default();
    let error = api.create(&params, &widget(json!({"size": "M"}))).await.unwrap_err();
    assert!(
        message(&error).contains("Widget.example.com \"w\" is invalid: ")
            && message(&error).contains("spec.size: Unsupported value: \"M\""),
        "{error}"
    );
    let error = api
        .create(&params, &widget(json!({"size": "S", "replicas": 10})))
        .await
        .unwrap_err();
    assert!(message(&error).contains("too many"), "{error}");
    let below = widget(json!({"size": "S", "replicas": -1}));
    let error = api.create(&params, &below).await.unwrap_err();
    let scale = ".spec.replicas: Invalid value: -1: should be a non-negative integer";
    assert!(message(&error).contains(scale), "{error}");
    let colored = serde_json::to_value(widget(json!({"size": "S", "color": "red"}))).unwrap();
    let path = "/apis/example.com/v1/widgets?fieldValidation=Strict";
    let (found, status) = h.call("POST", path, "", Some(colored)).await;
    assert_eq!(found, 400);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("unknown field \"spec.color\""),
        "{status}"
    );
    let mut with_status = widget(json!({"size": "S", "color": "red"}));
    with_status.data["status"] = json!({"replicas": 7});
    let made = api.create(&params, &with_status).await.unwrap();
    assert_eq!(made.data, json!({"spec": {"size": "S", "replicas": 3}}));
    assert_eq!(made.metadata.generation, Some(1));

    let status = json!({"status": {"replicas": 2}, "spec": {"size": "L"}});
    let after = api
        .patch_status("w", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    assert_eq!(
        after.data,
        json!({"spec": {"size": "S", "replicas": 3}, "status": {"replicas": 2}})
    );
    assert_eq!(after.metadata.generation, Some(1));
    let scale = api.get_scale("w").await.unwrap();
    assert_eq!(
        (scale.spec.unwrap().replicas, scale.status.unwrap().replicas),
        (Some(3), 2)
    );
    api.patch_scale(
        "w",
        &PatchParams::default(),
        &Patch::Merge(json!({"spec": {"replicas": 4}})),
    )
    .await
    .unwrap();
    assert_eq!(api.get("w").await.unwrap().metadata.generation, Some(2));

    // A custom resource is never updated without a version, and takes no strategic merge patch.
    let mut blind = api.get("w").await.unwrap();
    blind.metadata.resource_version = None;
    let error = api.replace("w", &params, &blind).await.unwrap_err();
    assert!(
        message(&error).contains("metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
        "{error}"
    );
    let error = api
        .patch("w", &PatchParams::default(), &Patch::Strategic(json!({})))
        .await
        .unwrap_err();
    assert_eq!(code(&error), 415);

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, table) = h.call("GET", "/apis/example.com/v1/widgets", accept, None).await;
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][0]["cells"], json!(["w", "S"]));

    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    assert_eq!(h.call("DELETE", crds, "", None).await.0, 200);
    assert_eq!(h.call("GET", "/apis/example.com/v1/widgets", "", None).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_broken_definition_is_refused() {
    let h = Harness::new();
    let mut crd = widgets_crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"][0]["rule"] =
        "self.nope(".into();
    let (code, status) = h
        .call(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "",
            Some(crd),
        )
        .await;
    assert_eq!(code, 422, "{status}");
}

#[tokio::test(start_paused = true)]
async fn apply_owns_fields() {
    let h = Harness::new();
    let maps: Api<ConfigMap> = h.api();
    let apply = |data: Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
    };
    let one = PatchParams::apply("one");
    let made = maps
        .patch("a", &one, &apply(json!({"x": "1", "y": "1"})))
        .await
        .unwrap();
    assert_eq!(
        made.metadata.managed_fields.as_ref().unwrap()[0].manager.as_deref(),
        Some("one")
    );
    // The same again writes nothing.
    let again = maps
        .patch("a", &one, &apply(json!({"x": "1", "y": "1"})))
        .await
        .unwrap();
    assert_eq!(again.metadata.resource_version, made.metadata.resource_version);

    let two = PatchParams::apply("two");
    let error = maps.patch("a", &two, &apply(json!({"x": "2"}))).await.unwrap_err();
    assert_eq!((code(&error), reason(&error).as_str()), (409, "Conflict"));
    let causes = &support::status(&error).details.as_ref().unwrap().causes;
    assert_eq!(
        (causes[0].reason.as_str(), causes[0].field.as_str()),
        ("FieldManagerConflict", ".data.x")
    );
    let forced = maps.patch("a", &two.force(), &apply(json!({"x": "2"}))).await.unwrap();
    assert_eq!(forced.data.unwrap()["x"], "2");
    // What a manager no longer applies goes, unless somebody else owns it.
    let after = maps.patch("a", &one, &apply(json!({}))).await.unwrap();
    assert_eq!(serde_json::to_value(after.data).unwrap(), json!({"x": "2"}));

    let nobody = PatchParams::default();
    let error = maps.patch("a", &nobody, &apply(json!({}))).await.unwrap_err();
    assert!(
        matches!(error, kube::Error::BuildRequest(_)) || code(&error) == 422,
        "{error}"
    );
}

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
    assert_eq!(h.call("GET", "/openapi/v2", "", None).await.0, 404);
    let (_, index) = h.call("GET", "/openapi/v3", "", None).await;
    assert!(index["paths"]["apis/example.com/v1"]["serverRelativeURL"].is_string());
    let (code, document) = h.call("GET", "/openapi/v3/apis/example.com/v1", "", None).await;
    assert_eq!((code, document["openapi"].as_str()), (200, Some("3.0.0")));
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
        ("POST", "/api/v1/namespaces/default/pods?dryRun=Some", 400),
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
async fn our_own_definitions_are_served_and_scaled() {
    let h = Harness::new();
    for crd in kerf_api::crds::crds(kerf_api::crds::Provider::Kwok) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = h.call("POST", path, "", Some(crd.value)).await;
        assert_eq!(code, 201, "{}: {answer}", crd.name);
    }
    let pool = json!({"metadata": {"name": "fixed"}, "spec": {"replicas": 2, "template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [],
    }}}});
    let pools = "/apis/karpenter.sh/v1/nodepools";
    let (code, made) = h.call("POST", pools, "", Some(pool)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"]["disruption"]["consolidationPolicy"],
        "WhenEmptyOrUnderutilized"
    );
    let scale = json!({"spec": {"replicas": 5}});
    let path = format!("{pools}/fixed/scale");
    let (code, _, text) = h
        .raw("PATCH", &path, "", "application/merge-patch+json", Some(scale))
        .await;
    assert_eq!(code, 200, "{text}");
    assert_eq!(
        h.call("GET", &format!("{pools}/fixed"), "", None).await.1["spec"]["replicas"],
        5
    );
}
