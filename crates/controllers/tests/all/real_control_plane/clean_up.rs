//! Everything is deleted at once, in any order, each object with all that it owns.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{KwokNodeClass, NodeClaim, NodePool};
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::real_control_plane::harness::{Cluster, Picture};

// KWK-088, KWK-089
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_clean_up_of_everything_at_once() {
    let mut cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    cluster.pool("web", json!({})).await;
    cluster.deployment("web", 3, json!({})).await;
    cluster.until("three nodes", 90, |picture| picture.is_settled(3)).await;
    let client = &cluster.client;
    tokio::join!(
        delete_all::<NodeClaim>(Api::all(client.clone())),
        delete_all::<KwokNodeClass>(Api::all(client.clone())),
        delete_all::<Node>(Api::all(client.clone())),
        delete_all::<NodePool>(Api::all(client.clone())),
        delete_all::<Deployment>(Api::default_namespaced(client.clone())),
        delete_all::<Pod>(Api::default_namespaced(client.clone())),
    );
    cluster.until("nothing is left", 120, Picture::is_empty).await;
    let pools: Api<NodePool> = Api::all(cluster.client.clone());
    let end = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while !pools
        .list(&ListParams::default())
        .await
        .expect("listed")
        .items
        .is_empty()
    {
        assert!(tokio::time::Instant::now() < end, "the pool is still there");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    controllers.stop().await;
}

async fn delete_all<K>(api: Api<K>)
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
{
    let deleted = api
        .delete_collection(&DeleteParams::foreground(), &ListParams::default())
        .await;
    deleted.expect("deleted");
}
