//! A cluster that lives: rounds of decisions in a cluster whose pods go where kube-scheduler likes, not where they were planned.
//!
//! A round is a minute, pods ask for cpu alone, and kube-scheduler binds each pod to the machine with most room.

use crate::disruption::{Cluster, budget, now, sized};
use crate::draw::Draw;
use jiff::{SignedDuration, Timestamp};
use kerf_decide::{Inputs, Memory, Method, Settings, disrupt, provision, rebalance};
use kerf_disruption::Command;
use kerf_model::consolidation_back_off::ConsolidationBackOff;
use kerf_model::in_flight::{InFlight, UndoneMove};
use kerf_model::plan::Launch;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Instance types: name, milli-cores, and price per hour.
const TYPES: [(&str, i64, f64); 4] = [
    ("tiny", 1000, 0.06),
    ("small", 2000, 0.1),
    ("medium", 4000, 0.19),
    ("large", 8000, 0.36),
];

/// A machine with the sizes of its pods in milli-cores, each with its name.
#[derive(Clone, Debug)]
pub struct Machine {
    name: String,
    /// The index of its instance type.
    kind: usize,
    pods: Vec<(String, i64)>,
}

impl Machine {
    /// A machine of an instance type: `tiny` with one core, `small` with two, `medium` with four or `large` with eight.
    pub fn new(name: &str, kind: &str, pods: &[(&str, i64)]) -> Self {
        Self {
            name: name.to_owned(),
            kind: TYPES.iter().position(|(name, ..)| *name == kind).unwrap(),
            pods: pods.iter().map(|(name, cpu)| ((*name).to_owned(), *cpu)).collect(),
        }
    }

    fn free(&self) -> i64 {
        TYPES[self.kind].1 - self.pods.iter().map(|(_, cpu)| cpu).sum::<i64>()
    }
}

/// A cluster under [`disrupt`] and [`provision`], round after round.
#[derive(Debug)]
pub struct Life {
    settings: Settings,
    /// The budget of the NodePool, such as `10%`.
    budget: &'static str,
    /// The machines.
    pub machines: Vec<Machine>,
    waiting: Vec<(String, i64)>,
    /// Pods that wait and that kube-scheduler tries after all others, with their milli-cores.
    pub passed_over: Vec<(String, i64)>,
    /// When pods were moved last, by name.
    moved_at: BTreeMap<String, Timestamp>,
    /// How many machines were launched.
    pub launched: usize,
    /// The time.
    pub now: Timestamp,
    /// The moves that did not last.
    pub back_off: ConsolidationBackOff,
    draw: Draw,
    workload: Workload,
}

/// Pods that are created and end at times that do not depend on the machines.
#[derive(Debug)]
struct Workload {
    draw: Draw,
    minutes: usize,
    /// When pods end, in minutes.
    ends: BTreeMap<String, usize>,
}

impl Workload {
    fn new(seed: u64, machines: &[Machine]) -> Self {
        let mut workload = Self {
            draw: Draw::new(seed + 1_000_000),
            minutes: 0,
            ends: BTreeMap::new(),
        };
        for (name, _) in machines.iter().flat_map(|machine| &machine.pods) {
            workload.end_some_day(name);
        }
        workload
    }

    fn end_some_day(&mut self, name: &str) {
        let lives = 1 + self.draw.below(80);
        self.ends.insert(name.to_owned(), self.minutes + lives);
    }

    /// The pods that end in the next minute, and those that are created.
    fn minute(&mut self) -> (BTreeSet<String>, Vec<(String, i64)>) {
        self.minutes += 1;
        let ended = self.ends.extract_if(.., |_, at| *at <= self.minutes);
        let ended = ended.map(|(name, _)| name).collect();
        let most = if self.minutes % 60 < 30 { 4 } else { 1 };
        let new = (0..self.draw.below(most + 1)).map(|number| {
            let cpu = self.draw.pick(&[100, 250, 250, 500, 500, 900, 1500, 3000]);
            (format!("n-{}-{number}", self.minutes), cpu)
        });
        let new: Vec<(String, i64)> = new.collect();
        for (name, _) in &new {
            self.end_some_day(name);
        }
        (ended, new)
    }
}

impl Life {
    /// Mostly empty machines of all types, in a NodePool with one budget.
    pub fn new(seed: u64, settings: Settings, budget: &'static str) -> Self {
        let mut draw = Draw::new(seed);
        let mut machines = Vec::new();
        for number in 0..12 + draw.below(12) {
            let kind = draw.below(TYPES.len());
            let mut machine = Machine {
                name: format!("a-{number:03}"),
                kind,
                pods: Vec::new(),
            };
            for pod in 0..draw.below(5) {
                let cpu = draw.pick(&[100, 250, 500, 900, 1500]);
                if machine.free() >= cpu {
                    machine.pods.push((format!("p-{number}-{pod}"), cpu));
                }
            }
            machines.push(machine);
        }
        Self {
            workload: Workload::new(seed, &machines),
            settings,
            budget,
            machines,
            waiting: Vec::new(),
            passed_over: Vec::new(),
            moved_at: BTreeMap::new(),
            launched: 0,
            now: now(),
            back_off: ConsolidationBackOff::default(),
            draw,
        }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        let mut cluster = Cluster::new();
        cluster.typed("a", &TYPES, |pool| pool.disruption.budgets = vec![budget(self.budget)]);
        for machine in &self.machines {
            // Provisioning nominates nodes for the pods that wait.
            let is_nominated = machine.pods.is_empty() && !self.passed_over.is_empty();
            cluster.of_kind(&machine.name, TYPES[machine.kind].0, |node| {
                node.nominated_until = is_nominated.then_some(Timestamp::MAX);
            });
            for (name, cpu) in &machine.pods {
                cluster.bound(&machine.name, name, |pod| {
                    sized(*cpu)(pod);
                    pod.created = self.moved_at.get(name).copied().unwrap_or(pod.created);
                });
            }
        }
        for (name, cpu) in self.waiting.iter().chain(&self.passed_over) {
            cluster.pending(name, *cpu);
        }
        Arc::new(cluster.snapshot)
    }

    /// What the machines cost per hour.
    pub fn cost(&self) -> Price {
        let price = |machine: &Machine| Price::from_per_hour(TYPES[machine.kind].2).unwrap();
        self.machines.iter().map(price).sum()
    }

    /// The commands of a round now.
    pub fn decide(&self, undone: Vec<UndoneMove>) -> (Arc<Snapshot>, Vec<Command>) {
        let snapshot = self.snapshot();
        let in_flight = InFlight {
            undone,
            ..InFlight::default()
        };
        let inputs = Inputs {
            snapshot: &snapshot,
            in_flight: &in_flight,
            settings: &self.settings,
            now: self.now,
        };
        let round = disrupt(&inputs, Method::ORDER[0], &mut Memory::default(), &());
        let commands = round.evaluations.into_iter().flat_map(|evaluation| evaluation.commands);
        let commands: Vec<Command> = commands.collect();
        are_independent(&commands);
        (snapshot, commands)
    }

    /// Lets pods end and be created as they do in an hour with a busy half and a quiet one. It does not depend on where pods are.
    pub fn churn(&mut self) {
        let (ended, new) = self.workload.minute();
        for machine in &mut self.machines {
            machine.pods.retain(|(name, _)| !ended.contains(name));
        }
        self.waiting.extend(new);
        self.bind();
        self.provision();
    }

    /// What the pods of now cost on the cheapest nodes that rebalancing finds for them.
    pub fn rebalanced(&self) -> Price {
        let inputs = Inputs {
            snapshot: &self.snapshot(),
            in_flight: &InFlight::default(),
            settings: &self.settings,
            now: self.now,
        };
        let found = rebalance(&inputs);
        found
            .target
            .map_or(found.before, |target| target.price)
            .min(found.before)
    }

    fn launch(&mut self, launch: &Launch) {
        let (kind, _) = launch.cheapest.unwrap();
        self.launched += 1;
        self.machines.push(Machine {
            name: format!("a-new-{:03}", self.launched),
            kind: kind as usize,
            pods: Vec::new(),
        });
    }

    /// kube-scheduler: each waiting pod goes to the machine with most room, whatever was planned.
    fn bind(&mut self) {
        self.draw.shuffle(&mut self.waiting);
        for pod in std::mem::take(&mut self.waiting) {
            let fits = self.machines.iter_mut().filter(|machine| machine.free() >= pod.1);
            match fits.max_by_key(|machine| machine.free()) {
                Some(machine) => machine.pods.push(pod),
                None => self.waiting.push(pod),
            }
        }
    }

    /// Launches machines for the pods that found none, until all have one.
    fn provision(&mut self) {
        while !self.waiting.is_empty() {
            let launched = self.launch_for_waiting();
            assert!(launched, "every pod fits some type");
            self.bind();
        }
    }

    /// Launches machines for the pods that fit none. Returns whether there are such pods.
    fn launch_for_waiting(&mut self) -> bool {
        let snapshot = self.snapshot();
        if snapshot.pending.is_empty() {
            return false;
        }
        let in_flight = InFlight::default();
        let inputs = Inputs {
            snapshot: &snapshot,
            in_flight: &in_flight,
            settings: &self.settings,
            now: self.now,
        };
        let plan = provision(&inputs, &mut Memory::default(), &|| false).plan;
        let plan = plan.unwrap();
        for launch in &plan.launches {
            self.launch(launch);
            self.back_off.launched(&launch.pods, launch.price(), self.now);
        }
        !plan.launches.is_empty()
    }

    /// A round in a cluster whose machines come up at once. Returns how many pods were moved.
    pub fn round(&mut self, remembers: bool) -> usize {
        let moved = self.carry_out(remembers);
        self.bind();
        self.provision();
        moved
    }

    /// A round in a cluster whose machines come up after the round, and where kube-scheduler tries evicted pods before those that waited.
    /// Returns how many pods were moved.
    pub fn slow_round(&mut self, remembers: bool) -> usize {
        let moved = self.carry_out(remembers);
        self.bind();
        self.waiting.append(&mut self.passed_over);
        self.bind();
        self.launch_for_waiting();
        std::mem::swap(&mut self.passed_over, &mut self.waiting);
        moved
    }

    /// Starts the commands of now. Returns how many pods they evict.
    fn carry_out(&mut self, remembers: bool) -> usize {
        self.now += SignedDuration::from_mins(1);
        self.back_off.expire(&self.snapshot(), self.now);
        let undone = if remembers {
            self.back_off.undone(self.now)
        } else {
            Vec::new()
        };
        let (snapshot, commands) = self.decide(undone);
        let mut moved = 0;
        for command in commands {
            let from = command.candidates.iter();
            let from = from.filter_map(|candidate| candidate.node.node_name.clone()).collect();
            let pods = command.candidates.iter().flat_map(|candidate| &candidate.pods);
            self.back_off
                .begun(from, pods, command.plan.as_ref(), &snapshot, self.now);
            for launch in &command.replacements {
                self.launch(launch);
            }
            for candidate in &command.candidates {
                let at = self.machines.iter().position(|one| *one.name == *candidate.node.name);
                let gone = self.machines.remove(at.unwrap());
                moved += gone.pods.len();
                let names = gone.pods.iter().map(|(name, _)| (name.clone(), self.now));
                self.moved_at.extend(names);
                self.waiting.extend(gone.pods);
            }
        }
        moved
    }
}

/// No command moves pods to a node that another one disrupts or moves pods to.
fn are_independent(commands: &[Command]) {
    let mut touched = BTreeSet::new();
    for command in commands {
        let plan = command.plan.iter().flat_map(|plan| &plan.existing);
        let own: BTreeSet<&str> = plan
            .map(|placement| &*placement.node)
            .chain(command.candidates.iter().map(|candidate| &*candidate.node.name))
            .collect();
        assert!(touched.is_disjoint(&own), "{}", command.short());
        touched.extend(own);
    }
}
