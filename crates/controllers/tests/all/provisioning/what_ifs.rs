//! What-if solves of disruption leave nothing in the cluster and publish no events of provisioning.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_sandbox::CapturedLog;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::provisioning::metric;
use crate::simulation::harness::Simulation;

/// Karpenter's events of one reason about pods of one name, with how often each was published.
async fn told(simulation: &Simulation, reason: &str, of: &str) -> Vec<(String, i32)> {
    let ours = |event: &Event| {
        let source = event.source.as_ref().and_then(|source| source.component.as_deref());
        let name = event.involved_object.name.as_deref();
        source == Some("karpenter") && name.is_some_and(|name| name.starts_with(of))
    };
    let events = simulation.events(reason).await.into_iter().filter(ours);
    events
        .map(|event| (event.message.unwrap_or_default(), event.count.unwrap_or(1)))
        .collect()
}

fn nominated(simulation: &Simulation) -> Vec<String> {
    let snapshot = simulation.context.cluster.snapshot(simulation.context.now());
    let nodes = snapshot.nodes.iter().filter(|node| node.nominated_until.is_some());
    nodes
        .filter_map(|node| node.claim_name.as_deref())
        .map(str::to_owned)
        .collect()
}

async fn initialized(simulation: &Simulation) -> usize {
    let claims = simulation.claims().await;
    claims
        .iter()
        .filter(|claim| claim.condition_is_true("Initialized"))
        .count()
}

// SCH-434, SCH-496, SCH-497, DIS-266, DIS-313, DIS-316
#[tokio::test(start_paused = true)]
async fn what_ifs_publish_nothing_until_a_command_starts() {
    let simulation = Simulation::with_pool(json!({})).await;
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
    simulation.deployment("web", 2, "1", apart).await;
    simulation
        .until("two nodes", 120, async |s| {
            s.running().await == 2 && initialized(s).await == 2
        })
        .await;
    // From here on no provisioning pass runs for an hour: all events are those of what-ifs.
    let hour = Duration::from_secs(3600);
    let log = CapturedLog::start();
    let simulation = Simulation::join(simulation.crash().await, |options| {
        options.batch_idle_duration = hour;
        options.batch_max_duration = hour;
    });
    simulation.deployment("little", 1, "500m", json!({})).await;
    simulation.until_running(3, 30).await;
    simulation.deployment("huge", 1, "100000", json!({})).await;
    let invalid = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "karpenter.sh/unknown", "operator": "In", "values": ["x"]}]}]}}}});
    simulation.deployment("invalid", 1, "1", invalid).await;
    let pods = simulation.pods().await;
    let little = pods.iter().find(|pod| {
        pod.metadata
            .name
            .as_deref()
            .is_some_and(|name| name.starts_with("little"))
    });
    let node = little
        .and_then(|pod| pod.spec.as_ref()?.node_name.clone())
        .expect("it is bound");
    let claims = simulation.claims().await;
    let on = |claim: &&NodeClaim| claim.status.as_ref().and_then(|status| status.node_name.as_ref()) == Some(&node);
    let name = |claim: &NodeClaim| claim.metadata.name.clone().expect("a name");
    let drifted = claims.iter().find(on).map(name).expect("its claim");
    let other = claims.iter().find(|claim| !on(claim)).map(name).expect("another");
    let launches = told(&simulation, "Nominated", "web").await;

    // The limit leaves no room for a replacement, so there is no command.
    let limit = json!({"spec": {"limits": {"cpu": "1"}}});
    simulation.patch::<NodePool>("web", limit).await;
    let hash = json!({"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "1"}}});
    simulation.patch::<NodeClaim>(&drifted, hash).await;
    simulation
        .until("a what-if without a command", 120, async |s| {
            let events = s.events("DisruptionBlocked").await;
            let said = |event: &Event| {
                event
                    .message
                    .as_deref()
                    .is_some_and(|text| text.starts_with("Not all pods would schedule"))
            };
            events.iter().any(said)
        })
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    for pod in ["web", "little", "huge", "invalid"] {
        assert_eq!(told(&simulation, "FailedScheduling", pod).await, [], "{pod}");
    }
    assert_eq!(told(&simulation, "Nominated", "little").await, []);
    assert_eq!((simulation.claims().await.len(), simulation.running().await), (2, 3));
    assert_eq!(nominated(&simulation), [""; 0]);
    assert!(
        metric::value(&simulation, "karpenter_scheduler_ignored_pods_count").is_none_or(|count| count < 1.0),
        "listing pods for a what-if counts none"
    );

    // With room there is a command, and its plan is reported.
    let limit = json!({"spec": {"limits": null}});
    simulation.patch::<NodePool>("web", limit).await;
    simulation.until_claims(3, 120).await;
    simulation
        .until("a nomination", 5, async |s| {
            !told(s, "Nominated", "little").await.is_empty()
        })
        .await;
    let place = told(&simulation, "Nominated", "little").await;
    assert_eq!(place.len(), 1, "{place:?}");
    assert!(
        place[0]
            .0
            .starts_with(&format!("Pod should schedule on: nodeclaim/{other}, node/")),
        "{place:?}"
    );
    assert_eq!(nominated(&simulation), [other]);
    let failed = told(&simulation, "FailedScheduling", "huge").await;
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].0.starts_with("Failed to schedule pod, "), "{failed:?}");
    assert_eq!(told(&simulation, "FailedScheduling", "invalid").await, []);
    assert_eq!(log.lines("could not schedule pod").len(), 0);
    assert_eq!(
        told(&simulation, "Nominated", "web").await,
        launches,
        "pods on their way to a replacement are not told"
    );
    simulation.stop().await;
}

// SCH-497: neither the end of empty nodes nor the drift of nodes of a fixed number asks what if, so there is nothing to report.
#[tokio::test(start_paused = true)]
async fn commands_without_a_what_if_tell_nothing() {
    let simulation = Simulation::with_pool(json!({})).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation
        .until("a node", 120, async |s| {
            s.running().await == 1 && initialized(s).await == 1
        })
        .await;
    let hour = Duration::from_secs(3600);
    let simulation = Simulation::join(simulation.crash().await, |options| {
        options.batch_idle_duration = hour;
        options.batch_max_duration = hour;
        options.feature_gates.static_capacity = true;
    });
    let typed = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]});
    let fixed = json!({"replicas": 1, "template": {"spec": {"requirements": [typed]}}});
    simulation.pool("fixed", fixed).await;
    simulation
        .until("the fixed node", 60, async |s| initialized(s).await == 2)
        .await;
    simulation.deployment("huge", 1, "100000", json!({})).await;
    let launches = told(&simulation, "Nominated", "web").await;

    let deployments: Api<Deployment> = Api::namespaced(simulation.client(), "default");
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments
        .patch("web", &PatchParams::default(), &none)
        .await
        .expect("scaled");
    let empty = json!({"spec": {"disruption": {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"}}});
    simulation.patch::<NodePool>("web", empty).await;
    simulation.until_claims(1, 120).await;
    let drifts = json!({"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}});
    simulation.patch::<NodePool>("fixed", drifts).await;
    let renewed = async |s: &Simulation| {
        let claims = s.claims().await;
        let new = |claim: &NodeClaim| {
            claim
                .metadata
                .labels
                .iter()
                .flatten()
                .any(|(key, _)| key == "generation")
        };
        claims.len() == 1 && claims.iter().all(new)
    };
    simulation.until("the other is replaced", 300, renewed).await;
    for reason in ["FailedScheduling", "Nominated"] {
        assert_eq!(told(&simulation, reason, "huge").await, [], "{reason}");
    }
    assert_eq!(told(&simulation, "Nominated", "web").await, launches);
    assert_eq!(nominated(&simulation), [""; 0]);
    simulation.stop().await;
}
