//! What goes around a provider: measurement and faults.

use jiff::Timestamp;
use kerf_api::NodeClaim;
use kerf_cloud::{
    Call, CloudError, CloudProvider, FakeCloud, Fault, FaultRates, FaultyProvider, InterruptionKind, MeteredProvider,
    Method, TypeBuilder,
};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::{Interner, sym};
use kerf_model::price::Price;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

fn cloud() -> Arc<FakeCloud> {
    let interner = Arc::new(Interner::default());
    let kind = TypeBuilder::new(&interner, "a")
        .capacity(sym::CPU, 4000)
        .offering("zone-a", "on-demand", Price::ZERO)
        .build();
    Arc::new(FakeCloud::new(interner, Arc::new(Catalogue { types: vec![kind] })))
}

fn claim(name: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "default"}},
        "status": {"providerID": format!("fake://{name}")},
    }))
    .expect("a claim")
}

/// A small generator with a fixed start.
fn seeded() -> impl Fn(u64) -> u64 + Send + Sync {
    let state = AtomicU64::new(1);
    move |bound| {
        let next = state
            .load(Ordering::SeqCst)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.store(next, Ordering::SeqCst);
        (next >> 33) % bound.max(1)
    }
}

// LIF-021, LIF-074, LIF-075
#[tokio::test]
async fn launching_twice_gives_one_instance_and_deleting_ends_in_not_found() {
    let cloud = cloud();
    let claim = claim("c1");
    let first = cloud.create(&claim).await.expect("launched");
    assert_eq!(cloud.create(&claim).await, Ok(first));
    assert_eq!(cloud.list().await.map(|all| all.len()), Ok(1));
    assert_eq!(cloud.delete(&claim).await, Ok(()));
    assert!(cloud.get("fake://c1").await.is_err_and(|error| error.is_not_found()));
    assert_eq!(
        cloud.delete(&claim).await,
        Err(CloudError::not_found("instance terminated"))
    );
    assert_eq!(cloud.list().await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn scripted_faults_strike_once_each_in_order() {
    let faulty = FaultyProvider::scripted(cloud());
    faulty.next(Method::Create, Fault::InsufficientCapacity);
    faulty.next(Method::Create, Fault::AnswerLost);
    faulty.next(Method::Create, Fault::Slow(Duration::from_secs(30)));
    faulty.next(Method::List, Fault::Throttled);
    let claim = claim("c1");
    assert!(matches!(
        faulty.create(&claim).await,
        Err(CloudError::InsufficientCapacity(_))
    ));
    assert!(matches!(faulty.list().await, Err(CloudError::Retryable { .. })));
    assert_eq!(faulty.list().await.map(|all| all.len()), Ok(0));
    assert!(matches!(faulty.create(&claim).await, Err(CloudError::Retryable { .. })));
    assert_eq!(
        faulty.list().await.map(|all| all.len()),
        Ok(1),
        "the lost launch happened"
    );
    let start = Instant::now();
    assert!(faulty.create(&claim).await.is_ok());
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    assert_eq!(faulty.list().await.map(|all| all.len()), Ok(1));
}

#[tokio::test]
async fn a_vanished_instance_is_gone_for_every_call() {
    let faulty = FaultyProvider::scripted(cloud());
    faulty.next(Method::Create, Fault::Vanish);
    assert!(faulty.create(&claim("c1")).await.is_ok());
    assert!(faulty.create(&claim("c2")).await.is_ok());
    let ids = |all: Vec<kerf_cloud::Launched>| all.into_iter().map(|one| one.provider_id).collect::<Vec<_>>();
    assert_eq!(faulty.list().await.map(ids), Ok(vec!["fake://c2".to_owned()]));
    assert!(faulty.get("fake://c1").await.is_err_and(|error| error.is_not_found()));
    assert!(
        faulty
            .delete(&claim("c1"))
            .await
            .is_err_and(|error| error.is_not_found())
    );
}

#[tokio::test]
async fn drawn_faults_are_the_same_for_the_same_seed() {
    let rates = FaultRates {
        insufficient_capacity: 200,
        throttled: 100,
        answer_lost: 100,
        ..FaultRates::default()
    };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let faulty = FaultyProvider::random(cloud(), rates, seeded());
        let mut outcomes = Vec::new();
        for n in 0..100 {
            outcomes.push(faulty.create(&claim(&format!("c{n}"))).await.is_ok());
        }
        runs.push(outcomes);
    }
    assert_eq!(runs[0], runs[1]);
    let succeeded = runs[0].iter().filter(|ok| **ok).count();
    assert!((40..90).contains(&succeeded), "{succeeded}");
}

// OPS-167, OPS-168
#[tokio::test(start_paused = true)]
async fn calls_are_measured_with_their_controller_and_error() {
    let faulty = Arc::new(FaultyProvider::scripted(cloud()));
    faulty.next(Method::Create, Fault::InsufficientCapacity);
    faulty.next(Method::Get, Fault::Slow(Duration::from_secs(2)));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&calls);
    let observer = move |call: Call| sink.lock().expect("not poisoned").push(call);
    let metered = MeteredProvider::new(faulty, Arc::new(observer), "nodeclaim.lifecycle");
    let _ = metered.create(&claim("c1")).await;
    let _ = metered.create(&claim("c1")).await;
    let _ = metered
        .for_controller("nodeclaim.garbagecollection")
        .get("fake://c1")
        .await;
    let seen: Vec<_> = calls
        .lock()
        .expect("not poisoned")
        .iter()
        .map(|call| {
            (
                call.controller,
                call.method.as_str(),
                call.provider,
                call.took.as_secs(),
                call.error,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (
                "nodeclaim.lifecycle",
                "Create",
                "fake",
                0,
                Some("InsufficientCapacityError")
            ),
            ("nodeclaim.lifecycle", "Create", "fake", 0, None),
            ("nodeclaim.garbagecollection", "Get", "fake", 2, None),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn signals_reach_through_the_decorators() {
    let cloud = cloud();
    let metered = MeteredProvider::new(
        Arc::new(FaultyProvider::scripted(Arc::<FakeCloud>::clone(&cloud))),
        Arc::new(|_: Call| {}),
        "interruption",
    );
    cloud.signals.raise(
        InterruptionKind::ScheduledChange,
        ["fake://c1".to_owned()],
        Timestamp::UNIX_EPOCH,
    );
    let signals = metered.interruptions().await.expect("signals");
    assert_eq!(signals[0].kind, InterruptionKind::ScheduledChange);
    metered.acknowledge(&signals[0]).await.expect("acknowledged");
    assert!(
        tokio::time::timeout(Duration::from_secs(60), metered.interruptions())
            .await
            .is_err()
    );
}
