//! What delays the end of a node, and what does not.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_cloud::{CloudError, HookOutcome, RegistrationHook};
use kerf_sandbox::faults::FaultPlan;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::simulation::api_faults::{CallFault, with_api_faults};
use crate::simulation::harness::{Simulation, create, name};
use crate::simulation::scripted_cloud::{Call, Script, scripted, scripted_as};

/// A cluster with one pod on one node, and the script of its cloud.
pub(crate) async fn with_one_pod(pool: Value, pod: Value) -> (Simulation, Script, NodeClaim, Node) {
    let (simulation, script) = scripted().await;
    simulation.run_one_pod(pool, pod).await;
    simulation.until_initialized(30).await;
    let (claim, node) = (simulation.claims().await.remove(0), simulation.nodes().await.remove(0));
    (simulation, script, claim, node)
}

fn is_tainted(node: &Node) -> bool {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted")
}

/// Status, reason and message of a condition.
fn shown(claim: &NodeClaim, type_: &str) -> String {
    let condition = claim.condition(type_);
    condition.map_or_else(String::new, |c| format!("{} {} {}", c.status, c.reason(), c.message()))
}

async fn protect(simulation: &Simulation) {
    let pod = name(&simulation.pods().await.remove(0));
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    api.patch(&pod, &PatchParams::default(), &patch).await.expect("patched");
    tokio::time::sleep(Duration::from_secs(2)).await;
}

// LIF-226
#[tokio::test(start_paused = true)]
async fn deleting_a_claim_taints_its_node_at_once() {
    let (simulation, _, claim, node) = with_one_pod(json!({}), json!({})).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    simulation
        .until("it is tainted", 3, async |s| {
            s.current_node(&node).await.is_none_or(|node| is_tainted(&node))
        })
        .await;
    simulation.stop().await;
}

/// A hook that never lets a node register.
struct Never;

#[async_trait]
impl RegistrationHook for Never {
    fn name(&self) -> &str {
        "never"
    }

    async fn register(&self, _: &NodeClaim) -> Result<HookOutcome, CloudError> {
        Ok(HookOutcome::Pending(None))
    }
}

// LIF-072, LIF-073: pods run on a Node that the former leader registered, and neither its claim nor the cache shows it.
#[tokio::test(start_paused = true)]
async fn a_node_of_whose_registration_nobody_told_is_drained_first() {
    for reason in ["RegistrationHookPending", "NodeNotFound"] {
        let sandbox = Simulation::start().await.crash().await;
        let (client, faults) = sandbox.client_with_faults("controllers");
        let (simulation, script) = scripted_as(sandbox, client, |_| {}, vec![Arc::new(Never)]);
        let deafen = || {
            faults.set(FaultPlan {
                watch_loss: 1.0,
                watch_loss_of: vec!["nodes".to_owned()],
                ..FaultPlan::default()
            });
        };
        if reason == "NodeNotFound" {
            deafen();
        }
        simulation.pool("web", json!({})).await;
        simulation.deployment("web", 1, "1", json!({})).await;
        let waits = async |s: &Simulation| {
            let claims = s.claims().await;
            let is_waiting = |claim: &NodeClaim| shown(claim, "Registered").contains(reason);
            claims.first().is_some_and(is_waiting) && !s.nodes().await.is_empty()
        };
        simulation.until("the node waits", 60, waits).await;
        let (claim, node) = (simulation.claims().await.remove(0), simulation.nodes().await.remove(0));
        deafen();
        let owner = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "name": claim.metadata.name, "uid": claim.metadata.uid, "blockOwnerDeletion": true,
        });
        let registered = json!({"metadata": {
            "labels": {"karpenter.sh/registered": "true"},
            "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [owner],
        }, "spec": {"taints": null}});
        simulation.patch::<Node>(&name(&node), registered).await;
        simulation.until_running(1, 20).await;
        protect(&simulation).await;
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let id = id.expect("it was launched");
        let cluster = &simulation.context.cluster;
        assert!(!cluster.has_registered_node(id), "nobody told of it");
        assert_eq!(cluster.nodes_by_provider_id(id).is_empty(), reason == "NodeNotFound");
        simulation.delete::<NodeClaim>(&name(&claim)).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(script.count(Call::Delete), 0, "a pod runs there");
        assert_eq!(simulation.running().await, 1);
        let node = simulation.current_node(&node).await;
        assert!(node.is_some_and(|node| node.metadata.deletion_timestamp.is_some()));
        simulation.stop().await;
    }
}

// LIF-011, LIF-076, LIF-077
#[tokio::test(start_paused = true)]
async fn an_instance_that_will_not_end_keeps_the_claim() {
    let (simulation, script, claim, _) = with_one_pod(json!({}), json!({})).await;
    script.fail(Call::Delete, || CloudError::other("throttled"));
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let kept = simulation.current_claim(&claim).await.expect("kept");
    assert_eq!(
        kept.metadata.finalizers,
        Some(vec!["karpenter.sh/termination".to_owned()])
    );
    assert!(kept.condition("InstanceTerminating").is_none());
    assert!(script.count(Call::Delete) > 10, "it is tried again");
    assert!(
        kept.condition_is_true("Drained") && kept.condition_is_true("Ready"),
        "{}",
        shown(&kept, "Ready")
    );
    // Every condition is of the generation the deletion made.
    let generation = kept.metadata.generation;
    assert!(
        kept.conditions()
            .iter()
            .all(|condition| condition.observed_generation == generation)
    );
    script.heal(Call::Delete);
    let terminating = async |s: &Simulation| {
        let claim = s.current_claim(&claim).await;
        assert!(claim.as_ref().is_none_or(|claim| claim.condition_is_true("Ready")));
        claim.is_none_or(|claim| claim.condition_is_true("InstanceTerminating"))
    };
    simulation.until("it is ended", 30, terminating).await;
    simulation.until_claim_gone(&claim, 30).await;
    simulation.stop().await;
}

async fn set_kubelet(simulation: &Simulation, node: &Node, conduct: &str) {
    simulation.set_kubelet(node, Some(conduct)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
}

// LIF-083
#[tokio::test(start_paused = true)]
async fn a_node_without_a_machine_is_let_go_without_a_drain() {
    let gone = || CloudError::not_found("there is no such instance");
    // Ready: drained as any other, whatever the provider says.
    let (simulation, script, claim, node) = with_one_pod(json!({}), json!({})).await;
    protect(&simulation).await;
    script.fail(Call::Get, gone);
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(
        simulation
            .current_node(&node)
            .await
            .is_some_and(|node| is_tainted(&node))
    );
    simulation.stop().await;
    // Not ready, and the provider cannot say: not let go.
    let (simulation, script, claim, node) = with_one_pod(json!({}), json!({})).await;
    protect(&simulation).await;
    set_kubelet(&simulation, &node, "not-ready").await;
    script.fail(Call::Get, || CloudError::other("no answer"));
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(
        simulation
            .current_node(&node)
            .await
            .is_some_and(|node| !is_tainted(&node))
    );
    // The provider knows that it is gone.
    script.fail(Call::Get, gone);
    simulation
        .until("the Node is let go", 15, async |s| {
            s.current_node(&node).await.is_none()
        })
        .await;
    simulation.stop().await;
}

async fn attach_volume(simulation: &Simulation, node: &Node) {
    let volume = json!({"metadata": {"name": "data"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "csi.example", "volumeHandle": "v-1"},
    }});
    create::<PersistentVolume>(&simulation.client(), volume).await;
    let attachment = json!({"metadata": {"name": "data-on-node"}, "spec": {
        "attacher": "csi.example", "nodeName": name(node), "source": {"persistentVolumeName": "data"},
    }});
    create::<VolumeAttachment>(&simulation.client(), attachment).await;
}

// LIF-085, LIF-088, LIF-089, OPS-199
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_attached_keeps_the_instance() {
    let (simulation, script, claim, node) = with_one_pod(json!({}), json!({})).await;
    attach_volume(&simulation, &node).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let waiting = simulation.current_claim(&claim).await.expect("there");
    // Drained first, then waiting, and the instance untouched.
    // API-114
    assert_eq!(shown(&waiting, "Drained"), "True Drained ");
    // API-115
    let text = "Unknown AwaitingVolumeDetachment AwaitingVolumeDetachment";
    assert_eq!(shown(&waiting, "VolumesDetached"), text);
    assert_eq!(script.count(Call::Delete), 0);
    let told = simulation.events("AwaitingVolumeDetachment").await;
    let told: Vec<&str> = told.iter().filter_map(|event| event.message.as_deref()).collect();
    assert_eq!(told, ["Awaiting deletion of bound volumeattachments (data-on-node)"]);
    simulation.delete::<VolumeAttachment>("data-on-node").await;
    simulation.until_claim_gone(&claim, 30).await;
    // API-115
    let detached =
        "Status condition transitioned, Type: VolumesDetached, Status: Unknown -> True, Reason: VolumesDetached";
    let told = simulation.messages("VolumesDetached").await;
    assert!(told.iter().any(|message| message == detached), "{told:?}");
    simulation.stop().await;
}

// LIF-090, LIF-121
#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_for_volumes() {
    let pool = json!({"template": {"spec": {"terminationGracePeriod": "2m"}}});
    let (simulation, script, claim, node) = with_one_pod(pool, json!({})).await;
    attach_volume(&simulation, &node).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(115)).await;
    assert_eq!(script.count(Call::Delete), 0);
    let elapsed = async |s: &Simulation| {
        let events = s.events("VolumesDetached").await;
        let mut messages = events.iter().filter_map(|event| event.message.as_deref());
        // API-115
        let text =
            "Status: Unknown -> False, Reason: TerminationGracePeriodElapsed, Message: TerminationGracePeriodElapsed";
        messages.any(|message| message.ends_with(text))
    };
    simulation.until("the wait is over", 10, elapsed).await;
    simulation.until_claim_gone(&claim, 15).await;
    simulation.stop().await;
}

// LIF-094
#[tokio::test(start_paused = true)]
async fn a_nodes_life_is_measured() {
    let (simulation, _, claim, _) = with_one_pod(json!({}), json!({})).await;
    tokio::time::sleep(Duration::from_secs(3000)).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    simulation.until_claim_gone(&claim, 60).await;
    let metrics = simulation.context.metrics.encode();
    let bucket = |bound: &str| {
        let line = format!("karpenter_nodes_lifetime_duration_seconds_bucket{{nodepool=\"web\",le=\"{bound}\"}} ");
        let found = metrics.lines().find_map(|other| other.strip_prefix(&line));
        found.map(str::to_owned).unwrap_or_else(|| format!("no bucket {bound}"))
    };
    let minutes = |minutes: u64| (minutes * 60).to_string();
    assert_eq!(
        (bucket(&minutes(45)), bucket(&minutes(60))),
        ("0".to_owned(), "1".to_owned())
    );
    for hours in [2, 4, 6, 8, 10, 12, 16, 20, 24, 48, 72, 120] {
        assert_eq!(bucket(&minutes(hours * 60)), "1", "{hours}");
    }
    assert_eq!(
        (bucket(&minutes(15)), bucket(&minutes(30))),
        ("0".to_owned(), "0".to_owned())
    );
    // Up to a month, and the one for all.
    let family = "karpenter_nodes_lifetime_duration_seconds_bucket{";
    assert_eq!(metrics.lines().filter(|line| line.starts_with(family)).count(), 22);
    simulation.stop().await;
}

// LIF-081
#[tokio::test(start_paused = true)]
async fn only_nodes_that_wait_for_us_are_ended() {
    let simulation = Simulation::start().await;
    let node = |name: &str, finalizer: &str| {
        let labels = json!({"karpenter.kwok.sh/kwoknodeclass": "default", "keep": "me"});
        json!({"metadata": {"name": name, "finalizers": [finalizer], "labels": labels}, "spec": {}})
    };
    create::<Node>(&simulation.client(), node("theirs", "example.com/other")).await;
    create::<Node>(&simulation.client(), node("staying", "karpenter.sh/termination")).await;
    let mut unsupported = node("unsupported", "karpenter.sh/termination");
    unsupported["metadata"]["labels"] = json!({"karpenter.example.com/othernodeclass": "default"});
    create::<Node>(&simulation.client(), unsupported).await;
    for name in ["theirs", "unsupported"] {
        simulation.delete::<Node>(name).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let nodes = simulation.nodes().await;
    assert_eq!(nodes.len(), 3);
    assert!(!nodes.iter().any(is_tainted));
    // With both, ours goes.
    simulation.delete::<Node>("staying").await;
    simulation.until_nodes(2, 10).await;
    simulation.stop().await;
}

// LIF-096
#[tokio::test(start_paused = true)]
async fn ten_nodes_of_one_claim_end_together() {
    let (simulation, _, claim, node) = with_one_pod(json!({}), json!({})).await;
    let id = node
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.clone())
        .unwrap_or_default();
    let labels = json!({"karpenter.kwok.sh/kwoknodeclass": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"});
    for number in 0..9 {
        let twin = json!({
            "metadata": {"name": format!("twin-{number}"), "labels": labels, "finalizers": ["karpenter.sh/termination"]},
            "spec": {"providerID": id},
        });
        create::<Node>(&simulation.client(), twin).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let nodes = simulation.nodes().await;
    assert_eq!(nodes.len(), 10);
    let api: Api<Node> = Api::all(simulation.client());
    let all = nodes.iter().map(|node| {
        let (api, name) = (api.clone(), name(node));
        async move { api.delete(&name, &kube::api::DeleteParams::default()).await.map(drop) }
    });
    for deleted in futures::future::join_all(all).await {
        deleted.expect("deleted");
    }
    simulation
        .until("all are gone", 120, async |s| {
            let nodes = s.nodes().await;
            let theirs = |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(&*id);
            s.current_claim(&claim).await.is_none() && !nodes.iter().any(theirs)
        })
        .await;
    simulation.until_running(1, 60).await;
    simulation.stop().await;
}

// LIF-072, LIF-073: what the Node says counts where the claim does not say it yet.
#[tokio::test(start_paused = true)]
async fn a_node_is_drained_although_its_claim_never_learned_that_it_registered() {
    let (simulation, _, claim, node) = with_one_pod(json!({}), json!({})).await;
    let sandbox = simulation.crash().await;
    let api: Api<NodeClaim> = Api::all(sandbox.client());
    let unknown = json!([{"type": "Registered", "status": "Unknown", "reason": "NodeNotFound", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let status = Patch::Merge(json!({"status": {"conditions": unknown}}));
    api.patch_status(&name(&claim), &PatchParams::default(), &status)
        .await
        .expect("patched");
    api.delete(&name(&claim), &DeleteParams::default())
        .await
        .expect("deleted");
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budget = serde_json::from_value(budget).expect("a budget");
    let simulation = Simulation::join(sandbox, |_| {});
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(simulation.client(), "default");
    budgets.create(&PostParams::default(), &budget).await.expect("created");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(simulation.current_node(&node).await.is_some(), "its pod may not leave");
    assert!(simulation.current_claim(&claim).await.is_some());
    budgets.delete("web", &DeleteParams::default()).await.expect("deleted");
    simulation
        .until("the pod moved", 300, async |s| {
            s.running().await == 1 && s.current_claim(&claim).await.is_none()
        })
        .await;
    simulation.stop().await;
}

// LIF-072, OPS-105
#[tokio::test(start_paused = true)]
async fn a_node_whose_deletion_meets_a_conflict_is_deleted_again() {
    let begun = Simulation::start().await;
    begun.populate(1, json!({})).await;
    let (simulation, api_faults) = with_api_faults(begun, |_| {}).await;
    let (claim, node) = (simulation.claims().await.remove(0), simulation.nodes().await.remove(0));
    let path = format!("/api/v1/nodes/{}", name(&node));
    api_faults.on(Method::DELETE, &path, CallFault::Refused(StatusCode::CONFLICT));
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let tried = api_faults.writes(&format!("DELETE {path}")).len();
    assert!(tried > 2, "{tried}");
    api_faults.heal();
    simulation.until_claim_gone(&claim, 60).await;
    simulation.stop().await;
}

// LIF-107
#[tokio::test(start_paused = true)]
async fn a_namesake_is_not_evicted_in_a_pods_place() {
    let (simulation, _, claim, node) = with_one_pod(json!({}), json!({})).await;
    let set = json!({"metadata": {"name": "db"}, "spec": {
        "serviceName": "db", "replicas": 1, "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
            "containers": [{"name": "main", "image": "db", "resources": {"requests": {"cpu": "100m"}}}],
        }},
    }});
    let sets: Api<k8s_openapi::api::apps::v1::StatefulSet> = Api::namespaced(simulation.client(), "default");
    sets.create(&PostParams::default(), &serde_json::from_value(set).expect("a set"))
        .await
        .expect("created");
    simulation.until_running(2, 60).await;
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let on = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let first = api.get("db-0").await.expect("there");
    assert_eq!(
        on(&first).as_deref(),
        node.metadata.name.as_deref(),
        "it shares the node"
    );
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    let moved = async |s: &Simulation| {
        let pod = api.get_opt("db-0").await.expect("an answer");
        pod.is_some_and(|pod| pod.metadata.uid != first.metadata.uid) && s.running().await == 2
    };
    simulation.until("its successor runs", 180, moved).await;
    let second = api.get("db-0").await.expect("there");
    tokio::time::sleep(Duration::from_secs(300)).await;
    let after = api.get("db-0").await.expect("there");
    assert_eq!(
        (after.metadata.uid, after.metadata.deletion_timestamp),
        (second.metadata.uid, None)
    );
    simulation.stop().await;
}

// LIF-228
#[tokio::test(start_paused = true)]
async fn a_pod_that_takes_its_time_gets_its_grace_and_no_more() {
    let (simulation, _, claim, _) = with_one_pod(json!({}), json!({})).await;
    let spec = json!({"terminationGracePeriodSeconds": 30, "nodeName": name(&simulation.nodes().await.remove(0)),
        "containers": [{"name": "main", "image": "app"}]});
    let slow =
        json!({"metadata": {"name": "slow", "annotations": {"sandbox.kerf.sh/stop-after": "300s"}}, "spec": spec});
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    api.create(&PostParams::default(), &serde_json::from_value(slow).expect("a pod"))
        .await
        .expect("created");
    simulation.until_running(2, 30).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    let going = async |_: &Simulation| {
        let pod = api.get_opt("slow").await.expect("an answer");
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
    };
    simulation.until("it is told to go", 5, going).await;
    tokio::time::sleep(Duration::from_secs(24)).await;
    let pod = api.get("slow").await.expect("there");
    assert_eq!(pod.status.and_then(|status| status.phase).as_deref(), Some("Running"));
    simulation.until_claim_gone(&claim, 60).await;
    assert!(api.get_opt("slow").await.expect("an answer").is_none());
    simulation.stop().await;
}

// LIF-071, LIF-123, LIF-124
#[tokio::test(start_paused = true)]
async fn a_grace_period_begins_with_the_deletion_and_lets_drift_pass_protection() {
    let pool = json!({
        "template": {"spec": {"terminationGracePeriod": "10m"}},
        "disruption": {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized"},
    });
    let (simulation, _, claim, _) = with_one_pod(pool, json!({"terminationGracePeriodSeconds": 30})).await;
    protect(&simulation).await;
    // DIS-244: only a pod that may move gets a place ahead.
    simulation.deployment("other", 1, "100m", json!({})).await;
    simulation.until_running(2, 60).await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    // Consolidation does not choose it, grace period or not.
    let kept = simulation.current_claim(&claim).await.expect("kept");
    assert!(kept.metadata.deletion_timestamp.is_none() && kept.condition("DisruptionReason").is_none());
    // The claim keeps the period it was made with; a changed template makes it drift.
    let changed = json!({"spec": {"template": {"spec": {"terminationGracePeriod": "5m"}}}});
    simulation.patch::<NodePool>("web", changed).await;
    let deadline_of = |claim: &NodeClaim| {
        let annotations = claim.metadata.annotations.clone().unwrap_or_default();
        annotations.get("karpenter.sh/nodeclaim-termination-timestamp").cloned()
    };
    let chosen = async |s: &Simulation| {
        s.current_claim(&claim)
            .await
            .is_some_and(|claim| claim.condition("DisruptionReason").is_some())
    };
    simulation.until("drift chooses it", 60, chosen).await;
    let decided = simulation.current_claim(&claim).await.expect("there");
    assert_eq!(deadline_of(&decided), None, "the time does not run yet");
    let deleted = async |s: &Simulation| {
        s.current_claim(&claim)
            .await
            .is_some_and(|claim| deadline_of(&claim).is_some())
    };
    simulation.until("it is deleted", 120, deleted).await;
    let going = simulation.current_claim(&claim).await.expect("there");
    let since = going.metadata.deletion_timestamp.as_ref().expect("deleted").0;
    let deadline: jiff::Timestamp = deadline_of(&going).expect("a deadline").parse().expect("a time");
    assert_eq!((deadline - since).get_seconds(), 600);
    // Its replacement was there before.
    let others: Vec<NodeClaim> = simulation.claims().await;
    assert!(
        others
            .iter()
            .any(|other| other.metadata.uid != claim.metadata.uid && other.condition_is_true("Initialized"))
    );
    let periods: Vec<Value> = others
        .iter()
        .map(|claim| json!(claim.spec)["terminationGracePeriod"].clone())
        .collect();
    assert!(
        periods.contains(&json!("10m")) && periods.contains(&json!("5m")),
        "{periods:?}"
    );
    // The protected pod goes when the time is nearly over.
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert!(simulation.current_claim(&claim).await.is_some());
    simulation.until_claim_gone(&claim, 180).await;
    simulation.until_running(2, 60).await;
    simulation.stop().await;
}

// LIF-216
#[tokio::test(start_paused = true)]
async fn capacity_is_looked_for_as_long_as_a_node_drains() {
    let (simulation, _, claim, _) = with_one_pod(json!({}), json!({})).await;
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(simulation.client(), "default");
    let budget = serde_json::from_value(budget).expect("a budget");
    budgets.create(&PostParams::default(), &budget).await.expect("created");
    let pod = name(&simulation.pods().await.remove(0));
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let for_a_while = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "20m"}}}));
    api.patch(&pod, &PatchParams::default(), &for_a_while)
        .await
        .expect("patched");
    tokio::time::sleep(Duration::from_secs(2)).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    // As long as the pod is not to move, nothing is launched for it.
    tokio::time::sleep(Duration::from_secs(18 * 60)).await;
    assert_eq!(simulation.claims().await.len(), 1);
    // Then it is, though nothing happened but that time passed: the budget still keeps the pod where it is.
    simulation.until_claims(2, 180).await;
    assert_eq!(name(&simulation.pods().await.remove(0)), pod);
    simulation.stop().await;
}
