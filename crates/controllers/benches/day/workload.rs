//! The workload of a day: Deployments that follow the time of day, and Jobs.

use std::f64::consts::TAU;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{KwokNodeClass, NodePool};
use kerf_testkit::draw::Draw;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "default";
/// Between two changes of a Deployment's replicas, as an autoscaler of pods makes them.
const RESCALE: Duration = Duration::from_secs(5 * 60);
/// Between two Jobs, on average.
const JOB: Duration = Duration::from_secs(3 * 60);
/// Requests of the pods: millicores, and MiB for each of them.
const CPU: [u64; 8] = [100, 250, 250, 500, 500, 1_000, 2_000, 4_000];
const MIB_PER_MILLICORE: [u64; 3] = [1, 4, 8];

/// A Deployment that follows the time of day.
struct Service {
    name: String,
    least: f64,
    most: f64,
    /// The hour with most replicas.
    peak: f64,
    replicas: u64,
    /// When the replicas change next.
    next: Duration,
}

/// What runs.
pub(crate) struct Workload {
    draw: Draw,
    services: Vec<Service>,
    jobs: usize,
    next_job: Duration,
}

impl Workload {
    /// Creates the NodePool and the Deployments.
    pub(crate) async fn start(client: &Client, deployments: usize, seed: u64) -> Self {
        create::<KwokNodeClass>(&Api::all(client.clone()), node_class()).await;
        create::<NodePool>(&Api::all(client.clone()), pool("10%")).await;
        let daemons = [("agent", 100, 128), ("logs", 50, 100)];
        for (name, millicores, mib) in daemons {
            let mut daemon = controller(name, &shape(millicores, mib));
            daemon["spec"]["selector"] = json!({"matchLabels": {"app": name}});
            create::<DaemonSet>(&Api::namespaced(client.clone(), NAMESPACE), daemon).await;
        }
        let mut workload = Self {
            draw: Draw::new(seed),
            services: Vec::new(),
            jobs: 0,
            next_job: Duration::ZERO,
        };
        for number in 0..deployments {
            workload.deploy(client, number).await;
        }
        workload
    }

    async fn deploy(&mut self, client: &Client, number: usize) {
        let name = format!("service-{number:02}");
        let cpu = self.draw.pick(&CPU);
        let mib = cpu * self.draw.pick(&MIB_PER_MILLICORE);
        let most = (2 + self.draw.below(24) as u64).min(1 + 30_000 / cpu) as f64;
        let mut pod = shape(cpu, mib);
        let spread = |key: &str, otherwise: &str| json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": otherwise, "labelSelector": {"matchLabels": {"app": name}}}]);
        match number % 6 {
            0 => pod["topologySpreadConstraints"] = spread("topology.kubernetes.io/zone", "DoNotSchedule"),
            1 => pod["topologySpreadConstraints"] = spread("kubernetes.io/hostname", "ScheduleAnyway"),
            2 if most < 8.0 => pod["topologySpreadConstraints"] = spread("kubernetes.io/hostname", "DoNotSchedule"),
            _ => {}
        }
        let mut deployment = controller(&name, &pod);
        deployment["spec"]["replicas"] = json!(1);
        deployment["spec"]["selector"] = json!({"matchLabels": {"app": name}});
        create::<Deployment>(&Api::namespaced(client.clone(), NAMESPACE), deployment).await;
        if number.is_multiple_of(3) {
            let budget = json!({"metadata": {"name": name}, "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": name}}}});
            create::<PodDisruptionBudget>(&Api::namespaced(client.clone(), NAMESPACE), budget).await;
        }
        // Most services are used by day, some by night.
        let peak = if number % 5 == 4 { 2.0 } else { 14.0 } + self.draw.below(4) as f64;
        self.services.push(Service {
            name,
            least: (most / 5.0).max(1.0),
            most,
            peak,
            replicas: 1,
            next: Duration::from_secs(self.draw.below(300) as u64),
        });
    }

    /// Does what is due at a time of the day.
    pub(crate) async fn advance(&mut self, client: &Client, passed: Duration) {
        let hour = passed.as_secs_f64() / 3_600.0;
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
        for service in &mut self.services {
            if passed < service.next {
                continue;
            }
            service.next = passed + RESCALE;
            let day = f64::midpoint(1.0, (TAU * (hour - service.peak) / 24.0).cos());
            let noise = 0.9 + 0.2 * self.draw.below(1_000) as f64 / 1_000.0;
            let wanted = ((service.least + (service.most - service.least) * day) * noise)
                .round()
                .max(1.0) as u64;
            // Autoscalers of pods leave small differences alone.
            if wanted.abs_diff(service.replicas) * 10 <= service.replicas {
                continue;
            }
            service.replicas = wanted;
            let scale = Patch::Merge(json!({"spec": {"replicas": wanted}}));
            let patched = deployments.patch(&service.name, &PatchParams::default(), &scale).await;
            patched.expect("scaled");
        }
        while self.next_job <= passed {
            self.next_job += JOB.mul_f64(0.5 + self.draw.below(1_000) as f64 / 1_000.0);
            self.run_job(client).await;
        }
    }

    async fn run_job(&mut self, client: &Client) {
        self.jobs += 1;
        let name = format!("job-{:04}", self.jobs);
        let cpu = self.draw.pick(&CPU[3..7]);
        let mut pod = shape(cpu, cpu * self.draw.pick(&MIB_PER_MILLICORE));
        pod["restartPolicy"] = json!("Never");
        let mut job = controller(&name, &pod);
        let minutes = 3 + self.draw.below(30);
        let mut annotations = json!({"sandbox.kerf.sh/run-for": format!("{minutes}m")});
        if self.draw.below(4) == 0 {
            annotations["karpenter.sh/do-not-disrupt"] = json!("true");
        }
        job["spec"]["template"]["metadata"]["annotations"] = annotations;
        let pods = 1 + self.draw.below(6);
        job["spec"]["parallelism"] = json!(pods);
        job["spec"]["completions"] = json!(pods);
        job["spec"]["ttlSecondsAfterFinished"] = json!(60);
        create::<Job>(&Api::namespaced(client.clone(), NAMESPACE), job).await;
    }
}

pub(crate) fn node_class() -> Value {
    json!({"metadata": {"name": "default"}, "spec": {}})
}

/// A NodePool with one budget.
pub(crate) fn pool(budget: &str) -> Value {
    let one = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({"metadata": {"name": "default"}, "spec": {
        "template": {"spec": {
            "requirements": [
                one("karpenter.sh/capacity-type", "on-demand"),
                one("kubernetes.io/arch", "amd64"),
                one("kubernetes.io/os", "linux"),
            ],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        }},
        "disruption": {
            "consolidateAfter": "30s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{"nodes": budget}],
        },
    }})
}

/// The least of a controller of pods.
pub(crate) fn controller(name: &str, pod: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": pod}}})
}

/// A pod with these requests.
pub(crate) fn shape(millicores: u64, mib: u64) -> Value {
    let requests = json!({"cpu": format!("{millicores}m"), "memory": format!("{mib}Mi")});
    json!({"containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]})
}

pub(crate) async fn create<K: Serialize + DeserializeOwned + Clone + std::fmt::Debug>(api: &Api<K>, object: Value) {
    let object = serde_json::from_value(object).expect("an object of that kind");
    api.create(&PostParams::default(), &object).await.expect("created");
}
