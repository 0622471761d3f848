//! Memory that nodes reported, kept over restarts in an annotation of the class.

use crate::upkeep::put_registered;
use crate::world::{TYPE, after_launch};
use crate::world::{World, claim, ready_class, world_with};
use kerf_api::{EC2NodeClass, NodePool};
use kerf_aws::controllers::{ClassHash, NodeClassController, discover_memory, keep_memory};
use kerf_cloud::CloudProvider;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const KEPT: &str = "kerf.sh/discovered-memory";
const LEARNED: i64 = 7_900_000 * 1024;

async fn start(flags: &[(&str, &str)]) -> (World, NodePool) {
    let world = world_with(&["m5.large"], flags).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let pool = world.put_pool().await;
    (world, pool)
}

/// The memory of m5.large for new claims of a pool.
async fn memory(world: &World, pool: &NodePool) -> i64 {
    let types = world.provider.instance_types(pool).await.unwrap();
    types.types[0].capacity.get(kerf_model::intern::sym::MEMORY)
}

async fn class(world: &World) -> EC2NodeClass {
    Api::<EC2NodeClass>::all(world.client.clone())
        .get("nodes")
        .await
        .unwrap()
}

async fn kept(world: &World) -> Option<String> {
    class(world).await.metadata.annotations?.get(KEPT).cloned()
}

/// One pass of the sweep; returns whether it wrote.
async fn sweep(world: &World) -> bool {
    let classes = Api::<EC2NodeClass>::all(world.client.clone());
    let version = async || classes.get("nodes").await.unwrap().metadata.resource_version;
    let before = version().await;
    let all = classes.list(&ListParams::default()).await.unwrap().items;
    keep_memory(&world.cloud, &all).await.unwrap();
    version().await != before
}

async fn write(world: &World, text: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {KEPT: text}}}));
    let classes = Api::<EC2NodeClass>::all(world.client.clone());
    classes.patch("nodes", &PatchParams::default(), &patch).await.unwrap();
}

// AWS-199, AWS-200
#[tokio::test(start_paused = true)]
async fn a_restart_keeps_what_two_nodes_reported() {
    let (world, pool) = start(&[]).await;
    let assumed = memory(&world, &pool).await;
    assert!(!sweep(&world).await, "nothing is known yet");
    for (node, bytes) in [("one", "7900000Ki"), ("two", "7910000Ki")] {
        put_registered(&world, node, bytes).await;
        discover_memory(&world.cloud, node).await.unwrap();
    }
    assert!(sweep(&world).await);
    assert!(!sweep(&world).await, "nothing is new");
    discover_memory(&world.cloud, "one").await.unwrap();
    assert!(!sweep(&world).await, "a node that is seen again is not news");
    assert_eq!(memory(&world, &pool).await, LEARNED);
    let restarted = world.restarted(&[]).await;
    assert_eq!(memory(&restarted, &pool).await, LEARNED, "the first list has it");
    assert!(!sweep(&restarted).await);
    // Other images are another matter.
    let arch = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    restarted
        .patch_status(json!({"amis": [{"id": "ami-new", "requirements": arch}]}))
        .await;
    assert_eq!(memory(&restarted, &pool).await, assumed);
}

#[tokio::test(start_paused = true)]
async fn one_node_that_is_seen_before_and_after_a_restart_is_one() {
    let (world, pool) = start(&[]).await;
    let assumed = memory(&world, &pool).await;
    put_registered(&world, "one", "7900000Ki").await;
    discover_memory(&world.cloud, "one").await.unwrap();
    assert!(sweep(&world).await);
    let restarted = world.restarted(&[]).await;
    for _ in 0..3 {
        discover_memory(&restarted.cloud, "one").await.unwrap();
    }
    assert!(!sweep(&restarted).await);
    assert_eq!(memory(&restarted, &pool).await, assumed);
    put_registered(&restarted, "two", "7910000Ki").await;
    discover_memory(&restarted.cloud, "two").await.unwrap();
    assert_eq!(
        memory(&restarted, &pool).await,
        LEARNED,
        "the node before the restart counts"
    );
}

#[tokio::test(start_paused = true)]
async fn without_the_option_nothing_is_learned_read_or_written() {
    let (world, pool) = start(&[]).await;
    let assumed = memory(&world, &pool).await;
    for node in ["one", "two"] {
        put_registered(&world, node, "7900000Ki").await;
        discover_memory(&world.cloud, node).await.unwrap();
    }
    assert!(sweep(&world).await);
    let before = kept(&world).await;
    let off = world.restarted(&[("learn-memory", "false")]).await;
    assert_eq!(memory(&off, &pool).await, assumed);
    for node in ["one", "two"] {
        discover_memory(&off.cloud, node).await.unwrap();
    }
    assert_eq!(memory(&off, &pool).await, assumed);
    assert!(!sweep(&off).await);
    assert_eq!(kept(&off).await, before);
    write(&off, "something else").await;
    assert!(!sweep(&off).await, "a text that cannot be read is left alone, too");
}

#[tokio::test(start_paused = true)]
async fn a_text_that_cannot_be_read_is_replaced() {
    let (world, pool) = start(&[]).await;
    let assumed = memory(&world, &pool).await;
    write(&world, "v7 {\"m5.large\": 1}").await;
    assert_eq!(memory(&world, &pool).await, assumed);
    assert!(sweep(&world).await);
    assert_eq!(kept(&world).await.as_deref(), Some("v1"));
    assert!(!sweep(&world).await);
    for node in ["one", "two"] {
        put_registered(&world, node, "7900000Ki").await;
        discover_memory(&world.cloud, node).await.unwrap();
    }
    assert!(sweep(&world).await);
    let restarted = world.restarted(&[]).await;
    assert_eq!(memory(&restarted, &pool).await, LEARNED);
}

#[tokio::test(start_paused = true)]
async fn amounts_of_earlier_images_are_kept_until_they_are_over() {
    let (world, pool) = start(&[]).await;
    for node in ["one", "two"] {
        put_registered(&world, node, "7900000Ki").await;
        discover_memory(&world.cloud, node).await.unwrap();
    }
    sweep(&world).await;
    let before = class(&world).await.status.amis;
    let arch = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    world
        .patch_status(json!({"amis": [{"id": "ami-new", "requirements": arch}]}))
        .await;
    let restarted = world.restarted(&[]).await;
    assert!(!sweep(&restarted).await);
    restarted.patch_status(json!({"amis": before})).await;
    assert_eq!(
        memory(&restarted, &pool).await,
        LEARNED,
        "a roll-back finds what was learned"
    );
    tokio::time::advance(Duration::from_secs(61 * 24 * 3600)).await;
    assert!(sweep(&restarted).await);
    assert_eq!(kept(&restarted).await.as_deref(), Some("v1"));
}

#[tokio::test(start_paused = true)]
async fn the_annotation_is_no_drift_and_outlives_writes_of_the_class() {
    let (world, _) = start(&[]).await;
    let hash = ClassHash::new(Arc::clone(&world.cloud));
    hash.reconcile("nodes").await.unwrap();
    let before = class(&world).await;
    let claim = claim("drift", &[(TYPE, &["m5.large"])]);
    let launched = world.provider.create(&claim).await.unwrap();
    let claim = after_launch(&claim, &launched);
    for node in ["one", "two"] {
        put_registered(&world, node, "7900000Ki").await;
        discover_memory(&world.cloud, node).await.unwrap();
    }
    assert!(sweep(&world).await);
    let text = kept(&world).await;
    hash.reconcile("nodes").await.unwrap();
    assert_eq!(world.provider.is_drifted(&claim).await.unwrap(), None);
    // It lacks a role here, so its pass may fail; what it writes is the question.
    let _: Result<_, _> = NodeClassController::new(&world.cloud).reconcile("nodes").await;
    let after = class(&world).await;
    assert_ne!(after.metadata.resource_version, before.metadata.resource_version);
    assert_eq!(after.metadata.generation, before.metadata.generation);
    let hash_of = |class: &EC2NodeClass| {
        class.metadata.annotations.clone().unwrap()["karpenter.k8s.aws/ec2nodeclass-hash"].clone()
    };
    assert_eq!(hash_of(&after), hash_of(&before));
    assert!(text.is_some() && kept(&world).await == text);
}
