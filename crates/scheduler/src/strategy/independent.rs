//! Independent parts of a queue: pods of two parts share no pool, no existing node and no topology group, so they do not affect each other.
//! Each part is planned as if it were alone, so that a plan for several parts costs no more than the plans for each.

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::GroupId;
use crate::dense::ids::IdVec;
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::search::instance::Instance;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What pods of two classes may share.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Shared {
    /// New nodes of a pool.
    Template(TemplateId),
    /// Existing nodes: they count as one.
    Targets,
    /// A topology group that counts both.
    Group(GroupId),
}

/// Classes joined into parts.
struct Parts {
    /// By class: another class of its part, or itself if it stands for the part.
    representatives: IdVec<PodClass, ClassId>,
    first: FxHashMap<Shared, ClassId>,
}

impl Parts {
    /// The class that stands for the part of a class.
    fn of(&self, class: ClassId) -> ClassId {
        let mut at = class;
        while self.representatives[at] != at {
            at = self.representatives[at];
        }
        at
    }

    /// Joins the part of a class with that of the classes that share something with it.
    fn join(&mut self, shared: Shared, class: ClassId) {
        let other = *self.first.entry(shared).or_insert(class);
        let (one, other) = (self.of(class), self.of(other));
        // The smaller id stands for both, so that equal input gives equal parts.
        self.representatives[one.max(other)] = one.min(other);
    }
}

/// The parts of a queue, each in the order of the queue. Returns `None` where all pods are one part.
pub(super) fn independent_parts(instance: &Instance<'_>, queue: &[PodId]) -> Option<Vec<Vec<PodId>>> {
    let problem = &instance.problem;
    if problem.templates.len() < 2 {
        return None;
    }
    let mut parts = Parts {
        representatives: problem.classes.ids().collect(),
        first: FxHashMap::default(),
    };
    let mut assignment = Assignment::new(instance);
    let mut seen = IdVec::filled(false, problem.classes.len());
    for class in queue.iter().filter_map(|pod| problem.of_pod[*pod]) {
        if std::mem::replace(&mut seen[class], true) {
            continue;
        }
        for group in topology_groups(problem, class) {
            parts.join(Shared::Group(group), class);
        }
        let templates = templates(&mut assignment, class);
        // In most clusters some class may launch from every pool, so that there is one part.
        if templates.len() == problem.templates.len() {
            return None;
        }
        for template in templates {
            parts.join(Shared::Template(template), class);
        }
        if fits_a_target(&mut assignment, class) {
            parts.join(Shared::Targets, class);
        }
    }
    let mut queues: BTreeMap<ClassId, Vec<PodId>> = BTreeMap::new();
    for pod in queue {
        if let Some(class) = problem.of_pod[*pod] {
            queues.entry(parts.of(class)).or_default().push(*pod);
        }
    }
    (queues.len() > 1 && !has_reservations(problem)).then(|| queues.into_values().collect())
}

/// Returns whether any machine may use reserved capacity, which pools share.
fn has_reservations(problem: &Problem<'_>) -> bool {
    let types = problem.catalogues.iter().flat_map(|types| &types.catalogue.types);
    let mut offerings = types.flat_map(|kind| &kind.offerings);
    offerings.any(|offering| offering.reservation.is_some())
}

/// The topology groups that limit or count the pods of a class.
fn topology_groups<'p>(problem: &'p Problem<'_>, class: ClassId) -> impl Iterator<Item = GroupId> + 'p {
    let class = problem.class(class);
    let own = class.levels.iter().flat_map(|level| &level.own_groups);
    let others = [&class.counting_groups, &class.inverse_groups, &class.repelling_groups];
    let others = others.into_iter().flat_map(|groups| groups.iter().copied());
    own.map(|own| own.group).chain(others)
}

/// The templates that a class may launch from, at any relaxation level.
fn templates(assignment: &mut Assignment<'_, '_>, class: ClassId) -> Vec<TemplateId> {
    let problem = assignment.problem;
    let allowed = AllowedPlacement::default();
    let fits = |template: &TemplateId| {
        let mut levels = 0..problem.class(class).levels.len();
        levels.any(|level| {
            let query = assignment.query(class, level, &allowed);
            query.is_some_and(|query| assignment.check_template(&query, *template).is_ok())
        })
    };
    problem.templates.ids().filter(fits).collect()
}

/// Returns whether some existing node has room for a pod of a class, at any relaxation level.
fn fits_a_target(assignment: &mut Assignment<'_, '_>, class: ClassId) -> bool {
    let problem = assignment.problem;
    let allowed = AllowedPlacement::default();
    let mut levels = 0..problem.class(class).levels.len();
    levels.any(|level| {
        let query = assignment.query(class, level, &allowed);
        query.is_some_and(|query| assignment.first_target(&query).is_some())
    })
}
