//! A small world and what happens in it for an hour, drawn from a seed.

use super::protection::protect;
use super::reserved::{Reserved, reserve};
use super::trouble::{Trouble, deny_more, trouble};
use kerf_aws_sandbox::account::Signal;
use kerf_chaos::Dice;
use serde_json::{Value, json};
use std::time::Duration;

/// How long things happen.
pub(super) const LIFE: Duration = Duration::from_secs(3600);
/// Instance types of the account. Few types make a world cheap.
pub(super) const TYPES: [&str; 10] = [
    "c5.large",
    "c5.xlarge",
    "c6i.2xlarge",
    "m5.large",
    "m5.xlarge",
    "m5.2xlarge",
    "m6i.large",
    "m6g.xlarge",
    "r5.large",
    "r6i.xlarge",
];
/// Class of the first pool; it stays for the whole life.
pub(super) const FIRST_CLASS: &str = "default";
/// Class of the second pool, which users may delete.
pub(super) const SECOND_CLASS: &str = "other";
/// Pools with their classes.
pub(super) const POOLS: [(&str, &str); 2] = [("p0", FIRST_CLASS), ("p1", SECOND_CLASS)];

/// A world to live in.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    /// How many processes of the controllers there are. One leads without asking.
    pub(super) processes: usize,
    pub(super) pools: Vec<Value>,
    pub(super) classes: Vec<Value>,
    pub(super) deployments: Vec<Value>,
    /// PodDisruptionBudgets.
    pub(super) pdbs: Vec<Value>,
    pub(super) reserved: Reserved,
    /// What happens when, in order.
    pub(super) steps: Vec<(Duration, Step)>,
    /// Whether each plan is compared with that of a solver that remembers nothing.
    pub(super) compares: bool,
    /// Whether the world is watched for a while after it is quiet.
    pub(super) rests: bool,
}

/// Something that happens. Numbers choose among what there is by then.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Trouble(Trouble),
    Signal(u64, Signal),
    /// A process dies at once, and starts again after a while.
    Crash(u64, Duration),
    /// A process is asked to end, and starts again after a while.
    Stop(u64, Duration),
    Scale(u64, u64),
    ChangeClass(&'static str, Value),
    ChangePool(&'static str, Value),
    DeletePool,
    DeleteClass,
    /// Pool and class that were deleted are made again.
    Recreate,
    DeleteClaim(u64),
    DeleteNode(u64),
}

impl Scenario {
    /// The world of a seed.
    pub(super) fn of(seed: u64) -> Self {
        let dice = Dice::new(seed, "scenario");
        let mut steps: Vec<(Duration, Step)> = Vec::new();
        for _ in 0..dice.between(4, 10) {
            steps.push((dice.seconds(60, LIFE.as_secs() - 60), users(&dice)));
        }
        for _ in 0..dice.between(0, 4) {
            let signal = dice.one(&SIGNALS);
            steps.push((
                dice.seconds(120, LIFE.as_secs()),
                Step::Signal(dice.below(1000), signal),
            ));
        }
        for _ in 0..dice.between(0, 3) {
            let (which, away) = (dice.below(10), dice.seconds(1, 120));
            let step = if dice.chance(70) {
                Step::Crash(which, away)
            } else {
                Step::Stop(which, away)
            };
            steps.push((dice.seconds(0, LIFE.as_secs()), step));
        }
        if dice.chance(40) {
            end_second(&dice, &mut steps);
        }
        for _ in 0..dice.between(1, 5) {
            let from = dice.seconds(0, LIFE.as_secs() - 300);
            trouble(&dice, from, &mut steps);
        }
        steps.sort_by_key(|(at, _)| *at);
        let pools: Vec<Value> = POOLS.iter().map(|(name, class)| pool(&dice, name, class)).collect();
        // Machines that expire never rest.
        let lasts = |pool: &Value| pool["spec"]["template"]["spec"]["expireAfter"] == "720h";
        let mut scenario = Self {
            seed,
            reserved: Reserved::default(),
            rests: dice.chance(40) && pools.iter().all(lasts),
            pdbs: Vec::new(),
            compares: seed % 4 == 1,
            processes: if seed % 5 == 3 { 2 } else { 1 },
            classes: POOLS.iter().map(|(_, name)| class(&dice, name)).collect(),
            deployments: (0..dice.between(1, 3)).map(|at| deployment(&dice, at)).collect(),
            pools,
            steps,
        };
        reserve(seed, &mut scenario);
        protect(seed, &mut scenario);
        deny_more(seed, &mut scenario.steps);
        scenario
    }
}

/// The second pool and its class are deleted, in either order, and may be created again.
fn end_second(dice: &Dice, steps: &mut Vec<(Duration, Step)>) {
    let at = dice.seconds(300, 3000);
    let (first, second) = if dice.chance(50) {
        (Step::DeletePool, Step::DeleteClass)
    } else {
        (Step::DeleteClass, Step::DeletePool)
    };
    steps.push((at, first));
    if dice.chance(60) {
        steps.push((at + dice.seconds(0, 300), second));
    }
    if dice.chance(40) {
        steps.push((at + dice.seconds(30, 1200), Step::Recreate));
    }
}

const SIGNALS: [Signal; 9] = [
    Signal::SpotReclaim,
    Signal::SpotReclaim,
    Signal::Rebalance,
    Signal::Retirement,
    Signal::InstanceImpaired,
    Signal::SystemImpaired,
    Signal::Recovered,
    Signal::Stopped,
    Signal::Terminated,
];

fn users(dice: &Dice) -> Step {
    match dice.below(100) {
        0..50 => Step::Scale(dice.below(10), dice.between(0, 8)),
        50..75 => {
            let class = dice.one(&[FIRST_CLASS, FIRST_CLASS, SECOND_CLASS]);
            Step::ChangeClass(class, class_change(dice))
        }
        75..82 => {
            let pool = dice.one(&["p0", "p1"]);
            let labels = json!({"edition": dice.between(2, 4).to_string()});
            Step::ChangePool(pool, json!({"spec": {"template": {"metadata": {"labels": labels}}}}))
        }
        82..92 => Step::DeleteClaim(dice.below(1000)),
        _ => Step::DeleteNode(dice.below(1000)),
    }
}

fn class_change(dice: &Dice) -> Value {
    let script = format!("#!/bin/bash\necho {}", dice.below(3));
    dice.one(&[
        // Bottlerocket reads no scripts.
        json!({"userData": script, "amiSelectorTerms": [{"alias": "al2023@latest"}]}),
        json!({"role": "KarpenterNodeRole-second"}),
        json!({"role": "KarpenterNodeRole-kerf"}),
        json!({"role": "KarpenterNodeRole-late"}),
        json!({"tags": {"team": format!("t{}", dice.below(3))}}),
        json!({"securityGroupSelectorTerms": [{"id": "sg-00000000000000002"}]}),
        json!({"subnetSelectorTerms": [{"id": "subnet-00000000000000001"}]}),
        json!({"amiSelectorTerms": [{"alias": "al2023@v20260115"}]}),
        json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]}),
        json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "userData": null}),
        json!({"detailedMonitoring": true}),
        json!({"kubelet": {"maxPods": dice.between(10, 30)}}),
    ])
}

fn pool(dice: &Dice, name: &str, class: &str) -> Value {
    let capacity = dice.one(&[json!(["spot"]), json!(["on-demand"]), json!(["spot", "on-demand"])]);
    // The first pool takes every pod at the end, whatever cannot be bought one way.
    let capacity = if class == FIRST_CLASS {
        json!(["spot", "on-demand"])
    } else {
        capacity
    };
    json!({
        "metadata": {"name": name},
        "spec": {
            "weight": dice.between(1, 3),
            "template": {"spec": {
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": dice.one(&[json!(["amd64"]), json!(["amd64", "arm64"])])},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity},
                ],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
                "expireAfter": dice.one(&["720h", "720h", "720h", "40m"]),
                "terminationGracePeriod": dice.one(&[json!(null), json!("3m")]),
            }},
            "disruption": {
                "consolidationPolicy": dice.one(&["WhenEmpty", "WhenEmptyOrUnderutilized"]),
                "consolidateAfter": dice.one(&["0s", "30s", "2m"]),
                "budgets": [{"nodes": dice.one(&["1", "50%", "100%"])}],
            },
        },
    })
}

fn class(dice: &Dice, name: &str) -> Value {
    let discovery = json!([{"tags": {"karpenter.sh/discovery": "kerf"}}]);
    let alias = dice.one(&["al2023@latest", "al2023@latest", "bottlerocket@latest"]);
    json!({
        "metadata": {"name": name},
        "spec": {
            "role": "KarpenterNodeRole-kerf",
            "amiSelectorTerms": [{"alias": alias}],
            "subnetSelectorTerms": discovery,
            "securityGroupSelectorTerms": discovery,
        },
    })
}

fn deployment(dice: &Dice, at: u64) -> Value {
    let name = format!("w{at}");
    let labels = json!({"app": name});
    let mut pod = json!({
        "terminationGracePeriodSeconds": dice.one(&[0, 5, 30]),
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {
            "cpu": dice.one(&["300m", "700m", "1500m", "3"]), "memory": "256Mi",
        }}}],
    });
    if dice.chance(15) {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}});
        pod["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": dice.between(0, 6), "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}
