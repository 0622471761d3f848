//! A plan carried out by a real kube-scheduler: the planned machines are created as Nodes, then every pod, and each pod is bound to the
//! machine the plan put it on. All Nodes but the one in question are cordoned, so the real filters judge exactly the planned placement,
//! with everything placed before it counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kerf_cloud::quantities;
use kerf_kwok::builtin_catalogue;
use kerf_model::instance_type::{InstanceType, Offering, allocatable};
use kerf_model::intern::Interner;
use kerf_model::plan::{Launch, Plan};
use kerf_model::requirement::Requirements;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Request, solve};
use kerf_state::ClusterObjects;
use kerf_testkit::objects;
use kerf_units::policy::Packing;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::objects::create;
use crate::real_control_plane::harness::Cluster;

/// How long kube-scheduler may take over one pod; it backs off when it tries the pod before it has seen the Node change.
const BIND: Duration = Duration::from_secs(20);

/// SplitMix64: the same workload for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// What is to be scheduled.
#[derive(Default)]
struct Workload {
    pods: Vec<Value>,
    daemon_sets: Vec<Value>,
    volumes: Vec<Value>,
    volume_claims: Vec<Value>,
    pools: Vec<Value>,
}

fn pool(name: &str, spec: Value) -> Value {
    let mut pool = json!({"metadata": {"name": name, "uid": name}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8", "16"]}]}}}});
    crate::merge::merge(&mut pool["spec"]["template"]["spec"], spec);
    pool
}

/// A pod of an app; `spec` is merged over the least there must be.
fn replica(app: &str, number: usize, cpu_milli: usize, spec: Value) -> Value {
    let mut pod = objects::stored(
        "default",
        objects::pod(&format!("{app}-{number}"), &format!("{cpu_milli}m")),
    );
    pod["metadata"]["labels"] = json!({"app": app});
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!(format!("{}Mi", cpu_milli * 2));
    crate::merge::merge(&mut pod["spec"], spec);
    pod
}

fn selector(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

fn spread(app: &str, key: &str, skew: u32) -> Value {
    json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector(app)})
}

fn required(kind: &str, app: &str, key: &str) -> Value {
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector(app)}]}})
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

impl Workload {
    /// All constraints at once, in amounts that depend on the seed.
    fn of(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let mut all = Self::default();
        let sizes = [100, 250, 500, 1000, 1500, 3000];
        all.pools.push(pool("default", json!({})));
        let dedicated = json!({"taints": [{"key": "team", "value": "data", "effect": "NoSchedule"}]});
        all.pools.push(pool("data", dedicated));
        let agent = json!({"metadata": {"name": "agent", "namespace": "default", "uid": "agent"}, "spec": {
            "selector": selector("agent"),
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "agent", "ports": [{"containerPort": 9100, "hostPort": 9100}],
                                "resources": {"requests": {"cpu": "150m", "memory": "128Mi"}}}]}}}});
        all.daemon_sets.push(agent);
        for number in 0..6 + draw.below(6) {
            let constraints = json!({"topologySpreadConstraints": [spread("web", ZONE, 1)]});
            all.pods.push(replica("web", number, draw.pick(&sizes), constraints));
        }
        for number in 0..3 + draw.below(4) {
            let constraints =
                json!({"topologySpreadConstraints": [spread("even", ZONE, 1), spread("even", HOSTNAME, 2)]});
            all.pods.push(replica("even", number, 500, constraints));
        }
        for number in 0..2 + draw.below(3) {
            let affinity = required("podAntiAffinity", "db", HOSTNAME);
            let claim = format!("data-{number}");
            let zone = draw.pick(&["test-zone-a", "test-zone-b", "test-zone-c"]);
            all.zonal_volume(&claim, zone);
            let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
            all.pods.push(replica(
                "db",
                number,
                1000,
                json!({"affinity": affinity, "volumes": volumes}),
            ));
        }
        // All in one zone, whichever it is.
        for number in 0..3 + draw.below(3) {
            let affinity = required("podAffinity", "cache", ZONE);
            all.pods.push(replica(
                "cache",
                number,
                draw.pick(&sizes),
                json!({"affinity": affinity}),
            ));
        }
        for number in 0..2 + draw.below(2) {
            let ports = json!({"containers": [{"name": "main", "image": "app", "ports": [{"containerPort": 8080, "hostPort": 8080}],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}}}]});
            all.pods.push(replica("edge", number, 250, ports));
        }
        for number in 0..2 + draw.below(4) {
            let dedicated = json!({"nodeSelector": {"karpenter.sh/nodepool": "data", "kubernetes.io/arch": draw.pick(&["amd64", "arm64"])},
                                   "tolerations": [{"key": "team", "operator": "Exists"}]});
            all.pods.push(replica("etl", number, draw.pick(&sizes), dedicated));
        }
        for number in 0..5 + draw.below(10) {
            all.pods.push(replica("plain", number, draw.pick(&sizes), json!({})));
        }
        all
    }

    /// A volume that can only be used in a zone, bound to a claim already.
    fn zonal_volume(&mut self, claim: &str, zone: &str) {
        let amount = json!({"storage": "1Gi"});
        self.volumes.push(json!({"metadata": {"name": format!("pv-{claim}"), "uid": format!("pv-{claim}")}, "spec": {
            "capacity": amount, "accessModes": ["ReadWriteOnce"], "storageClassName": "zonal", "hostPath": {"path": "/data"},
            "claimRef": {"namespace": "default", "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": ZONE, "operator": "In", "values": [zone]}]}]}}}}));
        let done = json!({"pv.kubernetes.io/bind-completed": "yes"});
        self.volume_claims.push(
            json!({"metadata": {"name": claim, "namespace": "default", "uid": claim, "annotations": done}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "zonal", "volumeName": format!("pv-{claim}"),
            "resources": {"requests": amount}}}),
        );
    }

    fn snapshot(&self, interner: &Arc<Interner>) -> Arc<Snapshot> {
        let catalogue = builtin_catalogue(interner);
        let catalogues = ["default", "data"].map(|name| (name.to_owned(), Ok(Arc::clone(&catalogue))));
        let world = ClusterObjects {
            pods: read(&self.pods),
            pools: read(&self.pools),
            daemon_sets: read(&self.daemon_sets),
            volumes: read(&self.volumes),
            volume_claims: read(&self.volume_claims),
            catalogues: BTreeMap::from(catalogues),
            ..ClusterObjects::default()
        };
        let vocabulary = kerf_kwok::vocabulary(&catalogue, interner);
        let mut mirror = world.into_mirror(Arc::clone(interner), kerf_controllers::conventions_of(&vocabulary));
        mirror.snapshot("2026-01-01T00:00:00Z".parse().expect("a time"))
    }
}

fn read<T: DeserializeOwned>(objects: &[Value]) -> Vec<T> {
    let object = |object: &Value| serde_json::from_value(object.clone()).expect("an object of that kind");
    objects.iter().map(object).collect()
}

/// The machine a launch becomes: its cheapest, or the last of its types, which is the dearest it may become.
fn machine<'a>(snapshot: &Snapshot, launch: &'a Launch, dearest: bool) -> (&'a InstanceType, &'a Offering) {
    let (cheapest, offering) = launch.cheapest.expect("an offering");
    if !dearest {
        let kind = &launch.catalogue.types[cheapest as usize];
        return (kind, &kind.offerings[offering as usize]);
    }
    let kind = &launch.catalogue.types[*launch.types.last().expect("a type") as usize];
    let well_known = |key| snapshot.is_well_known(key);
    let compatible = |offering: &&Offering| {
        launch
            .requirements
            .compatible(&offering.requirements, well_known, &snapshot.interner)
            .is_ok()
    };
    let offering = kind.offerings.iter().rfind(compatible);
    (kind, offering.expect("each type of a launch has an offering"))
}

/// The Node of a machine, cordoned.
fn node(snapshot: &Snapshot, launch: &Launch, name: &str, dearest: bool) -> Value {
    let interner = &snapshot.interner;
    let (kind, offering) = machine(snapshot, launch, dearest);
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |requirements: &Requirements| {
        for requirement in requirements.iter().filter(|one| !one.complement) {
            if let Some(value) = requirement.single() {
                labels.insert(
                    interner.text(requirement.key).to_owned(),
                    interner.text(value).to_owned(),
                );
            }
        }
    };
    add(&launch.requirements);
    add(&kind.requirements);
    add(&offering.requirements);
    labels.insert("karpenter.sh/nodepool".to_owned(), launch.pool.to_string());
    labels.insert(HOSTNAME.to_owned(), name.to_owned());
    labels.retain(|key, _| !key.starts_with("karpenter.sh/registered") && !key.starts_with("karpenter.sh/initialized"));
    let taints: Vec<Value> = if &*launch.pool == "data" {
        vec![json!({"key": "team", "value": "data", "effect": "NoSchedule"})]
    } else {
        Vec::new()
    };
    let huge = |name| interner.text(name).starts_with("hugepages-");
    let left = allocatable(&kind.capacity, &kind.overhead, huge);
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": true, "taints": taints},
        "status": {"capacity": quantities(&kind.capacity, interner), "allocatable": quantities(&left, interner),
                   "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                                   "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

/// Each pod and its machine, in the order the plan placed them.
fn placements(snapshot: &Snapshot, plan: &Plan) -> Vec<(String, String)> {
    let machines = plan.launches.iter().enumerate();
    let machine_of: BTreeMap<&str, usize> = machines
        .flat_map(|(number, launch)| launch.pods.iter().map(move |pod| (&*pod.name, number)))
        .collect();
    let pods = plan.order.iter().filter_map(|at| snapshot.pending.get(*at as usize));
    pods.filter_map(|pod| Some((pod.name.to_string(), machine_name(*machine_of.get(&*pod.name)?))))
        .collect()
}

fn machine_name(number: usize) -> String {
    format!("planned-{number}")
}

/// A cluster in which a plan is carried out.
struct Stage {
    cluster: Cluster,
}

impl Stage {
    async fn cordon(&self, node: &str, cordoned: bool) {
        let api: Api<Node> = Api::all(self.cluster.client.clone());
        let patch = json!({"spec": {"unschedulable": cordoned}});
        api.patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("patched");
    }

    /// Creates a Node with its status and lets the daemons settle on it.
    async fn add_node(&self, object: Value) {
        let api: Api<Node> = Api::all(self.cluster.client.clone());
        let status = json!({"status": object["status"]});
        let node: Node = create(&self.cluster.client, object).await;
        let name = node.metadata.name.unwrap_or_default();
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("patched");
    }

    /// Waits until each Node has its daemon and each claim its volume.
    async fn settled(&self, nodes: usize) {
        let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(self.cluster.client.clone());
        let is_bound = |claim: &PersistentVolumeClaim| {
            claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
        };
        let pods: Api<Pod> = Api::default_namespaced(self.cluster.client.clone());
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let all = pods
                .list(&ListParams::default().labels("app=agent"))
                .await
                .expect("listed");
            let homes: BTreeSet<_> = all.items.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
            let claims = claims.list(&ListParams::default()).await.expect("listed");
            if homes.len() == nodes && claims.iter().all(is_bound) {
                return;
            }
            assert!(Instant::now() < end, "daemons on {homes:?} of {nodes}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Creates the pod while only its machine takes pods, and waits until kube-scheduler has bound it there.
    async fn place(&mut self, object: &Value, node: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.cluster.client.clone());
        self.cordon(node, false).await;
        let mut written: Pod = serde_json::from_value(object.clone()).expect("a pod");
        written.metadata.uid = None;
        let name = written.metadata.name.clone().unwrap_or_default();
        pods.create(&PostParams::default(), &written).await.expect("created");
        let end = Instant::now() + BIND;
        loop {
            let pod = pods.get(&name).await.expect("there");
            if let Some(bound) = pod.spec.and_then(|spec| spec.node_name) {
                assert_eq!(bound, node, "{name}");
                break;
            }
            let says = pod.status.and_then(|status| status.conditions);
            assert!(Instant::now() < end, "{name} is not bound to {node}: {says:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.cordon(node, true).await;
    }
}

/// Plans the workload of a seed and has it carried out.
async fn carried_out(seed: u64, packing: Packing, dearest: bool) {
    let workload = Workload::of(seed);
    let interner = Arc::new(Interner::default());
    let snapshot = workload.snapshot(&interner);
    let options = Options {
        packing,
        ..Options::default()
    };
    let plan = solve(&Request::pending(&snapshot), &options, &|| false);
    assert_eq!(snapshot.pending.len(), workload.pods.len());
    assert!(
        plan.unschedulable.is_empty() && plan.ignored.is_empty(),
        "seed {seed}: {plan:?}"
    );
    let mut stage = Stage {
        cluster: Cluster::start("0s").await,
    };
    for daemon_set in &workload.daemon_sets {
        stage.cluster.create_in::<DaemonSet>(as_written(daemon_set)).await;
    }
    for volume in &workload.volumes {
        create::<PersistentVolume>(&stage.cluster.client, as_written(volume)).await;
    }
    for claim in &workload.volume_claims {
        stage
            .cluster
            .create_in::<PersistentVolumeClaim>(as_written(claim))
            .await;
    }
    for (number, launch) in plan.launches.iter().enumerate() {
        stage
            .add_node(node(&snapshot, launch, &machine_name(number), dearest))
            .await;
    }
    stage.settled(plan.launches.len()).await;
    let objects: BTreeMap<String, &Value> = workload
        .pods
        .iter()
        .map(|pod| (pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(), pod))
        .collect();
    let order = placements(&snapshot, &plan);
    assert_eq!(order.len(), workload.pods.len());
    for (pod, node) in order {
        stage.place(objects[&pod], &node).await;
    }
}

/// The object as a user writes it, without what the control plane adds.
fn as_written(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("uid");
        meta.remove("annotations");
    }
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_scheduler_accepts_the_cheapest_plan() {
    for seed in [1, 2] {
        carried_out(seed, Packing::Cheapest, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_scheduler_accepts_the_upstream_packing() {
    carried_out(3, Packing::Upstream, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_scheduler_accepts_the_dearest_machines_a_plan_allows() {
    carried_out(4, Packing::Cheapest, true).await;
}
