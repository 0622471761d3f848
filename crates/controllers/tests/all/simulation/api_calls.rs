//! How many calls to the API server the life of a machine takes, and that none writes while nothing changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::api::core::v1::Event;
use kube::client::Body;
use serde_json::json;

use crate::simulation::api_faults::{ApiFaults, CallFault, with_api_faults};
use crate::simulation::emptiness::apart;
use crate::simulation::harness::{Simulation, list_in};
use crate::simulation::logs::Logs;

/// Counts the calls of a client as `METHOD resource[/subresource]`; a GET of many objects is a `LIST`. Watches are not counted.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<String, usize>>>);

impl Calls {
    fn follow(faults: &ApiFaults) -> Self {
        let calls = Self::default();
        let counted = calls.clone();
        faults.rule(move |request| {
            if let Some(call) = call(request) {
                *counted.lock().entry(call).or_default() += 1;
            }
            CallFault::None
        });
        calls
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often a call was made.
    fn of(&self, call: &str) -> usize {
        self.lock().get(call).copied().unwrap_or(0)
    }

    /// The calls that write, without the lease.
    fn writes(&self) -> BTreeMap<String, usize> {
        let mut calls = self.lock().clone();
        let reads = ["GET", "LIST"];
        calls.retain(|call, _| !reads.iter().any(|read| call.starts_with(read)) && !call.contains("leases"));
        calls
    }
}

fn call(request: &Request<Body>) -> Option<String> {
    let uri = request.uri();
    if uri.query().is_some_and(|query| query.contains("watch=")) {
        return None;
    }
    let mut parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let skipped = if parts.first() == Some(&"api") { 2 } else { 3 };
    parts.drain(..skipped.min(parts.len()));
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    let method = match (request.method(), parts.len()) {
        (&Method::GET, 1) => "LIST",
        (method, _) => method.as_str(),
    };
    let subresource = parts.get(2).map(|name| format!("/{name}")).unwrap_or_default();
    Some(format!("{method} {}{subresource}", parts.first()?))
}

#[tokio::test(start_paused = true)]
async fn the_life_of_a_machine_takes_few_calls() {
    let (simulation, faults) = with_api_faults(Simulation::start().await, |_| {}).await;
    let pool = json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty"}});
    simulation.pool("web", pool).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let of_pools = |path: &String| path.contains("/nodepools/");
    let conflicts: Vec<String> = faults.conflicts().into_iter().filter(of_pools).collect();
    assert_eq!(conflicts, [""; 0], "the first writes of a pool follow one another");
    let (logs, calls) = (Logs::listen(), Calls::follow(&faults));
    simulation.deployment("web", 1, "1", apart("web")).await;
    simulation.until_running(1, 120).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    simulation.scale("web", 0).await;
    simulation.until_claims(0, 300).await;
    tokio::time::sleep(Duration::from_secs(60)).await;

    let all = calls.lock().clone();
    println!("{all:?}");
    assert_eq!(calls.of("POST nodeclaims"), 1, "{all:?}");
    assert_eq!(calls.of("DELETE nodeclaims"), 1, "{all:?}");
    // The labels of the launch, and the finalizer at the end.
    assert_eq!(calls.of("PATCH nodeclaims"), 2, "{all:?}");
    assert!(calls.of("PATCH nodeclaims/status") <= STATUS_PATCHES, "{all:?}");
    assert_eq!(calls.of("GET nodeclaims"), 0, "{all:?}");
    assert!(calls.of("GET nodes") <= NODE_READS, "{all:?}");
    assert!(calls.of("LIST pods") <= POD_LISTS, "{all:?}");
    for text in ["node again", "list came back", "lost events"] {
        assert_eq!(logs.with(text), [""; 0], "{text}");
    }
    simulation.stop().await;
}

/// Three until it is initialized: launch, registration, and initialization, which counts as the first pod event. Then `Consolidatable`
/// comes, the pod's end removes it, and it comes again. Two at the end: `DisruptionReason`, and the end of the drain with that of the
/// instance.
const STATUS_PATCHES: usize = 8;
/// The end of the claim asks whether its Node is gone. Writes of Nodes begin with what the cluster knows; one meets a Node that its kubelet changes.
const NODE_READS: usize = 2;
/// One before the instance ends; the watch check compares every 40 s.
const POD_LISTS: usize = 6;

#[tokio::test(start_paused = true)]
async fn the_life_of_five_hundred_pods_takes_few_calls() {
    let (simulation, faults) = with_api_faults(Simulation::start().await, |_| {}).await;
    let sizes = json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["9"]});
    let pool = json!({
        "template": {"spec": {"requirements": [sizes]}},
        "disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"},
    });
    simulation.pool("web", pool).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    faults.forget();
    let calls = Calls::follow(&faults);
    simulation.deployment("web", 500, "900m", json!({})).await;
    simulation.until_running(500, 300).await;
    simulation.scale("web", 200).await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    simulation.until_running(200, 300).await;
    simulation.scale("web", 0).await;
    simulation.until_claims(0, 900).await;
    tokio::time::sleep(Duration::from_secs(60)).await;

    let (all, conflicts) = (calls.lock().clone(), faults.conflicts());
    let claims = calls.of("POST nodeclaims");
    println!("{claims} claims, {} conflicts {conflicts:?}: {all:?}", conflicts.len());
    assert!(claims > 40, "{all:?}");
    let of_claims = |call: &&String| call.contains("/nodeclaims/");
    let of_claims: Vec<&String> = conflicts.iter().filter(of_claims).collect();
    assert_eq!(of_claims, [""; 0], "no write of Kerf meets another one of it");
    let patches = calls.of("PATCH nodeclaims/status");
    // Pods leave most nodes twice; each time ends `Consolidatable`, which comes back later.
    let most = (STATUS_PATCHES + 2) * claims;
    assert!(patches <= most, "{patches} for {claims} claims: {all:?}");
    let patches = calls.of("PATCH nodeclaims");
    assert!(patches <= 2 * claims, "{patches} for {claims} claims: {all:?}");
    assert!(calls.of("DELETE nodeclaims") <= claims, "{all:?}");
    simulation.stop().await;
}

/// Events that are written again while nothing changes, with the shortest time in seconds between two of one object.
const REPEATED_EVENTS: [(&str, u64); 1] = [("Unconsolidatable", 15 * 60)];

/// How often each Event was written, by uid, with its reason.
async fn written_events(simulation: &Simulation) -> BTreeMap<String, (String, i32)> {
    let events: Vec<Event> = list_in(&simulation.client(), "default").await;
    let events = events.into_iter().filter_map(|event| {
        let reported = event.reporting_component.as_deref() == Some("karpenter");
        let uid = event.metadata.uid.filter(|_| reported)?;
        Some((uid, (event.reason.unwrap_or_default(), event.count.unwrap_or(1))))
    });
    events.collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_at_rest() {
    const REST: u64 = 1800;
    const NODES: usize = 3;
    let simulation = Simulation::start().await;
    let pool = json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}});
    simulation.populate(NODES, pool).await;
    let (simulation, faults) = with_api_faults(simulation, |_| {}).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = written_events(&simulation).await;
    let calls = Calls::follow(&faults);
    tokio::time::sleep(Duration::from_secs(REST)).await;
    let mut writes = calls.writes();
    let event_calls = writes.remove("POST events").unwrap_or(0) + writes.remove("PATCH events").unwrap_or(0);
    assert_eq!(writes, BTreeMap::new());
    // The only thing that is said again is why nodes stay, at its pace.
    let mut repeated: BTreeMap<String, usize> = BTreeMap::new();
    for (uid, (reason, count)) in written_events(&simulation).await {
        let known = before.get(&uid).map_or(0, |(_, count)| *count);
        let more = usize::try_from(count - known).expect("a count does not fall");
        if more > 0 {
            *repeated.entry(reason).or_default() += more;
        }
    }
    println!("{event_calls} calls about Events: {repeated:?}");
    assert_eq!(repeated.values().sum::<usize>(), event_calls, "{repeated:?}");
    let expected: BTreeSet<&str> = REPEATED_EVENTS.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(repeated.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    for (reason, seconds) in REPEATED_EVENTS {
        let times = usize::try_from(REST / seconds).expect("few") + 1;
        // One about the Node, one about its NodeClaim.
        let most = 2 * NODES * times;
        assert!(
            repeated[reason] <= most,
            "{reason}: {} times, at most {most}",
            repeated[reason]
        );
    }
    simulation.stop().await;
}
