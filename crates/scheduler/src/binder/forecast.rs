//! Forecasts where kube-scheduler binds the pods of a plan.

use super::arrivals::Arrivals;
use super::machines::with_machines;
use super::nominations::{Nominations, Nominees};
use super::play::{NodeEvent, Play};
use super::pod_arrivals::{by_age, pod_arrivals};
use crate::compile::prepared::Prepared;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::targets::{Target, TargetId};
use crate::compile::templates::TemplateId;
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use crate::options::{Options, WhatIf};
use crate::parallel::run_in_parallel;
use crate::ranking::node_overhead;
use crate::search::assignment::Assignment;
use crate::search::instance::Instance;
use crate::strategy::{FewestPods, solve_queue};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The forecast for a plan in one scale-up.
#[derive(Clone, PartialEq, Debug)]
pub struct BindingForecast {
    /// Where each pod is bound: the name of an existing node, or the index of a launch.
    pub bound: Vec<(Arc<Pod>, BoundTo)>,
    /// The pods of the plan that fit no node once all machines are ready, in the order of the queue.
    pub left_over: Vec<Arc<Pod>>,
    /// The machines that are launched in the second round, those for pods that come after the plan included.
    pub more_nodes: usize,
    /// The price of these machines per hour.
    pub more_price: Price,
    /// The same plus what the machines cost besides their price.
    pub more_cost: Price,
    /// The pods of the plan for which the second round finds no place.
    pub without_place: usize,
}

/// Where a pod is bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BoundTo {
    /// An existing node, by name.
    Node(Arc<str>),
    /// A machine of the plan, by the index of its launch.
    Launch(usize),
}

/// A plan whose machines are nodes of a compiled cluster.
#[derive(Debug)]
pub struct Forecaster {
    prepared: Prepared,
    /// The number of nodes before the machines of the plan.
    nodes: usize,
    launches: usize,
    nominees: Nominees,
    /// Where the plan has the pods, by namespace and name, if some are nominated.
    planned: FxHashMap<(Arc<str>, Arc<str>), BindingPlace>,
}

impl Forecaster {
    /// Compiles the cluster of a question with the machines of a plan. `None` where some launch has no known offering.
    pub fn new(prepared: &Prepared, plan: &Plan, options: &Options) -> Option<Self> {
        let snapshot = prepared.snapshot();
        let after = with_machines(snapshot, &plan.launches)?;
        prepared.running_pods.prepare_alike(snapshot);
        let nominees = Nominees::of(plan, options.nominated_pods_max);
        Some(Self {
            nodes: snapshot.nodes.len(),
            launches: plan.launches.len(),
            planned: match nominees.are_none() {
                true => FxHashMap::default(),
                false => planned(snapshot, plan),
            },
            nominees,
            prepared: prepared.next(&after, options),
        })
    }

    /// The nominated pods with the targets they are planned onto.
    fn nominations(&self, what_if: &WhatIf<'_>, problem: &Problem<'_>, launched: &[Option<TargetId>]) -> Nominations {
        let nominated = what_if.pods.iter().enumerate();
        let nominated = nominated.filter(|(_, pod)| self.nominees.contain(pod));
        Nominations::new(nominated.filter_map(|(at, pod)| {
            let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
            let target = match *self.planned.get(&key)? {
                BindingPlace::Launch(launch) => launched.get(launch).copied().flatten(),
                BindingPlace::Node(index) => problem.targets.of_node(index),
            };
            Some((PodId::new(at), target?))
        }))
    }

    /// Plays the binding of the pods of a question in each scale-up.
    pub fn forecast(&self, what_if: &WhatIf<'_>, options: &Options, arrivals: &[Arrivals]) -> Vec<BindingForecast> {
        let rounds = self.rounds(what_if, options, arrivals, &|_| true);
        rounds.into_iter().map(|round| round.forecast(self, what_if)).collect()
    }

    /// The same with pods as ids. Stops after some scale-ups where `goes_on` says that their rounds are enough to know.
    pub(super) fn rounds(
        &self,
        what_if: &WhatIf<'_>,
        options: &Options,
        arrivals: &[Arrivals],
        goes_on: &dyn Fn(&[Round]) -> bool,
    ) -> Vec<Round> {
        let requests = what_if.pods.iter().map(|pod| &pod.shape.requests);
        if !self.prepared.resources.covers(requests) {
            return Vec::new();
        }
        let instance = Instance::new(Problem::compile(&self.prepared, what_if, options));
        let problem = &instance.problem;
        let targets: Vec<Option<TargetId>> = (0..self.launches)
            .map(|at| problem.targets.of_node(self.nodes + at))
            .collect();
        let coming: IdSet<Target> = targets.iter().flatten().copied().collect();
        let start = Play::new(Assignment::new(&instance), &coming, options.node_scoring)
            .nominating(self.nominations(what_if, problem, &targets));
        let oldest_first = by_age(problem);
        let one = |arrivals: &Arrivals| {
            let mut play = start.clone().with_chance(arrivals.seed);
            let mut events = Vec::with_capacity(2 * self.launches);
            for (arrival, target) in arrivals.machines.iter().zip(&targets) {
                events.extend(
                    [(arrival.node, None), (arrival.ready, *target)].map(|(at, ready)| NodeEvent { at, ready }),
                );
            }
            let end = events.iter().map(|event| event.at).max().unwrap_or(0);
            let pods = pod_arrivals(problem, &oldest_first, arrivals, end);
            let left_over = play.run(&pods, events, arrivals.attempt);
            self.outcome(play.assignment, left_over, arrivals)
        };
        let mut rounds = Vec::with_capacity(arrivals.len());
        for at_once in arrivals.chunks(options.threads.max(1)) {
            rounds.extend(run_in_parallel(at_once, options.threads, one));
            if !goes_on(&rounds) {
                break;
            }
        }
        rounds
    }

    /// Launches machines for the pods that are left over, as the greedy does.
    fn outcome(&self, bound: Assignment<'_, '_>, mut left_over: Vec<PodId>, arrivals: &Arrivals) -> Round {
        let (problem, first_launch) = (bound.problem, self.nodes);
        let place_of = |at: TargetId| {
            let index = problem.snapshot.position(&problem.targets[at].node.name)?;
            Some(match index.checked_sub(first_launch) {
                Some(launch) => BindingPlace::Launch(launch),
                None => BindingPlace::Node(index),
            })
        };
        let mut places: IdVec<Pod, Option<BindingPlace>> = IdVec::filled(None, problem.pods.len());
        for target in bound.updated_targets.iter() {
            for pod in &target.pods {
                places[*pod] = place_of(target.at);
            }
        }
        let order = bound.order.clone();
        let left: IdSet<Pod> = left_over.iter().copied().collect();
        let mut again = problem.queue.clone();
        again.retain(|pod| left.get(*pod));
        let mut outcome = solve_queue(bound, &again, &mut FewestPods, &|| false);
        let price = outcome.assignment.cost();
        let claims = &outcome.assignment.claims;
        let overhead = |template: TemplateId| node_overhead(&problem.templates[template].pool, problem.options);
        let is_planned = |pod: &PodId| arrivals.is_planned(problem, *pod);
        left_over.retain(is_planned);
        Round {
            bound: order.iter().filter_map(|pod| Some((*pod, places[*pod]?))).collect(),
            more: claims
                .iter()
                .map(|claim| (claim.template, claim.pods.to_vec()))
                .collect(),
            more_price: price,
            more_cost: price + claims.iter().map(|claim| overhead(claim.template)).sum(),
            without_place: outcome.failed.iter().filter(|(pod, _)| is_planned(pod)).count(),
            left_over,
        }
    }
}

/// Where a plan has its pods, by namespace and name.
fn planned(snapshot: &Snapshot, plan: &Plan) -> FxHashMap<(Arc<str>, Arc<str>), BindingPlace> {
    let launched = plan.launches.iter().enumerate();
    let launched = launched.map(|(launch, of)| (BindingPlace::Launch(launch), &of.pods));
    let existing = plan.existing.iter();
    let existing = existing.filter_map(|of| Some((BindingPlace::Node(snapshot.position(&of.node)?), &of.pods)));
    let key = |pod: &Arc<Pod>| (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
    let places = launched.chain(existing);
    places
        .flat_map(|(place, pods)| pods.iter().map(move |pod| (key(pod), place)))
        .collect()
}

/// Where a pod is bound, by index in the snapshot or in the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BindingPlace {
    Node(usize),
    Launch(usize),
}

/// A [`BindingForecast`] with pods as ids.
#[derive(Debug)]
pub(super) struct Round {
    /// In the order of binding.
    pub(super) bound: Vec<(PodId, BindingPlace)>,
    pub(super) left_over: Vec<PodId>,
    /// The machines of the second round: template and pods.
    pub(super) more: Vec<(TemplateId, Vec<PodId>)>,
    pub(super) more_price: Price,
    pub(super) more_cost: Price,
    pub(super) without_place: usize,
}

impl Round {
    fn forecast(self, forecaster: &Forecaster, what_if: &WhatIf<'_>) -> BindingForecast {
        let pod = |id: &PodId| Arc::clone(&what_if.pods[id.index()]);
        let nodes = &forecaster.prepared.snapshot().nodes;
        let place = |place: &BindingPlace| match place {
            BindingPlace::Node(index) => BoundTo::Node(Arc::clone(&nodes[*index].name)),
            BindingPlace::Launch(launch) => BoundTo::Launch(*launch),
        };
        BindingForecast {
            bound: self.bound.iter().map(|(id, at)| (pod(id), place(at))).collect(),
            left_over: self.left_over.iter().map(pod).collect(),
            more_nodes: self.more.len(),
            more_price: self.more_price,
            more_cost: self.more_cost,
            without_place: self.without_place,
        }
    }
}
