//! Lives through a scenario: cluster, account, controllers and troubles, on one thread in virtual time.

use super::invariants::{Sight, Watcher, id_of, remains, unfinished};
use super::notebook::Notebook;
use super::process::{End, Environment, Process, kerf_client};
use super::protection::{free_pods, held, lift_budgets};
use super::scenario::{LIFE, POOLS, SECOND_CLASS, Scenario, Step};
use super::stage::{Stage, stage};
use super::trouble::{Kept, Trouble};
use super::users::{all, pods};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{EC2NodeClass, NodeClaim, NodePool};
use kerf_aws_sandbox::AwsSandbox;
use kerf_aws_sandbox::account::{Account, Signal};
use kerf_aws_sandbox::faults::{AwsFaultPlan, AwsFaults};
use kerf_chaos::{Observation, create, debug_log, delete, first_end, merge, pick};
use kerf_runtime::CancellationToken;
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::FaultPlan;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;

/// How long a world may take to become quiet once nothing happens to it any more.
const PATIENCE: Duration = Duration::from_secs(100 * 60);
/// How long it has to stay so.
const CALM: Duration = Duration::from_secs(180);
/// How often the world is observed, and how often while it is left alone: observing is a twelfth of all work.
const LOOK_EVERY: Duration = Duration::from_secs(15);
const LOOK_AT_REST: Duration = Duration::from_secs(60);
/// How long a process that ended by itself takes to be back.
const RESTART: Duration = Duration::from_secs(10);
/// How long after a fault of calls of the Kubernetes API a process may still end because of it.
const AFTERMATH: Duration = Duration::from_secs(150);
/// How long a quiet world is left alone: profiles are protected for an hour, and collected each half hour.
const REST: Duration = Duration::from_secs(100 * 60);
/// Most calls of an hour of rest, those of two classes: half of them are about the status of instances and the queue.
const REST_CALLS_MAX: usize = 1200;

/// Most violations of the invariants after single events that are reported.
const VIOLATIONS_MAX: usize = 20;

/// What became of a world.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) violations: Vec<String>,
    pub(super) log: Vec<String>,
    pub(super) calls: usize,
    pub(super) launches: usize,
    pub(super) instances_max: usize,
    /// The virtual time of all this.
    pub(super) lived: Duration,
}

/// Lives through a scenario; `whole` keeps the log.
pub(super) fn run(scenario: &Scenario, whole: bool) -> Report {
    in_virtual_time(scenario.seed, async {
        let mut world = World::begin(scenario, whole).await;
        let log = || debug_log(world.sandbox.clock()).on_this_thread();
        let _log = std::env::var_os("KERF_AWS_CHAOS_SEED").map(|_| log());
        world.live(scenario).await;
        world.end(scenario).await
    })
}

/// Runs something on a runtime of its own, with all chance from a seed.
pub(super) fn in_virtual_time<T>(seed: u64, what: impl Future<Output = T>) -> T {
    // While no subscriber was ever set, every span is written out for the `log` crate.
    static NOBODY: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    let _nobody = tracing::dispatcher::set_default(&NOBODY);
    // The SDK draws the pauses between its tries from the generator of the thread.
    fastrand::seed(seed);
    kerf_chaos::in_virtual_time(what)
}

/// Whether EC2 may take an instance's reservation back.
fn is_interruptible(account: &Account, id: &str) -> bool {
    let lifecycle = account.instances.get(id).and_then(|one| one.lifecycle.as_deref());
    lifecycle == Some("interruptible-capacity-reservation")
}

pub(super) struct World {
    sandbox: Sandbox,
    pub(super) aws: AwsSandbox,
    machines: CancellationToken,
    observation: Observation,
    processes: Vec<Process>,
    elects: bool,
    compares: bool,
    /// When processes that ended start again.
    back_at: Vec<Instant>,
    lives: u64,
    aws_plan: AwsFaultPlan,
    kube_plan: FaultPlan,
    /// Until when calls of the Kubernetes API may fail.
    kube_trouble: Option<Instant>,
    kept: Kept,
    replicas: BTreeMap<String, u64>,
    watcher: Watcher,
    notebook: Notebook,
    /// Kinds of trouble that hinder the controllers now.
    hindered_by: BTreeSet<&'static str>,
    /// When one of them began or ended last.
    hindrance_changed: Option<Instant>,
    calm_since: Option<Instant>,
    next_look: Instant,
    look_every: Duration,
    instances_max: usize,
    born: Instant,
}

impl World {
    pub(super) async fn begin(scenario: &Scenario, whole: bool) -> Self {
        let born = Instant::now();
        let Stage {
            sandbox,
            aws,
            machines,
            observation,
        } = stage(scenario.seed, &scenario.reserved, whole).await;
        let client = sandbox.client();
        for class in &scenario.classes {
            create::<EC2NodeClass>(&Api::all(client.clone()), class).await;
        }
        for pool in &scenario.pools {
            create::<NodePool>(&Api::all(client.clone()), pool).await;
        }
        for budget in &scenario.pdbs {
            create::<PodDisruptionBudget>(&Api::default_namespaced(client.clone()), budget).await;
        }
        let mut replicas = BTreeMap::new();
        for deployment in &scenario.deployments {
            create::<Deployment>(&Api::default_namespaced(client.clone()), deployment).await;
            let name = deployment["metadata"]["name"].as_str().unwrap().to_owned();
            replicas.insert(name, deployment["spec"]["replicas"].as_u64().unwrap());
        }
        let mut world = Self {
            sandbox,
            aws,
            machines,
            processes: Vec::new(),
            elects: scenario.processes > 1,
            compares: scenario.compares,
            back_at: Vec::new(),
            lives: 0,
            aws_plan: AwsFaultPlan::default(),
            kube_plan: FaultPlan::default(),
            kube_trouble: None,
            kept: Kept::default(),
            replicas,
            watcher: Watcher::default(),
            notebook: Notebook::new(whole, observation.clone()),
            observation,
            hindered_by: BTreeSet::new(),
            hindrance_changed: None,
            calm_since: None,
            next_look: born + LOOK_EVERY,
            look_every: LOOK_EVERY,
            instances_max: 0,
            born,
        };
        for _ in 0..scenario.processes {
            world.start();
        }
        world
    }

    pub(super) fn client(&self) -> Client {
        self.sandbox.client()
    }

    /// A client whose writes count as those of a life of the controllers.
    pub(super) fn client_of(&self, life: u64) -> Client {
        kerf_client(&self.sandbox, life).0
    }

    /// What is not as it must be once the world is quiet, as the invariants of all clouds have it.
    pub(super) fn unfinished(&self) -> Vec<String> {
        self.observation.unfinished()
    }

    /// What was wrong so far.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut all = self.notebook.violations.clone();
        all.extend(self.observation.violations().into_iter().take(VIOLATIONS_MAX));
        all
    }

    /// Lets some time pass.
    pub(super) async fn pass(&mut self, time: Duration) {
        self.wait(Instant::now() + time).await;
    }

    /// All processes die and stay away, as if that were calm.
    pub(super) async fn abandon(&mut self) {
        while let Some(process) = self.processes.pop() {
            process.die().await;
        }
        self.note_calm();
    }

    /// Lets a process end as if by itself.
    pub(super) fn break_down(&self) {
        self.processes[0].break_down();
    }

    fn at(&self) -> f64 {
        self.born.elapsed().as_secs_f64()
    }

    fn remark(&self, text: &str) {
        self.observation.remark(text);
        tracing::info!("---- {text}");
    }

    fn complain(&mut self, text: &str) {
        let at = self.at();
        self.notebook.complain(at, text);
    }

    fn start(&mut self) {
        self.lives += 1;
        let process = Process::start(&Environment {
            life: self.lives,
            sandbox: &self.sandbox,
            aws: &self.aws,
            observation: &self.observation,
            elects: self.elects,
            compares: self.compares,
        });
        process.aws_faults.set(self.aws_plan.clone());
        process.set_faults(&self.kube_plan);
        self.remark(&format!("life {} begins", self.lives));
        self.processes.push(process);
        self.note_calm();
    }

    /// Counts the time of calm anew, unless something hinders the controllers.
    fn note_calm(&mut self) {
        let is_calm = self.hindered_by.is_empty() && self.back_at.is_empty();
        self.calm_since = is_calm.then(Instant::now);
    }

    async fn live(&mut self, scenario: &Scenario) {
        for (at, step) in &scenario.steps {
            self.wait(self.born + *at).await;
            self.remark(&format!("{step:?}"));
            self.act(scenario, step).await;
        }
        self.wait(self.born + LIFE).await;
    }

    /// Lets time pass. Starts processes again that ended meanwhile, and checks the invariants.
    async fn wait(&mut self, until: Instant) {
        loop {
            let next = self.back_at.iter().min().map_or(until, |at| until.min(*at));
            let next = next.min(self.next_look);
            let ended = tokio::select! {
                biased;
                ended = first_end(&mut self.processes, |process| Box::pin(process.ended())) => Some(ended),
                () = tokio::time::sleep_until(next) => None,
            };
            let now = Instant::now();
            if let Some((index, end)) = ended {
                self.bury(index, &end).await;
                continue;
            }
            let due = self.back_at.extract_if(.., |at| *at <= now).count();
            for _ in 0..due {
                self.start();
            }
            if now >= self.next_look {
                self.next_look = now + self.look_every;
                self.look().await;
            }
            if now >= until {
                return;
            }
        }
    }

    /// Handles the end of a process that ended by itself; it will start again.
    async fn bury(&mut self, index: usize, end: &End) {
        let now = Instant::now();
        let process = self.processes.remove(index);
        self.remark(&format!("life {} ended: {}", process.life, end.why));
        let was_troubled = self.kube_trouble.is_some_and(|until| now < until + AFTERMATH);
        // What ends now may have begun when something still hindered it.
        let was_hindered = self.hindrance_changed.is_some_and(|at| now < at + RESTART) || !self.hindered_by.is_empty();
        if !was_troubled && (end.ran || !was_hindered) {
            self.complain(&format!("a process ended by itself: {}", end.why));
        }
        process.die().await;
        self.back_at.push(now + RESTART);
        self.note_calm();
    }

    pub(super) async fn sight(&self) -> Sight {
        let client = self.client();
        let objects = (all(&client).await, all(&client).await, all(&client).await);
        let held = self.observation.look(held);
        self.aws.with(|account, now| Sight::of(objects, held, account, now))
    }

    async fn look(&mut self) -> Sight {
        let sight = self.sight().await;
        let at = self.at();
        // By then the strangers' machines run.
        if !self.watcher.keeps_strangers() && at > 60.0 {
            self.watcher.keep_strangers(&sight);
        }
        let calls = self.aws.with(|account, _| account.take_calls());
        self.notebook.note(at, calls);
        for wrong in self.watcher.look(&sight, self.calm_since) {
            self.notebook.complain(at, &wrong);
        }
        self.instances_max = self.instances_max.max(sight.instances.len());
        sight
    }

    fn hinder(&mut self, by: &'static str, does: bool) {
        let changed = if does {
            self.hindered_by.insert(by)
        } else {
            self.hindered_by.remove(by)
        };
        if changed {
            self.hindrance_changed = Some(Instant::now());
        }
        self.note_calm();
    }

    fn befall(&mut self, trouble: &Trouble) {
        match trouble {
            Trouble::Calls(plan) => {
                self.aws_plan = plan.clone();
                self.hinder("calls", *plan != AwsFaultPlan::default());
            }
            Trouble::Kube(plan) => {
                self.kube_plan = plan.clone();
                let is_trouble = *plan != FaultPlan::default();
                self.kube_trouble = Some(Instant::now() + if is_trouble { LIFE } else { Duration::ZERO });
                for process in &self.processes {
                    process.set_faults(plan);
                }
                self.hinder("kube", is_trouble);
            }
            Trouble::Buckets(burst) => self.hinder("buckets", *burst > 0),
            Trouble::Delays(instance, _) => self.hinder("delays", *instance > 1),
            Trouble::Deny(actions) => self.hinder("denied", !actions.is_empty()),
            _ => {}
        }
        let faults: Vec<AwsFaults> = self.processes.iter().map(|one| one.aws_faults.clone()).collect();
        let kept = &mut self.kept;
        self.aws
            .with(|account, now| trouble.befall(account, &faults, kept, now));
    }

    async fn leave(&mut self, which: u64, away: Duration, at_once: bool) {
        let Some(index) = which.checked_rem(self.processes.len() as u64) else {
            return;
        };
        let process = self.processes.remove(usize::try_from(index).unwrap());
        if at_once {
            process.die().await;
        } else if let Err(end) = process.stop().await {
            self.remark(&end.why);
        }
        self.back_at.push(Instant::now() + away);
        self.note_calm();
    }

    async fn act(&mut self, scenario: &Scenario, step: &Step) {
        let client = self.client();
        match step {
            Step::Trouble(trouble) => self.befall(trouble),
            Step::Signal(which, signal) => {
                let claims: Vec<NodeClaim> = all(&client).await;
                let mut ids: Vec<&str> = claims.iter().filter_map(id_of).collect();
                if *signal == Signal::ReservationReclaim {
                    self.aws
                        .with(|account, _| ids.retain(|id| is_interruptible(account, id)));
                }
                if let Some(id) = pick(ids, *which) {
                    // It may have ended by now.
                    let _ = self.aws.signal(id, *signal);
                }
            }
            Step::Crash(which, away) => self.leave(*which, *away, true).await,
            Step::Stop(which, away) => self.leave(*which, *away, false).await,
            Step::Scale(which, replicas) => self.scale(*which, *replicas).await,
            Step::ChangeClass(name, spec) => {
                merge::<EC2NodeClass>(&Api::all(client), name, &json!({"spec": spec})).await;
            }
            Step::ChangePool(name, patch) => merge::<NodePool>(&Api::all(client), name, patch).await,
            Step::DeletePool => delete::<NodePool>(&Api::all(client), POOLS[1].0).await,
            Step::DeleteClass => delete::<EC2NodeClass>(&Api::all(client), SECOND_CLASS).await,
            Step::Recreate => {
                // What still ends stays away.
                create::<EC2NodeClass>(&Api::all(client.clone()), &scenario.classes[1]).await;
                create::<NodePool>(&Api::all(client), &scenario.pools[1]).await;
            }
            Step::DeleteClaim(which) => {
                if let Some(claim) = pick(all::<NodeClaim>(&client).await, *which) {
                    delete::<NodeClaim>(&Api::all(client), &claim.name_any()).await;
                }
            }
            Step::DeleteNode(which) => {
                if let Some(node) = pick(all::<Node>(&client).await, *which) {
                    delete::<Node>(&Api::all(client), &node.name_any()).await;
                }
            }
        }
    }

    pub(super) async fn scale(&mut self, which: u64, replicas: u64) {
        let name = pick(self.replicas.keys().cloned().collect(), which).unwrap();
        let patch = json!({"spec": {"replicas": replicas}});
        merge::<Deployment>(&Api::default_namespaced(self.client()), &name, &patch).await;
        self.replicas.insert(name, replicas);
    }

    /// Nothing goes wrong any more and nothing stands in the way of anything.
    async fn make_peace(&mut self, scenario: &Scenario) {
        self.remark("peace");
        for trouble in Trouble::none() {
            self.befall(&trouble);
        }
        let late = "KarpenterNodeRole-late".to_owned();
        self.aws.with(|account, _| account.roles.insert(late));
        self.back_at.fill(Instant::now());
        lift_budgets(&self.client(), &scenario.pools).await;
    }

    /// A class that is to go waits for the machines of its pool.
    async fn free_class(&self) {
        let client = self.client();
        let classes: Vec<EC2NodeClass> = all(&client).await;
        if classes.iter().any(|class| class.metadata.deletion_timestamp.is_some()) {
            delete::<NodePool>(&Api::all(client), POOLS[1].0).await;
        }
    }

    pub(super) async fn end(mut self, scenario: &Scenario) -> Report {
        self.make_peace(scenario).await;
        let began = Instant::now();
        let mut calm_since: Option<Instant> = None;
        let mut wrong = Vec::new();
        let mut is_quiet = false;
        while began.elapsed() < PATIENCE {
            self.free_class().await;
            free_pods(&self.client()).await;
            self.wait(Instant::now() + LOOK_EVERY).await;
            wrong = unfinished(&self.sight().await);
            wrong.extend(self.unfinished());
            let wanted = usize::try_from(self.replicas.values().sum::<u64>()).unwrap();
            let (running, others) = pods(&self.client()).await;
            if (running, others) != (wanted, 0) {
                wrong.push(format!("{running} pods run and {others} do not, {wanted} are wanted"));
            }
            if !wrong.is_empty() {
                calm_since = None;
            } else if calm_since.get_or_insert_with(Instant::now).elapsed() >= CALM {
                is_quiet = true;
                break;
            }
        }
        if !is_quiet {
            for text in wrong {
                self.complain(&format!("in the end: {text}"));
            }
        } else if scenario.rests {
            self.rest(scenario.reserved.lookups()).await;
        }
        self.abandon().await;
        self.machines.cancel();
        let calls = self.aws.with(|account, _| account.take_calls());
        let at = self.at();
        self.notebook.note(at, calls);
        Report {
            violations: self.complaints(),
            log: self.observation.log(),
            calls: self.notebook.calls,
            launches: self.notebook.launches,
            instances_max: self.instances_max,
            lived: self.born.elapsed(),
        }
    }

    /// Leaves the world alone. Besides other things, classes may look up so many things each minute.
    async fn rest(&mut self, lookups: usize) {
        self.remark("rest");
        self.look_every = LOOK_AT_REST;
        let hour = Duration::from_secs(3600);
        self.wait(Instant::now() + REST - hour).await;
        let before = self.notebook.calls;
        self.wait(Instant::now() + hour).await;
        let sight = self.look().await;
        let calls = self.notebook.calls - before;
        if calls > REST_CALLS_MAX + 60 * POOLS.len() * lookups {
            self.complain(&format!("{calls} calls in an hour of rest"));
        }
        for text in remains(&sight).into_iter().chain(unfinished(&sight)) {
            self.complain(&format!("after a rest: {text}"));
        }
    }
}
