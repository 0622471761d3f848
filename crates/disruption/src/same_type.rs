//! The same-type filter of multi-node consolidation. If a replacement may be of an instance type that is removed, it must be cheaper than the
//! cheapest such node; otherwise deleting the other nodes alone saves more (DIS-165 to DIS-168).

use crate::candidate::Candidate;
use crate::replacement_options::ReplacementOptions;
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::Launch;
use kerf_model::price::Price;
use kerf_model::requirement::Requirements;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeMap;

/// The replacement with the instance types that pass the filter; `None` if too few pass.
pub(crate) fn filter(snapshot: &Snapshot, candidates: &[&Candidate], replacement: Launch) -> Option<Launch> {
    let mut going: BTreeMap<Sym, Option<Price>> = BTreeMap::new();
    for candidate in candidates {
        let Some(name) = candidate.node.label(sym::INSTANCE_TYPE) else {
            continue;
        };
        let price = price_of_its_kind(snapshot, candidate, name);
        let known = going.entry(name).or_insert(price);
        *known = match (*known, price) {
            (Some(known), Some(price)) => Some(known.min(price)),
            (known, price) => known.or(price),
        };
    }
    let mut choice = ReplacementOptions::new(snapshot, replacement);
    // DIS-168: an unknown price counts as zero.
    let common = choice
        .names()
        .filter_map(|name| Some(going.get(&name)?.unwrap_or(Price::ZERO)));
    let Some(limit) = common.min() else {
        return Some(choice.into_launch());
    };
    choice.keep_cheaper(limit);
    let enough = choice.len() > 0 && choice.unmet_min_values(choice.len()).is_none();
    enough.then(|| choice.into_launch())
}

/// The lowest price of the offerings of the node's type that match its labels, available or not.
fn price_of_its_kind(snapshot: &Snapshot, candidate: &Candidate, name: Sym) -> Option<Price> {
    let mut types = candidate.pool.catalogue.iter().flat_map(|catalogue| &catalogue.types);
    let kind: &InstanceType = types.find(|kind| kind.name == name)?;
    let labels = Requirements::from_labels(&candidate.node.labels, &snapshot.interner);
    let known = |key| snapshot.is_well_known(key) || snapshot.reservation_key == Some(key);
    let compatible = kind.offerings.iter().filter(|offering| {
        labels
            .compatible(&offering.requirements, known, &snapshot.interner)
            .is_ok()
    });
    compatible.map(|offering| offering.price).min()
}
