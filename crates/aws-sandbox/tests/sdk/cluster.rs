//! The whole life on the embedded account: from an unchanged EC2NodeClass to running pods, and back.

use crate::cluster_fixture::{Cluster, GETTING_STARTED, cluster};
use crate::cluster_objects::ClusterObjects as _;
use kerf_aws::user_data::encode;
use kerf_aws_sandbox::account::{PoolRule, Purchase, Signal};
use kerf_aws_sandbox::faults::AwsFaultPlan;
use kube::ResourceExt;
use serde_json::json;
use std::collections::BTreeSet;

async fn started() -> Cluster {
    let cluster = cluster(|_| {}).await;
    cluster.apply(GETTING_STARTED).await;
    cluster
        .until("all pods run", 10, async |cluster| cluster.running_pods().await == 5)
        .await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_the_guide_give_running_pods_and_nothing_stays() {
    let cluster = started().await;
    let instances = cluster.instances();
    let nodes = cluster.nodes().await;
    assert_eq!(nodes.len(), instances.len());
    let node = &nodes[0];
    // The name has the address of the instance, as it has in EC2.
    let status = node.status.as_ref().unwrap();
    let internal = status.addresses.iter().flatten().find(|one| one.type_ == "InternalIP");
    let address = &internal.unwrap().address;
    assert_eq!(
        node.name_any(),
        format!("ip-{}.ec2.internal", address.replace('.', "-"))
    );
    assert_eq!(node.labels()["karpenter.sh/registered"], "true");
    assert_eq!(node.labels()["karpenter.sh/nodepool"], "default");
    let taints = node.spec.as_ref().unwrap().taints.clone().unwrap_or_default();
    assert!(
        !taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered"),
        "{taints:?}"
    );
    // The instance carries the name of its claim.
    let claims = cluster.claims().await;
    cluster
        .until("instances are named", 5, async |cluster| {
            let named: BTreeSet<String> = cluster
                .instances()
                .iter()
                .filter_map(|one| one.tags.get("karpenter.sh/nodeclaim").cloned())
                .collect();
            named == claims.iter().map(ResourceExt::name_any).collect()
        })
        .await;
    cluster.scale(0).await;
    cluster
        .until("empty nodes go", 15, async |cluster| {
            cluster.instances().is_empty() && cluster.nodes().await.is_empty() && cluster.claims().await.is_empty()
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_spot_reclaim_comes_by_the_queue_and_the_pods_move_before_the_end() {
    let cluster = started().await;
    let reclaimed = cluster.instances().remove(0);
    assert_eq!(reclaimed.purchase, Purchase::Spot);
    cluster.aws.signal(&reclaimed.id, Signal::SpotReclaim).unwrap();
    cluster
        .until("the instance is replaced", 5, async |cluster| {
            let instances = cluster.instances();
            !instances.iter().any(|one| one.id == reclaimed.id) && cluster.running_pods().await == 5
        })
        .await;
    let queue = cluster
        .aws
        .with(|account, _| account.queue("kerf").unwrap().messages.len());
    assert_eq!(queue, 0, "handled messages are deleted");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_image_is_rolled_out_by_drift() {
    let cluster = started().await;
    let old: BTreeSet<String> = cluster.instances().into_iter().map(|one| one.image_id).collect();
    cluster
        .patch_class(json!({"amiSelectorTerms": [{"alias": "al2023@v20260115"}]}))
        .await;
    cluster
        .until("all instances have the new image", 60, async |cluster| {
            let instances = cluster.instances();
            !instances.is_empty() && !instances.iter().any(|one| old.contains(&one.image_id))
        })
        .await;
    cluster
        .until("all pods run", 5, async |cluster| cluster.running_pods().await == 5)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn missing_capacity_is_planned_around() {
    // No spot at all, and the cheapest types have nothing on demand either.
    let cluster = cluster(|account| {
        account.pools.rules = vec![
            PoolRule::empty().bought(Purchase::Spot),
            PoolRule::empty().of_type("c*.*").bought(Purchase::OnDemand),
        ];
    })
    .await;
    cluster.apply(GETTING_STARTED).await;
    cluster
        .until("all pods run", 15, async |cluster| cluster.running_pods().await == 5)
        .await;
    for one in cluster.instances() {
        assert!(
            one.purchase == Purchase::OnDemand && !one.instance_type.starts_with('c'),
            "{one:?}"
        );
    }
    let calls = cluster.aws.with(|account, _| account.take_calls());
    let fleets = calls
        .iter()
        .filter(|call| call.action == "CreateFleet" && !call.parameters.contains_key("DryRun"));
    assert!(fleets.count() <= 6, "no storm of launches");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_bootstrap_is_a_node_that_never_registers() {
    let cluster = cluster(|account| {
        // What the provider writes is for another CA.
        "b3RoZXI=".clone_into(&mut account.clusters[0].certificate);
    })
    .await;
    cluster.apply(GETTING_STARTED).await;
    cluster
        .until("an instance runs", 5, async |cluster| !cluster.instances().is_empty())
        .await;
    let first: BTreeSet<String> = cluster.instances().into_iter().map(|one| one.id).collect();
    // After the registration timeout the claim is given up.
    cluster
        .until("the instance is given up", 20, async |cluster| {
            !cluster.instances().iter().any(|one| first.contains(&one.id))
        })
        .await;
    assert!(cluster.nodes().await.is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bottlerocket_and_pinned_releases_give_nodes() {
    for alias in ["bottlerocket@latest", "bottlerocket@1.32.0", "al2023@v20250807"] {
        let cluster = cluster(|_| {}).await;
        let text = GETTING_STARTED.replace("al2023@latest", alias);
        cluster.apply(&text).await;
        cluster
            .until(alias, 10, async |cluster| cluster.running_pods().await == 5)
            .await;
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_that_ec2_refuses_is_not_ready() {
    let cluster = cluster(|account| {
        account.denied.insert("ec2:CreateFleet".to_owned());
    })
    .await;
    cluster.apply(GETTING_STARTED).await;
    let reason = async |cluster: &Cluster, kind: &str| {
        let class = cluster.class().await;
        let conditions = &class.status.conditions;
        conditions
            .iter()
            .find(|one| one.type_ == kind)
            .map(|one| format!("{:?} {:?}", one.reason, one.message))
            .unwrap_or_default()
    };
    cluster
        .until("validation fails", 5, async |cluster| {
            reason(cluster, "ValidationSucceeded")
                .await
                .contains("CreateFleetAuthCheckFailed")
        })
        .await;
    assert!(cluster.claims().await.is_empty() && cluster.instances().is_empty());
    cluster.aws.with(|account, _| account.denied.clear());
    cluster.patch_class(json!({"userData": "# again"})).await;
    cluster
        .until("all pods run", 45, async |cluster| cluster.running_pods().await == 5)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_all_calls_leak_nothing() {
    let cluster = cluster(|account| {
        // Somebody else's, with tags of another cluster.
        let _ = account.create_profile(
            "foreign",
            "/",
            Default::default(),
            "2026-01-01T00:00:00Z".parse().unwrap(),
        );
        let data = kerf_aws_sandbox::account::LaunchData {
            user_data: encode("x"),
            ..Default::default()
        };
        account
            .create_template(
                "foreign",
                data,
                Default::default(),
                "2026-01-01T00:00:00Z".parse().unwrap(),
            )
            .unwrap();
    })
    .await;
    cluster.faults.set(AwsFaultPlan {
        throttled: 0.1,
        internal: 0.1,
        lost: 0.1,
        answer_lost: 0.1,
        latency: None,
    });
    cluster.apply(GETTING_STARTED).await;
    cluster
        .until("all pods run", 60, async |cluster| cluster.running_pods().await == 5)
        .await;
    cluster.faults.set(AwsFaultPlan::default());
    cluster
        .until("each instance has one claim", 10, async |cluster| {
            let ids: BTreeSet<String> = cluster.instances().into_iter().map(|one| one.id).collect();
            let claims = cluster.claims().await;
            let owned: Vec<String> = claims
                .iter()
                .filter_map(|claim| {
                    claim
                        .status
                        .as_ref()?
                        .provider_id
                        .as_deref()?
                        .rsplit('/')
                        .next()
                        .map(str::to_owned)
                })
                .collect();
            owned.len() == ids.len() && owned.iter().cloned().collect::<BTreeSet<_>>() == ids
        })
        .await;
    let foreign = cluster
        .aws
        .with(|account, _| account.profiles.contains_key("foreign") && account.templates.contains_key("foreign"));
    assert!(foreign, "what is not the cluster's stays");
    cluster.stop().await;
}
