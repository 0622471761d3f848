//! Failures of AWS: instances that vanish, capacity that is missing, answers that are lost, processes that do not lead, and things that
//! change below running nodes.

use crate::cluster_fixture::{Cluster, GETTING_STARTED, cluster, manager, prepared};
use crate::cluster_objects::{ClusterObjects as _, apply};
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{EC2NodeClass, NodeClaim, NodePool};
use kerf_aws_sandbox::account::{Call, PoolRule, Purchase, Reservation, Signal};
use kerf_chaos::ClusterObject;
use kerf_controllers::Election;
use kerf_runtime::leader::ElectionConfig;
use kerf_runtime::metrics::LabelNames;
use kerf_runtime::{CancellationToken, Metrics};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The class and the pool of the guide, and its Deployment.
fn guide() -> (String, String) {
    let (objects, deployment) = GETTING_STARTED.rsplit_once("\n---\n").unwrap();
    (objects.to_owned(), deployment.to_owned())
}

async fn started() -> Cluster {
    let cluster = cluster(|_| {}).await;
    cluster.apply(GETTING_STARTED).await;
    all_run(&cluster, 5).await;
    cluster
}

async fn all_run(cluster: &Cluster, pods: usize) {
    cluster
        .until("all pods run", 20, async |cluster| cluster.running_pods().await == pods)
        .await;
}

async fn delete<K: ClusterObject>(cluster: &Cluster, name: &str) {
    let api = Api::<K>::all(cluster.client());
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

async fn drop_finalizers<K: ClusterObject>(cluster: &Cluster, name: &str) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let api = Api::<K>::all(cluster.client());
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Launches that were really asked for.
fn launches(calls: &[Call]) -> Vec<&Call> {
    let is_launch = |call: &&Call| call.action == "CreateFleet" && !call.parameters.contains_key("DryRun");
    calls.iter().filter(is_launch).collect()
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_secs(60 * count)).await;
}

/// Forgets all events about instances, as if the rules that feed the queue were missing.
fn lose_events(cluster: &Cluster) {
    cluster
        .aws
        .with(|account, _| account.queue("kerf").unwrap().messages.clear());
}

#[tokio::test(start_paused = true)]
async fn nodes_of_instances_that_vanish_do_not_keep_their_finalizers() {
    let cluster = started().await;
    // A pod that neither moves nor may be moved holds its node.
    let pods = Api::<Pod>::default_namespaced(cluster.client());
    let held = pods.list(&Default::default()).await.unwrap().items.remove(0).name_any();
    let marks = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    pods.patch(&held, &PatchParams::default(), &Patch::Merge(marks))
        .await
        .unwrap();
    let before: BTreeSet<String> = cluster.nodes().await.iter().map(ResourceExt::name_any).collect();
    for instance in cluster.instances() {
        cluster.aws.signal(&instance.id, Signal::Terminated).unwrap();
        lose_events(&cluster);
    }
    cluster
        .until("nodes and claims of vanished instances go", 15, async |cluster| {
            lose_events(cluster);
            let nodes = cluster.nodes().await;
            let is_old = |node: &Node| before.contains(&node.name_any());
            !nodes.iter().any(is_old) && cluster.claims().await.len() == nodes.len()
        })
        .await;
    all_run(&cluster, 5).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_claim_was_taken_away_by_hand_can_be_deleted() {
    let cluster = started().await;
    let claim = cluster.claims().await.remove(0);
    let node = claim.status.as_ref().unwrap().node_name.clone().unwrap();
    drop_finalizers::<NodeClaim>(&cluster, &claim.name_any()).await;
    delete::<NodeClaim>(&cluster, &claim.name_any()).await;
    let nodes = Api::<Node>::all(cluster.client());
    let _ = nodes.delete(&node, &DeleteParams::default()).await;
    cluster
        .until("node and instance go", 15, async |cluster| {
            let is_there = cluster.nodes().await.iter().any(|one| one.name_any() == node);
            !is_there && cluster.instances().len() == cluster.claims().await.len()
        })
        .await;
    all_run(&cluster, 5).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn class_pool_and_instances_that_go_at_the_same_time_all_end() {
    let cluster = started().await;
    for instance in cluster.instances() {
        cluster.aws.signal(&instance.id, Signal::Terminated).unwrap();
    }
    delete::<EC2NodeClass>(&cluster, "default").await;
    delete::<NodePool>(&cluster, "default").await;
    // Somebody also took the role away from the profile that the class is about to delete.
    cluster.aws.with(|account, _| {
        for profile in account.profiles.values_mut() {
            profile.role = None;
        }
    });
    cluster
        .until("nothing is left of the class", 30, async |cluster| {
            let classes = Api::<EC2NodeClass>::all(cluster.client());
            let is_gone = classes.get_opt("default").await.unwrap().is_none();
            is_gone && cluster.claims().await.is_empty() && cluster.nodes().await.is_empty()
        })
        .await;
    let (profiles, templates) = cluster
        .aws
        .with(|account, _| (account.profiles.len(), account.templates.len()));
    assert_eq!((profiles, templates), (0, 0));
    cluster.stop().await;
}

/// A second pool of the same class that takes arm64 only.
const SECOND_POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: second
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [arm64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
";

/// NodeClaims created so far.
fn claims_created(cluster: &Cluster) -> f64 {
    let text = cluster.metrics.encode();
    let of_counter = text
        .lines()
        .filter(|line| line.starts_with("karpenter_nodeclaims_created_total{"));
    of_counter
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[tokio::test(start_paused = true)]
async fn without_any_capacity_there_is_no_storm() {
    let cluster = cluster(|account| account.pools.rules = vec![PoolRule::empty()]).await;
    cluster.apply(GETTING_STARTED).await;
    cluster.apply(SECOND_POOL).await;
    cluster.scale(300).await;
    minutes(5).await;
    let calls = cluster.aws.with(|account, _| account.take_calls());
    let (claims, fleets) = (claims_created(&cluster), launches(&calls).len());
    println!("all pools empty, 300 pods, 5 minutes: {claims} NodeClaims, {fleets} CreateFleet calls");
    // Each of 3,000 offerings is tried once or twice, up to 240 of them with a call, by one claim of each pool at a time.
    assert!(claims > 0.0 && claims <= 120.0, "{claims} NodeClaims");
    assert!(fleets <= 120, "{fleets} calls of CreateFleet");
    assert!(cluster.instances().is_empty());
    cluster.stop().await;
}

/// A Deployment with one pod that runs on this architecture in this zone.
fn pinned(name: &str, arch: &str, zone: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      nodeSelector: {{kubernetes.io/arch: {arch}, topology.kubernetes.io/zone: {zone}}}
      containers: [{{name: app, image: app, resources: {{requests: {{cpu: 1500m, memory: 1Gi}}}}}}]
"
    )
}

/// Changes the label that a pool gives its nodes, so that they drift.
async fn relabel(cluster: &Cluster, pool: &str) {
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"edition": "2"}}}}});
    let api = Api::<NodePool>::all(cluster.client());
    api.patch(pool, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// The node that the pod of a Deployment runs on.
async fn node_of(cluster: &Cluster, app: &str) -> Option<String> {
    let pods = Api::<Pod>::default_namespaced(cluster.client());
    let of_app = kube::api::ListParams::default().labels(&format!("app={app}"));
    let pods = pods.list(&of_app).await.unwrap().items;
    let mut nodes = pods.into_iter().filter_map(|pod| pod.spec?.node_name);
    nodes.next()
}

// DIS-247 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn a_drifted_node_without_capacity_for_its_replacement_does_not_keep_others_waiting() {
    let cluster = cluster(|_| {}).await;
    let (objects, _) = guide();
    cluster.apply(&objects).await;
    cluster.apply(SECOND_POOL).await;
    cluster.apply(&pinned("first", "amd64", "us-east-1a")).await;
    cluster.apply(&pinned("second", "arm64", "us-east-1b")).await;
    all_run(&cluster, 2).await;
    let (first, second) = (node_of(&cluster, "first").await, node_of(&cluster, "second").await);
    let without = PoolRule::empty().in_zone("us-east-1a");
    cluster.aws.with(|account, _| account.pools.rules = vec![without]);
    let before = claims_created(&cluster);
    relabel(&cluster, "default").await;
    minutes(1).await;
    relabel(&cluster, "second").await;
    cluster
        .until("the other node is replaced", 3, async |cluster| {
            let node = node_of(cluster, "second").await;
            node.is_some() && node != second
        })
        .await;
    minutes(10).await;
    let claims = claims_created(&cluster) - before;
    println!("10 minutes without capacity for the replacement of one node: {claims} NodeClaims");
    assert!(claims > 2.0 && claims <= 12.0, "{claims} NodeClaims");
    assert_eq!(node_of(&cluster, "first").await, first);
    cluster.aws.with(|account, _| account.pools.rules.clear());
    cluster
        .until("the node is replaced once there is capacity", 15, async |cluster| {
            let node = node_of(cluster, "first").await;
            node.is_some() && node != first
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_pool_without_capacity_move_to_another_pool_at_once() {
    // Of arm64 there is one family on demand; of everything else nothing.
    let cluster = cluster(|account| {
        account.pools.rules = vec![
            PoolRule::empty()
                .of_type("m7g.*")
                .bought(Purchase::OnDemand)
                .with_capacity(1000),
            PoolRule::empty(),
        ];
    })
    .await;
    cluster.apply(GETTING_STARTED).await;
    cluster.apply(SECOND_POOL).await;
    let started = tokio::time::Instant::now();
    cluster
        .until("all pods run", 6, async |cluster| cluster.running_pods().await == 5)
        .await;
    let calls = cluster.aws.with(|account, _| account.take_calls());
    println!(
        "one family of the second pool: {} s, {} NodeClaims, {} CreateFleet calls",
        started.elapsed().as_secs(),
        claims_created(&cluster),
        launches(&calls).len()
    );
    assert!(
        cluster
            .instances()
            .iter()
            .all(|one| one.instance_type.starts_with("m7g."))
    );
    assert!(launches(&calls).len() <= 12, "{}", launches(&calls).len());
    cluster.stop().await;
}

/// The instance of each claim, as its status names it.
async fn owned(cluster: &Cluster) -> Vec<String> {
    let claims = cluster.claims().await;
    let id = |claim: &NodeClaim| {
        let provider_id = claim.status.as_ref()?.provider_id.as_deref()?;
        provider_id.rsplit('/').next().map(str::to_owned)
    };
    claims.iter().filter_map(id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_launch_whose_answer_is_lost_leaves_one_instance_for_each_claim() {
    for lost in [1, 2, 7] {
        let cluster = cluster(|_| {}).await;
        let (objects, deployment) = guide();
        cluster.apply(&objects).await;
        cluster
            .until("the class is ready", 5, async |cluster| {
                let class = cluster.class().await;
                let ready = class.status.conditions.iter().find(|one| one.type_ == "Ready");
                ready.is_some_and(kerf_api::Condition::is_true)
            })
            .await;
        cluster.faults.lose_answers("CreateFleet", lost);
        cluster.apply(&deployment).await;
        all_run(&cluster, 5).await;
        let launched = cluster.aws.with(|account, _| account.instances.len());
        let owners = owned(&cluster).await.len();
        // The SDK repeats a call with the same token, and EC2 answers with the same fleet; an attempt that is given up has another one.
        assert!(
            lost > 2 || launched == owners,
            "{lost} answers lost: {launched} instances"
        );
        // Garbage collection spares instances for half a minute.
        cluster
            .until("each claim has one instance", 5, async |cluster| {
                let ids: BTreeSet<String> = cluster.instances().into_iter().map(|one| one.id).collect();
                let owned = owned(cluster).await;
                owned.len() == ids.len() && owned.into_iter().collect::<BTreeSet<_>>() == ids
            })
            .await;
        assert_eq!(cluster.running_pods().await, 5);
        cluster.stop().await;
    }
}

fn election(cluster: &kerf_sandbox::Sandbox, name: &str) -> Option<Election> {
    Some(Election {
        client: cluster.client(),
        config: ElectionConfig::new("karpenter-leader-election", "kube-system", name),
    })
}

// AWS-491
#[tokio::test(start_paused = true)]
async fn who_stands_by_deletes_no_template_until_it_leads() {
    let prepared = prepared(|_| {}).await;
    apply(&prepared.sandbox.client(), GETTING_STARTED).await;
    let first = election(&prepared.sandbox, "first");
    let cluster = prepared.start_elected(first).await;
    all_run(&cluster, 5).await;
    let (shutdown, metrics) = (CancellationToken::new(), Metrics::new(LabelNames::default()));
    let second = election(&cluster.sandbox, "second");
    let standby = manager(&cluster.sandbox, &cluster.aws, &cluster.faults, &metrics, second).await;
    let standby = tokio::spawn(standby.run(shutdown.clone()));
    // The leader's templates of another time, which it used a moment ago again and again.
    let templates = |cluster: &Cluster| {
        cluster.aws.with(|account, _| {
            let all = account.templates.values();
            all.map(|one| (one.name.clone(), one.created))
                .collect::<BTreeMap<_, _>>()
        })
    };
    for round in 1..=8 {
        let before = templates(&cluster);
        cluster.aws.with(|account, _| account.take_calls());
        cluster.scale(5 + round * 8).await;
        tokio::time::sleep(Duration::from_secs(45)).await;
        let calls = cluster.aws.with(|account, _| account.take_calls());
        let fleets = launches(&calls);
        let used: BTreeSet<&String> = fleets
            .iter()
            .flat_map(|call| &call.parameters)
            .filter(|(path, _)| path.ends_with("LaunchTemplateName"))
            .map(|(_, name)| name)
            .collect();
        assert!(!used.is_empty(), "round {round} launches");
        let after = templates(&cluster);
        for name in used {
            let is_kept = before.get(name).is_none_or(|created| after.get(name) == Some(created));
            assert!(is_kept, "round {round}: {name} was deleted");
        }
    }
    all_run(&cluster, 69).await;
    let instances: BTreeSet<String> = cluster.instances().into_iter().map(|one| one.id).collect();
    // The take-over.
    let sandbox = cluster.stop_controllers().await;
    minutes(1).await;
    let left = sandbox.aws.with(|account, _| account.templates.len());
    assert!(left > 0);
    tokio::time::sleep(Duration::from_secs(240)).await;
    let (left, now) = sandbox.aws.with(|account, now| (account.templates.clone(), now));
    let is_unused = |created: jiff::Timestamp| now.duration_since(created).as_secs() > 300;
    assert!(
        !left.values().any(|one| is_unused(one.created)),
        "the new leader ends templates that no launch needs"
    );
    let living = sandbox.aws.with(|account, now| {
        let all = account.instances.values();
        let lives = all.filter(|one| one.state(now) < kerf_aws_sandbox::account::InstanceState::ShuttingDown);
        lives.map(|one| one.id.clone()).collect::<BTreeSet<_>>()
    });
    assert_eq!(
        living, instances,
        "nothing is ended or launched by the change of leaders"
    );
    shutdown.cancel();
    standby.await.unwrap().unwrap();
}

// AWS-494
#[tokio::test(start_paused = true)]
async fn a_new_role_gets_a_new_profile_and_new_nodes_and_the_old_profile_goes() {
    let cluster = cluster(|account| {
        account.roles.insert("KarpenterNodeRole-other".to_owned());
    })
    .await;
    cluster.apply(GETTING_STARTED).await;
    all_run(&cluster, 5).await;
    let old = cluster.class().await.status.instance_profile.unwrap();
    let before: BTreeSet<String> = cluster.instances().into_iter().map(|one| one.id).collect();
    cluster.patch_class(json!({"role": "KarpenterNodeRole-other"})).await;
    cluster
        .until("the class has another profile", 5, async |cluster| {
            cluster.class().await.status.instance_profile.as_ref() != Some(&old)
        })
        .await;
    let new = cluster.class().await.status.instance_profile.unwrap();
    let role = |name: &str| {
        cluster
            .aws
            .with(|account, _| account.profiles.get(name).map(|profile| profile.role.clone()))
    };
    assert_eq!(role(&new), Some(Some("KarpenterNodeRole-other".to_owned())));
    // Instances still have the old profile, so it stays as it is.
    assert_eq!(role(&old), Some(Some("KarpenterNodeRole-kerf".to_owned())));
    cluster
        .until("all nodes have the new profile", 60, async |cluster| {
            assert!(cluster.instances().iter().all(|one| one.profile.as_ref() == Some(&new)) || role(&old).is_some());
            let instances = cluster.instances();
            !instances.is_empty() && !instances.iter().any(|one| before.contains(&one.id))
        })
        .await;
    all_run(&cluster, 5).await;
    cluster
        .until("the old profile is deleted", 150, async |_| role(&old).is_none())
        .await;
    assert!(role(&new).is_some());
    cluster.stop().await;
}

// AWS-276
#[tokio::test(start_paused = true)]
async fn nodes_of_a_capacity_block_are_drained_before_it_ends() {
    let cluster = cluster(|account| {
        let zone = account.zones[0].clone();
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        account.reservations.push(Reservation {
            id: "cr-0000000000000000b".to_owned(),
            instance_type: "m5.2xlarge".to_owned(),
            zone,
            owner_id: account.id.clone(),
            match_criteria: "targeted".to_owned(),
            kind: "capacity-block".to_owned(),
            interruptible: false,
            total: 2,
            ends: Some(now + jiff::SignedDuration::from_hours(2)),
            tags: Default::default(),
        });
    })
    .await;
    let text = GETTING_STARTED
        .replace("values: [spot, on-demand]", "values: [reserved, on-demand]")
        .replace(
            "  role: KarpenterNodeRole-kerf",
            "  role: KarpenterNodeRole-kerf\n  capacityReservationSelectorTerms:\n    - id: cr-0000000000000000b",
        );
    cluster.apply(&text).await;
    all_run(&cluster, 5).await;
    let in_block = |cluster: &Cluster| {
        let instances = cluster.instances();
        let of_block = instances.into_iter().filter(|one| one.reservation_id.is_some());
        of_block.map(|one| one.id).collect::<BTreeSet<_>>()
    };
    let before = in_block(&cluster);
    assert!(!before.is_empty());
    // Forty minutes before the end.
    cluster
        .until("the block is empty", 85, async |cluster| in_block(cluster).is_empty())
        .await;
    let ended = cluster.aws.with(|account, now| {
        let of_block = account.instances.values().filter(|one| before.contains(&one.id));
        let begin = of_block.filter_map(|one| one.ends).max().unwrap();
        (begin, account.reservations[0].ends.unwrap(), now)
    });
    let left = ended.1.duration_since(ended.0);
    assert!(
        left > jiff::SignedDuration::from_mins(30),
        "ended {left:?} before the block"
    );
    all_run(&cluster, 5).await;
    assert!(cluster.instances().iter().all(|one| one.purchase == Purchase::OnDemand));
    minutes(60).await;
    assert!(
        in_block(&cluster).is_empty(),
        "nothing is launched into a block that ends"
    );
    assert_eq!(cluster.running_pods().await, 5);
    let claims = cluster.claims().await;
    let labels = |claim: &NodeClaim| json!(claim.labels());
    let names_block = |claim: &NodeClaim| labels(claim)["karpenter.k8s.aws/capacity-reservation-id"] != Value::Null;
    assert!(!claims.iter().any(names_block));
    cluster.stop().await;
}
