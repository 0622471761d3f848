//! A day of a cluster, looked at once a minute.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kerf_api::NodeClaim;
use kerf_units::quantity::Quantity;
use kube::Api;
use kube::api::ListParams;

use crate::workload::Workload;
use crate::world::{Prices, World};

/// Between two looks at the cluster.
pub(crate) const LOOK: Duration = Duration::from_secs(60);

/// What a day begins with.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) name: String,
    pub(crate) flags: String,
    pub(crate) seed: u64,
    pub(crate) prices: Prices,
    pub(crate) span: Duration,
    pub(crate) deployments: usize,
}

/// What a day was like.
pub(crate) struct Day {
    pub(crate) setup: Setup,
    pub(crate) looks: Vec<Look>,
    pub(crate) launched: usize,
    pub(crate) evictions: f64,
}

/// What a look at the cluster shows.
#[derive(Default)]
pub(crate) struct Look {
    pub(crate) price: f64,
    pub(crate) nodes: f64,
    pub(crate) pods: f64,
    pub(crate) waiting: f64,
    /// What the requests of the running pods cost at the prices of the KWOK catalogue, which are proportional to cpu and memory (KWK-029).
    pub(crate) requested: f64,
}

/// Lives through a day.
pub(crate) async fn live(setup: Setup) -> Day {
    let world = World::start(&setup.flags, setup.seed, setup.prices).await;
    let mut workload = Workload::start(&world.client, setup.deployments, setup.seed).await;
    let mut launched = BTreeSet::new();
    let mut looks = Vec::new();
    let mut passed = Duration::ZERO;
    while passed < setup.span {
        workload.advance(&world.client, passed).await;
        tokio::time::sleep(LOOK).await;
        passed += LOOK;
        looks.push(look(&world, &mut launched).await);
    }
    let evictions = world.evictions();
    world.end().await;
    Day {
        setup,
        looks,
        launched: launched.len(),
        evictions,
    }
}

/// Looks at the cluster, and adds the NodeClaims that have an instance to those that were seen before.
pub(crate) async fn look(world: &World, launched: &mut BTreeSet<String>) -> Look {
    let mut look = Look::default();
    let claims = Api::<NodeClaim>::all(world.client.clone())
        .list(&ListParams::default())
        .await;
    for claim in claims.expect("listed").items {
        if claim.status.as_ref().is_none_or(|status| status.provider_id.is_none()) {
            continue;
        }
        look.nodes += 1.0;
        look.price += world.offerings.of(&claim);
        launched.insert(claim.metadata.name.unwrap_or_default());
    }
    let pods = Api::<Pod>::all(world.client.clone()).list(&ListParams::default()).await;
    for pod in pods.expect("listed").items {
        match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => {
                look.pods += 1.0;
                look.requested += price_of_requests(&pod);
            }
            Some("Pending") | None => look.waiting += 1.0,
            Some(_) => {}
        }
    }
    look
}

/// $/h of a core and of a GB of memory (KWK-029).
const CORE: f64 = 0.025;
const GIGABYTE: f64 = 0.001;

/// What the requests of a pod cost; nothing for pods of DaemonSets.
fn price_of_requests(pod: &Pod) -> f64 {
    let owners = pod.metadata.owner_references.iter().flatten();
    if owners.into_iter().any(|owner| owner.kind == "DaemonSet") {
        return 0.0;
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    let amount = |text: &str| text.parse::<Quantity>().map_or(0.0, |amount| amount.to_f64());
    requests
        .flatten()
        .map(|(name, quantity)| match name.as_str() {
            "cpu" => amount(&quantity.0) * CORE,
            "memory" => amount(&quantity.0) / 1e9 * GIGABYTE,
            _ => 0.0,
        })
        .sum()
}
