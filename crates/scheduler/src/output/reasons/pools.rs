//! Why a pool makes no node for a pod: the first cause, in the words of section 22 of `docs/behaviour/scheduling.md`, and what is missing.
//! [`refuse`] is the function to read.
//!
//! Words of the solver: a class is all pods that no scheduling rule can tell apart, and a level of it is the class with some of its preferences
//! dropped. A template is the machine that a NodePool would launch before any pod narrows it. Its rows are its instance types, grouped by what
//! they offer to pods.

use crate::compile::classes::{ClassId, CompiledLevel};
use crate::compile::limits::RowsWithinLimits;
use crate::compile::problem::Problem;
use crate::compile::templates::TemplateId;
use crate::output::reasons::labels::{contradiction, pool_conflict};
use crate::output::reasons::limits::{nearest_limit, node_limit};
use crate::output::reasons::reason::{Depth, Reason, query, taints};
use crate::output::reasons::topology::{on_new_node, topology_reason};
use crate::output::reasons::types::{TypeSearch, emptied_pool};
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::search::query::Rejection;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::plan::{Cause, Refusal, Refuser};
use std::sync::Arc;

/// One refusal per pool, in the order pools are tried, for the weakest upstream level of a class (SCH-329 to SCH-331).
pub(crate) fn pool_refusals(assignment: &mut Assignment<'_, '_>, class: ClassId) -> Vec<Refusal> {
    let problem = assignment.problem;
    let Some((_, level)) = problem.class(class).reported() else {
        return Vec::new();
    };
    let mut refusals = Vec::new();
    for template in problem.templates.ids() {
        let (cause, nearest_miss) = refuse(assignment, class, level, template, Depth::Cheap);
        // A reservation conflict ends the search; pools of lower weight are not tried (SCH-297).
        let last = matches!(cause, Cause::ReservationUnavailable | Cause::ReservationLost);
        refusals.push(pool_refusal(
            &problem.templates[template].pool.name,
            cause,
            nearest_miss,
        ));
        if last {
            break;
        }
    }
    refusals
}

pub(super) fn pool_refusal(pool: &Arc<str>, cause: Cause, nearest_miss: Option<String>) -> Refusal {
    Refusal {
        by: Refuser::Pool(Arc::clone(pool)),
        cause,
        nearest_miss,
    }
}

/// Why one pool makes no new node for a class: the cause of the first "no", and how much was missing if that is known. The questions, in the
/// order of section 22.1 of `docs/behaviour/scheduling.md`:
///
/// 1. Do the pool's limits leave room for a node? [`Cause::NodeLimit`], [`Cause::Limits`]
/// 2. Does the pod tolerate the pool's taints? [`Cause::Taint`]
/// 3. Are the choices of its volumes few enough to evaluate? [`Cause::VolumeChoices`]
/// 4. Do its requirements agree with the pool's, and then those of its volumes? [`Cause::UndefinedLabel`], [`Cause::Incompatible`]
/// 5. Does each topology constraint leave a domain? [`Cause::Topology`]
/// 6. Is a reservation free, where the pod needs one? [`Cause::ReservationUnavailable`], [`Cause::ReservationLost`]
/// 7. Does each topology constraint leave a domain of the new node? [`Cause::Topology`]
/// 8. Has some instance type the requirements, the room and an offering? [`Cause::InstanceTypes`], [`Cause::MinValues`],
///    [`Cause::MinValuesAfterTruncation`]
pub(super) fn refuse(
    assignment: &mut Assignment<'_, '_>,
    class_id: ClassId,
    level: &CompiledLevel,
    id: TemplateId,
    depth: Depth,
) -> Reason {
    let problem = assignment.problem;
    let (class, template) = (problem.class(class_id), &problem.templates[id]);
    let pool = || Arc::clone(&template.pool.name);
    let mut options = template.rows.clone();
    options.and(&assignment.specs.get(assignment.instance.initial_spec(id)).rows);
    match assignment.limits.within(problem.templates, id) {
        RowsWithinLimits::NoNode => {
            let cause = Cause::NodeLimit { pool: pool() };
            return (cause, node_limit(&template.pool));
        }
        RowsWithinLimits::Rows(rows) => {
            let before = options.clone();
            options.and(&rows);
            if options.is_empty() {
                let miss = nearest_limit(problem, &assignment.limits, id, &before);
                return (Cause::Limits { pool: pool() }, miss);
            }
        }
        RowsWithinLimits::All => {}
    }
    if let Some(reason) = taints(&template.pool.taints, level) {
        return reason;
    }
    let wanted = problem.req_sets.get(level.full);
    if class.volume_topology.too_many {
        return (Cause::VolumeChoices, None);
    }
    let volumes = class.volume_topology.last.map(|last| problem.req_sets.get(last));
    let search = TypeSearch {
        problem,
        template,
        class,
        options: &options,
        depth,
    };
    if let Some(cause) = pool_conflict(problem, &template.requirements, wanted, false) {
        let miss = contradiction(problem, wanted).or_else(|| search.without_one(wanted, volumes));
        return (cause, miss);
    }
    let mut merged = template.requirements.clone();
    merged.add_all(&wanted.labels, problem.interner());
    if let Some(volumes) = volumes {
        if let Some(cause) = pool_conflict(problem, &merged, volumes, true) {
            let miss = contradiction(problem, volumes).or_else(|| search.without_one(wanted, Some(volumes)));
            return (cause, miss);
        }
        merged.add_all(&volumes.labels, problem.interner());
    }
    let allowed = match AllowedPlacement::compute(problem, &assignment.counts, class, level) {
        Ok(allowed) => allowed,
        Err(group) => return topology_reason(assignment, level, &merged, group),
    };
    let query = query(assignment, class_id, level, &allowed);
    if let Err(Rejection::Reserved(conflict)) = assignment.check_template(&query, id) {
        return (conflict.cause(), None);
    }
    if let Some(group) = on_new_node(assignment, &query, &merged) {
        return topology_reason(assignment, level, &merged, group);
    }
    search.reason(&merged, wanted, volumes)
}

/// The pools that make no node for any pod, by name, with the reason.
pub(super) fn idle_pools(problem: &Problem<'_>) -> Vec<Refusal> {
    let takes_part = |pool: &Arc<NodePool>| problem.templates.iter().any(|template| template.pool.name == pool.name);
    let pools = problem.snapshot.pools.iter().filter(|pool| !takes_part(pool));
    let refusal = |pool: &Arc<NodePool>| {
        let why = match &pool.eligibility {
            Eligibility::Static => {
                "it holds a fixed number of nodes (spec.replicas) and makes none for pods".to_owned()
            }
            Eligibility::NotReady(why) => format!("it is not ready: {why}"),
            Eligibility::Deleting => "it is being deleted".to_owned(),
            Eligibility::ForeignNodeClass => "its node class is of a kind this provider does not serve".to_owned(),
            Eligibility::Eligible => match &pool.catalogue {
                Err(fault) => format!("its instance types are not known: {fault}"),
                Ok(_) => {
                    let emptied = problem.empty_pools.iter().find(|(name, _)| *name == pool.name);
                    let (due, miss) = match emptied {
                        Some((_, true)) => (" due to minValues incompatibility", None),
                        _ => ("", emptied_pool(problem, pool)),
                    };
                    let cause = Cause::PoolNotUsable(format!(
                        "NodePool requirements filtered out all compatible available instance types{due}"
                    ));
                    return pool_refusal(&pool.name, cause, miss);
                }
            },
        };
        pool_refusal(&pool.name, Cause::PoolNotUsable(why), None)
    };
    pools.map(refusal).collect()
}
