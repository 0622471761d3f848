//! The provider against a small API server: launches, Nodes, deletion (KWK-001 to KWK-060).

use crate::fake_api::{CLAIMS, CLASSES, FakeApi, NODES, POOLS};
use jiff::Timestamp;
use kerf_api::{NodeClaim, NodePool};
use kerf_cloud::{CloudError, CloudProvider, InterruptionKind, RepairPolicy};
use kerf_kwok::{KwokProvider, ReadMode, builtin_catalogue, read_catalogue};
use kerf_model::intern::Interner;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const TYPE: &str = "c-1x-amd64-linux";

fn requirement(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

fn types(names: &[&str]) -> Value {
    requirement("node.kubernetes.io/instance-type", names)
}

#[expect(clippy::needless_pass_by_value, reason = "callers hand over JSON literals")]
fn claim_object(name: &str, requirements: Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"team": "a"}, "annotations": {"note": "x"}},
        "spec": {
            "requirements": requirements,
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi", "pods": "1"}},
            "taints": [{"key": "t", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "s", "effect": "NoExecute"}],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        },
    })
}

fn claim(name: &str, requirements: Value) -> NodeClaim {
    serde_json::from_value(claim_object(name, requirements)).expect("a claim")
}

/// The claim after its launch.
fn launched(name: &str, provider_id: &str, registered: bool) -> NodeClaim {
    let mut object = claim_object(name, json!([types(&[TYPE])]));
    let status = if registered { "True" } else { "Unknown" };
    let condition = json!({"type": "Registered", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    object["status"] = json!({"providerID": provider_id, "conditions": [condition]});
    serde_json::from_value(object).expect("a claim")
}

#[expect(clippy::needless_pass_by_value, reason = "callers hand over JSON literals")]
fn class(spec: Value, conditions: Value) -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        "spec": spec, "status": {"conditions": conditions},
    })
}

fn ready(status: &str) -> Value {
    json!([{"type": "Ready", "status": status, "reason": "R", "message": "why", "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

fn setup() -> (FakeApi, KwokProvider) {
    let api = FakeApi::default();
    api.put(CLASSES, class(json!({}), ready("True")));
    let interner = Arc::new(Interner::default());
    let catalogue = builtin_catalogue(&interner);
    let provider = KwokProvider::new(api.client(), interner, catalogue);
    (api, provider)
}

/// Lets detached tasks run for a while of virtual time.
async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

// KWK-001, KWK-008, LIF-146
#[tokio::test]
async fn the_profile_names_provider_class_and_repair_policies() {
    let (_, provider) = setup();
    let profile = provider.profile();
    assert_eq!(profile.name, "kwok");
    let class = profile.node_classes[0];
    assert_eq!(
        (class.group, class.version, class.kind),
        ("karpenter.kwok.sh", "v1alpha1", "KWOKNodeClass")
    );
    assert_eq!(class.label_key(), "karpenter.kwok.sh/kwoknodeclass");
    assert!(profile.serves(&claim("c", json!([])).spec.node_class_ref));
    let minutes = |n: u64| Duration::from_secs(60 * n);
    assert_eq!(
        profile.repair_policies,
        [
            RepairPolicy::new("Ready", "False", minutes(10)),
            RepairPolicy::new("Ready", "Unknown", minutes(10)),
        ]
    );
}

// KWK-006, KWK-009
#[tokio::test]
async fn nothing_drifts_and_every_pool_has_the_same_types() {
    let (_, provider) = setup();
    assert_eq!(provider.is_drifted(&claim("c", json!([]))).await, Ok(None));
    let pools = ["a", "b"].map(|name| -> NodePool {
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let template = json!({"spec": {"nodeClassRef": class, "requirements": []}});
        let object = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": template}});
        serde_json::from_value(object).expect("a pool")
    });
    let first = provider.instance_types(&pools[0]).await.expect("types");
    let second = provider.instance_types(&pools[1]).await.expect("types");
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(first.types.len(), 144);
}

// KWK-002, KWK-043, KWK-045, KWK-046, KWK-047, KWK-048, KWK-049, KWK-050, KWK-053, KWK-204
#[tokio::test(start_paused = true)]
async fn the_node_has_the_shape_the_suites_expect() {
    let (api, provider) = setup();
    let zone = requirement("topology.kubernetes.io/zone", &["test-zone-b"]);
    let claim = claim(
        "default-zm8wd",
        json!([
            types(&[TYPE]),
            zone,
            requirement("custom", &["v"]),
            requirement("many", &["a", "b"])
        ]),
    );
    let answer = provider.create(&claim).await.expect("launched");
    wait(1).await;
    let names = api.names(NODES);
    assert_eq!(names, std::slice::from_ref(&answer.name));
    assert!(names[0].starts_with("kwok-default-zm8wd-"), "{}", names[0]);
    let node = api.locked().objects[&format!("{NODES}/{}", names[0])].clone();
    assert_eq!(
        node["metadata"]["labels"],
        json!({
            "team": "a",
            "custom": "v",
            "node.kubernetes.io/instance-type": TYPE,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": "default-zm8wd",
            "topology.kubernetes.io/zone": "test-zone-b",
            "karpenter.sh/capacity-type": "spot",
            "karpenter.kwok.sh/instance-size": "1",
            "karpenter.kwok.sh/instance-family": "c",
            "karpenter.kwok.sh/instance-cpu": "1",
            "karpenter.kwok.sh/instance-memory": "2Gi",
            "eks-node-viewer/instance-price": "0.019003",
            "kwok-partition": "a",
            "kwok.x-k8s.io/node": "fake",
        })
    );
    assert_eq!(
        node["metadata"]["annotations"],
        json!({"note": "x", "kwok.x-k8s.io/node": "fake"})
    );
    assert_eq!(
        node["spec"],
        json!({
            "providerID": format!("kwok://{}", names[0]),
            "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
        })
    );
    assert_eq!(
        node["status"],
        json!({
            "phase": "Pending",
            "capacity": {"cpu": "1", "memory": "2Gi", "pods": "16", "ephemeral-storage": "20Gi"},
            "allocatable": {"cpu": "900m", "memory": "2038Mi", "pods": "16", "ephemeral-storage": "20Gi"},
        })
    );
    for absent in ["ownerReferences", "finalizers"] {
        assert!(node["metadata"].get(absent).is_none(), "{absent}");
    }
}

// KWK-044, KWK-052
#[tokio::test(start_paused = true)]
async fn the_answer_carries_what_the_node_will() {
    let (api, provider) = setup();
    let answer = provider
        .create(&claim("c", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    assert!(api.names(NODES).is_empty(), "the answer comes first");
    assert_eq!(answer.provider_id, format!("kwok://{}", answer.name));
    assert_eq!(
        (answer.node_name.as_deref(), answer.image_id.as_deref()),
        (Some(answer.name.as_str()), None)
    );
    wait(1).await;
    let node = provider.get(&answer.provider_id).await.expect("a node");
    assert_eq!((node.labels, node.annotations), (answer.labels, answer.annotations));
    assert_eq!((node.capacity, node.allocatable), (answer.capacity, answer.allocatable));
}

// KWK-032, KWK-033, KWK-038
#[tokio::test]
async fn a_bad_type_list_is_reported_before_the_class_is_looked_up() {
    let (api, provider) = setup();
    let without = provider
        .create(&claim("c", json!([requirement("custom", &["v"])])))
        .await;
    assert_eq!(
        without,
        Err(CloudError::other(
            "translating nodeclaim to node, instance type requirement not found"
        ))
    );
    let unknown = provider.create(&claim("c", json!([types(&[TYPE, "m5.none"])]))).await;
    let text = "translating nodeclaim to node, instance type not found (instance-type=m5.none)";
    assert_eq!(unknown, Err(CloudError::other(text)));
    assert!(api.locked().requests.is_empty());
}

// KWK-034, KWK-036, KWK-037
#[tokio::test]
async fn the_first_of_the_cheapest_types_with_a_compatible_offering_is_taken() {
    let api = FakeApi::default();
    api.put(CLASSES, class(json!({}), ready("True")));
    let interner = Arc::new(Interner::default());
    let offering = |price: f64, zone: &str| {
        json!({"Price": price, "Requirements": [
            requirement("karpenter.sh/capacity-type", &["spot"]), requirement("topology.kubernetes.io/zone", &[zone]),
        ]})
    };
    let kind = |name: &str, offering: Value| json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "1m", "memory": "1"}, "offerings": [offering]});
    let file = json!([
        kind("dear", offering(3.0, "zone-a")),
        kind("cheap", offering(1.0, "zone-a")),
        kind("same", offering(1.0, "zone-a")),
        kind("elsewhere", offering(0.1, "zone-b")),
    ]);
    let catalogue = read_catalogue(&file.to_string(), "f", &interner, ReadMode::Strict).expect("a catalogue");
    let provider = KwokProvider::new(api.client(), interner, Arc::new(catalogue));
    let here = requirement("topology.kubernetes.io/zone", &["zone-a"]);
    for (names, chosen) in [
        (vec!["dear", "cheap", "same"], "cheap"),
        (vec!["same", "cheap"], "same"),
        (vec!["cheap", "elsewhere", "dear"], "cheap"),
        (vec!["dear", "elsewhere"], "dear"),
    ] {
        let answer = provider
            .create(&claim("c", json!([types(&names), here])))
            .await
            .expect("launched");
        assert_eq!(answer.labels["node.kubernetes.io/instance-type"], chosen, "{names:?}");
    }
    let none = provider.create(&claim("c", json!([types(&["elsewhere"]), here]))).await;
    assert!(matches!(none, Err(CloudError::InsufficientCapacity(_))), "{none:?}");
}

// KWK-035
#[tokio::test]
async fn equally_cheap_offerings_are_all_used() {
    let (_, provider) = setup();
    let mut zones = std::collections::BTreeSet::new();
    for n in 0..60 {
        let answer = provider
            .create(&claim(&format!("c{n}"), json!([types(&[TYPE])])))
            .await
            .expect("launched");
        zones.insert(answer.labels["topology.kubernetes.io/zone"].clone());
    }
    assert_eq!(zones.len(), 4, "{zones:?}");
}

// KWK-039, KWK-040, LIF-025
#[tokio::test]
async fn the_class_decides_whether_a_launch_may_happen() {
    let (api, provider) = setup();
    let launch = async |name: &str| provider.create(&claim(name, json!([types(&[TYPE])]))).await;
    api.put(CLASSES, class(json!({}), ready("False")));
    assert_eq!(launch("a").await, Err(CloudError::NodeClassNotReady("why".into())));
    for conditions in [ready("Unknown"), json!([])] {
        api.put(CLASSES, class(json!({}), conditions));
        assert!(launch("b").await.is_ok());
    }
    api.locked().objects.remove(&format!("{CLASSES}/default"));
    assert!(matches!(launch("c").await, Err(CloudError::InsufficientCapacity(_))));
    api.fail(CLASSES, 500, 1);
    assert!(matches!(launch("d").await, Err(CloudError::Retryable { .. })));
    api.fail(CLASSES, 403, 1);
    assert!(matches!(launch("e").await, Err(CloudError::Other(_))));
}

// KWK-041
#[tokio::test(start_paused = true)]
async fn the_node_comes_after_the_delay_and_the_write_is_tried_four_times() {
    let (api, provider) = setup();
    api.put(CLASSES, class(json!({"nodeRegistrationDelay": "30s"}), ready("True")));
    provider
        .create(&claim("a", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    wait(29).await;
    assert!(api.names(NODES).is_empty());
    wait(2).await;
    assert_eq!(api.names(NODES).len(), 1);
    api.fail("POST", 500, 3);
    provider
        .create(&claim("b", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    wait(40).await;
    assert_eq!(api.names(NODES).len(), 2, "the fourth attempt succeeds");
    api.locked().requests.clear();
    api.fail("POST", 422, 100);
    provider
        .create(&claim("c", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    wait(3600).await;
    let posts = api
        .locked()
        .requests
        .iter()
        .filter(|request| request.starts_with("POST"))
        .count();
    assert_eq!((posts, api.names(NODES).len()), (4, 2));
}

// KWK-042
#[test]
fn a_restart_during_the_delay_loses_the_node() {
    /// Runs one process: what it started ends with it.
    fn process<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.expect("a runtime").block_on(work)
    }
    // The client is made in the first process.
    let (api, launched) = process(async {
        let (api, provider) = setup();
        api.put(CLASSES, class(json!({"nodeRegistrationDelay": "30s"}), ready("True")));
        let claim = claim("a", json!([types(&[TYPE])]));
        let launched = provider.create(&claim).await.expect("launched");
        wait(29).await;
        (api, launched)
    });
    process(async {
        let interner = Arc::new(Interner::default());
        let catalogue = builtin_catalogue(&interner);
        let restarted = KwokProvider::new(api.client(), interner, catalogue);
        wait(3600).await;
        assert!(api.names(NODES).is_empty());
        let error = restarted.get(&launched.provider_id).await.expect_err("no such node");
        assert!(matches!(error, CloudError::NodeClaimNotFound(_)), "{error:?}");
    });
}

// KWK-059
#[tokio::test(start_paused = true)]
async fn a_node_whose_claim_is_gone_stays() {
    let (api, provider) = setup();
    // The claim is not in the API.
    let launched = provider
        .create(&claim("a", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    wait(24 * 3600).await;
    assert_eq!(api.names(NODES), std::slice::from_ref(&launched.name));
    assert_eq!(provider.list().await.expect("instances").len(), 1);
    assert!(
        !api.locked()
            .requests
            .iter()
            .any(|request| request.starts_with("DELETE"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_launch_repeated_after_a_lost_answer_gives_the_same_node() {
    let (api, provider) = setup();
    let claim = claim("a", json!([types(&[TYPE])]));
    let first = provider.create(&claim).await;
    assert_eq!(provider.create(&claim).await, first);
    wait(1).await;
    assert_eq!(provider.create(&claim).await, first);
    wait(1).await;
    assert_eq!(api.names(NODES).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_before_its_node_exists_leaves_none_behind() {
    let (api, provider) = setup();
    api.put(CLASSES, class(json!({"nodeRegistrationDelay": "30s"}), ready("True")));
    api.put(CLAIMS, claim_object("a", json!([])));
    let answer = provider
        .create(&claim("a", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    let deleted = provider.delete(&launched("a", &answer.provider_id, false)).await;
    assert_eq!(deleted, Err(CloudError::not_found("instance terminated")));
    wait(60).await;
    assert!(api.names(NODES).is_empty());
    // The same once the node is there but was never registered.
    let answer = provider
        .create(&claim("b", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    wait(60).await;
    let _ = provider.delete(&launched("b", &answer.provider_id, false)).await;
    assert!(api.names(NODES).is_empty());
}

// KWK-054, KWK-055, KWK-207, OPS-111
#[tokio::test(start_paused = true)]
async fn deletion_removes_the_claim_object_and_answers_not_found_at_once() {
    let (api, provider) = setup();
    api.put(CLAIMS, claim_object("a", json!([])));
    let answer = provider
        .create(&claim("a", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    wait(1).await;
    let gone = launched("a", &answer.provider_id, true);
    let terminated = Err(CloudError::not_found("instance terminated"));
    assert_eq!(provider.delete(&gone).await, terminated);
    assert!(api.names(CLAIMS).is_empty());
    assert_eq!(
        api.names(NODES).len(),
        1,
        "the Node of a registered claim is not the provider's to delete"
    );
    assert_eq!(provider.delete(&gone).await, terminated);
    api.put(CLAIMS, claim_object("a", json!([])));
    api.fail("DELETE", 403, 1);
    let refused = provider.delete(&gone).await;
    assert_eq!(refused, Err(CloudError::other("deleting NodeClaim a, failure 403")));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_deleted_is_not_deleted_again() {
    let (api, provider) = setup();
    api.put(CLAIMS, claim_object("a", json!([])));
    let mut going = launched("a", "kwok://a", true);
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
    api.fail("DELETE", 403, 1);
    let answer = provider.delete(&going).await;
    assert_eq!(answer, Err(CloudError::not_found("instance terminated")));
    assert_eq!(api.names(CLAIMS), ["a"]);
}

// KWK-002, KWK-056, KWK-057, KWK-058
#[tokio::test]
async fn nodes_with_our_ids_are_the_instances() {
    let (api, provider) = setup();
    let node = |name: &str, id: &str, deleting: bool| {
        let mut metadata = json!({"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"});
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": id}})
    };
    api.put(NODES, node("live", "kwok://live", false));
    api.put(NODES, node("leaving", "kwok://leaving", true));
    api.put(NODES, node("system", "kind://docker/system", false));
    api.put(
        NODES,
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}}),
    );
    let all = provider.list().await.expect("a list");
    let listed: Vec<_> = all
        .iter()
        .map(|one| (one.name.as_str(), one.provider_id.as_str(), one.deleting))
        .collect();
    assert_eq!(
        listed,
        [("leaving", "kwok://leaving", false), ("live", "kwok://live", false)]
    );
    assert_eq!(
        provider.get("kwok://live").await.map(|one| one.name),
        Ok("live".to_owned())
    );
    for id in [
        "kwok://leaving",
        "kwok://missing",
        "kwok://",
        "kind://docker/system",
        "kwok://system",
    ] {
        assert!(provider.get(id).await.is_err_and(|error| error.is_not_found()), "{id}");
    }
    api.fail(NODES, 500, 1);
    assert!(matches!(provider.list().await, Err(CloudError::Retryable { .. })));
}

// KWK-010
#[tokio::test(start_paused = true)]
async fn classes_are_only_read() {
    let (api, provider) = setup();
    provider
        .create(&claim("a", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    wait(1).await;
    let state = api.locked();
    assert!(
        state
            .requests
            .iter()
            .all(|request| !request.contains(CLASSES) || request.starts_with("GET"))
    );
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_interruption_can_be_raised() {
    let (_, provider) = setup();
    for kind in InterruptionKind::ALL {
        provider.interrupt(kind, ["kwok://a".to_owned()], Timestamp::UNIX_EPOCH);
    }
    let signals = provider.interruptions().await.expect("signals");
    assert_eq!(
        signals.iter().map(|signal| signal.kind).collect::<Vec<_>>(),
        InterruptionKind::ALL
    );
    for signal in &signals {
        provider.acknowledge(signal).await.expect("acknowledged");
    }
    assert!(
        tokio::time::timeout(Duration::from_secs(60), provider.interruptions())
            .await
            .is_err()
    );
}

// KWK-051
#[tokio::test]
async fn a_resource_no_type_has_is_on_the_node_only_if_the_claim_requests_it() {
    let (_, provider) = setup();
    let mut object = claim_object("a", json!([types(&[TYPE])]));
    let plain = provider
        .create(&claim("a", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    assert!(
        !plain.capacity.contains_key("example.com/widget") && !plain.allocatable.contains_key("example.com/widget")
    );
    object["spec"]["resources"]["requests"]["example.com/widget"] = json!("2");
    let asking: NodeClaim = serde_json::from_value(object).expect("a claim");
    let answer = provider.create(&asking).await.expect("launched");
    let two = "2".parse().expect("a quantity");
    assert_eq!(
        (
            answer.capacity.get("example.com/widget"),
            answer.allocatable.get("example.com/widget")
        ),
        (Some(&two), Some(&two))
    );
}

// KWK-007
#[tokio::test(start_paused = true)]
async fn nothing_is_throttled_made_to_fail_or_kept_beside_the_nodes() {
    let (api, provider) = setup();
    let began = tokio::time::Instant::now();
    for number in 0..100 {
        let claim = claim(&format!("c-{number}"), json!([types(&[TYPE])]));
        provider.create(&claim).await.expect("launched");
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    wait(1).await;
    assert_eq!(provider.list().await.map(|all| all.len()), Ok(100));
    assert_eq!(api.names(NODES).len(), 100);
    let written = api.locked().requests.clone();
    let writes = |request: &&String| !request.starts_with("GET ") && !request.starts_with(&format!("POST {NODES}"));
    assert_eq!(written.iter().find(writes), None);
}

// KWK-060
#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_nodes() {
    let (api, provider) = setup();
    let answer = provider
        .create(&claim("a", json!([types(&[TYPE])])))
        .await
        .expect("launched");
    wait(1).await;
    drop(provider);
    let interner = Arc::new(Interner::default());
    let catalogue = builtin_catalogue(&interner);
    let provider = KwokProvider::new(api.client(), interner, catalogue);
    assert_eq!(
        provider.list().await.map(|all| all[0].provider_id.clone()),
        Ok(answer.provider_id.clone())
    );
    assert!(provider.get(&answer.provider_id).await.is_ok());
}

/// A provider that obeys annotations, the claim of an annotated pool, and the API.
fn annotated_pool(annotations: &Value) -> (FakeApi, KwokProvider, NodeClaim) {
    let (api, provider) = setup();
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    api.put(
        POOLS,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "bad", "annotations": annotations},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
        }),
    );
    let mut claim = claim("c", json!([types(&[TYPE])]));
    let labels = claim.metadata.labels.get_or_insert_default();
    labels.insert("karpenter.sh/nodepool".to_owned(), "bad".to_owned());
    (api, provider.with_interruption_annotations(), claim)
}

#[tokio::test(start_paused = true)]
async fn machines_of_an_annotated_pool_register_late_or_never() {
    let (api, provider, claim) = annotated_pool(&json!({"sandbox.kerf.sh/registration": "5m"}));
    provider.create(&claim).await.expect("launched");
    wait(299).await;
    assert!(api.names(NODES).is_empty());
    wait(2).await;
    assert_eq!(api.names(NODES).len(), 1);

    let (api, provider, claim) = annotated_pool(&json!({"sandbox.kerf.sh/registration": "never"}));
    provider.create(&claim).await.expect("launched");
    wait(3600).await;
    assert!(api.names(NODES).is_empty());
}

#[tokio::test(start_paused = true)]
async fn nodes_of_an_annotated_pool_lie_about_their_capacity() {
    let annotations = json!({
        "sandbox.kerf.sh/reported-capacity": "cpu=50%,memory=0%", "sandbox.kerf.sh/flap-every": "2m",
        "sandbox.kerf.sh/interruption": "spot_interrupted", "note": "other",
    });
    let (api, provider, claim) = annotated_pool(&annotations);
    let promised = provider.create(&claim).await.expect("launched");
    wait(1).await;
    let node = api.locked().objects[&format!("{NODES}/{}", promised.name)].clone();
    let cpu = promised.allocatable["cpu"].milli_floor();
    assert_eq!(node["status"]["allocatable"]["cpu"], format!("{}m", cpu / 2));
    assert_eq!(node["status"]["allocatable"]["memory"], "0");
    assert_eq!(
        node["status"]["allocatable"]["pods"],
        promised.allocatable["pods"].to_string()
    );
    // Kubelets read the other annotations from the Node; an interruption is for one machine.
    let on_node = &node["metadata"]["annotations"];
    assert_eq!(on_node["sandbox.kerf.sh/flap-every"], "2m");
    assert_eq!(
        (on_node.get("sandbox.kerf.sh/interruption"), on_node["note"].as_str()),
        (None, Some("x"))
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_that_cannot_be_read_have_no_effect() {
    let annotations = json!({"sandbox.kerf.sh/registration": "late", "sandbox.kerf.sh/reported-capacity": "half"});
    let (api, provider, claim) = annotated_pool(&annotations);
    let promised = provider.create(&claim).await.expect("launched");
    wait(1).await;
    let node = api.locked().objects[&format!("{NODES}/{}", promised.name)].clone();
    assert_eq!(
        node["status"]["allocatable"]["cpu"],
        promised.allocatable["cpu"].to_string()
    );
}
