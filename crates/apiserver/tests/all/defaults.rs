//! What an object has that its manifest did not say.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::support::{Harness, code, from, message, pod};
use crate::template;

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
async fn a_new_node_takes_no_pods_until_a_controller_says_so() {
    let h = Harness::new();
    let nodes: Api<Node> = h.all();
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let own = json!({"key": "a", "effect": "NoExecute"});
    let with_both = json!([own, not_ready]);
    for (name, spec) in [
        ("plain", json!(null)),
        ("tainted", json!({"taints": [own]})),
        ("twice", json!({"taints": with_both})),
    ] {
        let made = nodes
            .create(
                &PostParams::default(),
                &from(json!({"metadata": {"name": name}, "spec": spec})),
            )
            .await
            .unwrap();
        let taints = serde_json::to_value(made.spec.unwrap().taints).unwrap();
        let expected = if name == "plain" {
            json!([not_ready])
        } else {
            with_both.clone()
        };
        assert_eq!(taints, expected, "{name}");
    }
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
async fn quantities_are_kept_in_canonical_form() {
    let h = Harness::new();
    let pods: Api<Pod> = h.api();
    let cases = [
        ("1e30", "1e30"),
        ("0.1n", "1n"),
        ("1.5Gi", "1536Mi"),
        (".5", "500m"),
        ("+2", "2"),
        ("1E3", "1e3"),
        ("1Ei", "1Ei"),
        ("2E", "2E"),
    ];
    for (i, (text, kept)) in cases.into_iter().enumerate() {
        let container = json!({"name": "c", "image": "i", "resources": {"limits": {"memory": text}}});
        let object = json!({"metadata": {"name": format!("p{i}")}, "spec": {"containers": [container]}});
        let created = pods.create(&PostParams::default(), &from(object)).await.expect(text);
        let limits = created.spec.unwrap().containers.remove(0).resources.unwrap().limits;
        assert_eq!(limits.unwrap()["memory"].0, kept);
    }
}
