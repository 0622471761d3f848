//! Runs a scenario: sandbox, cloud, controllers and faults, on one thread in virtual time.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{KwokNodeClass, NodeClaim, NodePool};
use kerf_chaos::{
    ClusterObject, EmptyWorld, Instances, LEASE, Observation, debug_log, delete, first_end, in_virtual_time, merge,
    pick,
};
use kerf_model::intern::Interner;
use kerf_runtime::{Options, Seed};
use kerf_sandbox::faults::FaultPlan;
use kerf_sandbox::{KUBELET, Sandbox};
use kube::Api;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::chaos::any_cloud::{AnyCloud, Kwok};
use crate::chaos::cloud::{Cloud, CloudFaults, catalogue};
use crate::chaos::process::{End, Environment, Process};
use crate::chaos::scenario::{Kind, Scenario, Stage, Step};
use crate::objects::create;
use crate::offline_agreement::{Agreement, Tally};

/// How long a world may take to become quiet once nothing happens to it any more.
const PATIENCE: Duration = Duration::from_secs(75 * 60);
/// How long it has to stay so.
const CALM: Duration = Duration::from_secs(30);
/// How long a process may take to list everything before it ends.
const FIRST_SYNC: Duration = Duration::from_secs(120);
/// How long a process that ended by itself takes to be back.
const RESTART: Duration = Duration::from_secs(3);

/// What became of a world.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) violations: Vec<String>,
    pub(crate) agreement: Tally,
    pub(crate) log: Vec<String>,
    pub(crate) events: u64,
    pub(crate) calls: u64,
    pub(crate) nodes_max: usize,
    pub(crate) quiet_after: Option<Duration>,
    /// The virtual time of all this.
    pub(crate) lived: Duration,
}

/// Lives through a scenario on a runtime of its own; `whole` keeps the log.
pub(crate) fn run(scenario: &Scenario, whole: bool) -> Report {
    in_virtual_time(async {
        let mut world = World::begin(scenario, whole).await;
        let log = || debug_log(world.sandbox.clock()).on_this_thread();
        let _log = std::env::var_os("KERF_CHAOS_SEED").map(|_| log());
        world.run(scenario).await;
        world.end().await
    })
}

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) observation: Observation,
    pub(crate) workloads: Vec<(String, Kind)>,
    any_cloud: AnyCloud,
    agreement: Agreement,
    interner: Arc<Interner>,
    options: Options,
    retries: bool,
    elects: bool,
    processes: Vec<Process>,
    /// When processes that ended start again.
    back_at: Vec<Instant>,
    lives: u64,
    plan: FaultPlan,
    /// The life that cannot reach the API at the moment.
    isolated: Option<u64>,
    /// Since when no call of the API fails.
    calm_since: Option<Instant>,
    away: Duration,
    calls: u64,
    nodes_max: usize,
    born: Instant,
}

impl World {
    async fn begin(scenario: &Scenario, whole: bool) -> Self {
        let Stage { replicas, delay } = scenario.stage;
        let instances = match delay {
            Some(_) => Instances::AreNodes,
            None => Instances::AreReported,
        };
        let EmptyWorld {
            clock,
            observation,
            api,
        } = EmptyWorld::new(scenario.seed, whole, instances);
        let sandbox = Sandbox::builder().seed(scenario.seed).clock(clock.clone()).api(api);
        let sandbox = sandbox.build().await.expect("a sandbox");
        let spec = delay.map_or_else(|| json!({}), |delay| json!({"nodeRegistrationDelay": delay}));
        let class = json!({"metadata": {"name": "default"}, "spec": spec});
        create::<KwokNodeClass>(&sandbox.client(), class).await;
        for pool in &scenario.pools {
            create::<NodePool>(&sandbox.client(), pool.clone()).await;
        }
        let interner = Arc::new(Interner::default());
        let rng = Seed(scenario.seed).derive("cloud").rng();
        let any_cloud = match delay {
            Some(_) => AnyCloud::Kwok(Kwok::new(clock, rng, &interner)),
            None => AnyCloud::Cloud(Cloud::new(sandbox.client(), clock, rng, &interner, observation.clone())),
        };
        let mut options = Options::default();
        options.feature_gates.node_repair = scenario.repair;
        options.commands_per_pass = scenario.policies.commands_per_pass;
        options.consolidation_destinations = scenario.policies.destinations;
        options.consolidation_savings_per_pod = scenario.policies.savings_per_pod;
        let mut world = Self {
            sandbox,
            any_cloud,
            agreement: Agreement::default(),
            observation,
            interner,
            options,
            retries: scenario.retries,
            elects: replicas > 1,
            processes: Vec::new(),
            back_at: Vec::new(),
            lives: 0,
            plan: FaultPlan::default(),
            isolated: None,
            calm_since: Some(Instant::now()),
            away: Duration::ZERO,
            workloads: Vec::new(),
            calls: 0,
            nodes_max: 0,
            born: Instant::now(),
        };
        for _ in 0..replicas {
            world.start();
        }
        world
    }

    /// Starts a process of the controllers.
    fn start(&mut self) {
        self.lives += 1;
        let process = Process::start(&Environment {
            life: self.lives,
            sandbox: &self.sandbox,
            any_cloud: &self.any_cloud,
            interner: &self.interner,
            options: &self.options,
            plan: &self.plan,
            retries: self.retries,
            elects: self.elects,
            decision_observer: self.agreement.observer(self.sandbox.api(), catalogue),
        });
        self.observation
            .remark(&format!("the controllers start, life {}", self.lives));
        self.processes.push(process);
    }

    /// A process dies.
    async fn die(&mut self, index: usize) {
        let dead = self.processes.remove(index);
        let life = dead.life();
        self.calls += dead.die().await;
        self.observation.remark(&format!("life {life} is over"));
    }

    /// Which process leads.
    async fn leader(&self) -> Option<usize> {
        if !self.elects {
            return (!self.processes.is_empty()).then_some(0);
        }
        let leases = Api::<Lease>::namespaced(self.sandbox.client(), "default");
        let holder = leases
            .get(LEASE)
            .await
            .ok()
            .and_then(|lease| lease.spec?.holder_identity);
        let mut lives = self.processes.iter().map(|process| process.life().to_string());
        lives.position(|life| holder.as_ref() == Some(&life))
    }

    async fn run(&mut self, scenario: &Scenario) {
        let began = Instant::now();
        for (at, step) in &scenario.steps {
            self.wait(began + *at).await;
            self.observation.remark(&format!("{step:?}"));
            self.act(step).await;
        }
        self.wait(began + scenario.life).await;
    }

    /// Lets time pass. Starts processes again that ended meanwhile.
    async fn wait(&mut self, until: Instant) {
        loop {
            let next = self.back_at.iter().min().map_or(until, |at| until.min(*at));
            let ended = tokio::select! {
                biased;
                ended = first_end(&mut self.processes, |process| Box::pin(process.ended())) => Some(ended),
                () = tokio::time::sleep_until(next) => None,
            };
            let now = Instant::now();
            if let Some((index, end)) = ended {
                let after = match end {
                    End::Killed => self.away,
                    End::LostLease if self.elects => {
                        self.observation.remark("a process lost its lease");
                        RESTART
                    }
                    End::LostLease => {
                        self.observation
                            .report(vec!["a lease was lost that nobody asked for".to_owned()]);
                        RESTART
                    }
                    // Only while something is in its way.
                    End::NotSynced(which) if self.troubled() => {
                        self.observation.remark(&which);
                        RESTART
                    }
                    End::NotSynced(how) | End::Failed(how) => {
                        self.observation
                            .report(vec![format!("the controllers ended by themselves: {how}")]);
                        RESTART
                    }
                };
                self.die(index).await;
                self.back_at.push(now + after);
                continue;
            }
            let due = self.back_at.extract_if(.., |at| *at <= now).count();
            for _ in 0..due {
                self.start();
            }
            if now >= until {
                break;
            }
        }
        self.nodes_max = self.nodes_max.max(self.observation.look(|seen| seen.nodes.len()));
    }

    /// Whether calls of the API fail, or failed until lately.
    fn troubled(&self) -> bool {
        self.calm_since.is_none_or(|since| since.elapsed() < FIRST_SYNC)
    }

    /// Tells every process what may go wrong on its way to the API.
    fn set_faults(&mut self) {
        let is_calm = self.isolated.is_none() && self.plan == FaultPlan::default();
        self.calm_since = is_calm.then(Instant::now);
        let nothing_passes = FaultPlan {
            lost: 1.0,
            watch_loss: 1.0,
            ..FaultPlan::default()
        };
        self.observation
            .watches_lose(self.isolated.is_some() || self.plan.watch_loss > 0.0);
        for process in &self.processes {
            let isolated = self.isolated == Some(process.life());
            process.set_faults(if isolated { &nothing_passes } else { &self.plan });
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
                self.set_faults();
            }
            Step::CloudFaults(faults) => self.any_cloud.set_faults(*faults),
            Step::Isolate(on) => {
                let leader = self.leader().await.filter(|_| *on);
                let process = leader.and_then(|index| self.processes.get(index));
                self.isolated = process.map(Process::life);
                self.set_faults();
            }
            Step::Kill(calls, moment, away) => {
                self.away = *away;
                if let Some(process) = self.leader().await.and_then(|index| self.processes.get(index)) {
                    process.kill_after(*calls, *moment);
                }
            }
            Step::Crash(away) => {
                if let Some(index) = self.leader().await {
                    self.die(index).await;
                    self.back_at.push(Instant::now() + *away);
                }
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
                if let Some(id) = pick(self.running(), *which) {
                    self.vanish(&id).await;
                }
            }
            Step::Reclaim(which) => {
                if let Some(id) = pick(self.running(), *which) {
                    self.any_cloud.reclaim(&id);
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

    async fn patch<K: ClusterObject>(&self, name: &str, patch: Value) {
        merge(&Api::<K>::all(self.sandbox.client()), name, &patch).await;
    }

    /// Instances that run, by id.
    fn running(&self) -> Vec<String> {
        self.any_cloud.running(&self.observation)
    }

    /// Ends an instance without any event.
    async fn vanish(&self, id: &str) {
        self.any_cloud.vanish(id);
        if self.any_cloud.is_kwok() {
            let node = self.observation.look(|seen| {
                let mut nodes = seen.nodes.values();
                nodes.find(|node| node.provider_id == id).map(|node| node.name.clone())
            });
            if let Some(node) = node {
                let stopped = json!({"metadata": {"annotations": {KUBELET: "stopped"}}});
                self.patch::<Node>(&node, stopped).await;
            }
        }
    }

    /// Every kubelet whose instance runs works again.
    async fn heal(&self) {
        let running = self.running();
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

    /// No pod is protected any more. Those that take the place of others are again.
    async fn free_pods(&self) {
        let pods = Api::<Pod>::namespaced(self.sandbox.client(), "default");
        let free = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}});
        let protected = self.observation.look(|seen| {
            let pods = seen.pods.values().filter(|pod| pod.protection.is_some());
            pods.map(|pod| pod.key.clone()).collect::<Vec<_>>()
        });
        for pod in protected {
            merge(&pods, pod.trim_start_matches("default/"), &free).await;
        }
    }

    /// Ends all faults and removes all PodDisruptionBudgets. The world has to become quiet.
    async fn end(mut self) -> Report {
        self.observation.remark("peace");
        self.isolated = None;
        self.act(&Step::Faults(FaultPlan::default())).await;
        self.act(&Step::CloudFaults(CloudFaults::default())).await;
        self.back_at.fill(Instant::now());
        self.heal().await;
        let client = self.sandbox.client();
        let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), "default");
        for budget in self
            .observation
            .look(|seen| seen.pdbs.keys().cloned().collect::<Vec<_>>())
        {
            delete(&budgets, budget.trim_start_matches("default/")).await;
        }
        let began = Instant::now();
        let mut calm_since: Option<Instant> = None;
        let mut unfinished = Vec::new();
        let mut quiet_after = None;
        while began.elapsed() < PATIENCE {
            self.free_pods().await;
            self.wait(Instant::now() + Duration::from_secs(10)).await;
            unfinished = self.observation.unfinished();
            if !unfinished.is_empty() {
                calm_since = None;
            } else if calm_since.get_or_insert_with(Instant::now).elapsed() >= CALM {
                quiet_after = Some(began.elapsed());
                break;
            }
        }
        if quiet_after.is_none() {
            self.observation.report(unfinished);
        }
        while !self.processes.is_empty() {
            self.die(0).await;
        }
        let mut violations = self.observation.violations();
        violations.extend(self.agreement.differences());
        Report {
            violations,
            agreement: self.agreement.tally(),
            log: self.observation.log(),
            events: self.observation.events(),
            calls: self.calls,
            nodes_max: self.nodes_max,
            quiet_after,
            lived: self.born.elapsed(),
        }
    }
}
