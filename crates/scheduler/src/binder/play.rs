//! kube-scheduler's queue, played over the targets of a problem.

use super::nominations::Nominations;
use super::queue::{Millis, SchedulingQueue};
use super::score::{
    ALLOCATION_WEIGHT, BALANCE_WEIGHT, CPU_UNREQUESTED, MEMORY_UNREQUESTED, NODE_AFFINITY_WEIGHT, SPREAD_WEIGHT,
    TAINT_WEIGHT, allocation_score, balance_score, share_below, share_of,
};
use super::spreading::Spreading;
use crate::chance::Chance;
use crate::compile::classes::{ClassId, CompiledLevel, PodClass};
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::targets::{Target, TargetId};
use crate::dense::id_set::IdSet;
use crate::dense::ids::{Id, IdVec};
use crate::search::assignment::Assignment;
use crate::search::target_cache::{TargetCache, TargetVersions};
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::taint::Effect;
use kerf_units::policy::NodeScoring;
use rustc_hash::FxHashMap;

/// In the end, pods without a place are tried this many times more: one that needs another near it may follow it.
const LAST_ROUNDS: usize = 3;

/// A change that makes kube-scheduler try waiting pods again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NodeEvent {
    pub(super) at: Millis,
    /// The target that takes pods from then on. `None` for a Node that is created and takes none yet.
    pub(super) ready: Option<TargetId>,
}

/// The cpu and memory of a target and how much of them is used: by requests, and with the defaults that pods without requests count with.
#[derive(Clone, Copy)]
struct Load {
    allocatable: [i64; 2],
    requested: [i64; 2],
    counted: [i64; 2],
}

/// Requests that are scored alike on every target.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ScoredRequests {
    requested: [i64; 2],
    counted: [i64; 2],
}

/// The cluster while pods are bound.
#[derive(Clone)]
pub(super) struct Play<'w, 'a> {
    pub(super) assignment: Assignment<'w, 'a>,
    scoring: NodeScoring,
    spreading: Spreading<'a>,
    loads: IdVec<Target, Load>,
    /// The targets that are ready.
    ready: IdSet<Target>,
    /// The classes of which no pod fits any ready target.
    refused: IdVec<PodClass, bool>,
    /// Those of them that may fit once another pod is bound.
    refused_by_pods: Vec<ClassId>,
    /// The versions of targets in `accepted` and `scores`.
    versions: TargetVersions,
    /// By level: the targets that take such a pod.
    accepted: TargetCache<CompiledLevel, ()>,
    /// By class: its requests, as a key of `scores`.
    scored_as: IdVec<PodClass, Id<ScoredRequests>>,
    /// By requests: the scores of allocation and balance.
    scores: TargetCache<ScoredRequests, i32>,
    fitting: Vec<TargetId>,
    totals: Vec<i64>,
    /// Chooses among targets of equal scores; without it the first one is chosen.
    chance: Option<Chance>,
    nominations: Nominations,
}

impl<'w, 'a> Play<'w, 'a> {
    /// The cluster before any pod is bound, with all targets ready that are not in `coming`.
    pub(super) fn new(assignment: Assignment<'w, 'a>, coming: &IdSet<Target>, scoring: NodeScoring) -> Self {
        let problem = assignment.problem;
        let mut ready = problem.open.clone();
        ready.and_not(coming);
        let targets = problem.targets.len();
        let loads = problem.targets.ids().map(|at| load(problem, at)).collect();
        let mut kinds: FxHashMap<ScoredRequests, Id<ScoredRequests>> = FxHashMap::default();
        let scored_as = problem.classes.iter().map(|class| {
            let next = Id::new(kinds.len());
            *kinds.entry(requests(&class.requests)).or_insert(next)
        });
        let scored_as = scored_as.collect();
        Self {
            spreading: Spreading::new(problem),
            refused: IdVec::filled(false, problem.classes.len()),
            refused_by_pods: Vec::new(),
            versions: TargetVersions::new(targets),
            accepted: TargetCache::new(assignment.levels()),
            scored_as,
            scores: TargetCache::new(kinds.len()),
            assignment,
            scoring,
            loads,
            ready,
            fitting: Vec::new(),
            totals: Vec::new(),
            chance: None,
            nominations: Nominations::default(),
        }
    }

    /// The same with a seed for the choice among targets of equal scores. kube-scheduler takes any of them.
    pub(super) fn with_chance(mut self, seed: Option<u64>) -> Self {
        self.chance = seed.map(Chance::new);
        self
    }

    /// The same with nominated pods. Those of ready targets are nominated at once.
    pub(super) fn nominating(mut self, nominations: Nominations) -> Self {
        self.nominations = nominations;
        for target in self.ready.iter() {
            self.nominations.write(self.assignment.problem, target);
        }
        self
    }

    /// Lets targets become ready and binds what fits, one pod after the other, each attempt taking some time. Pods come with the time at
    /// which they are created. Returns those that are left over, in their order.
    pub(super) fn run(&mut self, pods: &[(Millis, PodId)], mut events: Vec<NodeEvent>, attempt: Millis) -> Vec<PodId> {
        let problem = self.assignment.problem;
        let mut queue = SchedulingQueue::new(problem.classes.len());
        for (created, pod) in pods {
            if let Some(class) = problem.of_pod[*pod] {
                queue.add(*pod, class, problem.pod(*pod).priority, *created);
            }
        }
        events.sort_unstable();
        let mut events = events.into_iter().peekable();
        let mut now = Millis::MIN;
        loop {
            while let Some(event) = events.next_if(|event| event.at <= now) {
                if let Some(target) = event.ready {
                    self.ready.insert(target);
                    self.nominations.write(problem, target);
                    self.forget_refusals();
                }
                queue.wake_all();
            }
            if self.try_next(&mut queue, now) {
                now += attempt;
                continue;
            }
            let next_event = events.peek().map(|event| event.at);
            match next_event.into_iter().chain(queue.next_pod()).min() {
                Some(next) => now = next,
                None => break,
            }
        }
        for _ in 0..LAST_ROUNDS {
            let before = self.assignment.order.len();
            self.forget_refusals();
            queue.wake_all();
            while self.try_next(&mut queue, Millis::MAX) {}
            if self.assignment.order.len() == before {
                break;
            }
        }
        queue.left_over()
    }

    /// Tries the next pod of the queue. Returns false if there is none to try.
    fn try_next(&mut self, queue: &mut SchedulingQueue, now: Millis) -> bool {
        let Some((number, pod, class)) = queue.next(now) else {
            return false;
        };
        let target = match self.nominated_target(pod, class) {
            None if self.refused[class] => None,
            None => self.choose(pod, class),
            nominated => nominated,
        };
        match target {
            Some(target) => {
                self.bind(pod, class, target);
                if self.depends_on_pods(class) {
                    queue.wake(class);
                }
            }
            None => {
                if !self.refused[class] {
                    self.refused[class] = true;
                    if self.depends_on_pods(class) {
                        self.refused_by_pods.push(class);
                    }
                }
                queue.put_back(number, now);
            }
        }
        true
    }

    /// The target that a pod is nominated to, if it fits there. Otherwise the nomination ends.
    fn nominated_target(&mut self, pod: PodId, class: ClassId) -> Option<TargetId> {
        let target = self.nominations.end(self.assignment.problem, pod, class)?;
        self.find_fitting(pod, class);
        if self.fitting.contains(&target) {
            return Some(target);
        }
        // Others may take the room.
        self.forget_refusals();
        None
    }

    /// Whether the pods of a class have spread, affinity or anti-affinity.
    fn depends_on_pods(&self, class: ClassId) -> bool {
        let mut levels = self.assignment.problem.class(class).levels.iter();
        levels.any(|level| !level.own_groups.is_empty())
    }

    fn forget_refusals(&mut self) {
        self.refused.iter_mut().for_each(|refused| *refused = false);
        self.refused_by_pods.clear();
    }

    fn bind(&mut self, pod: PodId, class: ClassId, target: TargetId) {
        let problem = self.assignment.problem;
        self.nominations.forget(pod);
        let requests = requests(&problem.class(class).requests);
        let load = &mut self.loads[target];
        load.requested = sum(load.requested, requests.requested);
        load.counted = sum(load.counted, requests.counted);
        self.versions.advance(target);
        self.assignment.place_on_target(target, class, pod);
        self.spreading.bind(pod, target);
        for class in self.refused_by_pods.drain(..) {
            self.refused[class] = false;
        }
    }

    /// The target with the highest score for a pod. `None` if none fits.
    fn choose(&mut self, pod: PodId, class: ClassId) -> Option<TargetId> {
        self.find_fitting(pod, class);
        if self.fitting.len() < 2 {
            return self.fitting.first().copied();
        }
        let problem = self.assignment.problem;
        let compiled = problem.class(class);
        let requests = requests(&compiled.requests);
        let mut scores = self.scores.of(self.scored_as[class], &self.versions);
        self.totals.clear();
        for target in &self.fitting {
            let score = || resources_score(self.scoring, &self.loads[*target], requests) as i32;
            self.totals.push(i64::from(scores.get_or_make(*target, score)));
        }
        if let Some(scores) = self.spreading.scores(pod, &self.fitting) {
            for (total, score) in self.totals.iter_mut().zip(scores) {
                *total += SPREAD_WEIGHT * score;
            }
        }
        self.add_preferences(problem.pod(pod));
        let highest = self.totals.iter().copied().max()?;
        let scored = self.fitting.iter().zip(&self.totals);
        let mut equal = scored
            .filter(|(_, total)| **total == highest)
            .map(|(target, _)| *target);
        let first = equal.next()?;
        let Some(chance) = &mut self.chance else {
            return Some(first);
        };
        let one_of = |best, (number, target)| if chance.one_in(number) { target } else { best };
        Some((2..).zip(equal).fold(first, one_of))
    }

    /// The ready targets that fit a pod of a class. Preferences and the order of alternatives are the solver's, not kube-scheduler's, so a target
    /// fits if it does at any level.
    fn find_fitting(&mut self, pod: PodId, class: ClassId) {
        self.fitting.clear();
        let problem = self.assignment.problem;
        let compiled = problem.class(class);
        for level_index in (0..compiled.levels.len()).rev() {
            let Some(allowed) = self.assignment.allowed(class, level_index) else {
                continue;
            };
            if let Some(query) = self.assignment.query(class, level_index, &allowed) {
                let mut accepted = self.accepted.of(query.level_id, &self.versions);
                self.assignment
                    .fitting_targets(&query, &self.ready, &mut accepted, &mut self.fitting);
            }
        }
        if compiled.levels.len() > 1 {
            self.fitting.sort_unstable();
            self.fitting.dedup();
        }
        if !self.nominations.keep_nothing() {
            let (priority, updated) = (problem.pod(pod).priority, &self.assignment.updated_targets);
            let leave_room = |target: &TargetId| {
                let requests = &compiled.requests;
                self.nominations
                    .leave_room(problem.targets, updated, *target, priority, requests)
            };
            self.fitting.retain(leave_room);
        }
    }

    /// Adds the scores of preferred node affinity and of taints with effect `PreferNoSchedule`.
    fn add_preferences(&mut self, pod: &Pod) {
        let problem = self.assignment.problem;
        let node = |target: &TargetId| &*problem.targets[*target].node;
        if problem.prepared.soft_taints {
            let counts: Vec<i64> = self
                .fitting
                .iter()
                .map(|target| untolerated(pod, node(target)))
                .collect();
            let largest = counts.iter().copied().max().unwrap_or(0);
            for (total, count) in self.totals.iter_mut().zip(counts) {
                *total += TAINT_WEIGHT * share_below(count, largest);
            }
        }
        if !pod.shape.preferred_terms.is_empty() {
            let weights: Vec<i64> = self
                .fitting
                .iter()
                .map(|target| preferred(problem, pod, node(target)))
                .collect();
            let largest = weights.iter().copied().max().unwrap_or(0);
            for (total, weight) in self.totals.iter_mut().zip(weights) {
                *total += NODE_AFFINITY_WEIGHT * share_of(weight, largest);
            }
        }
    }
}

/// The sum of two amounts of cpu and memory.
fn sum(one: [i64; 2], other: [i64; 2]) -> [i64; 2] {
    [one[0].saturating_add(other[0]), one[1].saturating_add(other[1])]
}

/// What a pod requests of cpu and memory, and what it counts with in scores of allocation.
fn requests(requests: &[i64]) -> ScoredRequests {
    let requested = [requests[0], requests[1]];
    let or = |amount: i64, unrequested: i64| if amount == 0 { unrequested } else { amount };
    ScoredRequests {
        requested,
        counted: [or(requested[0], CPU_UNREQUESTED), or(requested[1], MEMORY_UNREQUESTED)],
    }
}

/// The weighted scores of allocation and balance with a pod on the target, 0 to 200. A pod without requests has no score of balance.
fn resources_score(scoring: NodeScoring, load: &Load, pod: ScoredRequests) -> i64 {
    let allocation = allocation_score(scoring, load.allocatable, sum(load.counted, pod.counted));
    let balance = match pod.requested {
        [0, 0] => 0,
        requested => balance_score(load.allocatable, sum(load.requested, requested)),
    };
    ALLOCATION_WEIGHT * allocation + BALANCE_WEIGHT * balance
}

/// The load of a target before any pod is bound, with future DaemonSet pods.
fn load(problem: &Problem<'_>, at: TargetId) -> Load {
    let (target, placeable) = (&problem.targets[at], problem.targets.placeable(at));
    let node = &target.node;
    let allocatable = [node.allocatable.get(sym::CPU), node.allocatable.get(sym::MEMORY)];
    let requested = [
        allocatable[0].saturating_sub(placeable[0]),
        allocatable[1].saturating_sub(placeable[1]),
    ];
    let [cpu, memory] = target.without_requests;
    let unrequested = [
        cpu.saturating_mul(CPU_UNREQUESTED),
        memory.saturating_mul(MEMORY_UNREQUESTED),
    ];
    let counted = sum(requested, unrequested);
    Load {
        allocatable,
        requested,
        counted,
    }
}

/// The number of taints with effect `PreferNoSchedule` that a pod does not tolerate.
fn untolerated(pod: &Pod, node: &Node) -> i64 {
    let soft = node
        .taints
        .iter()
        .filter(|taint| taint.effect == Effect::PreferNoSchedule);
    let tolerated = |taint: &&kerf_model::taint::Taint| pod.shape.tolerations.iter().any(|own| own.tolerates(taint));
    soft.filter(|taint| !tolerated(taint)).count() as i64
}

/// The sum of the weights of the preferred terms that a node meets.
fn preferred(problem: &Problem<'_>, pod: &Pod, node: &Node) -> i64 {
    let interner = problem.interner();
    let met = pod.shape.preferred_terms.iter().filter(|(_, term)| {
        term.iter().all(|wanted| {
            let value = node.label(wanted.key);
            value.map_or_else(|| wanted.admits_absence(), |value| wanted.has(value, interner))
        })
    });
    met.map(|(weight, _)| i64::from(*weight)).sum()
}
