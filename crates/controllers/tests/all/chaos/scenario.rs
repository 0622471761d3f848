//! A small world and the steps of one hour in it, drawn from a seed.

use std::time::Duration;

use kerf_chaos::Dice;
use kerf_sandbox::faults::{FaultPlan, KillMoment};
use kerf_units::policy::{CommandsPerPass, Destinations};
use kerf_units::savings_per_pod::SavingsPerPod;
use serde_json::{Value, json};

use crate::chaos::cloud::CloudFaults;

/// How long things happen.
pub(crate) const LIFE: Duration = Duration::from_secs(3600);

/// A world to live in.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) pools: Vec<Value>,
    /// What happens when, in order.
    pub(crate) steps: Vec<(Duration, Step)>,
    /// How long the world lives before all faults end and it must come to rest.
    pub(crate) life: Duration,
    /// Whether unhealthy nodes are repaired.
    pub(crate) repair: bool,
    /// Whether the controllers' client repeats what may be repeated, as it does in production.
    pub(crate) retries: bool,
    pub(crate) stage: Stage,
    pub(crate) policies: Policies,
}

/// The options of the controllers that choose among disruptions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Policies {
    pub(crate) commands_per_pass: CommandsPerPass,
    pub(crate) destinations: Destinations,
    pub(crate) savings_per_pod: SavingsPerPod,
}

impl Policies {
    /// Half the worlds have the defaults.
    fn of(dice: &Dice) -> Self {
        if dice.chance(50) {
            return Self::default();
        }
        Self {
            commands_per_pass: dice.one(&[
                CommandsPerPass::One,
                CommandsPerPass::Independent,
                CommandsPerPass::Independent,
            ]),
            destinations: dice.one(&[Destinations::Settled, Destinations::Any]),
            savings_per_pod: dice.one(&["0", "0.001", "0.01"]).parse().expect("an amount"),
        }
    }
}

/// Where a life takes place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stage {
    /// How many processes of the controllers compete for the lease; one leads without asking.
    pub(crate) replicas: usize,
    /// On KWOK instead of a cloud: how long its Nodes take to appear.
    pub(crate) delay: Option<&'static str>,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            replicas: 1,
            delay: None,
        }
    }
}

impl Stage {
    /// Of ten worlds two have two processes, one is on KWOK, and one is both.
    fn of(seed: u64, dice: &Dice) -> Self {
        let delay = dice.one(&["0s", "10s", "45s"]);
        Self {
            replicas: if matches!(seed % 10, 3 | 7 | 9) { 2 } else { 1 },
            delay: matches!(seed % 10, 8 | 9).then_some(delay),
        }
    }
}

/// A workload.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) replicas: u64,
    pub(crate) spec: Value,
    pub(crate) annotations: Value,
    pub(crate) pdb: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
}

/// Something that happens. Numbers choose among what there is by then.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Deploy(Workload),
    Scale(u64, u64),
    Retire(u64),
    Roll(u64),
    Faults(FaultPlan),
    CloudFaults(CloudFaults),
    /// The controllers die after so many more calls, and start again after a while.
    Kill(u64, KillMoment, Duration),
    /// The controllers die at once, and start again after a while.
    Crash(Duration),
    /// Cuts the leader off from the API, or connects it again.
    Isolate(bool),
    Kubelet(u64, &'static str),
    Heal,
    Vanish(u64),
    Reclaim(u64),
    Jump(i64),
    Compact,
    ChangePool(u64, Value),
    DeleteClaim(u64),
    DeleteNode(u64),
    DeletePod(u64),
}

impl Scenario {
    /// The world of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let dice = Dice::new(seed, "scenario");
        let pools: Vec<Value> = (0..dice.between(1, 3)).map(|index| pool(&dice, index)).collect();
        let mut steps = Vec::new();
        let mut workloads = 0;
        let mut deploy = |dice: &Dice, steps: &mut Vec<_>, at| {
            steps.push((at, Step::Deploy(workload(dice, workloads, pools.len() as u64))));
            workloads += 1;
        };
        for _ in 0..dice.between(2, 4) {
            let at = dice.seconds(0, 30);
            deploy(&dice, &mut steps, at);
        }
        for _ in 0..dice.between(6, 16) {
            let at = dice.seconds(60, LIFE.as_secs() - 60);
            if dice.chance(12) {
                deploy(&dice, &mut steps, at);
            } else {
                steps.push((at, step(&dice, &pools)));
            }
        }
        trouble(&dice, &mut steps);
        // The stage has its own dice, so that the rest of a world is the same as without a stage.
        let stage_dice = Dice::new(seed, "stage");
        let stage = Stage::of(seed, &stage_dice);
        if stage.replicas > 1 {
            isolation(&stage_dice, &mut steps);
        }
        steps.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            pools,
            steps,
            life: LIFE,
            repair: dice.chance(40),
            retries: dice.chance(50),
            stage,
            policies: Policies::of(&Dice::new(seed, "policies")),
        }
    }

    /// The same world with the default policies.
    pub(crate) fn with_default_policies(self) -> Self {
        Self {
            policies: Policies::default(),
            ..self
        }
    }
}

fn pool(dice: &Dice, index: u64) -> Value {
    let name = format!("p{index}");
    let mut requirements = vec![json!({
        "key": "karpenter.sh/capacity-type", "operator": "In",
        "values": dice.one(&[json!(["spot"]), json!(["on-demand"]), json!(["spot", "on-demand"])]),
    })];
    if dice.chance(25) {
        requirements.push(json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}));
    }
    let mut template = json!({
        "requirements": requirements,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "expireAfter": dice.one(&["Never", "Never", "15m", "25m", "40m"]),
    });
    if dice.chance(40) {
        template["terminationGracePeriod"] = json!(dice.one(&["1m", "3m", "8m"]));
    }
    let mut pool = json!({
        "metadata": {"name": name},
        "spec": {
            "weight": dice.between(1, 3),
            "template": {"metadata": {"labels": {"team": name}}, "spec": template},
            "disruption": {
                "consolidationPolicy": dice.one(&["WhenEmpty", "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized"]),
                "consolidateAfter": dice.one(&["0s", "30s", "2m", "5m", "Never"]),
                "budgets": budgets(dice),
            },
        },
    });
    if dice.chance(30) {
        pool["spec"]["limits"] = json!({"cpu": dice.one(&["24", "48", "96"])});
    }
    pool
}

fn budgets(dice: &Dice) -> Value {
    let mut budgets = vec![json!({"nodes": dice.one(&["1", "2", "3", "10%", "34%", "100%"])})];
    budgets.extend(dice.more_budgets());
    json!(budgets)
}

fn workload(dice: &Dice, index: u64, pools: u64) -> Workload {
    let kind = dice.one(&[
        Kind::Deployment,
        Kind::Deployment,
        Kind::Deployment,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::Job,
    ]);
    let name = format!("w{index}");
    let cpu_m = match kind {
        Kind::DaemonSet => dice.one(&[50, 100]),
        _ => dice.one(&[100, 250, 500, 900, 1500, 3000]),
    };
    let mut spec = json!({
        "terminationGracePeriodSeconds": dice.one(&[0, 5, 30, 120]),
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": format!("{cpu_m}m"), "memory": "64Mi"}}}],
    });
    if kind != Kind::DaemonSet && dice.chance(40) {
        spec["nodeSelector"] = json!({"team": format!("p{}", dice.below(pools))});
    }
    if kind == Kind::Deployment && dice.chance(20) {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": dice.one(&["kubernetes.io/hostname", "topology.kubernetes.io/zone"]),
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": name}},
        }]);
    }
    if kind == Kind::Deployment && dice.chance(10) {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}});
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    let mut annotations = json!({"sandbox.kerf.sh/stop-after": dice.one(&["0s", "1s", "10s", "60s"])});
    if kind == Kind::Job {
        spec["restartPolicy"] = json!("Never");
        annotations["sandbox.kerf.sh/run-for"] = json!(dice.one(&["30s", "3m", "10m"]));
    }
    if kind != Kind::DaemonSet && dice.chance(20) {
        annotations["karpenter.sh/do-not-disrupt"] = json!(dice.one(&["true", "5m", "12m"]));
    }
    let has_pdb = matches!(kind, Kind::Deployment | Kind::StatefulSet) && dice.chance(45);
    let pdb = has_pdb.then(|| {
        dice.one(&[
            json!({"maxUnavailable": 1}),
            json!({"minAvailable": 1}),
            json!({"maxUnavailable": "30%"}),
            json!({"minAvailable": "50%"}),
            json!({"maxUnavailable": 0}),
        ])
    });
    Workload {
        name,
        kind,
        replicas: dice.between(1, 8),
        spec,
        annotations,
        pdb,
    }
}

fn step(dice: &Dice, pools: &[Value]) -> Step {
    let any = dice.below(1000);
    match dice.below(100) {
        0..35 => Step::Scale(any, dice.between(0, 10)),
        35..40 => Step::Retire(any),
        40..48 => Step::Roll(any),
        48..54 => Step::Kubelet(any, dice.one(&["stopped", "not-ready", "stopped"])),
        54..56 => Step::Heal,
        56..62 => Step::Vanish(any),
        62..66 => Step::Reclaim(any),
        66..72 => Step::DeleteClaim(any),
        72..77 => Step::DeleteNode(any),
        77..81 => Step::DeletePod(any),
        81..84 => Step::Compact,
        84..88 => Step::Jump(dice.one(&[-600, -60, -5, 5, 60, 600])),
        _ => Step::ChangePool(dice.below(pools.len() as u64), change(dice)),
    }
}

fn change(dice: &Dice) -> Value {
    dice.one(&[
        json!({"spec": {"template": {"metadata": {"annotations": {"edition": "2"}}}}}),
        json!({"spec": {"template": {"metadata": {"annotations": {"edition": "3"}}}}}),
        json!({"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}}),
        json!({"spec": {"disruption": {"consolidateAfter": "0s"}}}),
        json!({"spec": {"template": {"spec": {"requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        ]}}}}),
    ])
}

/// Periods of faults, with calm between them, and crashes of the controllers now and then.
fn trouble(dice: &Dice, steps: &mut Vec<(Duration, Step)>) {
    for _ in 0..dice.between(0, 4) {
        let (from, lasts) = (dice.seconds(0, 3400), dice.seconds(20, 600));
        steps.push((from, Step::Faults(faults(dice))));
        steps.push((from + lasts, Step::Faults(FaultPlan::default())));
    }
    for _ in 0..dice.between(0, 3) {
        let (from, lasts) = (dice.seconds(0, 3400), dice.seconds(20, 900));
        steps.push((from, Step::CloudFaults(cloud_faults(dice))));
        steps.push((from + lasts, Step::CloudFaults(CloudFaults::default())));
    }
    for _ in 0..dice.between(0, 3) {
        let (at, away) = (dice.seconds(0, 3500), dice.seconds(1, 90));
        let step = if dice.chance(70) {
            let moment = dice.one(&[KillMoment::Before, KillMoment::After]);
            Step::Kill(dice.below(60), moment, away)
        } else {
            Step::Crash(away)
        };
        steps.push((at, step));
    }
}

/// Long enough to lose the lease, mostly.
fn isolation(dice: &Dice, steps: &mut Vec<(Duration, Step)>) {
    for _ in 0..dice.between(1, 4) {
        let (from, lasts) = (dice.seconds(0, 3500), dice.seconds(5, 60));
        steps.push((from, Step::Isolate(true)));
        steps.push((from + lasts, Step::Isolate(false)));
    }
}

fn faults(dice: &Dice) -> FaultPlan {
    let rate = |most: f64| if dice.chance(40) { most * dice.unit() } else { 0.0 };
    let mut plan = FaultPlan {
        conflict: rate(0.3),
        too_many: rate(0.3),
        internal: rate(0.3),
        lost: rate(0.3),
        answer_lost: rate(0.3),
        watch_cut: rate(1.0),
        watch_gone: rate(0.5),
        watch_life: dice.seconds(1, 60),
        stale: rate(0.2),
        watch_loss: if dice.chance(25) { 0.1 * dice.unit() } else { 0.0 },
        ..FaultPlan::default()
    };
    if dice.chance(25) {
        plan.watch_lag = dice.seconds(1, 30);
    }
    if dice.chance(40) {
        plan.latency = Some((Duration::ZERO, Duration::from_millis(dice.between(1, 5000))));
    }
    plan
}

fn cloud_faults(dice: &Dice) -> CloudFaults {
    let rate = |most: f64| if dice.chance(40) { most * dice.unit() } else { 0.0 };
    CloudFaults {
        no_capacity: rate(1.0),
        throttled: rate(0.7),
        unavailable: rate(0.5),
        slow: rate(1.0),
        answer_lost: rate(0.6),
        end_lost: rate(0.6),
        vanish: rate(0.3),
        dud: rate(0.3),
    }
}
