//! The spec a claim is launched with: its own, narrowed by its reservations.

use crate::compile::problem::Problem;
use crate::options::ReservedMode;
use crate::search::claims::Claim;
use crate::search::specs::{ClaimSpecs, SpecId};
use kerf_model::intern::sym;
use kerf_model::requirement::{Requirement, Requirements};

/// The requirements of a claim with its reservations, and the spec whose offerings it may be launched with.
pub(crate) fn launch_spec(problem: &Problem<'_>, specs: &mut ClaimSpecs, claim: &Claim) -> (Requirements, SpecId) {
    let interner = problem.interner();
    let mut requirements = specs.get(claim.spec).requirements.clone();
    if !claim.held_reservations.is_empty() {
        // A claim with reservations is launched as reserved capacity (SCH-300).
        requirements.replace(Requirement::is(sym::CAPACITY_TYPE, sym::RESERVED));
        if let Some(key) = problem.snapshot.reservation_key {
            requirements.add(
                Requirement::any_of(key, claim.held_reservations.iter().copied()),
                interner,
            );
        }
    }
    let mut spec = specs.intern(problem, claim.template, requirements.clone());
    if claim.held_reservations.is_empty() && problem.options.reserved != ReservedMode::Off {
        // A claim may not use reserved offerings it has no reservation for (SCH-296).
        let mut unreserved = requirements.clone();
        unreserved.add(Requirement::none_of(sym::CAPACITY_TYPE, [sym::RESERVED]), interner);
        spec = specs.intern(problem, claim.template, unreserved);
    }
    (requirements, spec)
}
