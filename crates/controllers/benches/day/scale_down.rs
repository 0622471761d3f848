//! A cluster that is scaled up to 6,000 pods and down to 2,400: 120 Deployments of eight shapes, every other with a topology spread.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kerf_api::{KwokNodeClass, NodePool};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::day::look;
use crate::workload::{NAMESPACE, controller, create, node_class, pool, shape};
use crate::world::{Prices, World};

/// Requests of the pods: millicores and MiB.
const SHAPES: [(u64, u64); 8] = [
    (100, 256),
    (250, 512),
    (500, 2048),
    (1000, 2048),
    (1000, 8192),
    (2000, 4096),
    (200, 1024),
    (1500, 1024),
];
const DEPLOYMENTS: usize = 120;
/// Deployments that exist before the others are created.
const FIRST: usize = 20;
/// Between two Deployments that are created, and between two that are scaled down.
const CREATED_EVERY: Duration = Duration::from_millis(900);
const SCALED_EVERY: Duration = Duration::from_millis(450);

/// Scales a cluster up and down, and prints what it is like every 20 seconds.
pub(crate) async fn live(flags: &str, seed: u64, prices: Prices) {
    let world = World::start(flags, seed, prices).await;
    let client = world.client.clone();
    let mut launched = BTreeSet::new();
    prepare(&client).await;
    println!("== {prices}, seed {seed}, {flags}");
    begin(&client).await;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    tokio::time::sleep(Duration::from_secs(40)).await;
    grow(&client).await;
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        before.push((look(&world, &mut launched).await, world.evictions()));
    }
    let shrinks = tokio::spawn(async move { shrink(&client).await });
    for _ in 0..36 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        after.push((look(&world, &mut launched).await, world.evictions()));
    }
    shrinks.await.expect("scaled down");
    for (title, looks) in [("after the last Deployment", before), ("scaled down", after)] {
        println!("{title}");
        for ((look, evictions), at) in looks.iter().zip(1..) {
            println!(
                "{:5} s  nodes {:4}  running {:5}  waiting {:5}  {:7.2} $/h  evictions {evictions:5}",
                at * 20,
                look.nodes,
                look.pods,
                look.waiting,
                look.price
            );
        }
    }
    println!("launched {}", launched.len());
    world.end().await;
}

/// Creates the NodePool, with a budget that allows everything.
async fn prepare(client: &Client) {
    create::<KwokNodeClass>(&Api::all(client.clone()), node_class()).await;
    create::<NodePool>(&Api::all(client.clone()), pool("100%")).await;
}

/// Creates the first 20 Deployments, of 50 pods each.
async fn begin(client: &Client) {
    for number in 0..FIRST {
        create::<Deployment>(&Api::namespaced(client.clone(), NAMESPACE), deployment(number)).await;
    }
}

/// Creates the other Deployments, one after the other.
async fn grow(client: &Client) {
    for number in FIRST..DEPLOYMENTS {
        create::<Deployment>(&Api::namespaced(client.clone(), NAMESPACE), deployment(number)).await;
        tokio::time::sleep(CREATED_EVERY).await;
    }
}

/// Scales each Deployment to 20 pods, one after the other.
async fn shrink(client: &Client) {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    for number in 0..DEPLOYMENTS {
        let scale = Patch::Merge(json!({"spec": {"replicas": 20}}));
        let patched = deployments
            .patch(&format!("a{number}"), &PatchParams::default(), &scale)
            .await;
        patched.expect("scaled");
        tokio::time::sleep(SCALED_EVERY).await;
    }
}

fn deployment(number: usize) -> Value {
    let name = format!("a{number}");
    let (millicores, mib) = SHAPES[number % SHAPES.len()];
    let mut pod = shape(millicores, mib);
    let key = match number % 4 {
        1 => Some("topology.kubernetes.io/zone"),
        2 => Some("kubernetes.io/hostname"),
        _ => None,
    };
    if let Some(key) = key {
        pod["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name}}}]);
    }
    let mut deployment = controller(&name, &pod);
    deployment["spec"]["replicas"] = json!(50);
    deployment["spec"]["selector"] = json!({"matchLabels": {"app": name}});
    deployment
}
