//! Two replicas with one lease. Either is lost in the middle of a scale-out; no machine is lost or launched twice.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;
use tokio::time::Instant;

use crate::real_control_plane::harness::{Cluster, LEASE, Picture};

/// Waits until this replica leads.
async fn leads(cluster: &mut Cluster, identity: &str, seconds: u64) {
    let leases: Api<Lease> = Api::default_namespaced(cluster.client.clone());
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        let lease = leases.get_opt(LEASE).await.expect("an answer");
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        if holder.as_deref() == Some(identity) {
            return;
        }
        assert!(
            Instant::now() < end,
            "{identity} does not lead within {seconds} s, but {holder:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Scales to `count` pods, each of which needs a node, and returns when some of the new claims are there and not all are initialized.
async fn begin_scale_out(cluster: &mut Cluster, count: usize) {
    let before = cluster.look().await.claims.len();
    cluster.scale("web", count).await;
    let begun = |picture: &Picture| picture.claims.len() > before;
    cluster.until("the first new claim is there", 30, begun).await;
    let now = cluster.look().await;
    assert!(
        !now.is_settled(count),
        "the scale-out ended too early to lose a replica in it"
    );
}

/// Waits until every pod runs on a node of its own, and checks that no claim, machine or pod was made twice.
async fn end_scale_out(cluster: &mut Cluster, count: usize, what: &str) {
    cluster.until(what, 120, |picture| picture.is_settled(count)).await;
    let seen = &cluster.seen;
    assert_eq!(
        (seen.claims.len(), seen.nodes.len(), seen.pods.len()),
        (count, count, count),
        "{what}: one claim and one machine for each pod"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_two_replicas_survive_the_loss_of_either() {
    let mut cluster = Cluster::start("1s").await;
    let first = cluster.replica("first");
    leads(&mut cluster, "first", 10).await;
    let second = cluster.replica("second");
    cluster.pool("web", json!({})).await;
    cluster.deployment("web", 0, json!({})).await;

    begin_scale_out(&mut cluster, 20).await;
    first.crash().await;
    // The lease is taken when it has been unchanged for 15 s.
    leads(&mut cluster, "second", 25).await;
    end_scale_out(&mut cluster, 20, "the standby ends what the leader began").await;

    let third = cluster.replica("third");
    begin_scale_out(&mut cluster, 40).await;
    third.crash().await;
    end_scale_out(&mut cluster, 40, "the loss of the standby is not noticed").await;

    let fourth = cluster.replica("fourth");
    begin_scale_out(&mut cluster, 60).await;
    second.stop().await;
    // A leader that stops gives its lease up.
    leads(&mut cluster, "fourth", 4).await;
    end_scale_out(&mut cluster, 60, "the standby ends what the leader gave up").await;
    fourth.stop().await;
}
