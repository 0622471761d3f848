//! API servers that do not know what newer ones offer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::json;

use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::emptiness::apart;
use crate::simulation::harness::Simulation;
use crate::simulation::logs::Logs;

/// Whether a request asks for a streaming list: beta from Kubernetes 1.32 on, refused as invalid before.
fn is_streaming_list(request: &Request<Body>) -> bool {
    let query = request.uri().query();
    query.is_some_and(|query| query.contains("sendInitialEvents=true"))
}

/// What Kubernetes 1.29 answers to requests that need a newer server, and what a server answers to requests about kinds that only Kerf and
/// newer versions of Karpenter install.
fn as_1_29(request: &Request<Body>) -> CallFault {
    if is_streaming_list(request) {
        return CallFault::Refused(StatusCode::UNPROCESSABLE_ENTITY);
    }
    let unknown = [
        "/apis/autoscaling.x-k8s.io/",
        "/apis/kerf.sh/",
        "/apis/resource.k8s.io/",
    ];
    match unknown.iter().any(|group| request.uri().path().starts_with(group)) {
        true => CallFault::Refused(StatusCode::NOT_FOUND),
        false => CallFault::None,
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_run_on_kubernetes_1_29() {
    let simulation = Simulation::start().await;
    let pool = json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}});
    simulation.pool("web", pool).await;
    let (logs, faults) = (Logs::listen(), ApiFaults::new());
    let streamed = Arc::<Mutex<BTreeMap<String, usize>>>::default();
    let counted = Arc::clone(&streamed);
    faults.rule(move |request| {
        if is_streaming_list(request) {
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            *counted.entry(request.uri().path().to_owned()).or_default() += 1;
        }
        as_1_29(request)
    });
    let sandbox = simulation.crash().await;
    let client = faults.client(&sandbox);
    let simulation = Simulation::join_as(sandbox, client, |options| options.feature_gates.node_repair = true);
    simulation.deployment("web", 2, "1", apart("web")).await;
    simulation.until_running(2, 180).await;
    // Long enough for watches to list again.
    tokio::time::sleep(Duration::from_secs(1500)).await;
    simulation.scale("web", 0).await;
    simulation.until_claims(0, 300).await;
    assert_eq!(logs.with("ERROR"), [""; 0]);
    let streamed = streamed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(streamed.contains_key("/api/v1/pods"), "{streamed:?}");
    assert!(
        streamed.values().all(|count| *count == 1),
        "a refusal is remembered: {streamed:?}"
    );
    simulation.stop().await;
}
