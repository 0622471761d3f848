//! Soft topology spread: which pods each constraint counts, and where they are. Pods of a controller without constraints of their own have
//! kube-scheduler's default ones.

use super::score::{spread_penalty, spread_score};
use crate::compile::classes::ClassId;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::targets::TargetId;
use crate::dense::ids::{Id, IdVec};
use kerf_model::intern::{Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::{Owner, Pod};
use kerf_model::selector::LabelSelector;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// kube-scheduler's default constraints: key and largest skew, `ScheduleAnyway`.
const DEFAULTS: [(Sym, u32); 2] = [(sym::HOSTNAME, 3), (sym::ZONE, 5)];

/// Namespace and labels: what selectors see of a pod.
type Kind<'a> = (&'a str, Vec<(&'a str, &'a str)>);
/// The id of a kind of pods.
type KindId<'a> = Id<Kind<'a>>;
/// The id of a constraint.
type ConstraintId<'a> = Id<Constraint<'a>>;
/// The constraints of a pod.
type Rule<'a> = SmallVec<[ConstraintId<'a>; 2]>;
/// The id of a rule.
type RuleId<'a> = Id<Rule<'a>>;

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
    Kind(KindId<'a>),
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
    constraints: IdVec<Constraint<'a>, Constraint<'a>>,
    kinds: IdVec<Pod, KindId<'a>>,
    rule_of: IdVec<Pod, RuleId<'a>>,
    rules: IdVec<Rule<'a>, Rule<'a>>,
    /// The constraints that count the pods of each kind.
    counted_by: IdVec<Kind<'a>, SmallVec<[ConstraintId<'a>; 2]>>,
    penalties: Vec<Option<i64>>,
    seen: Vec<u32>,
}

fn kind(pod: &Pod) -> Kind<'_> {
    (&pod.namespace, pod.labels.of_workload().collect())
}

impl<'a> Spreading<'a> {
    /// The constraints of the pods of a problem, with the pods that run on its targets counted.
    pub(super) fn new(problem: &Problem<'a>) -> Self {
        let mut ids: FxHashMap<Kind<'a>, KindId<'a>> = FxHashMap::default();
        let mut examples: IdVec<Kind<'a>, &'a Pod> = IdVec::new();
        let mut kinds = IdVec::with_capacity(problem.pods.len());
        for pod in problem.pods {
            kinds.push(*ids.entry(kind(pod)).or_insert_with(|| examples.push(pod)));
        }
        let mut rules = IdVec::new();
        let no_constraints = rules.push(Rule::new());
        let mut all = Self {
            constraints: IdVec::new(),
            rule_of: IdVec::filled(no_constraints, kinds.len()),
            kinds,
            rules,
            counted_by: IdVec::filled(SmallVec::new(), examples.len()),
            penalties: Vec::new(),
            seen: Vec::new(),
        };
        all.make_rules(problem, no_constraints);
        for (kind, example) in examples.entries() {
            let counting = all.constraints.ids().filter(|id| match &all.constraints[*id].counted {
                Counted::Kind(other) => *other == kind,
                Counted::Selected(namespace, selector) => {
                    *example.namespace == **namespace && selector.matches(&example.labels)
                }
            });
            all.counted_by[kind] = counting.collect();
        }
        if !all.constraints.is_empty() {
            all.count_running(problem, &ids);
        }
        all
    }

    /// Finds the constraints of each pod. `no_constraints` is the empty rule.
    fn make_rules(&mut self, problem: &Problem<'a>, no_constraints: RuleId<'a>) {
        let mut known: FxHashMap<(KindId<'a>, Option<ClassId>, bool), RuleId<'a>> = FxHashMap::default();
        let mut places: FxHashMap<(Sym, u32, bool, Counted<'a>), ConstraintId<'a>> = FxHashMap::default();
        let mut tables: FxHashMap<Sym, (TargetDomains, usize)> = FxHashMap::default();
        for (at, pod) in problem.of_pod.ids().zip(problem.pods) {
            let controlled = matches!(pod.owner, Owner::ReplicaSet | Owner::StatefulSet);
            let key = (self.kinds[at], problem.of_pod[at], controlled);
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
            let mut rule = Rule::new();
            for wanted in wanted {
                let id = *places.entry(wanted.clone()).or_insert_with(|| {
                    let (key, max_skew, needs_keys, counted) = wanted;
                    let (domains, number) = tables.entry(key).or_insert_with(|| domains(problem, key));
                    self.constraints.push(Constraint {
                        counted,
                        max_skew,
                        needs_keys,
                        domains: domains.clone(),
                        counts: vec![0; *number],
                    })
                });
                rule.push(id);
            }
            let id = if rule.is_empty() {
                no_constraints
            } else {
                self.rules.push(rule)
            };
            known.insert(key, id);
            self.rule_of[at] = id;
        }
    }

    /// Counts the pods that run on targets and stay there.
    fn count_running(&mut self, problem: &Problem<'a>, ids: &FxHashMap<Kind<'_>, KindId<'a>>) {
        let selects = |id: &ConstraintId<'a>| matches!(self.constraints[*id].counted, Counted::Selected(..));
        let selected: Vec<ConstraintId<'a>> = self.constraints.ids().filter(selects).collect();
        for (pod, on) in problem.prepared.running_pods.alike(problem.snapshot) {
            let counting = match ids.get(&kind(pod)) {
                Some(kind) => self.counted_by[*kind].clone(),
                None => {
                    let selects = |id: &ConstraintId<'a>| match self.constraints[*id].counted {
                        Counted::Selected(namespace, selector) => {
                            *pod.namespace == *namespace && selector.matches(&pod.labels)
                        }
                        Counted::Kind(_) => false,
                    };
                    selected.iter().copied().filter(selects).collect()
                }
            };
            for id in counting {
                for (node, count) in on {
                    if let Some(target) = problem.targets.of_node(*node as usize) {
                        self.count(id, target, *count);
                    }
                }
            }
        }
    }

    fn count(&mut self, constraint: ConstraintId<'a>, target: TargetId, pods: u32) {
        let constraint = &mut self.constraints[constraint];
        if let Some(domain) = constraint.domains.of(target) {
            constraint.counts[domain as usize] += pods;
        }
    }

    /// Counts a pod that was bound to a target.
    pub(super) fn bind(&mut self, pod: PodId, target: TargetId) {
        for id in self.counted_by[self.kinds[pod]].clone() {
            self.count(id, target, 1);
        }
    }

    /// The scores of the targets that fit a pod, in their order. `None` where the pod has no soft constraint.
    pub(super) fn scores(&mut self, pod: PodId, fitting: &[TargetId]) -> Option<impl Iterator<Item = i64> + '_> {
        let rule = &self.rules[self.rule_of[pod]];
        if rule.is_empty() {
            return None;
        }
        let constraints = || rule.iter().map(|id| &self.constraints[*id]);
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
