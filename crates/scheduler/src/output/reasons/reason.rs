//! What all reasons share.

use crate::compile::classes::{ClassId, CompiledLevel};
use crate::output::reasons::text::listed;
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::search::query::Query;
use kerf_model::plan::Cause;
use kerf_model::taint::{Taint, first_untolerated};

/// A cause, and a text that says what is missing, where that can be said.
pub(super) type Reason = (Cause, Option<String>);

/// How much work a reason may cost. A pass may refuse thousands of classes; `explain` is asked about one pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Depth {
    /// Only what the cause already shows.
    Cheap,
    /// Also what would be left without each single requirement.
    Thorough,
}

/// The query for a class at the level that reasons refer to.
pub(super) fn query<'x>(
    assignment: &Assignment<'x, '_>,
    class_id: ClassId,
    level: &'x CompiledLevel,
    allowed: &'x AllowedPlacement,
) -> Query<'x> {
    let class = assignment.problem.class(class_id);
    Query {
        class,
        level,
        allowed,
        level_id: assignment.level_id(class_id, class.reported().map_or(0, |(level_index, _)| level_index)),
    }
}

/// The first taint that is not tolerated. The text lists the others.
pub(super) fn taints(taints: &[Taint], level: &CompiledLevel) -> Option<Reason> {
    let first = first_untolerated(taints, &level.tolerations)?;
    let untolerated = |taint: &&Taint| first_untolerated(std::slice::from_ref(*taint), &level.tolerations).is_some();
    let others: Vec<String> = taints
        .iter()
        .filter(|taint| *taint != first)
        .filter(untolerated)
        .map(ToString::to_string)
        .collect();
    let miss = (!others.is_empty()).then(|| format!("nor are these tolerated: {}", listed(others)));
    Some((Cause::Taint(first.to_string()), miss))
}
