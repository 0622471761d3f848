//! Answers of which only a part arrives, and lists in pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kerf_runtime::metrics::catalogue::NODECLAIMS_CREATED;
use kube::client::Body;
use serde_json::json;

use crate::objects::create_in;
use crate::simulation::api_faults::{ApiFaults, CallFault, with_api_faults};
use crate::simulation::emptiness::apart;
use crate::simulation::harness::Simulation;

/// Numbers the requests that a test is about.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn query(request: &Request<Body>) -> &str {
    request.uri().query().unwrap_or_default()
}

fn is_list(request: &Request<Body>) -> bool {
    *request.method() == Method::GET && query(request).contains("limit=")
}

async fn is_synced(simulation: &Simulation) -> bool {
    simulation.context.cluster.is_synced()
}

#[tokio::test(start_paused = true)]
async fn half_an_answer_to_a_create_makes_no_second_claim() {
    let (simulation, faults) = with_api_faults(Simulation::start().await, |_| {}).await;
    simulation.pool("web", json!({})).await;
    let (creates, cut) = (Count::default(), Count::default());
    let (counted, cuts) = (creates.clone(), cut.clone());
    faults.rule(move |request| {
        let is_create = *request.method() == Method::POST && request.uri().path().ends_with("/nodeclaims");
        match is_create && counted.next() % 3 < 2 {
            true => {
                cuts.next();
                CallFault::Cut
            }
            false => CallFault::None,
        }
    });
    simulation.deployment("web", 6, "1", apart("web")).await;
    simulation.until_running(6, 300).await;
    simulation.until_initialized(60).await;
    assert!(cut.get() >= 4, "{} creates, {} of them cut", creates.get(), cut.get());
    assert_eq!(simulation.claims().await.len(), 6);
    assert_eq!(simulation.nodes().await.len(), 6);
    let created = simulation.context.metrics.counter(&NODECLAIMS_CREATED);
    assert_eq!(created.get(&["provisioned", "web", "false"]), 6.0);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn half_a_list_of_any_kind_is_asked_for_again() {
    let simulation = Simulation::start().await;
    simulation
        .populate(
            3,
            json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty"}}),
        )
        .await;
    let (faults, lists) = (ApiFaults::new(), Count::default());
    let counted = lists.clone();
    faults.rule(move |request| match query(request).contains("sendInitialEvents=true") {
        true => CallFault::Refused(StatusCode::UNPROCESSABLE_ENTITY),
        // Two in three are cut.
        false if is_list(request) && counted.next() % 3 < 2 => CallFault::Cut,
        false => CallFault::None,
    });
    let sandbox = simulation.crash().await;
    let client = faults.client(&sandbox);
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    simulation.until("everything is listed", 119, is_synced).await;
    simulation.scale("web", 4).await;
    simulation.until_running(4, 120).await;
    assert!(lists.get() > 30, "{}", lists.get());
    assert_eq!(
        simulation.claims().await.len(),
        4,
        "no machine was taken for an empty one"
    );
    simulation.stop().await;
}

/// More than two pages.
const PODS: usize = 1100;

#[tokio::test(start_paused = true)]
async fn pods_come_in_pages_also_when_a_token_expires_in_between() {
    let simulation = Simulation::start().await;
    simulation.pool("web", json!({})).await;
    for number in 0..PODS {
        // Nobody does anything about a pod that is held back.
        let pod = json!({"metadata": {"name": format!("p{number:04}")}, "spec": {
            "schedulingGates": [{"name": "example.com/hold"}], "containers": [{"name": "main", "image": "app"}]}});
        create_in::<Pod>(&simulation.client(), "default", pod).await;
    }
    let (faults, pages) = (ApiFaults::new(), Count::default());
    let sandbox = simulation.crash().await;
    let (counted, api) = (pages.clone(), sandbox.api().clone());
    faults.rule(move |request| {
        if query(request).contains("sendInitialEvents=true") {
            return CallFault::Refused(StatusCode::UNPROCESSABLE_ENTITY);
        }
        let is_later_page = request.uri().path().ends_with("/pods") && query(request).contains("continue=");
        if is_later_page && counted.next() < 2 {
            // The version that the token names is forgotten.
            api.compact();
        }
        CallFault::None
    });
    let client = faults.client(&sandbox);
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    simulation.until("everything is listed", 119, is_synced).await;
    let known = (0..PODS).filter(|number| {
        simulation
            .context
            .cluster
            .pod("default", &format!("p{number:04}"))
            .is_some()
    });
    assert_eq!(known.count(), PODS);
    assert!(
        pages.get() >= 4,
        "two tokens that are gone, and two pages more: {}",
        pages.get()
    );
    simulation.stop().await;
}
