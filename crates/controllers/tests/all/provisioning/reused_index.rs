//! What a pass reuses from the one before changes no plan: clusters go through random changes, and after each one the solver with the reused
//! parts answers as one that reads everything again.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kerf_api::{NodeClaim, NodeOverlay, NodePool};
use kerf_cloud::TypeBuilder;
use kerf_model::instance_type::{Catalogue, CatalogueFault};
use kerf_model::intern::{Interner, sym};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::{Rng, Seed};
use kerf_sandbox::CapturedLog;
use kerf_scheduler::{Options, Prepared, Request, WhatIf, solve};
use kerf_state::lean::{
    LeanCsiNode, LeanDaemonSet, LeanNamespace, LeanNode, LeanPod, LeanPv, LeanPvc, LeanStorageClass,
};
use kerf_state::{Mirror, MirrorOptions};
use kerf_units::policy::Packing;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::provisioning::decisions::object;
use crate::provisioning::metric;
use crate::simulation::harness::{Simulation, create, list};

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const POOLS: [&str; 3] = ["batch", "gpu", "web"];
const APPS: [&str; 3] = ["a", "b", "c"];

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

/// A cluster that receives random changes.
struct World {
    mirror: Mirror,
    rng: Rng,
    serial: u64,
    /// Names and nodes of pods, as last delivered.
    pods: Vec<(String, Option<String>)>,
    nodes: Vec<String>,
    /// Names and pools of claims that are not launched.
    claims: Vec<(String, String)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            mirror: Mirror::new(Arc::new(Interner::default()), &MirrorOptions::default()),
            rng: Seed(seed).rng(),
            serial: 0,
            pods: Vec::new(),
            nodes: Vec::new(),
            claims: Vec::new(),
        };
        for pool in POOLS {
            world.pool(pool);
            world.catalogue(pool);
        }
        for _ in 0..4 {
            world.node();
            world.create_pod();
        }
        world
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).expect("it came from one")
    }

    fn one<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn name(&mut self, kind: &str) -> String {
        self.serial += 1;
        // Names are not in the order of time, so that new objects sort between existing ones.
        format!("{kind}-{}-{}", self.below(10), self.serial)
    }

    fn change(&mut self) {
        match self.below(20) {
            0..=5 => self.create_pod(),
            6 | 7 => self.bind(),
            8 => self.end_pod(),
            9 | 10 => self.node(),
            11 => self.end_node(),
            12 => self.mark_node(),
            13 => self.pool(self.one(&POOLS)),
            14 => self.catalogue(self.one(&POOLS)),
            15 => self.daemon(),
            16 => self.storage(),
            17 => self.namespace(),
            18 => self.launched(),
            _ => {
                let gone: NodePool = object(
                    json!({"metadata": {"name": self.one(&POOLS)}, "spec": {"template": {"spec": {"requirements": [],
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}}),
                );
                self.mirror.delete(&gone);
            }
        }
    }

    fn pool(&mut self, name: &str) {
        let taints = self
            .one(
                &[
                    json!([]),
                    json!([{"key": "team", "effect": "NoSchedule"}]),
                    json!([{"key": "soft", "effect": "PreferNoSchedule"}]),
                ]
                .each_ref(),
            )
            .clone();
        let zones = self.one(&[&ZONES[..], &ZONES[..2]]);
        let generation = self.serial;
        self.mirror.apply::<NodePool>(object(json!({
            "metadata": {"name": name, "uid": name, "generation": generation},
            "spec": {
                "weight": 1 + self.below(3),
                "limits": self.one(&[json!({}), json!({"cpu": "40"}), json!({"nodes": "3"})].each_ref()).clone(),
                "template": {"spec": {"taints": taints,
                    "requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}],
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}},
            "status": {"conditions": [{"type": "Ready", "status": self.one(&["True", "True", "True", "False"]), "reason": "Ready",
                                       "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })));
    }

    /// Other prices, other types, or none for now: the changes that a provider or an overlay makes.
    fn catalogue(&mut self, pool: &str) {
        if self.below(6) == 0 {
            let fault = CatalogueFault::Provider("not now".into());
            return self.mirror.set_catalogue(pool, Err(fault));
        }
        let interner = Arc::clone(self.mirror.interner());
        let gpu = interner.intern("nvidia.com/gpu");
        let mut types = Vec::new();
        for (cores, gpus) in [(4, 0), (16, 0), (16, 1), (48, 4)] {
            if self.below(4) == 0 {
                continue;
            }
            let price = |cents: usize| Price::from_per_hour(cents as f64 / 100.0).expect("a price");
            let mut kind = TypeBuilder::new(&interner, &format!("t{cores}-{gpus}"))
                .label("kubernetes.io/arch", "amd64")
                .label("kubernetes.io/os", "linux")
                .capacity(sym::CPU, cores * 1000)
                .capacity(sym::MEMORY, cores << 32)
                .capacity(sym::PODS, 30)
                .capacity(gpu, gpus);
            for zone in ZONES {
                kind = kind.offering(zone, "on-demand", price(10 + self.below(200)));
            }
            types.push(kind.build());
        }
        self.mirror.set_catalogue(pool, Ok(Arc::new(Catalogue { types })));
    }

    fn create_pod(&mut self) {
        let name = self.name("pod");
        self.pods.push((name, None));
        let at = self.pods.len() - 1;
        self.apply_pod(at, true);
    }

    /// Applies a pod to the mirror; what it asks for follows from its name alone.
    fn apply_pod(&mut self, at: usize, waits: bool) {
        let (name, node) = self.pods[at].clone();
        let pod = shape(&name, node.as_deref(), waits);
        self.mirror.apply::<LeanPod>(object(pod));
    }

    fn bind(&mut self) {
        if self.nodes.is_empty() || self.pods.is_empty() {
            return;
        }
        let (at, node) = (self.below(self.pods.len()), self.below(self.nodes.len()));
        if self.pods[at].1.is_none() {
            self.pods[at].1 = Some(self.nodes[node].clone());
            self.apply_pod(at, false);
        }
    }

    fn end_pod(&mut self) {
        if self.pods.is_empty() {
            return;
        }
        let (name, node) = self.pods.remove(self.below(self.pods.len()));
        self.mirror
            .delete::<LeanPod>(&object(shape(&name, node.as_deref(), false)));
    }

    fn tell_node(&mut self, name: &str) {
        let taints = [
            json!([]),
            json!([]),
            json!([{"key": "team", "effect": "NoSchedule"}]),
            json!([{"key": format!("own-{name}"), "effect": "PreferNoSchedule"}]),
        ];
        let amounts = json!({"cpu": (2 + self.below(15)).to_string(), "memory": "32Gi", "pods": "20",
                             "nvidia.com/gpu": self.below(2).to_string()});
        let mut labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": self.one(&ZONES), "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"});
        if self.below(2) == 0 {
            labels["karpenter.sh/nodepool"] = json!(self.one(&POOLS));
            labels["node.kubernetes.io/instance-type"] = json!("t16-0");
            labels["karpenter.sh/registered"] = json!("true");
        }
        let node = json!({
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {"providerID": format!("cloud://{name}"), "taints": self.one(&taints.each_ref()).clone()},
            "status": {"capacity": amounts, "allocatable": amounts},
        });
        self.mirror.apply::<LeanNode>(object(node));
    }

    fn node(&mut self) {
        if !self.nodes.is_empty() && self.below(3) == 0 {
            let known = self.nodes[self.below(self.nodes.len())].clone();
            return self.tell_node(&known);
        }
        let name = self.name("node");
        self.tell_node(&name);
        self.nodes.push(name);
    }

    fn end_node(&mut self) {
        if self.nodes.is_empty() {
            return;
        }
        let name = self.nodes.remove(self.below(self.nodes.len()));
        self.mirror
            .delete::<LeanNode>(&object(json!({"metadata": {"name": name, "uid": name}})));
    }

    fn mark_node(&mut self) {
        if self.nodes.is_empty() {
            return;
        }
        let name = self.nodes[self.below(self.nodes.len())].clone();
        match self.below(3) {
            0 => self.mirror.mark_for_deletion(&format!("cloud://{name}")),
            1 => self.mirror.unmark_for_deletion(&format!("cloud://{name}")),
            _ => self.mirror.apply::<LeanCsiNode>(object(
                json!({"metadata": {"name": name, "uid": name}, "spec": {"drivers": [
                {"name": "disk.example.com", "nodeID": name, "allocatable": {"count": 1 + self.below(2)}}]}}),
            )),
        }
    }

    fn daemon(&mut self) {
        let name = self.one(&["logs", "driver"]);
        let set = json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
                {"name": "main", "resources": {"requests": {"cpu": format!("{}m", 100 * self.below(9))}}}]}}}});
        if self.below(3) == 0 {
            self.mirror.delete::<LeanDaemonSet>(&object(set));
        } else {
            self.mirror.apply::<LeanDaemonSet>(object(set));
        }
    }

    /// The volume `disk` is elsewhere now, unbound, or its class knows other zones.
    fn storage(&mut self) {
        let zones = json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [self.one(&ZONES)]}]}]);
        self.mirror.apply::<LeanPv>(object(json!({"metadata": {"name": "disk", "uid": "disk"}, "spec": {
            "csi": {"driver": "disk.example.com", "volumeHandle": "disk"}, "nodeAffinity": {"required": {"nodeSelectorTerms": zones}}}})));
        let class = json!({"metadata": {"name": "zonal", "uid": "zonal"}, "provisioner": "disk.example.com",
            "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [{"matchLabelExpressions": [
                {"key": "topology.kubernetes.io/zone", "values": [self.one(&ZONES)]}]}]});
        self.mirror.apply::<LeanStorageClass>(object(class));
        let mut claim = json!({"metadata": {"name": "disk", "namespace": "default", "uid": "disk"}, "spec": {"storageClassName": "zonal"}});
        if self.below(2) == 0 {
            claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
            claim["spec"]["volumeName"] = json!("disk");
        }
        self.mirror.apply::<LeanPvc>(object(claim));
    }

    fn namespace(&mut self) {
        let labels = json!({"team": self.one(&["x", "y"])});
        self.mirror.apply::<LeanNamespace>(object(
            json!({"metadata": {"name": "default", "uid": "default", "labels": labels}}),
        ));
    }

    fn claim(name: &str, pool: &str, launched: bool) -> NodeClaim {
        let mut claim = json!({
            "metadata": {"name": name, "uid": name, "labels": {"karpenter.sh/nodepool": pool}, "resourceVersion": if launched { "2" } else { "1" }},
            "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["t16-0"]}],
                "resources": {"requests": {"cpu": "3", "pods": "3"}}},
        });
        if launched {
            let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "30"});
            claim["status"] =
                json!({"providerID": format!("cloud://{name}"), "capacity": amounts, "allocatable": amounts});
            claim["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("zone-b");
        }
        object(claim)
    }

    /// A claim is launched, and its Node may be created later.
    fn launched(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let (name, pool) = self.claims.remove(self.below(self.claims.len()));
        self.mirror.apply(Self::claim(&name, &pool, true));
        self.nodes.push(name);
    }

    /// Carries out part of a plan, as the controller does.
    fn carry_out(&mut self, plan: &Plan) {
        for launch in &plan.launches {
            if self.below(3) != 0 {
                continue;
            }
            let name = self.name("claim");
            self.mirror.created(Self::claim(&name, &launch.pool, false));
            self.mirror.promise(&name, &launch.pods, launch.requests.clone());
            self.claims.push((name, launch.pool.to_string()));
        }
        for placement in &plan.existing {
            self.mirror
                .nominate(&placement.node, now() + jiff::SignedDuration::from_secs(20));
        }
    }
}

/// A pod that is always the same by the same name.
fn shape(name: &str, node: Option<&str>, waits: bool) -> Value {
    let seed = name
        .bytes()
        .fold(7_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let rng = Seed(seed).rng();
    let below = |bound: u64| usize::try_from(rng.below(bound)).expect("it is small");
    let app = APPS[below(3)];
    let other = APPS[below(3)];
    let key = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"][below(2)];
    let mut spec = json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": format!("{}m", 250 * (1 + below(12)))}}}]});
    let selector = json!({"matchLabels": {"app": other}});
    let term =
        json!([{"topologyKey": key, "labelSelector": selector, "namespaceSelector": {"matchLabels": {"team": "x"}}}]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    match below(12) {
        0 => spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": ZONES[below(3)]}),
        1 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        }
        2 => spec["affinity"] = json!({"podAntiAffinity": {required: term}}),
        3 => spec["affinity"] = json!({"podAffinity": {required: term}}),
        4 => {
            spec["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term[0]}]}});
        }
        5 => spec["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("1"),
        6 => spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]),
        7 => spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]),
        8 => spec["nodeSelector"] = json!({"karpenter.sh/nodepool": POOLS[below(3)]}),
        9 => spec["containers"][0]["resources"]["requests"][format!("example.com/r{}", below(3))] = json!("1"),
        _ => {}
    }
    if below(3) == 0 {
        spec["tolerations"] = json!([{"key": "team", "operator": "Exists"}]);
    }
    let mut status = json!({"phase": "Pending"});
    if waits {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    }
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
        status = json!({"phase": "Running"});
    }
    json!({"metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}, "spec": spec, "status": status})
}

/// Pods that wait and pods of nodes that go, as a pass takes them.
fn batch(snapshot: &Snapshot) -> Vec<Arc<Pod>> {
    let going = snapshot.nodes.iter().filter(|node| node.marked_for_deletion);
    let moving = going.flat_map(|node| &node.pods);
    let moving = moving.filter(|pod| pod.node_name.is_some());
    snapshot.pending.iter().chain(moving).cloned().collect()
}

#[test]
fn a_solver_that_keeps_what_has_not_changed_plans_as_one_that_keeps_nothing() {
    let (mut placed, mut launched, mut left) = (0, 0, 0);
    for seed in 0..40 {
        let packing = [Packing::Cheapest, Packing::Upstream][usize::from(seed % 2 == 0)];
        let options = Options {
            packing,
            ..Options::default()
        };
        let mut world = World::new(seed);
        let mut kept: Option<Prepared> = None;
        for step in 0..40 {
            for _ in 0..=world.below(3) {
                world.change();
            }
            let snapshot = world.mirror.snapshot(now());
            let pods = batch(&snapshot);
            let request = Request::new(&snapshot, &pods);
            let prepared = match kept {
                Some(last) => last.next(&snapshot, &options),
                None => Prepared::new(&snapshot, &options),
            };
            let plan = prepared.solve(&WhatIf::from(&request), &options, &|| false);
            let fresh = solve(&request, &options, &|| false);
            assert!(plan == fresh, "seed {seed}, step {step}: {plan:#?}\nfresh: {fresh:#?}");
            placed += plan
                .existing
                .iter()
                .map(|placement| placement.pods.len())
                .sum::<usize>();
            launched += plan.launches.len();
            left += plan.unschedulable.len();
            world.carry_out(&plan);
            kept = Some(prepared);
        }
    }
    assert!(
        placed > 100 && launched > 100 && left > 100,
        "{placed}, {launched}, {left}"
    );
}

async fn scale(simulation: &Simulation, name: &str, replicas: usize) {
    let api: Api<Deployment> = Api::namespaced(simulation.client(), "default");
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch(name, &PatchParams::default(), &patch).await.expect("scaled");
}

/// The same of the controller itself: it compares each of its plans with that of a solver that reads everything anew.
#[tokio::test(start_paused = true)]
async fn passes_of_a_cluster_that_changes_in_every_way_are_those_of_a_fresh_controller() {
    let log = CapturedLog::start();
    let simulation = Simulation::start_with(|options| {
        options.feature_gates.node_overlay = true;
    })
    .await;
    let rng = Seed(3).rng();
    let below = |bound: u64| usize::try_from(rng.below(bound)).expect("it is small");
    let drains = json!({"disruption": {"consolidateAfter": "20s", "consolidationPolicy": "WhenEmpty"}});
    for pool in ["web", "batch"] {
        simulation.pool(pool, drains.clone()).await;
    }
    let zone = "topology.kubernetes.io/zone";
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": zone, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}}}]});
    let away = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "away"}}}]}}});
    let ports =
        json!({"containers": [{"name": "main", "image": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let of_batch = json!({"nodeSelector": {"karpenter.sh/nodepool": "batch"}});
    let apps = [
        ("plain", json!({})),
        ("spread", spread),
        ("away", away),
        ("ports", ports),
        ("of-batch", of_batch),
    ];
    for (name, spec) in &apps {
        simulation.deployment(name, 1, "1500m", spec.clone()).await;
    }
    for _ in 0..40 {
        let (app, _) = &apps[below(apps.len() as u64)];
        scale(&simulation, app, below(5)).await;
        match below(6) {
            0 => {
                let limit = json!({"spec": {"limits": {"cpu": (10 + below(40)).to_string()}, "weight": 1 + below(9)}});
                simulation.patch::<NodePool>("web", limit).await;
            }
            1 => {
                let taints = [
                    json!([]),
                    json!([{"key": "team", "effect": "NoSchedule"}]),
                    json!([{"key": "team", "effect": "PreferNoSchedule"}]),
                ];
                let taints = json!({"spec": {"template": {"spec": {"taints": taints.get(below(3))}}}});
                simulation.patch::<NodePool>("batch", taints).await;
            }
            2 => match list::<NodeOverlay>(&simulation.client()).await.pop() {
                Some(overlay) => {
                    simulation
                        .delete::<NodeOverlay>(&overlay.metadata.name.unwrap_or_default())
                        .await;
                }
                None => {
                    let dearer = json!({"metadata": {"name": "dearer"}, "spec": {"priceAdjustment": format!("+{}%", 10 + below(90)),
                        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}});
                    create::<NodeOverlay>(&simulation.client(), dearer).await;
                }
            },
            3 => {
                let nodes = simulation.nodes().await;
                let name = nodes.first().and_then(|node| node.metadata.name.clone());
                if let Some(name) = name {
                    simulation.delete::<k8s_openapi::api::core::v1::Node>(&name).await;
                }
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(500 * (1 + below(60) as u64))).await;
    }
    let solves = "karpenter_scheduler_scheduling_duration_seconds_count{controller=\"provisioner\"}";
    let passes = metric::value(&simulation, solves).unwrap_or(0.0);
    assert!(passes > 10.0, "{passes} passes");
    for bug in ["plan differs from that of a fresh reading", "plan breaks a rule"] {
        let lines = log.lines(bug);
        assert!(lines.is_empty(), "{lines:?}");
    }
    simulation.stop().await;
}
