//! Which candidates may be consolidated though pods run on them (DIS-115 to DIS-119).

use crate::candidate::Candidate;
use crate::settling::settles_at;
use crate::stay::{Held, Stay};
use jiff::Timestamp;
use kerf_model::budget::ConsolidationPolicy;
use kerf_model::intern::sym;
use kerf_model::nodepool::Eligibility;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

/// The candidates multi-node and single-node consolidation may choose from, most savings per cost of moving first (DIS-122, DIS-123); and
/// the others, with why.
pub fn underutilized(snapshot: &Snapshot, candidates: &[Candidate]) -> (Vec<Candidate>, Vec<Held>) {
    let (mut eligible, mut held) = (Vec::new(), Vec::new());
    for candidate in candidates {
        match obstacle(snapshot, candidate) {
            None => eligible.push(candidate.clone()),
            Some(why) => held.push(Held {
                index: candidate.index,
                why,
            }),
        }
    }
    eligible.sort_by(Candidate::by_savings);
    (eligible, held)
}

/// The first thing that keeps consolidation from looking at a candidate, in upstream's order.
pub(crate) fn obstacle(snapshot: &Snapshot, candidate: &Candidate) -> Option<Stay> {
    let (node, pool) = (&candidate.node, &candidate.pool);
    if pool.eligibility == Eligibility::Static {
        return Some(Stay::Static(Arc::clone(&pool.name)));
    }
    let kind = node.label(sym::INSTANCE_TYPE);
    let mut types = pool.catalogue.iter().flat_map(|catalogue| &catalogue.types);
    if !types.any(|known| Some(known.name) == kind) {
        let label = kind.map_or_else(|| Arc::from(""), |kind| snapshot.interner.shared(kind));
        return Some(Stay::TypeUnknown(label));
    }
    for (key, text) in [
        (sym::CAPACITY_TYPE, "karpenter.sh/capacity-type"),
        (sym::ZONE, "topology.kubernetes.io/zone"),
    ] {
        if node.label(key).is_none() {
            return Some(Stay::NoLabel(text));
        }
    }
    if pool.disruption.consolidate_after.is_none() {
        return Some(Stay::ConsolidationDisabled(Arc::clone(&pool.name)));
    }
    if candidate.is_empty() {
        return Some(Stay::LeftToEmptiness);
    }
    if pool.disruption.consolidation == ConsolidationPolicy::WhenEmpty {
        return Some(Stay::NotEmpty(Arc::clone(&pool.name)));
    }
    unsettled(candidate)
}

/// DIS-119: with the time the condition is due, where that is known.
pub(crate) fn unsettled(candidate: &Candidate) -> Option<Stay> {
    let life = &candidate.node.lifecycle;
    if life.consolidatable {
        return None;
    }
    let after = candidate.pool.disruption.consolidate_after;
    let until: Option<Timestamp> = after.and_then(|after| settles_at(life.initialized_at, life.last_pod_event, after));
    Some(Stay::Unsettled(until))
}
