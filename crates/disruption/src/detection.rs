//! Drift that labels and the catalogue show: whether a machine still meets the requirements of its pool (DIS-235 to DIS-238).
//!
//! `kerf-api` compares template hashes; the provider has checks of its own.

use kerf_model::instance_type::{Catalogue, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::requirement::{Requirement, Requirements};

/// Whether a claim's labels no longer meet the requirements of its pool's template (DIS-235, DIS-236). `template` holds what the template
/// lists as requirements and nothing else: its labels are part of the hash.
pub fn requirements_drifted(labels: &[(Sym, Sym)], template: &Requirements, interner: &Interner) -> bool {
    let labels = Requirements::from_labels(labels, interner);
    labels.compatible(template, |_| false, interner).is_err()
}

/// Whether the catalogue no longer has the claim's instance type, or no offering of it, available or not, is compatible with the claim's
/// labels (DIS-237). A claim on reserved capacity may become on-demand capacity, so reservations do not count (DIS-238).
pub fn instance_type_gone(
    labels: &[(Sym, Sym)],
    catalogue: &Catalogue,
    reservation_key: Option<Sym>,
    is_well_known: &dyn Fn(Sym) -> bool,
    interner: &Interner,
) -> bool {
    let name = labels
        .iter()
        .find(|(key, _)| *key == sym::INSTANCE_TYPE)
        .map(|(_, value)| *value);
    let kind = name.and_then(|name| catalogue.types.iter().find(|kind| kind.name == name));
    let Some(kind) = kind else { return true };
    let mut wanted = Requirements::from_labels(labels, interner);
    let reserved = wanted.get(sym::CAPACITY_TYPE).and_then(Requirement::single) == Some(sym::RESERVED);
    if reserved {
        wanted.replace(Requirement::any_of(sym::CAPACITY_TYPE, [sym::RESERVED, sym::ON_DEMAND]));
    }
    if let Some(key) = reservation_key {
        wanted.remove(key);
    }
    let may_lack = |key: Sym| Some(key) == reservation_key || is_well_known(key);
    let fits = |offering: &Offering| wanted.compatible(&offering.requirements, may_lack, interner).is_ok();
    !kind.offerings.iter().any(fits)
}
