//! When a provisioning pass runs, for which pods, and what happens to its claims.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{KwokNodeClass, NodeClaim, NodePool};
use kerf_cloud::{Fault, FaultyProvider, Method as Call};
use kerf_sandbox::CapturedLog;
use kerf_sandbox::Sandbox;
use kerf_state::PodTime;
use kerf_testkit::objects::pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::objects::{create_in, create_unschedulable};
use crate::provisioning::metric;
use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::harness::{Simulation, create};

/// Pods of which a machine holds one.
fn alone(app: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

async fn sandbox(binds: bool) -> Sandbox {
    let builder = Sandbox::builder().seed(7);
    let builder = if binds { builder } else { builder.without_scheduler() };
    let sandbox = builder.build().await.expect("a sandbox");
    let class = json!({"metadata": {"name": "default"}, "spec": {}});
    create::<KwokNodeClass>(&sandbox.client(), class).await;
    sandbox
}

/// The cpu all claims ask for.
async fn cpu_claimed(simulation: &Simulation) -> i64 {
    let claims = simulation.claims().await;
    let cpu = |claim: &NodeClaim| Some(claim.spec.resources.as_ref()?.requests.get("cpu")?.milli_ceil());
    claims.iter().filter_map(cpu).sum()
}

// SCH-043, SCH-051, SCH-322, OPS-109
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_written_stops_no_other_and_is_tried_again() {
    let sandbox = sandbox(true).await;
    let posts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&posts);
    let api_faults = ApiFaults::new();
    api_faults.rule(move |request| {
        let creates = request.method() == Method::POST && request.uri().path().ends_with("/nodeclaims");
        let first = creates && count.fetch_add(1, Ordering::Relaxed) == 0;
        match first {
            true => CallFault::Refused(StatusCode::FORBIDDEN),
            false => CallFault::None,
        }
    });
    let client = api_faults.client(&sandbox);
    let log = CapturedLog::start();
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 3, "1", alone("web")).await;
    simulation
        .until("the others are written", 30, async |s| s.claims().await.len() >= 2)
        .await;
    let errors = "controller_runtime_reconcile_total{controller=\"provisioner\",result=\"error\"}";
    simulation
        .until("the loop failed", 5, async |s| metric::value(s, errors) == Some(1.0))
        .await;
    simulation.until_running(3, 120).await;
    assert_eq!(simulation.claims().await.len(), 3);
    assert_eq!(posts.load(Ordering::Relaxed), 4);
    // SCH-325
    let created = metric::value(&simulation, "karpenter_nodeclaims_created_total{");
    assert_eq!(created, Some(3.0));
    assert_eq!(metric::value(&simulation, errors), Some(1.0));
    let told = log.lines("Reconciler error");
    let of_loop: Vec<&Value> = told.iter().filter(|line| line["controller"] == "provisioner").collect();
    assert_eq!(of_loop.len(), 1, "{told:?}");
    let error = of_loop[0]["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("creating nodeclaim, "), "{error}");
    simulation.stop().await;
}

// SCH-118, SCH-324
#[tokio::test(start_paused = true)]
async fn a_pool_that_is_deleted_meanwhile_fails_its_own_claims_only() {
    let sandbox = sandbox(true).await;
    let (client, faults) = sandbox.client_with_faults("controller");
    let log = CapturedLog::start();
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    let only = |team: &str| json!({"template": {"spec": {"taints": [{"key": team, "effect": "NoSchedule"}]}}});
    let tolerates = |team: &str| {
        let mut spec = alone(team);
        spec["tolerations"] = json!([{"key": team, "operator": "Exists"}, {"key": "unrelated", "operator": "Exists"}]);
        spec
    };
    simulation.pool("first", only("first")).await;
    simulation.pool("second", only("second")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    // A pass writes a hundred claims at once; the others wait for the answers, which are slow now.
    faults.set(kerf_sandbox::faults::FaultPlan {
        latency: Some((Duration::from_secs(3), Duration::from_secs(3))),
        ..kerf_sandbox::faults::FaultPlan::default()
    });
    simulation.deployment("first", 101, "1", tolerates("first")).await;
    simulation.deployment("second", 1, "1", tolerates("second")).await;
    simulation
        .until("a pass", 60, async |_| {
            !log.lines("computed new nodeclaim(s) to fit pod(s)").is_empty()
        })
        .await;
    simulation.delete::<NodePool>("second").await;
    faults.clear();
    simulation
        .until("the claims", 60, async |s| s.claims().await.len() >= 101)
        .await;
    let of = |claims: &[NodeClaim], pool: &str| {
        let named = |claim: &&NodeClaim| {
            claim
                .metadata
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with(pool))
        };
        claims.iter().filter(named).count()
    };
    let claims = simulation.claims().await;
    assert_eq!((of(&claims, "first-"), of(&claims, "second-")), (101, 0));
    for claim in &claims {
        let taints: Vec<&str> = claim.spec.taints().iter().map(|taint| taint.key.as_str()).collect();
        assert_eq!(
            (taints.as_slice(), claim.spec.startup_taints().len()),
            (["first"].as_slice(), 0)
        );
    }
    simulation.stop().await;
}

// SCH-049, SCH-339
#[tokio::test(start_paused = true)]
async fn without_a_pool_nothing_happens_and_nobody_is_told() {
    let log = CapturedLog::start();
    let simulation = Simulation::start().await;
    simulation.deployment("web", 2, "1", json!({})).await;
    simulation
        .until("a pass", 30, async |_| {
            !log.lines("no dynamic nodepools found").is_empty()
        })
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let events = simulation.events("FailedScheduling").await;
    let ours = |event: &&k8s_openapi::api::core::v1::Event| {
        event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("karpenter")
    };
    assert_eq!(events.iter().filter(ours).count(), 0);
    assert!(simulation.claims().await.is_empty());
    // The decision is booked all the same: a failure, once per pod.
    let decided = "karpenter_pods_scheduling_decision_duration_seconds_count";
    assert_eq!(metric::value(&simulation, decided), Some(2.0));
    for pod in simulation.pods().await {
        let name = pod.metadata.name.unwrap_or_default();
        let time = times_of(&simulation, &name);
        assert!(
            time.is_some_and(|time| time.decided.is_some() && time.schedulable.is_none()),
            "{name}"
        );
    }
    // A pool that is created later gets them when they trigger again.
    simulation.pool("web", json!({})).await;
    simulation.until_running(2, 60).await;
    simulation.stop().await;
}

// SCH-013, SCH-052
#[tokio::test(start_paused = true)]
async fn unbound_pods_of_every_namespace_get_machines_and_nobody_is_bound() {
    let sandbox = sandbox(false).await;
    let (client, faults) = sandbox.client_with_faults("controller");
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    create::<Namespace>(&simulation.client(), json!({"metadata": {"name": "other"}})).await;
    simulation.pool("web", json!({})).await;
    create_unschedulable(&simulation.client(), "default", pod("a", "1")).await;
    create_unschedulable(&simulation.client(), "other", pod("b", "2")).await;
    let mut bound = pod("bound", "4");
    bound["spec"]["nodeName"] = json!("elsewhere");
    create_unschedulable(&simulation.client(), "default", bound).await;
    simulation
        .until("a node", 60, async |s| !s.nodes().await.is_empty())
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(cpu_claimed(&simulation).await, 3000);
    let pods: Api<Pod> = Api::all(simulation.client());
    for pod in pods.list(&ListParams::default()).await.expect("listed") {
        let node = pod.spec.and_then(|spec| spec.node_name);
        let expected = (pod.metadata.name.as_deref() == Some("bound")).then(|| "elsewhere".to_owned());
        assert_eq!(node, expected);
    }
    let bindings = faults.trace().into_iter().filter(|call| call.contains("/binding"));
    assert_eq!(bindings.count(), 0);
    simulation.stop().await;
}

// SCH-025, SCH-035, SCH-045, SCH-046
#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_goes_get_a_place_before_they_are_evicted() {
    let simulation = Simulation::with_one_pod(json!({}), json!({})).await;
    // It may not be evicted now, though no budget blocks it for good (SCH-030).
    budget(&simulation, "web", json!({"minAvailable": 1})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let old = simulation.some_claim().await;
    let uids = async || -> BTreeSet<_> {
        let pods = simulation.pods().await;
        pods.into_iter().map(|pod| pod.metadata.uid).collect()
    };
    let before = uids().await;
    simulation.delete::<NodeClaim>(&old).await;
    simulation.until_claims(2, 30).await;
    // It has room left, but one that goes is no target.
    simulation.deployment("late", 1, "100m", json!({})).await;
    simulation.until_running(2, 60).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        simulation.claims().await.len(),
        2,
        "once for each need\n{}",
        simulation.picture().await
    );
    assert!(before.is_subset(&uids().await), "the pod was not evicted");
    simulation.stop().await;
}

// SCH-035, DIS-286: the node triggers again every ten seconds while it is tainted.
#[tokio::test(start_paused = true)]
async fn a_draining_node_triggers_again_when_there_was_no_room() {
    let simulation = Simulation::with_one_pod(json!({"limits": {"nodes": "1"}}), json!({})).await;
    budget(&simulation, "web", json!({"minAvailable": 1})).await;
    simulation
        .patch::<NodePool>("web", json!({"spec": {"limits": {"cpu": "0"}}}))
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let old = simulation.some_claim().await;
    simulation.delete::<NodeClaim>(&old).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(simulation.claims().await.len(), 1, "no room");
    simulation
        .patch::<NodePool>("web", json!({"spec": {"limits": null}}))
        .await;
    simulation.until_claims(2, 12).await;
    simulation.stop().await;
}

// SCH-035: a deletion timestamp alone is no trigger, and neither is a taint of another effect.
#[tokio::test(start_paused = true)]
async fn nothing_to_place_means_no_solve() {
    let simulation = Simulation::with_one_pod(json!({}), json!({})).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let solves = "karpenter_scheduler_scheduling_duration_seconds_count{controller=\"provisioner\"}";
    let before = metric::value(&simulation, solves);
    // A tainted node whose pods stay triggers passes in which there is nothing to place (SCH-045).
    let node = simulation
        .nodes()
        .await
        .pop()
        .and_then(|node| node.metadata.name)
        .expect("one");
    let taint = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    simulation.patch::<k8s_openapi::api::core::v1::Node>(&node, taint).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(metric::value(&simulation, solves), before);
    simulation.stop().await;
}

// SCH-044, OPS-061
#[tokio::test(start_paused = true)]
async fn a_batch_that_closes_unsynced_is_dropped_and_comes_again() {
    let sandbox = sandbox(true).await;
    // A claim that an earlier process created; its launch takes a minute.
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let claim = json!({"metadata": {"name": "orphan", "labels": {"karpenter.sh/nodepool": "web"}}, "spec": {
        "nodeClassRef": class, "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]}]}});
    create::<NodeClaim>(&sandbox.client(), claim).await;
    let log = CapturedLog::start();
    let client = sandbox.client();
    let simulation = Simulation::join_around(
        sandbox,
        client,
        |_| {},
        |provider| {
            let faulty = FaultyProvider::scripted(provider);
            faulty.next(Call::Create, Fault::Slow(Duration::from_secs(60)));
            Arc::new(faulty)
        },
    );
    simulation.pool("web", json!({})).await;
    simulation
        .deployment("web", 1, "1", json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}}))
        .await;
    simulation
        .until("a dropped batch", 30, async |_| {
            !log.lines("waiting on cluster sync").is_empty()
        })
        .await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(simulation.claims().await.len(), 1, "no pass ran");
    // Once it is launched the pod triggers again by itself, within ten seconds.
    simulation
        .until("the launch", 60, async |s| {
            s.claims()
                .await
                .iter()
                .all(|claim| claim.status.as_ref().is_some_and(|status| status.provider_id.is_some()))
        })
        .await;
    simulation.until_claims(2, 12).await;
    simulation.stop().await;
}

/// The scheduling times of a pod in the namespace `default`.
fn times_of(simulation: &Simulation, pod: &str) -> Option<PodTime> {
    let cluster = &simulation.context.cluster;
    cluster.with_times(|times| times.get("default", pod).cloned())
}

/// A disruption budget for an app.
pub(crate) async fn budget(simulation: &Simulation, app: &str, rule: Value) {
    let mut spec = json!({"selector": {"matchLabels": {"app": app}}});
    for (key, value) in rule.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let object = json!({"metadata": {"name": app}, "spec": spec});
    create_in::<PodDisruptionBudget>(&simulation.client(), "default", object).await;
}

// SCH-469
#[tokio::test(start_paused = true)]
async fn pods_that_cannot_leave_their_node_are_not_moved_ahead_of_time() {
    for protection in ["budget", "annotation"] {
        let simulation = Simulation::with_pool(json!({})).await;
        simulation.deployment("web", 1, "1", json!({})).await;
        simulation.until_running(1, 60).await;
        if protection == "budget" {
            budget(&simulation, "web", json!({"maxUnavailable": 0})).await;
        } else {
            let pods: Api<Pod> = Api::namespaced(simulation.client(), "default");
            let name = simulation
                .pods()
                .await
                .pop()
                .and_then(|pod| pod.metadata.name)
                .expect("one");
            let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
            pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .expect("patched");
        }
        // This one needs no leave; that it can go nowhere else is no fault of validation, which it is spared.
        let node = simulation
            .nodes()
            .await
            .pop()
            .and_then(|node| node.metadata.name)
            .expect("one");
        let mut pinned = pod("pinned", "100m");
        pinned["metadata"]["labels"] = json!({"app": "pinned"});
        pinned["spec"]["nodeName"] = json!(node);
        pinned["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}});
        create_in::<Pod>(&simulation.client(), "default", pinned).await;
        budget(&simulation, "pinned", json!({"minAvailable": 1})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let claim = simulation.some_claim().await;
        simulation.delete::<NodeClaim>(&claim).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(simulation.claims().await.len(), 1, "{protection}");
        assert_eq!(
            metric::value(&simulation, "karpenter_scheduler_ignored_pods_count"),
            Some(0.0)
        );
        let unschedulable = metric::value(
            &simulation,
            "karpenter_scheduler_unschedulable_pods_count{controller=\"provisioner\"}",
        );
        assert_eq!(unschedulable, Some(1.0));
        // SCH-081
        let time = simulation
            .context
            .cluster
            .with_times(|times| times.get("default", "pinned").cloned());
        assert_eq!(time, None);
        simulation.stop().await;
    }
}

// SCH-467
#[tokio::test(start_paused = true)]
async fn limits_count_what_stays_and_are_used_up_within_a_pass() {
    let simulation = Simulation::with_pool(json!({"limits": {"nodes": "2"}})).await;
    simulation.deployment("web", 3, "1", alone("web")).await;
    simulation.until_running(2, 60).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(simulation.claims().await.len(), 2);
    let failed = simulation.events("FailedScheduling").await;
    let exhausted = "node limits have been exhausted for nodepool (NodePool=web)";
    assert!(failed.iter().any(|event| {
        event
            .message
            .as_deref()
            .is_some_and(|message| message.contains(exhausted))
    }));
    // A node that goes does not count, although it is still there.
    budget(&simulation, "web", json!({"minAvailable": 3})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let old = simulation.some_claim().await;
    simulation.delete::<NodeClaim>(&old).await;
    simulation.until_claims(3, 30).await;
    simulation.stop().await;
}

// SCH-323
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_written_is_known_counted_and_told_of() {
    let log = CapturedLog::start();
    let simulation = Simulation::with_pool(json!({})).await;
    simulation.deployment("web", 2, "1", json!({})).await;
    simulation
        .until("a claim", 30, async |s| !s.context.cluster.claims().is_empty())
        .await;
    let claim = simulation
        .context
        .cluster
        .claims()
        .pop()
        .and_then(|claim| claim.metadata.name.clone())
        .expect("one");
    let lines = log.lines("created nodeclaim");
    assert_eq!(
        (lines.len(), &lines[0]["NodeClaim"], &lines[0]["NodePool"]),
        (1, &json!({"name": claim}), &json!({"name": "web"}))
    );
    assert_eq!(lines[0]["requests"]["cpu"], "2", "{}", lines[0]);
    assert!(
        lines[0]["instance-types"]
            .as_str()
            .is_some_and(|types| types.ends_with("other(s)")),
        "{}",
        lines[0]
    );
    let created =
        "karpenter_nodeclaims_created_total{min_values_relaxed=\"false\",nodepool=\"web\",reason=\"provisioned\"}";
    assert_eq!(metric::value(&simulation, created), Some(1.0));
    let expected = format!("Pod should schedule on: nodeclaim/{claim}");
    simulation
        .until("the nominations", 5, async |s| {
            let nominated = s.events("Nominated").await;
            nominated
                .iter()
                .filter(|event| event.message.as_deref() == Some(&*expected))
                .count()
                == 2
        })
        .await;
    for pod in simulation.pods().await {
        let name = pod.metadata.name.unwrap_or_default();
        let time = times_of(&simulation, &name);
        assert_eq!(time.and_then(|time| time.claim).as_deref(), Some(&*claim));
    }
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn plans_are_measured_against_their_bound_at_most_once_in_five_minutes() {
    let gap = |simulation: &Simulation| metric::value(simulation, "kerf_plan_gap_ratio");
    let simulation = Simulation::with_pool(json!({})).await;
    // The bound leaves out that the pods need a node in each zone.
    for number in 0..5 {
        let mut pod = pod(&format!("one-{number}"), "100m");
        pod["metadata"]["labels"] = json!({"app": "one"});
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "one"}},
        }]);
        create_unschedulable(&simulation.client(), "default", pod).await;
    }
    simulation.until_running(5, 60).await;
    let first = gap(&simulation).expect("a plan was measured");
    assert!(first > 1.0 && first < 5.0, "{first}");
    // A single pod on the cheapest node that has room for it costs as little as the bound.
    create_unschedulable(&simulation.client(), "default", pod("two", "1500m")).await;
    simulation.until_running(6, 30).await;
    assert_eq!(gap(&simulation), Some(first), "five minutes have not passed");
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    let second = gap(&simulation).expect("the second plan was measured");
    assert!(second < first, "{second} instead of less than {first}");
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn plans_are_not_measured_without_observability() {
    let simulation = Simulation::start_with(|options| options.disable_cluster_state_observability = true).await;
    simulation.pool("web", json!({})).await;
    create_unschedulable(&simulation.client(), "default", pod("one", "1500m")).await;
    simulation.until_running(1, 60).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(metric::count(&simulation, "kerf_plan_gap_ratio"), 0);
    simulation.stop().await;
}
