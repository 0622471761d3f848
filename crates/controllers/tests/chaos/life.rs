//! Living through a scenario: the sandbox, the cloud, the controllers and what befalls them, on one thread in virtual time.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{KwokNodeClass, NodeClaim, NodePool};
use kerf_apiserver::ApiServer;
use kerf_controllers::{Manager, ManagerConfig, ManagerError, Tuning};
use kerf_model::intern::Interner;
use kerf_runtime::client::{ApiLayers, Retry};
use kerf_runtime::{CancellationToken, Clock, Metrics, Options, Seed};
use kerf_sandbox::faults::{FaultLayer, FaultPlan, Faults};
use kerf_sandbox::{KUBELET, Sandbox};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::Layer;

use crate::caller::KerfCalls;
use crate::cloud::{Cloud, CloudFaults};
use crate::observation::Observation;
use crate::scenario::{Kind, LIFE, Scenario, Step, Workload};

/// How long a world may take to become quiet once nothing happens to it any more.
const PATIENCE: Duration = Duration::from_secs(75 * 60);
/// How long it has to stay so.
const CALM: Duration = Duration::from_secs(30);

/// What became of a world.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) violations: Vec<String>,
    pub(crate) log: Vec<String>,
    pub(crate) events: u64,
    pub(crate) calls: u64,
    pub(crate) nodes_max: usize,
    pub(crate) quiet_after: Option<Duration>,
}

/// Lives through a scenario on a runtime of its own; `whole` keeps the log.
pub(crate) fn live(scenario: &Scenario, whole: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut world = World::begin(scenario, whole).await;
        world.run(scenario).await;
        world.end().await
    })
}

/// The controllers of one life.
struct Controllers {
    manager: JoinHandle<Result<(), ManagerError>>,
    faults: Faults,
}

struct World {
    sandbox: Sandbox,
    cloud: Cloud,
    observation: Observation,
    interner: Arc<Interner>,
    options: Options,
    retries: bool,
    controllers: Option<Controllers>,
    lives: u64,
    plan: FaultPlan,
    back_at: Option<Instant>,
    away: Duration,
    workloads: Vec<(String, Kind)>,
    calls: u64,
    nodes_max: usize,
}

impl World {
    async fn begin(scenario: &Scenario, whole: bool) -> Self {
        let clock = Clock::simulated(jiff::Timestamp::from_second(1_767_225_600).expect("a time"));
        let observation = Observation::new(clock.clone(), whole);
        let (wall, look) = (clock.clone(), observation.clone());
        let api = ApiServer::builder()
            .clock(Arc::new(move || wall.now()))
            .seed(scenario.seed)
            .observer(move |write| look.write(&write))
            .build();
        let sandbox = Sandbox::builder().seed(scenario.seed).clock(clock.clone()).api(api);
        let sandbox = sandbox.build().await.expect("a sandbox");
        let class = json!({"metadata": {"name": "default"}, "spec": {}});
        create::<KwokNodeClass>(&sandbox.client(), class).await;
        for pool in &scenario.pools {
            create::<NodePool>(&sandbox.client(), pool.clone()).await;
        }
        let interner = Arc::new(Interner::default());
        let rng = Seed(scenario.seed).derive("cloud").rng();
        let cloud = Cloud::new(sandbox.client(), clock, rng, &interner, observation.clone());
        let mut options = Options::default();
        options.feature_gates.node_repair = scenario.repair;
        let mut world = Self {
            sandbox,
            cloud,
            observation,
            interner,
            options,
            retries: scenario.retries,
            controllers: None,
            lives: 0,
            plan: FaultPlan::default(),
            back_at: None,
            away: Duration::ZERO,
            workloads: Vec::new(),
            calls: 0,
            nodes_max: 0,
        };
        world.start();
        world
    }

    /// Starts the controllers anew.
    fn start(&mut self) {
        self.lives += 1;
        let seed = self.sandbox.seed().derive(&format!("life {}", self.lives));
        let faults = Faults::new("controller", seed.derive("faults"));
        faults.set(self.plan.clone());
        let layers = match self.retries {
            true => ApiLayers::new().retry(Retry::new(seed.derive("retries").rng())),
            false => ApiLayers::new(),
        };
        let service = KerfCalls.layer(self.sandbox.api().clone());
        let service = layers.layer(FaultLayer(faults.clone()).layer(service));
        let manager = Manager::new(ManagerConfig {
            provider: Arc::new(self.cloud.clone()),
            client: Client::new(service, "default"),
            election: None,
            options: self.options.clone(),
            clock: self.sandbox.clock().clone(),
            seed,
            interner: Arc::clone(&self.interner),
            metrics: Metrics::default(),
            listen: false,
            tuning: Tuning {
                verify: false,
                ..Tuning::default()
            },
        });
        self.observation.remark("the controllers start");
        self.controllers = Some(Controllers {
            manager: tokio::spawn(manager.run(CancellationToken::new())),
            faults,
        });
    }

    /// The controllers die.
    async fn die(&mut self) {
        if let Some(dead) = self.controllers.take() {
            dead.manager.abort();
            // The answer is that it was aborted.
            let _ = dead.manager.await;
            self.calls += dead.faults.calls();
            self.observation.remark("the controllers are dead");
        }
    }

    async fn run(&mut self, scenario: &Scenario) {
        let began = Instant::now();
        for (at, step) in &scenario.steps {
            self.wait(began + *at).await;
            self.observation.remark(&format!("{step:?}"));
            self.act(step).await;
        }
        self.wait(began + LIFE).await;
    }

    /// Lets time pass; who died meanwhile comes back.
    async fn wait(&mut self, until: Instant) {
        loop {
            let killed = self.controllers.as_ref().map(|controllers| controllers.faults.killed());
            let back_at = self.back_at.unwrap_or(until).min(until);
            tokio::select! {
                biased;
                () = async { match &killed {
                    Some(killed) => killed.cancelled().await,
                    None => std::future::pending().await,
                } } => {
                    self.die().await;
                    self.back_at = Some(Instant::now() + self.away);
                }
                () = tokio::time::sleep_until(back_at) => {
                    if self.back_at.is_some_and(|at| at <= Instant::now()) {
                        self.back_at = None;
                        self.start();
                    }
                    if Instant::now() >= until {
                        break;
                    }
                }
            }
        }
        self.nodes_max = self.nodes_max.max(self.observation.look(|seen| seen.nodes.len()));
        let ended = self
            .controllers
            .as_ref()
            .is_some_and(|controllers| controllers.manager.is_finished());
        if ended {
            self.observation
                .accuse(vec!["the controllers ended by themselves".to_owned()]);
            self.die().await;
            self.start();
        }
    }

    async fn act(&mut self, step: &Step) {
        match step {
            Step::Deploy(workload) => self.deploy(workload).await,
            Step::Scale(which, replicas) => {
                let scalable = |kind: &Kind| matches!(kind, Kind::Deployment | Kind::StatefulSet);
                if let Some((name, kind)) = self.choose(*which, scalable) {
                    self.patch_workload(&name, kind, json!({"spec": {"replicas": replicas}}))
                        .await;
                }
            }
            Step::Roll(which) => {
                let rolls = |kind: &Kind| matches!(kind, Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet);
                if let Some((name, kind)) = self.choose(*which, rolls) {
                    let annotations = json!({"edition": which.to_string()});
                    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
                    self.patch_workload(&name, kind, patch).await;
                }
            }
            Step::Retire(which) => self.retire(*which).await,
            Step::Faults(plan) => {
                self.plan = plan.clone();
                if let Some(controllers) = &self.controllers {
                    controllers.faults.set(plan.clone());
                }
            }
            Step::CloudFaults(faults) => self.cloud.set_faults(*faults),
            Step::Kill(calls, moment, away) => {
                self.away = *away;
                if let Some(controllers) = &self.controllers {
                    controllers
                        .faults
                        .kill_at(controllers.faults.calls() + 1 + calls, *moment);
                }
            }
            Step::Crash(away) => {
                self.die().await;
                self.back_at = Some(Instant::now() + *away);
            }
            Step::Kubelet(which, conduct) => {
                if let Some(node) = pick(
                    self.observation.look(|seen| seen.nodes.keys().cloned().collect()),
                    *which,
                ) {
                    let patch = json!({"metadata": {"annotations": {KUBELET: conduct}}});
                    self.patch::<Node>(&node, patch).await;
                }
            }
            Step::Heal => self.heal().await,
            Step::Vanish(which) => {
                if let Some(id) = pick(self.cloud.running(), *which) {
                    self.cloud.vanish(&id);
                }
            }
            Step::Reclaim(which) => {
                if let Some(id) = pick(self.cloud.running(), *which) {
                    self.cloud.reclaim(&id);
                }
            }
            Step::Jump(seconds) => self.sandbox.clock().jump(jiff::SignedDuration::from_secs(*seconds)),
            Step::Compact => self.sandbox.api().compact(),
            Step::ChangePool(which, patch) => {
                if let Some(pool) = pick(
                    self.observation.look(|seen| seen.pools.keys().cloned().collect()),
                    *which,
                ) {
                    self.patch::<NodePool>(&pool, patch.clone()).await;
                }
            }
            Step::DeleteClaim(which) => {
                if let Some(claim) = pick(
                    self.observation.look(|seen| seen.claims.keys().cloned().collect()),
                    *which,
                ) {
                    delete(&Api::<NodeClaim>::all(self.sandbox.client()), &claim).await;
                }
            }
            Step::DeleteNode(which) => {
                if let Some(node) = pick(
                    self.observation.look(|seen| seen.nodes.keys().cloned().collect()),
                    *which,
                ) {
                    delete(&Api::<Node>::all(self.sandbox.client()), &node).await;
                }
            }
            Step::DeletePod(which) => {
                if let Some(pod) = pick(
                    self.observation.look(|seen| seen.pods.keys().cloned().collect()),
                    *which,
                ) {
                    let name = pod.trim_start_matches("default/");
                    delete(&Api::<Pod>::namespaced(self.sandbox.client(), "default"), name).await;
                }
            }
        }
    }

    fn choose(&self, which: u64, of: impl Fn(&Kind) -> bool) -> Option<(String, Kind)> {
        let suitable = self.workloads.iter().filter(|(_, kind)| of(kind)).cloned();
        pick(suitable.collect(), which)
    }

    async fn deploy(&mut self, workload: &Workload) {
        let Workload {
            name,
            kind,
            replicas,
            spec,
            annotations,
            pdb,
        } = workload;
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
        let selector = json!({"matchLabels": labels});
        let meta = json!({"name": name});
        let client = self.sandbox.client();
        self.observation.workload(name, *kind == Kind::DaemonSet);
        match kind {
            Kind::Deployment => {
                let spec = json!({"replicas": replicas, "selector": selector, "template": template});
                create_in::<Deployment>(&client, json!({"metadata": meta, "spec": spec})).await;
            }
            Kind::StatefulSet => {
                let spec = json!({
                    "replicas": replicas, "selector": selector, "template": template, "serviceName": name,
                    "podManagementPolicy": "Parallel",
                });
                create_in::<StatefulSet>(&client, json!({"metadata": meta, "spec": spec})).await;
            }
            Kind::DaemonSet => {
                let spec = json!({"selector": selector, "template": template});
                create_in::<DaemonSet>(&client, json!({"metadata": meta, "spec": spec})).await;
            }
            Kind::Job => {
                let spec = json!({"parallelism": replicas, "completions": replicas, "template": template});
                create_in::<Job>(&client, json!({"metadata": meta, "spec": spec})).await;
            }
        }
        if let Some(pdb) = pdb {
            let mut spec = pdb.clone();
            spec["selector"] = selector;
            create_in::<PodDisruptionBudget>(&client, json!({"metadata": meta, "spec": spec})).await;
        }
        self.workloads.push((name.clone(), *kind));
    }

    async fn retire(&mut self, which: u64) {
        let Some((name, kind)) = self.choose(which, |_| true) else {
            return;
        };
        self.workloads.retain(|(other, _)| *other != name);
        let client = self.sandbox.client();
        match kind {
            Kind::Deployment => delete(&Api::<Deployment>::namespaced(client, "default"), &name).await,
            Kind::StatefulSet => delete(&Api::<StatefulSet>::namespaced(client, "default"), &name).await,
            Kind::DaemonSet => delete(&Api::<DaemonSet>::namespaced(client, "default"), &name).await,
            Kind::Job => delete(&Api::<Job>::namespaced(client, "default"), &name).await,
        }
    }

    async fn patch_workload(&self, name: &str, kind: Kind, patch: Value) {
        let client = self.sandbox.client();
        match kind {
            Kind::Deployment => merge(&Api::<Deployment>::namespaced(client, "default"), name, patch).await,
            Kind::StatefulSet => merge(&Api::<StatefulSet>::namespaced(client, "default"), name, patch).await,
            Kind::DaemonSet => merge(&Api::<DaemonSet>::namespaced(client, "default"), name, patch).await,
            Kind::Job => {}
        }
    }

    async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + DeserializeOwned + Clone + std::fmt::Debug,
    {
        merge(&Api::<K>::all(self.sandbox.client()), name, patch).await;
    }

    /// Every kubelet whose instance runs works again.
    async fn heal(&self) {
        let running = self.cloud.running();
        for node in self
            .observation
            .look(|seen| seen.nodes.values().cloned().collect::<Vec<_>>())
        {
            if running.contains(&node.provider_id) {
                self.patch::<Node>(&node.name, json!({"metadata": {"annotations": {KUBELET: null}}}))
                    .await;
            }
        }
    }

    /// Nothing goes wrong any more and nothing stands in the way of anything: the world has to become quiet.
    async fn end(mut self) -> Report {
        self.observation.remark("peace");
        self.act(&Step::Faults(FaultPlan::default())).await;
        self.act(&Step::CloudFaults(CloudFaults::default())).await;
        if self.controllers.is_none() {
            self.back_at = Some(Instant::now());
        }
        self.heal().await;
        let client = self.sandbox.client();
        let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), "default");
        for budget in self
            .observation
            .look(|seen| seen.pdbs.keys().cloned().collect::<Vec<_>>())
        {
            delete(&budgets, budget.trim_start_matches("default/")).await;
        }
        let pods = Api::<Pod>::namespaced(client, "default");
        for pod in self
            .observation
            .look(|seen| seen.pods.keys().cloned().collect::<Vec<_>>())
        {
            let free = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}});
            merge(&pods, pod.trim_start_matches("default/"), free).await;
        }
        let began = Instant::now();
        let mut calm_since: Option<Instant> = None;
        let mut unrest = Vec::new();
        let mut quiet_after = None;
        while began.elapsed() < PATIENCE {
            self.wait(Instant::now() + Duration::from_secs(10)).await;
            unrest = self.observation.unrest();
            if !unrest.is_empty() {
                calm_since = None;
            } else if calm_since.get_or_insert_with(Instant::now).elapsed() >= CALM {
                quiet_after = Some(began.elapsed());
                break;
            }
        }
        if quiet_after.is_none() {
            self.observation.accuse(unrest);
        }
        self.die().await;
        Report {
            violations: self.observation.violations(),
            log: self.observation.log(),
            events: self.observation.events(),
            calls: self.calls,
            nodes_max: self.nodes_max,
            quiet_after,
        }
    }
}

fn pick<T>(mut of: Vec<T>, which: u64) -> Option<T> {
    let count = u64::try_from(of.len()).unwrap_or(0);
    let index = usize::try_from(which.checked_rem(count)?).unwrap_or(0);
    (index < of.len()).then(|| of.swap_remove(index))
}

/// Deletes what may be gone by then.
async fn delete<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str) {
    let _ = api.delete(name, &DeleteParams::background()).await;
}

/// Changes what may be gone by then.
async fn merge<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str, patch: Value) {
    let _ = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
}

async fn create<K>(client: &Client, object: Value)
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).expect("an object of that kind");
    Api::<K>::all(client.clone())
        .create(&PostParams::default(), &object)
        .await
        .expect("created");
}

async fn create_in<K>(client: &Client, object: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).expect("an object of that kind");
    let api = Api::<K>::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &object).await.expect("created");
}
