//! API servers that do not know what newer ones offer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::json;

use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::emptiness::apart;
use crate::simulation::harness::Simulation;
use crate::simulation::logs::Logs;

/// Whether a request asks for a streaming list; a server without the feature refuses it as invalid.
fn is_streaming_list(request: &Request<Body>) -> bool {
    let query = request.uri().query();
    query.is_some_and(|query| query.contains("sendInitialEvents=true"))
}

/// A version of Kubernetes, and what it lacks by default of what Kerf asks for.
#[derive(Clone, Copy)]
struct Version {
    minor: u32,
    /// The feature gate `WatchList`: alpha since 1.27, on in 1.32, off again in 1.33, on since 1.34.
    streams_lists: bool,
}

const fn version(minor: u32, streams_lists: bool) -> Version {
    Version { minor, streams_lists }
}

/// The versions Kerf runs on. All other calls are of API versions that all of these serve.
const VERSIONS: [Version; 8] = [
    version(29, false),
    version(30, false),
    version(31, false),
    version(32, true),
    version(33, false),
    version(34, true),
    version(35, true),
    version(36, true),
];

/// The API groups and versions that Kerf calls and Kubernetes itself serves. Each of them is served since 1.21.
const BUILT_IN: [&str; 5] = [
    "/api/v1/",
    "/apis/apps/v1/",
    "/apis/policy/v1/",
    "/apis/storage.k8s.io/v1/",
    "/apis/coordination.k8s.io/v1/",
];
/// Those of CustomResourceDefinitions that an installation of Karpenter has.
const KARPENTER: [&str; 3] = [
    "/apis/karpenter.sh/v1/",
    "/apis/karpenter.sh/v1alpha1/",
    "/apis/karpenter.kwok.sh/v1alpha1/",
];
/// Those that only Kerf and newer versions of Karpenter install.
const MISSING: [&str; 2] = ["/apis/autoscaling.x-k8s.io/", "/apis/kerf.sh/"];

impl Version {
    /// What such a server answers where Kerf's own definitions are not installed.
    fn answer(self, request: &Request<Body>) -> CallFault {
        if is_streaming_list(request) && !self.streams_lists {
            return CallFault::Refused(StatusCode::UNPROCESSABLE_ENTITY);
        }
        let path = request.uri().path();
        match MISSING.iter().any(|group| path.starts_with(group)) {
            true => CallFault::Refused(StatusCode::NOT_FOUND),
            false => CallFault::None,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_run_on_every_version_from_1_29_to_1_36() {
    for version in VERSIONS {
        run_on(version).await;
    }
}

async fn run_on(version: Version) {
    let name = format!("Kubernetes 1.{}", version.minor);
    let simulation = Simulation::start().await;
    let pool = json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}});
    simulation.pool("web", pool).await;
    let (logs, faults) = (Logs::listen(), ApiFaults::new());
    let streamed = Arc::<Mutex<BTreeMap<String, usize>>>::default();
    let unexpected = Arc::<Mutex<BTreeSet<String>>>::default();
    let (counted, beyond) = (Arc::clone(&streamed), Arc::clone(&unexpected));
    faults.rule(move |request| {
        let path = request.uri().path();
        if is_streaming_list(request) {
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            *counted.entry(path.to_owned()).or_default() += 1;
        }
        let mut known = BUILT_IN.iter().chain(&KARPENTER).chain(&MISSING);
        if !known.any(|group| path.starts_with(group)) {
            let mut beyond = beyond.lock().unwrap_or_else(PoisonError::into_inner);
            beyond.insert(path.to_owned());
        }
        version.answer(request)
    });
    let sandbox = simulation.crash().await;
    let client = faults.client(&sandbox);
    let simulation = Simulation::join_as(sandbox, client, |options| {
        options.feature_gates.node_repair = true;
        options.feature_gates.node_overlay = true;
        options.feature_gates.static_capacity = true;
    });
    simulation.deployment("web", 2, "1", apart("web")).await;
    simulation.until_running(2, 180).await;
    // Long enough for watches to list again.
    tokio::time::sleep(Duration::from_secs(1500)).await;
    simulation.scale("web", 0).await;
    simulation.until_claims(0, 300).await;
    assert_eq!(logs.with("ERROR"), [""; 0], "{name}");
    let beyond = unexpected.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(
        beyond,
        BTreeSet::new(),
        "{name}: calls of which the table does not know who serves them"
    );
    let streamed = streamed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let of_pods = streamed.get("/api/v1/pods").copied().unwrap_or(0);
    if version.streams_lists {
        assert!(of_pods > 1, "{name}: {streamed:?}");
    } else {
        assert_eq!(of_pods, 1, "{name}: {streamed:?}");
        assert!(
            streamed.values().all(|count| *count == 1),
            "{name}: a refusal is remembered: {streamed:?}"
        );
    }
    simulation.stop().await;
}
