//! The workloads of upstream's performance suites (DIS-308 to DIS-310, KWK-181 to KWK-187), with their limits in the cluster's time and their
//! floors of use. Virtual time measures neither memory nor processor time of the controller: of those statements, the tests show all but these.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kerf_api::{NodeClaim, NodePool};
use kerf_units::quantity::Quantity;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::simulation::emptiness::{apart, is_tainted};
use crate::simulation::harness::Simulation;

/// The cluster is at rest when nothing was being deleted for so long: after a consolidation, and after drift.
const REST: Duration = Duration::from_secs(180);
const REST_OF_DRIFT: Duration = Duration::from_secs(120);
/// The time between two observations of a cluster that is coming to rest.
const LOOK: Duration = Duration::from_secs(5);

/// A Deployment of a suite.
struct Load {
    name: String,
    replicas: u32,
    cpu: &'static str,
    memory: &'static str,
    /// Merged over the template of its pods.
    template: Value,
}

impl Load {
    fn new(name: &str, replicas: u32, cpu: &'static str, memory: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            replicas,
            cpu,
            memory,
            template: json!({}),
        }
    }

    fn small(replicas: u32) -> Self {
        Self::new("small", replicas, "900m", "3100Mi")
    }

    fn large(replicas: u32) -> Self {
        Self::new("large", replicas, "3500m", "28Gi")
    }

    /// So that no two nodes differ by more than one of its pods.
    fn spread_over(mut self, keys: &[&str]) -> Self {
        let over = |key: &&str| {
            json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": self.name}}})
        };
        let constraints: Vec<Value> = keys.iter().map(over).collect();
        self.template["spec"]["topologySpreadConstraints"] = json!(constraints);
        self
    }

    fn apart(mut self) -> Self {
        self.template["spec"]["affinity"] = apart(&self.name)["affinity"].clone();
        self
    }

    fn protected(mut self) -> Self {
        self.template["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
        self
    }

    async fn create(self, simulation: &Simulation) {
        let requests = json!({"cpu": self.cpu, "memory": self.memory});
        let mut template = self.template;
        template["spec"]["containers"] = json!([{"name": "main", "image": "app", "resources": {"requests": requests}}]);
        simulation.deploy(&self.name, self.replicas, template).await;
    }
}

/// A cluster with the suites' pool, on which all of them run within the time given in minutes.
async fn with_loads(minutes: u64, loads: Vec<Load>) -> Simulation {
    let simulation = Simulation::start().await;
    // KWK-103 (performance)
    let sizes = json!({"key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"]});
    let policy = "WhenEmptyOrUnderutilized";
    let spec = json!({
        "template": {"spec": {"requirements": [sizes]}},
        "disruption": {"consolidationPolicy": policy, "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
    });
    simulation.pool("web", spec).await;
    let pods: u32 = loads.iter().map(|load| load.replicas).sum();
    for load in loads {
        load.create(&simulation).await;
    }
    all_run(&simulation, pods, minutes).await;
    simulation
}

async fn all_run(simulation: &Simulation, pods: u32, minutes: u64) {
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    loop {
        let running = simulation.running().await;
        if u32::try_from(running) == Ok(pods) && simulation.pods().await.len() == running {
            return;
        }
        assert!(Instant::now() < end, "{running} of {pods} pods run");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until nothing has been on its way out for three minutes, and says how long the last of it took.
async fn rest(simulation: &Simulation, minutes: u64) -> Duration {
    rest_for(simulation, REST, minutes).await
}

// KWK-188
async fn rest_for(simulation: &Simulation, quiet: Duration, minutes: u64) -> Duration {
    let (began, mut last) = (Instant::now(), Instant::now());
    while last.elapsed() < quiet {
        let nodes = simulation.nodes().await;
        if nodes
            .iter()
            .any(|node| is_tainted(node) || node.metadata.deletion_timestamp.is_some())
        {
            last = Instant::now();
        }
        assert!(
            began.elapsed() < Duration::from_secs(60 * minutes),
            "it does not come to rest"
        );
        tokio::time::sleep(LOOK).await;
    }
    last - began
}

fn amount(amounts: Option<&BTreeMap<String, Text>>, resource: &str) -> f64 {
    let text = amounts
        .and_then(|amounts| amounts.get(resource))
        .map_or("0", |text| &text.0);
    text.parse::<Quantity>().expect("a quantity").to_f64()
}

fn requests(pod: &Pod, resource: &str) -> f64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    requests.map(|requests| amount(Some(requests), resource)).sum()
}

/// What part of a node is asked for, in percent, the mean over all nodes: of cpu and of memory.
async fn use_of_nodes(simulation: &Simulation) -> (f64, f64) {
    let (nodes, pods) = (simulation.nodes().await, simulation.pods().await);
    let mean = |resource: &str| {
        let mut asked: BTreeMap<&str, f64> = BTreeMap::new();
        for pod in &pods {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            *asked.entry(node.unwrap_or_default()).or_default() += requests(pod, resource);
        }
        let share = |node: &Node| {
            let asked = asked.get(node.metadata.name.as_deref().unwrap_or_default());
            let status = node.status.as_ref();
            asked.copied().unwrap_or_default() / amount(status.and_then(|status| status.allocatable.as_ref()), resource)
        };
        let count = f64::from(u32::try_from(nodes.len()).expect("few"));
        100.0 * nodes.iter().map(share).sum::<f64>() / count
    };
    (mean("cpu"), mean("memory"))
}

// KWK-190: times are upper bounds, use has lower bounds.
async fn is_used(simulation: &Simulation, cpu: f64, memory: f64) {
    let used = use_of_nodes(simulation).await;
    assert!(
        used.0 > cpu && used.1 > memory,
        "{used:?} percent of cpu and memory are asked for"
    );
}

/// The names of the nodes on which pods of a Deployment run.
async fn nodes_of(simulation: &Simulation, name: &str) -> BTreeSet<String> {
    let pods = simulation.pods().await;
    let is_its = |pod: &&Pod| {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get("app")).map(String::as_str) == Some(name)
    };
    let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
    pods.iter().filter(is_its).filter_map(node).collect()
}

// DIS-308, KWK-181 (times and use of nodes)
#[tokio::test(start_paused = true)]
async fn a_thousand_pods_become_seven_hundred() {
    let simulation = with_loads(2, vec![Load::small(500), Load::large(500)]).await;
    is_used(&simulation, 53.0, 65.0).await;
    let before = simulation.nodes().await.len();
    for name in ["small", "large"] {
        simulation.scale(name, 350).await;
    }
    let took = rest(&simulation, 20).await;
    assert_eq!(simulation.running().await, 700);
    let left = simulation.nodes().await.len();
    // Three tenths of the pods are gone, and so are three tenths of the nodes, give or take a few.
    assert!(
        left * 100 <= before * 75,
        "{left} of {before} nodes are left after {took:?}"
    );
    simulation.stop().await;
}

// KWK-182, KWK-212 (times and use of nodes)
#[tokio::test(start_paused = true)]
async fn a_thousand_pods_spread_over_nodes_become_seven_hundred() {
    let loads = vec![
        Load::small(500).spread_over(&["kubernetes.io/hostname"]),
        Load::large(500),
    ];
    let simulation = with_loads(5, loads).await;
    is_used(&simulation, 38.0, 40.0).await;
    for name in ["small", "large"] {
        simulation.scale(name, 350).await;
    }
    // Upstream's suite gives this no bound; that of two thousand pods holds.
    rest(&simulation, 35).await;
    assert_eq!(simulation.running().await, 700);
    is_used(&simulation, 38.0, 40.0).await;
    simulation.stop().await;
}

// DIS-308, KWK-186 (times)
#[tokio::test(start_paused = true)]
async fn drift_renews_the_nodes_of_pods_spread_over_them() {
    let loads = vec![
        Load::small(300).spread_over(&["kubernetes.io/hostname"]),
        Load::large(300),
    ];
    let simulation = with_loads(5, loads).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before: BTreeSet<String> = uids(&simulation).await;
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"generation": "2"}}}}});
    simulation.patch::<NodePool>("web", patch).await;
    rest_for(&simulation, REST_OF_DRIFT, 50).await;
    assert_eq!(simulation.running().await, 600);
    let after = uids(&simulation).await;
    assert!(before.is_disjoint(&after), "every node was replaced");
    let is_new = |claim: &NodeClaim| {
        let annotations = claim.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key("generation"))
    };
    assert!(simulation.claims().await.iter().all(is_new));
    simulation.stop().await;
}

async fn uids(simulation: &Simulation) -> BTreeSet<String> {
    let claims = simulation.claims().await;
    claims.into_iter().filter_map(|claim| claim.metadata.uid).collect()
}

// DIS-309, KWK-185, KWK-212 (times and use of nodes)
#[tokio::test(start_paused = true)]
async fn a_hundred_protected_pods_keep_their_nodes_and_no_others() {
    let loads = vec![
        Load::small(500).spread_over(&["kubernetes.io/hostname"]),
        Load::large(500),
        Load::new("protected", 100, "900m", "450Mi").protected(),
    ];
    let simulation = with_loads(4, loads).await;
    is_used(&simulation, 38.0, 40.0).await;
    let protected = nodes_of(&simulation, "protected").await;
    let before = simulation.nodes().await.len();
    for name in ["small", "large"] {
        simulation.scale(name, 250).await;
    }
    let took = rest(&simulation, 35).await;
    assert_eq!(simulation.running().await, 600);
    let nodes = simulation.nodes().await;
    let left: BTreeSet<String> = nodes.into_iter().filter_map(|node| node.metadata.name).collect();
    // Upstream is content when one is left.
    assert!(protected.is_subset(&left) && !protected.is_empty());
    assert!(
        left.len() < before,
        "{} of {before} nodes are left after {took:?}",
        left.len()
    );
    is_used(&simulation, 38.0, 40.0).await;
    simulation.stop().await;
}

// DIS-310, KWK-183, KWK-212 (times and use of nodes); KWK-211: within the patience of the suite, which is less than its bound
#[tokio::test(start_paused = true)]
async fn two_thousand_pods_spread_over_nodes_become_fourteen_hundred() {
    let loads = vec![
        Load::small(1000).spread_over(&["kubernetes.io/hostname"]),
        Load::large(1000),
    ];
    let simulation = with_loads(25, loads).await;
    is_used(&simulation, 38.0, 40.0).await;
    let before = simulation.nodes().await.len();
    for name in ["small", "large"] {
        simulation.scale(name, 700).await;
    }
    let took = rest(&simulation, 35).await;
    assert_eq!(simulation.running().await, 1400);
    let left = simulation.nodes().await.len();
    assert!(left < before, "{left} of {before} nodes are left after {took:?}");
    is_used(&simulation, 38.0, 40.0).await;
    simulation.stop().await;
}

/// Cores and memory of thirty Deployments.
const WIDE: [(&str, &str); 30] = [
    ("240m", "300Mi"),
    ("450m", "400Mi"),
    ("650m", "700Mi"),
    ("900m", "1Gi"),
    ("1400m", "2Gi"),
    ("1900m", "4Gi"),
    ("2400m", "8Gi"),
    ("2800m", "4Gi"),
    ("3300m", "16Gi"),
    ("3700m", "10Gi"),
    ("2300m", "64Gi"),
    ("900m", "30Gi"),
    ("1300m", "32Gi"),
    ("2800m", "32Gi"),
    ("1800m", "30Gi"),
    ("1850m", "20Gi"),
    ("3300m", "30Gi"),
    ("3800m", "300Mi"),
    ("225m", "500Mi"),
    ("450m", "750Mi"),
    ("700m", "1Gi"),
    ("900m", "2Gi"),
    ("1300m", "4Gi"),
    ("1800m", "8Gi"),
    ("2400m", "16Gi"),
    ("2800m", "32Gi"),
    ("3400m", "28Gi"),
    ("3800m", "64Gi"),
    ("3300m", "13Gi"),
    ("2800m", "24Gi"),
];

// DIS-310, KWK-187, KWK-212 (times and use of nodes)
#[tokio::test(start_paused = true)]
async fn thirty_deployments_of_all_sizes_shrink_together() {
    let zone = "topology.kubernetes.io/zone";
    let mut loads = Vec::new();
    for (index, (cpu, memory)) in WIDE.into_iter().enumerate() {
        let load = Load::new(&format!("wide-{index}"), if index < 20 { 35 } else { 30 }, cpu, memory);
        loads.push(match index {
            0..3 => load.spread_over(&[zone]).apart(),
            3..6 => load.spread_over(&[zone, "kubernetes.io/hostname"]),
            _ => load.spread_over(&[zone]),
        });
    }
    let simulation = with_loads(5, loads).await;
    is_used(&simulation, 20.0, 20.0).await;
    let before = simulation.nodes().await.len();
    for index in 0..WIDE.len() {
        simulation
            .scale(&format!("wide-{index}"), if index < 20 { 25 } else { 20 })
            .await;
    }
    let took = rest(&simulation, 40).await;
    assert_eq!(simulation.running().await, 700);
    let left = simulation.nodes().await.len();
    assert!(left < before, "{left} of {before} nodes are left after {took:?}");
    is_used(&simulation, 20.0, 20.0).await;
    simulation.stop().await;
}

// DIS-310, KWK-184, KWK-211, KWK-212 (times and use of nodes)
#[tokio::test(start_paused = true)]
async fn one_deployment_grows_while_another_shrinks_and_both_stand_apart() {
    let simulation = with_loads(5, vec![Load::small(500).apart()]).await;
    is_used(&simulation, 38.0, 40.0).await;
    simulation.scale("small", 250).await;
    Load::large(500).apart().create(&simulation).await;
    all_run(&simulation, 750, 5).await;
    is_used(&simulation, 38.0, 40.0).await;
    simulation.scale("small", 400).await;
    simulation.scale("large", 200).await;
    all_run(&simulation, 600, 5).await;
    rest(&simulation, 25).await;
    assert_eq!(simulation.running().await, 600);
    let nodes = simulation.nodes().await.len();
    // What fits both costs more than one machine for each.
    assert!(nodes <= 600, "{nodes} nodes are left");
    is_used(&simulation, 38.0, 40.0).await;
    simulation.stop().await;
}
