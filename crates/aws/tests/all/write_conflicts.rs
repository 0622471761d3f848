//! The controllers meet objects that others change or delete between a read and a write.

use crate::class_controllers::{complete_world, put_claim, put_new, reserved};
use crate::world::{CAPACITY, World, plain_claim, ready_class, world};
use kerf_api::{EC2NodeClass, NodeClaim};
use kerf_aws::controllers::{NodeClassController, correct_capacity_types};
use kerf_cloud::CloudProvider;
use kerf_runtime::Outcome;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;

const OURS: &str = "karpenter.k8s.aws/termination";
const AT_ONCE: Outcome = Outcome::RequeueAfter(Duration::ZERO);

/// Reconciles the class `nodes` while another writer changes its metadata after it was read. `join!` polls in this order, and the API server
/// answers in the order of the requests: the change comes between the first request of the controller and the second.
async fn reconcile_during(world: &World, controller: &NodeClassController, metadata: Value) -> Outcome {
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"metadata": metadata})));
    let (outcome, changed) = futures::join!(controller.reconcile("nodes"), api.patch("nodes", &params, &patch));
    changed.unwrap();
    outcome.unwrap()
}

// AWS-056, AWS-057
#[tokio::test(start_paused = true)]
async fn a_class_that_others_change_is_read_again_at_once() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    let get = async || -> EC2NodeClass { Api::all(world.client.clone()).get("nodes").await.unwrap() };
    let other = json!({"finalizers": ["others/one"]});
    assert_eq!(reconcile_during(&world, &controller, other).await, AT_ONCE);
    assert_eq!(
        get().await.finalizers(),
        ["others/one"],
        "no finalizer of others is lost"
    );
    let both = json!({"finalizers": ["others/one", OURS]});
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let patch = Patch::Merge(json!({"metadata": both}));
    api.patch("nodes", &PatchParams::default(), &patch).await.unwrap();
    let labels = json!({"labels": {"changed": "true"}});
    assert_eq!(reconcile_during(&world, &controller, labels).await, AT_ONCE);
    assert!(
        get().await.status.is_empty(),
        "the status of what was read is not written"
    );
    controller.reconcile("nodes").await.unwrap();
    let class = get().await;
    assert_eq!(class.finalizers(), ["others/one", OURS]);
    assert_eq!(class.status.subnets.len(), 2);
    // The end: our finalizer goes, under the lock as well.
    api.delete("nodes", &DeleteParams::default()).await.unwrap();
    let more = json!({"labels": {"changed": "again"}});
    assert_eq!(reconcile_during(&world, &controller, more).await, AT_ONCE);
    assert_eq!(get().await.finalizers(), ["others/one", OURS]);
    assert_eq!(controller.reconcile("nodes").await.unwrap(), Outcome::Done);
    assert_eq!(get().await.finalizers(), ["others/one"]);
}

// OPS-105
#[tokio::test(start_paused = true)]
async fn a_class_that_goes_meanwhile_is_no_error() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let params = DeleteParams::default();
    let (outcome, deleted) = futures::join!(controller.reconcile("nodes"), api.delete("nodes", &params));
    deleted.unwrap();
    assert_eq!(outcome.unwrap(), Outcome::Done);
    assert!(
        world.aws.account().profiles.is_empty(),
        "nothing is made for a class that is gone"
    );
}

// AWS-278
#[tokio::test(start_paused = true)]
async fn only_a_conflict_makes_another_pass_over_reservations_due() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let api = Api::<NodeClaim>::all(world.client.clone());
    let mut claim = reserved("a", "cr-1");
    let launched = world.provider.create(&plain_claim("a")).await.unwrap();
    claim.status = serde_json::from_value(json!({"providerID": launched.provider_id})).unwrap();
    put_claim(&world, &claim).await;
    let (params, patch) = (
        PatchParams::default(),
        Patch::Merge(json!({"metadata": {"labels": {"mine": "1"}}})),
    );
    let (stale, changed) = futures::join!(correct_capacity_types(&world.cloud), api.patch("a", &params, &patch));
    changed.unwrap();
    assert!(stale.unwrap());
    assert_eq!(api.get("a").await.unwrap().labels()[CAPACITY], "reserved");
    let params = DeleteParams::default();
    let (stale, deleted) = futures::join!(correct_capacity_types(&world.cloud), api.delete("a", &params));
    deleted.unwrap();
    assert!(!stale.unwrap(), "a claim that is gone needs no other pass");
}
