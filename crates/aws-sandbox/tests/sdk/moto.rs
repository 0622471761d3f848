//! The whole life of a cluster against moto, an AWS server that others wrote (AWS section 33; `docs/aws.md` says how to start it).

use crate::cluster_fixture::GETTING_STARTED;
use crate::cluster_objects::ClusterObjects as _;
use crate::moto_fixture::MotoCluster;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kerf_api::{EC2NodeClass, NodePool};
use kerf_aws::services::TemplateQuery;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Events of EC2 as EventBridge puts them into the queue.
fn spot_interruption(instance: &str) -> Value {
    json!({
        "version": "0", "id": "7bf73129-1428-4cd3-a780-95db273d1602", "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2", "account": "123456789012", "region": "us-east-1", "time": Timestamp::UNIX_EPOCH,
        "resources": [format!("arn:aws:ec2:us-east-1a:instance/{instance}")],
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    })
}

async fn ids(cluster: &MotoCluster) -> BTreeSet<String> {
    cluster.instances().await.into_iter().map(|one| one.id).collect()
}

#[tokio::test(start_paused = true)]
#[ignore = "needs moto: KERF_MOTO names its endpoint (docs/aws.md)"]
async fn moto_a_whole_life() {
    let cluster = MotoCluster::start().await;
    assert!(
        cluster.instances().await.is_empty(),
        "an earlier run left instances: start moto anew"
    );

    // Pods get a machine.
    cluster.apply(GETTING_STARTED).await;
    cluster
        .until("all pods run", 10, async |cluster| cluster.running_pods().await == 5)
        .await;
    let (instances, nodes) = (cluster.instances().await, cluster.nodes().await);
    assert_eq!(nodes.len(), instances.len());
    for one in &instances {
        assert_eq!(one.tags["karpenter.sh/nodepool"], "default");
        assert_eq!(one.tags["kubernetes.io/cluster/kerf"], "owned");
        assert_eq!(one.tags["eks:eks-cluster-name"], "kerf");
        assert!(one.spot_request_id.is_some(), "spot is cheaper: {one:?}");
    }
    assert!(
        nodes
            .iter()
            .all(|node| node.labels()["karpenter.sh/initialized"] == "true")
    );
    // The name of the node is written as a tag of the instance.
    cluster
        .until("instances are named", 5, async |cluster| {
            let instances = cluster.instances().await;
            let names: BTreeSet<_> = cluster.nodes().await.iter().map(ResourceExt::name_any).collect();
            instances
                .iter()
                .all(|one| one.tags.get("Name").is_some_and(|name| names.contains(name)))
        })
        .await;

    // A spot interruption by the queue moves them.
    let queue = cluster.services.sqs.queue_url("kerf").await.unwrap();
    let reclaimed = instances[0].id.clone();
    cluster.moto.send_message(&queue, &spot_interruption(&reclaimed));
    cluster
        .until("the instance is replaced", 10, async |cluster| {
            !ids(cluster).await.contains(&reclaimed) && cluster.running_pods().await == 5
        })
        .await;
    assert!(cluster.services.sqs.receive(&queue).await.unwrap().is_empty());

    // Another image rolls out.
    let old: BTreeSet<String> = cluster.instances().await.into_iter().map(|one| one.image_id).collect();
    cluster
        .patch_class(json!({
            "amiFamily": "AL2023",
            "amiSelectorTerms": [{"name": "amazon-eks-node-al2023-x86_64-standard-v20260115"}],
        }))
        .await;
    cluster
        .until("all instances have the new image", 60, async |cluster| {
            let instances = cluster.instances().await;
            !instances.is_empty() && !instances.iter().any(|one| old.contains(&one.image_id))
        })
        .await;
    cluster
        .until("all pods run", 10, async |cluster| cluster.running_pods().await == 5)
        .await;

    // An instance that a user terminates is replaced.
    let lost: Vec<String> = ids(&cluster).await.into_iter().collect();
    cluster.services.ec2.terminate_instances(&lost).await.unwrap();
    cluster
        .until("the lost instance is replaced", 15, async |cluster| {
            cluster.running_pods().await == 5 && ids(cluster).await.iter().all(|id| !lost.contains(id))
        })
        .await;

    // Without pods nothing stays.
    cluster.scale(0).await;
    cluster
        .until("empty nodes go", 15, async |cluster| {
            cluster.instances().await.is_empty()
                && cluster.nodes().await.is_empty()
                && cluster.claims().await.is_empty()
        })
        .await;
    let delete = DeleteParams::default();
    let client = cluster.client();
    Api::<Deployment>::default_namespaced(client.clone())
        .delete("inflate", &delete)
        .await
        .unwrap();
    Api::<NodePool>::all(client.clone())
        .delete("default", &delete)
        .await
        .unwrap();
    Api::<EC2NodeClass>::all(client.clone())
        .delete("default", &delete)
        .await
        .unwrap();
    cluster
        .until("the class goes", 5, async |cluster| {
            let api = Api::<EC2NodeClass>::all(cluster.client());
            api.get_opt("default").await.unwrap().is_none()
        })
        .await;
    let templates = cluster
        .services
        .ec2
        .launch_templates(&TemplateQuery::default())
        .await
        .unwrap();
    assert_eq!(templates, Vec::<String>::new());
    assert!(
        cluster
            .services
            .iam
            .instance_profiles("/karpenter/")
            .await
            .unwrap()
            .is_empty()
    );
    for (action, count) in cluster.moto.calls() {
        println!("{count:>5} {action}");
    }
    cluster.stop().await;
}
