//! Soft topology spread: which pods each constraint counts, and where they are. Pods of a controller without constraints of their own have
//! kube-scheduler's default ones.

use super::score::{spread_penalty, spread_score};
use crate::compile::classes::ClassId;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::targets::TargetId;
use kerf_model::intern::{Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::{Owner, Pod};
use kerf_model::selector::LabelSelector;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// kube-scheduler's default constraints: key and largest skew, `ScheduleAnyway`.
const DEFAULTS: [(Sym, u32); 2] = [(sym::HOSTNAME, 3), (sym::ZONE, 5)];
/// Labels that differ between the pods of one StatefulSet.
const LABELS_OF_ONE_POD: [&str; 2] = ["apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name"];

/// Namespace and labels: what selectors see of a pod.
type KindKey<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// The domain of each target under a key.
#[derive(Clone)]
struct TargetDomains(Arc<[Option<u32>]>);

impl TargetDomains {
    /// The domain of a target; `None` where its node has no such label.
    fn of(&self, target: TargetId) -> Option<u32> {
        self.0[target.index()]
    }
}

/// Which pods a constraint counts.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Counted<'a> {
    /// Pods of one kind: those of the same controller.
    Kind(u32),
    /// Pods of a namespace that a selector matches.
    Selected(&'a str, &'a LabelSelector),
}

/// A soft constraint with its counts.
#[derive(Clone)]
struct Constraint<'a> {
    counted: Counted<'a>,
    max_skew: u32,
    /// Whether nodes without the keys of all constraints of the pod score nothing. Default constraints do not ask for their keys.
    needs_keys: bool,
    domains: TargetDomains,
    /// The counted pods, by domain.
    counts: Vec<u32>,
}

/// The soft constraints of all pods of a problem.
#[derive(Clone)]
pub(super) struct Spreading<'a> {
    constraints: Vec<Constraint<'a>>,
    /// Per pod: its kind.
    kinds: Vec<u32>,
    /// Per pod: its rules, as an index into `rules`.
    rule_of: Vec<u32>,
    /// The constraints of a pod.
    rules: Vec<SmallVec<[u32; 2]>>,
    /// Per kind: the constraints that count its pods.
    counted_by: Vec<SmallVec<[u32; 2]>>,
    penalties: Vec<Option<i64>>,
    seen: Vec<u32>,
}

fn kind_key(pod: &Pod) -> KindKey<'_> {
    let labels = pod.labels.iter().filter(|(key, _)| !LABELS_OF_ONE_POD.contains(key));
    (&pod.namespace, labels.collect())
}

impl<'a> Spreading<'a> {
    /// The constraints of the pods of a problem, with the pods that run on its targets counted.
    pub(super) fn new(problem: &Problem<'a>) -> Self {
        let mut numbers: FxHashMap<KindKey<'a>, u32> = FxHashMap::default();
        let mut examples: Vec<&'a Pod> = Vec::new();
        let mut kinds = Vec::with_capacity(problem.pods.len());
        for pod in problem.pods {
            let number = *numbers.entry(kind_key(pod)).or_insert_with(|| {
                examples.push(pod);
                examples.len() as u32 - 1
            });
            kinds.push(number);
        }
        let mut all = Self {
            constraints: Vec::new(),
            rule_of: vec![0; kinds.len()],
            kinds,
            rules: vec![SmallVec::new()],
            counted_by: vec![SmallVec::new(); examples.len()],
            penalties: Vec::new(),
            seen: Vec::new(),
        };
        all.make_rules(problem);
        for (kind, example) in examples.iter().enumerate() {
            let counting = (0..all.constraints.len()).filter(|at| match &all.constraints[*at].counted {
                Counted::Kind(other) => *other as usize == kind,
                Counted::Selected(namespace, selector) => {
                    *example.namespace == **namespace && selector.matches(&example.labels)
                }
            });
            all.counted_by[kind] = counting.map(|at| at as u32).collect();
        }
        if !all.constraints.is_empty() {
            all.count_running(problem, &numbers);
        }
        all
    }

    /// Finds the constraints of each pod.
    fn make_rules(&mut self, problem: &Problem<'a>) {
        let mut known: FxHashMap<(u32, Option<ClassId>, bool), u32> = FxHashMap::default();
        let mut places: FxHashMap<(Sym, u32, bool, Counted<'a>), u32> = FxHashMap::default();
        let mut tables: FxHashMap<Sym, (TargetDomains, usize)> = FxHashMap::default();
        for (at, pod) in problem.pods.iter().enumerate() {
            let controlled = matches!(pod.owner, Owner::ReplicaSet | Owner::StatefulSet);
            let key = (self.kinds[at], problem.of_pod[PodId::new(at)], controlled);
            if let Some(rule) = known.get(&key) {
                self.rule_of[at] = *rule;
                continue;
            }
            let wanted: Vec<(Sym, u32, bool, Counted<'a>)> = if pod.shape.spread.is_empty() && controlled {
                let of = |(key, skew): (Sym, u32)| (key, skew, false, Counted::Kind(self.kinds[at]));
                DEFAULTS.into_iter().map(of).collect()
            } else {
                let soft = pod.shape.spread.iter().filter(|constraint| !constraint.required);
                soft.map(|own| {
                    (
                        own.key,
                        own.max_skew,
                        true,
                        Counted::Selected(&pod.namespace, &own.selector),
                    )
                })
                .collect()
            };
            let mut rule = SmallVec::new();
            for wanted in wanted {
                let number = *places.entry(wanted.clone()).or_insert_with(|| {
                    let (key, max_skew, needs_keys, counted) = wanted;
                    let (domains, number) = tables.entry(key).or_insert_with(|| domains(problem, key));
                    self.constraints.push(Constraint {
                        counted,
                        max_skew,
                        needs_keys,
                        domains: domains.clone(),
                        counts: vec![0; *number],
                    });
                    self.constraints.len() as u32 - 1
                });
                rule.push(number);
            }
            let number = if rule.is_empty() {
                0
            } else {
                self.rules.push(rule);
                self.rules.len() as u32 - 1
            };
            known.insert(key, number);
            self.rule_of[at] = number;
        }
    }

    /// Counts the pods that run on targets and stay there.
    fn count_running(&mut self, problem: &Problem<'a>, numbers: &FxHashMap<KindKey<'_>, u32>) {
        let selected: Vec<usize> = (0..self.constraints.len())
            .filter(|at| matches!(self.constraints[*at].counted, Counted::Selected(..)))
            .collect();
        for (target, running) in problem.targets.entries() {
            for pod in running.node.pods.iter().filter(|pod| pod.deletion.is_none()) {
                if let Some(kind) = numbers.get(&kind_key(pod)) {
                    for at in self.counted_by[*kind as usize].clone() {
                        self.count(at as usize, target);
                    }
                    continue;
                }
                for at in &selected {
                    if let Counted::Selected(namespace, selector) = self.constraints[*at].counted
                        && *pod.namespace == *namespace
                        && selector.matches(&pod.labels)
                    {
                        self.count(*at, target);
                    }
                }
            }
        }
    }

    fn count(&mut self, constraint: usize, target: TargetId) {
        let constraint = &mut self.constraints[constraint];
        if let Some(domain) = constraint.domains.of(target) {
            constraint.counts[domain as usize] += 1;
        }
    }

    /// Counts a pod that was bound to a target.
    pub(super) fn bind(&mut self, pod: PodId, target: TargetId) {
        for at in self.counted_by[self.kinds[pod.index()] as usize].clone() {
            self.count(at as usize, target);
        }
    }

    /// The scores of the targets that fit a pod, in their order. `None` where the pod has no soft constraint.
    pub(super) fn scores(&mut self, pod: PodId, fitting: &[TargetId]) -> Option<impl Iterator<Item = i64> + '_> {
        let rule = &self.rules[self.rule_of[pod.index()] as usize];
        if rule.is_empty() {
            return None;
        }
        let constraints = || rule.iter().map(|at| &self.constraints[*at as usize]);
        let counts = |target: TargetId| constraints().all(|own| !own.needs_keys || own.domains.of(target).is_some());
        let mut domains: SmallVec<[usize; 2]> = SmallVec::new();
        for own in constraints() {
            self.seen.clear();
            let of_fitting = fitting.iter().filter(|target| counts(**target));
            self.seen
                .extend(of_fitting.map(|target| own.domains.of(*target).unwrap_or(u32::MAX)));
            self.seen.sort_unstable();
            self.seen.dedup();
            domains.push(self.seen.len());
        }
        self.penalties.clear();
        for target in fitting {
            let of_one = |(own, domains): (&Constraint<'_>, &usize)| {
                let domain = own.domains.of(*target)?;
                Some(spread_penalty(own.counts[domain as usize], own.max_skew, *domains))
            };
            let sum: f64 = constraints().zip(&domains).filter_map(of_one).sum();
            self.penalties.push(counts(*target).then(|| sum.round() as i64));
        }
        let known = || self.penalties.iter().flatten().copied();
        let (least, largest) = (known().min().unwrap_or(0), known().max().unwrap_or(0));
        Some(
            self.penalties
                .iter()
                .map(move |penalty| penalty.map_or(0, |penalty| spread_score(penalty, least, largest))),
        )
    }
}

/// The domain of each target under a key, and how many domains there are.
fn domains(problem: &Problem<'_>, key: Sym) -> (TargetDomains, usize) {
    let value = |node: &Node| {
        if key == sym::HOSTNAME {
            Some(node.hostname)
        } else {
            node.label(key)
        }
    };
    let mut numbers: FxHashMap<Sym, u32> = FxHashMap::default();
    let of_target = problem.targets.iter().map(|target| {
        let next = numbers.len() as u32;
        value(&target.node).map(|value| *numbers.entry(value).or_insert(next))
    });
    let domains = TargetDomains(of_target.collect());
    (domains, numbers.len())
}
