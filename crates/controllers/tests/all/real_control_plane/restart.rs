//! The controllers are killed during a launch and during a drain; their successors finish it. Nothing leaks, nothing is done twice.

use kerf_api::{Conditioned, NodeClaim};
use serde_json::json;

use crate::real_control_plane::harness::{Cluster, Picture, is_tainted, name, stays, uid};

/// When controllers die: its name, and whether a picture shows it.
type Moment = (&'static str, fn(&Picture) -> bool);

fn is_registering(claim: &NodeClaim) -> bool {
    !claim.condition_is_true("Registered")
}

/// A launch takes two seconds until its Node is there, and one more until that is ready.
const OF_A_LAUNCH: [Moment; 3] = [
    ("the claim is there", |picture| {
        picture.claims.iter().any(is_registering)
    }),
    ("its machine is launched", |picture| {
        let mut claims = picture.claims.iter();
        claims.any(|claim| is_registering(claim) && claim.condition_is_true("Launched"))
    }),
    ("its node is registered", |picture| {
        let mut claims = picture.claims.iter();
        claims.any(|claim| !is_registering(claim) && !claim.condition_is_true("Initialized"))
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_restart_in_the_middle_of_a_launch() {
    let mut cluster = Cluster::start("2s").await;
    let mut controllers = cluster.controllers();
    cluster.pool("web", json!({})).await;
    cluster.deployment("web", 0, json!({})).await;
    for (done, (what, moment)) in OF_A_LAUNCH.into_iter().enumerate() {
        let count = done + 1;
        cluster.scale("web", count).await;
        cluster.until(what, 30, moment).await;
        controllers.crash().await;
        let died = cluster.look().await;
        assert!(!died.is_settled(count), "the controllers died too late: {what}");
        controllers = cluster.controllers();
        cluster
            .until("the next ones end the launch", 60, |picture| picture.is_settled(count))
            .await;
        let seen = &cluster.seen;
        assert_eq!(
            (seen.claims.len(), seen.nodes.len(), seen.pods.len()),
            (count, count, count),
            "{what}: one claim and one machine per pod, and no pod again"
        );
    }
    controllers.stop().await;
}

/// The pod takes three seconds to end, and its node five more to go.
const OF_A_DRAIN: [Moment; 3] = [
    ("the node is tainted", |picture| picture.nodes.iter().any(is_tainted)),
    ("its pod ends", |picture| picture.pods.iter().any(|pod| !stays(pod))),
    ("its pod has ended", |picture| {
        let leaving = picture.claims.iter().any(|claim| !stays(claim));
        leaving && picture.pods.iter().all(stays) && picture.pods.len() == 1 && picture.nodes.iter().any(is_tainted)
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_restart_in_the_middle_of_a_drain() {
    let mut cluster = Cluster::start("0s").await;
    let mut controllers = cluster.controllers();
    cluster.pool("web", json!({})).await;
    let slow = json!({"metadata": {"annotations": {kerf_sandbox::STOP_AFTER: "3s"}}});
    cluster.deployment("web", 1, slow).await;
    let mut now = cluster.until("the pod runs", 60, |picture| picture.is_settled(1)).await;
    for (done, (what, moment)) in OF_A_DRAIN.into_iter().enumerate() {
        let (old_claim, old_pod) = (uid(&now.claims[0]), uid(&now.pods[0]));
        cluster.delete_claim(&name(&now.claims[0])).await;
        cluster
            .until(what, 30, |picture| {
                // The last moment is when the pod that is left is the new one.
                moment(picture) && (done < 2 || picture.pods.iter().all(|pod| uid(pod) != old_pod))
            })
            .await;
        controllers.crash().await;
        let died = cluster.look().await;
        assert!(
            died.claims.iter().any(|claim| uid(claim) == old_claim),
            "the controllers died too late: {what}"
        );
        controllers = cluster.controllers();
        now = cluster
            .until("the next ones end the drain", 60, |picture| {
                picture.is_settled(1) && uid(&picture.claims[0]) != old_claim
            })
            .await;
        let (seen, count) = (&cluster.seen, done + 2);
        assert_eq!(
            (seen.claims.len(), seen.nodes.len(), seen.pods.len()),
            (count, count, count),
            "{what}: evicted once, replaced once"
        );
    }
    // Nothing is left behind that would not go.
    cluster.scale("web", 0).await;
    cluster.delete_claim(&name(&now.claims[0])).await;
    cluster.until("nothing is left", 60, Picture::is_empty).await;
    controllers.stop().await;
}
