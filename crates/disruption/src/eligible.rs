//! Which candidates multi-node and single-node consolidation may choose (DIS-115 to DIS-119).

use crate::candidate::Candidate;
use crate::settling::settles_at;
use crate::unconsolidatable::{Unconsolidatable, UnconsolidatableNode};
use kerf_model::budget::ConsolidationPolicy;
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::Eligibility;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

/// The candidates that multi-node and single-node consolidation may choose, highest savings per cost of moving first, and the other
/// candidates with the reason (DIS-122, DIS-123).
pub fn underutilized(snapshot: &Snapshot, candidates: &[Candidate]) -> (Vec<Candidate>, Vec<UnconsolidatableNode>) {
    let (mut eligible, mut staying) = (Vec::new(), Vec::new());
    for candidate in candidates {
        match obstacle(snapshot, candidate) {
            None => eligible.push(candidate.clone()),
            Some(why) => staying.push(UnconsolidatableNode {
                index: candidate.index,
                why,
            }),
        }
    }
    eligible.sort_by(Candidate::by_savings);
    (eligible, staying)
}

/// A rule that excludes candidates from consolidation.
type Rule = fn(&Snapshot, &Candidate) -> Option<Unconsolidatable>;

/// The rules in upstream's order.
const RULES: [Rule; 8] = [
    |_, candidate| {
        let pool = &candidate.pool;
        (pool.eligibility == Eligibility::Static).then(|| Unconsolidatable::Static(Arc::clone(&pool.name)))
    },
    type_unknown,
    |_, candidate| lacks(candidate, sym::CAPACITY_TYPE, "karpenter.sh/capacity-type"),
    |_, candidate| lacks(candidate, sym::ZONE, "topology.kubernetes.io/zone"),
    |_, candidate| {
        let pool = &candidate.pool;
        let disabled = pool.disruption.consolidate_after.is_none();
        disabled.then(|| Unconsolidatable::ConsolidationDisabled(Arc::clone(&pool.name)))
    },
    |_, candidate| candidate.is_empty().then_some(Unconsolidatable::LeftToEmptiness),
    |_, candidate| {
        let pool = &candidate.pool;
        let only_empty = pool.disruption.consolidation == ConsolidationPolicy::WhenEmpty && !candidate.is_empty();
        only_empty.then(|| Unconsolidatable::NotEmpty(Arc::clone(&pool.name)))
    },
    |_, candidate| unsettled(candidate),
];

/// The first rule that excludes a candidate.
pub(crate) fn obstacle(snapshot: &Snapshot, candidate: &Candidate) -> Option<Unconsolidatable> {
    obstacles(snapshot, candidate).next()
}

/// Every rule that excludes a candidate, in order, evaluated lazily.
pub(crate) fn obstacles<'a>(
    snapshot: &'a Snapshot,
    candidate: &'a Candidate,
) -> impl Iterator<Item = Unconsolidatable> {
    RULES.iter().filter_map(|rule| rule(snapshot, candidate))
}

fn type_unknown(snapshot: &Snapshot, candidate: &Candidate) -> Option<Unconsolidatable> {
    let kind = candidate.node.label(sym::INSTANCE_TYPE);
    let mut types = candidate.pool.catalogue.iter().flat_map(|catalogue| &catalogue.types);
    let known = types.any(|known| Some(known.name) == kind);
    let label = || kind.map_or_else(|| Arc::from(""), |kind| snapshot.interner.shared(kind));
    (!known).then(|| Unconsolidatable::TypeUnknown(label()))
}

fn lacks(candidate: &Candidate, key: Sym, name: &'static str) -> Option<Unconsolidatable> {
    candidate
        .node
        .label(key)
        .is_none()
        .then_some(Unconsolidatable::NoLabel(name))
}

/// Whether the NodeClaim is not consolidatable yet, and when it will be, if that is known (DIS-119). If it never will be, the rule for
/// [`Unconsolidatable::ConsolidationDisabled`] says so.
fn unsettled(candidate: &Candidate) -> Option<Unconsolidatable> {
    let life = &candidate.node.lifecycle;
    let after = candidate.pool.disruption.consolidate_after?;
    (!life.consolidatable)
        .then(|| Unconsolidatable::Unsettled(settles_at(life.initialized_at, life.last_pod_event, after)))
}
