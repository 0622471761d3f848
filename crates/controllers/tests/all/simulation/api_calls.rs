//! How many calls to the API server the life of a machine takes, and that none writes while nothing changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use serde_json::json;

use crate::simulation::api_faults::{ApiFaults, CallFault, with_api_faults};
use crate::simulation::emptiness::apart;
use crate::simulation::harness::Simulation;
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

    /// The calls that write, without Events and the lease.
    fn writes(&self) -> BTreeMap<String, usize> {
        let mut calls = self.lock().clone();
        let reads = ["GET", "LIST"];
        calls.retain(|call, _| {
            !reads.iter().any(|read| call.starts_with(read)) && !call.contains("events") && !call.contains("leases")
        });
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

/// Launch, registration, initialization and `Consolidatable` take one each; so do pod events in intervals of ten seconds, which end
/// `Consolidatable` in the same write, `DisruptionReason`, the beginning of the drain, and its end with that of the instance.
const STATUS_PATCHES: usize = 11;
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
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_at_rest() {
    let simulation = Simulation::start().await;
    let pool = json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}});
    simulation.populate(3, pool).await;
    let (simulation, faults) = with_api_faults(simulation, |_| {}).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let calls = Calls::follow(&faults);
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(calls.writes(), BTreeMap::new());
    simulation.stop().await;
}
