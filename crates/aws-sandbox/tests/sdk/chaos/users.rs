//! What is seen of a cluster's objects.

use k8s_openapi::api::core::v1::Pod;
use kerf_chaos::Object;
use kube::api::ListParams;
use kube::{Api, Client};

/// All objects of a kind.
pub(super) async fn all<K: Object>(client: &Client) -> Vec<K> {
    Api::<K>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
}

/// Pods that run and stay, and all others.
pub(super) async fn pods(client: &Client) -> (usize, usize) {
    let pods: Vec<Pod> = all(client).await;
    let runs = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
    };
    let running = pods.iter().filter(runs).count();
    (running, pods.len() - running)
}
