//! A lower bound that ends the search early: no other plan can be cheaper.

use crate::compile::classes::ClassId;
use crate::search::allowed::AllowedPlacement;
use crate::search::assignment::Assignment;
use crate::strategy::outcome::Outcome;
use kerf_model::price::Price;

/// Returns whether no plan can be cheaper that places the same pods on existing nodes: one claim was opened, and one of its pods alone
/// costs as much.
pub(crate) fn lower_bound(outcome: &mut Outcome<'_, '_>) -> bool {
    let assignment = &mut outcome.assignment;
    let mut claims = assignment.claims.ids();
    let (Some(claim), None) = (claims.next(), claims.next()) else {
        return false;
    };
    if !outcome.failed.is_empty() {
        return false;
    }
    // An assignment without this plan's use of limits.
    let mut untouched = Assignment::new(assignment.instance);
    let members: Vec<_> = assignment.claims[claim].members.iter().map(|member| member.0).collect();
    let price = assignment.price_of(claim);
    members
        .into_iter()
        .any(|class| least_price(&mut untouched, class).is_some_and(|least| least >= price))
}

/// The lowest price of a node for one pod of a class, in any pool. Returns `None` where constraints other than node requirements, taints
/// and resources matter.
fn least_price(assignment: &mut Assignment<'_, '_>, class: ClassId) -> Option<Price> {
    let problem = assignment.problem;
    let allowed = AllowedPlacement::default();
    let mut least: Option<Price> = None;
    let level_indexes = 0..problem.class(class).levels.len();
    for level_index in level_indexes {
        let Some(query) = assignment.query(class, level_index, &allowed) else {
            continue;
        };
        for template in problem.templates.ids() {
            if let Ok(narrowed) = assignment.check_template(&query, template)
                && let Some((price, _, _)) = assignment.specs.cheapest(problem, narrowed.spec, &narrowed.rows)
            {
                least = Some(least.map_or(price, |least| least.min(price)));
            }
        }
    }
    least
}
