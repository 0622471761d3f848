//! The assignment: everything that changes while pods are placed. It answers whether a class fits a node or a claim, given all pods placed
//! so far, and what the claim would become. It books what strategies decide.

use crate::compile::classes::{ClassId, CompiledLevel, LevelId, PodClass};
use crate::compile::limits::Limits;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::targets::Target;
use crate::compile::templates::Template;
use crate::compile::topology::{ClaimId, Counts, Domain, KeyTable, NewNode};
use crate::dense::amounts::Amounts;
use crate::dense::bits::Bits;
use crate::dense::id_set::IdSet;
use crate::dense::ids::IdVec;
use crate::search::allowed::AllowedPlacement;
use crate::search::claims::{Claim, ClaimsByPodCount};
use crate::search::instance::Instance;
use crate::search::launch_spec::launch_spec;
use crate::search::query::Query;
use crate::search::reservations::Reservations;
use crate::search::specs::ClaimSpecs;
use crate::search::updated_targets::UpdatedTargets;
use kerf_model::pod::HostPort;
use kerf_model::price::Price;

/// The state of the search: claims, counts, limits and reservations after the pods placed so far.
#[derive(Clone, Debug)]
pub(crate) struct Assignment<'w, 'a> {
    pub(crate) instance: &'w Instance<'a>,
    pub(crate) problem: &'w Problem<'a>,
    pub(crate) specs: ClaimSpecs,
    pub(crate) claims: IdVec<NewNode, Claim>,
    pub(super) claims_by_pod_count: ClaimsByPodCount,
    /// The smallest request of each resource over all classes.
    pub(super) least: Amounts,
    /// The targets that pods were placed on.
    pub(crate) updated_targets: UpdatedTargets,
    pub(crate) counts: Counts,
    pub(crate) limits: Limits,
    /// The templates whose claims use what their cheapest row needs of the limits. Claims of the others use what their largest row needs.
    pub(super) uses_cheapest: IdSet<Template>,
    pub(super) reservations: Reservations,
    /// Per topology key and domain: the claims that may still be in it.
    pub(super) claims_by_domain: IdVec<KeyTable, IdVec<Domain, IdSet<NewNode>>>,
    /// Per topology key: the claims whose node will not have the label.
    pub(super) claims_without_key: IdVec<KeyTable, IdSet<NewNode>>,
    /// Per relaxation level: what rejected it permanently.
    pub(super) rejections: IdVec<CompiledLevel, KnownRejections>,
    pub(super) first_level: IdVec<PodClass, usize>,
    /// Whether ties between domains are broken by price.
    pub(super) by_price: bool,
    /// Work done so far: about one unit per attempt to place a pod.
    pub(crate) work: u64,
    /// The number of placed pods.
    pub(crate) placed: u64,
    /// The placed pods, in the order they were placed.
    pub(crate) order: Vec<PodId>,
    /// The pods that were not placed at their strictest level, with the index of their level.
    pub(crate) relaxed_pods: Vec<(PodId, usize)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct KnownRejections {
    pub(super) targets: IdSet<Target>,
    pub(super) claims: IdSet<NewNode>,
    /// Words of the claim set in which every claim is rejected or has a pod that this one must be apart from; both are permanent.
    pub(super) exhausted: Bits,
    pub(super) templates: IdSet<Template>,
}

impl<'w, 'a> Assignment<'w, 'a> {
    /// An empty assignment.
    pub(crate) fn new(instance: &'w Instance<'a>) -> Self {
        let problem = &instance.problem;
        let mut levels = 0;
        let first_level = problem.classes.iter().map(|class| {
            levels += class.levels.len();
            levels - class.levels.len()
        });
        let first_level = first_level.collect();
        let tables = &problem.keys.tables;
        Self {
            instance,
            problem,
            specs: instance.specs.clone(),
            claims: IdVec::new(),
            claims_by_pod_count: ClaimsByPodCount::default(),
            least: least(problem),
            updated_targets: UpdatedTargets::new(problem.targets.len()),
            counts: problem.counts.clone(),
            limits: problem.limits.clone(),
            uses_cheapest: IdSet::default(),
            reservations: Reservations::new(problem),
            claims_by_domain: tables
                .iter()
                .map(|table| IdVec::filled(IdSet::default(), table.values.len()))
                .collect(),
            claims_without_key: IdVec::filled(IdSet::default(), tables.len()),
            rejections: IdVec::filled(KnownRejections::default(), levels),
            first_level,
            by_price: false,
            work: 0,
            placed: 0,
            order: Vec::new(),
            relaxed_pods: Vec::new(),
        }
    }

    /// An empty assignment that breaks ties between domains by price.
    pub(crate) fn by_price(instance: &'w Instance<'a>) -> Self {
        Self {
            by_price: true,
            ..Self::new(instance)
        }
    }

    /// The number of relaxation levels of all classes.
    pub(crate) fn levels(&self) -> usize {
        self.rejections.len()
    }

    /// The id of a relaxation level of a class.
    pub(crate) fn level_id(&self, class: ClassId, level_index: usize) -> LevelId {
        LevelId::new(self.first_level[class] + level_index)
    }

    /// A query for a class at a level with what topology allows. Returns `None` where the class has no such level.
    pub(crate) fn query<'x>(
        &self,
        class: ClassId,
        level_index: usize,
        allowed: &'x AllowedPlacement,
    ) -> Option<Query<'x>>
    where
        'w: 'x,
    {
        let compiled = self.problem.class(class);
        Some(Query {
            class: compiled,
            level: compiled.levels.get(level_index)?,
            allowed,
            level_id: self.level_id(class, level_index),
        })
    }

    /// Where topology lets the pods of a class go at a relaxation level. `None` where it lets them go nowhere.
    pub(crate) fn allowed(&self, class: ClassId, level_index: usize) -> Option<AllowedPlacement> {
        let compiled = self.problem.class(class);
        let level = compiled.levels.get(level_index)?;
        AllowedPlacement::compute(self.problem, &self.counts, compiled, level).ok()
    }

    /// Recomputes the limits from the rows each claim has left. Returns whether more of some limit is left than before.
    pub(crate) fn recompute_limits(&mut self) -> bool {
        let mut limits = self.problem.limits.clone();
        for claim in &self.claims {
            limits.take(self.problem.templates, claim.template, &claim.rows);
        }
        let looser = limits.leave_more_than(&self.limits);
        self.limits = limits;
        if looser {
            // Templates that rejected a class for limits may accept it now.
            self.rejections
                .iter_mut()
                .for_each(|rejections| rejections.templates = IdSet::default());
        }
        looser
    }

    /// The sum of the lowest prices of all claims, per hour.
    pub(crate) fn cost(&mut self) -> Price {
        self.claims.ids().map(|claim| self.price_of(claim)).sum()
    }

    /// The lowest price of a claim, per hour.
    pub(crate) fn price_of(&mut self, id: ClaimId) -> Price {
        let claim = &self.claims[id];
        let spec = if self.specs.get(claim.spec).reserved.is_empty() {
            claim.spec
        } else {
            // The reservations of the claim decide which reserved offerings it may use.
            launch_spec(self.problem, &mut self.specs, claim).1
        };
        self.specs
            .cheapest(self.problem, spec, &self.claims[id].rows)
            .map_or(Price::MAX, |cheapest| cheapest.0)
    }
}

/// The smallest request of each resource over all classes.
fn least(problem: &Problem<'_>) -> Amounts {
    let mut requests = problem.classes.iter().map(|class| &class.requests);
    let mut least = requests.next().cloned().unwrap_or_default();
    for other in requests {
        for (least, amount) in least.iter_mut().zip(other) {
            *least = (*least).min(*amount);
        }
    }
    least
}

/// Returns whether some wanted host port conflicts with one in use.
pub(super) fn ports_conflict(wanted: &[HostPort], held: &[HostPort]) -> bool {
    wanted.iter().any(|port| held.iter().any(|other| port.conflicts(other)))
}
