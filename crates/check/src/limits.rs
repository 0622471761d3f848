//! What launches share: the limits of their pool and capacity reservations.

use crate::launch::Named;
use crate::violation::{Findings, Rule};
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// SCH-145 to SCH-149: whatever the launches become, the pool stays within its limits.
pub(crate) fn check_pool_limits(snapshot: &Snapshot, pool: &NodePool, launches: &[Named<'_>], found: &mut Findings) {
    let Some(remaining) = pool.remaining() else { return };
    let own: Vec<_> = launches.iter().filter(|named| named.pool.name == pool.name).collect();
    if own.is_empty() {
        return;
    }
    let mut wanted = Resources::new();
    for named in &own {
        let mut largest = Resources::new();
        for usable in named.types() {
            largest.max_with(&usable.instance_type.capacity);
        }
        largest.set(sym::NODES, 1);
        wanted.add(&largest);
    }
    for (name, left) in remaining.iter() {
        // SCH-147: a resource over its limit blocks every launch, also of types that do not have it.
        if wanted.get(name) > left || left < 0 {
            let rule = Rule::PoolLimit {
                resource: snapshot.interner.text(name).to_owned(),
                wanted: wanted.get(name),
                remaining: left,
            };
            found.node(&pool.name, rule);
        }
    }
}

/// SCH-290 to SCH-293, SCH-300: reservations are held by those who may use them and never oversubscribed.
pub(crate) fn check_reservations(snapshot: &Snapshot, launches: &[Named<'_>], found: &mut Findings) {
    let mut capacity: BTreeMap<Sym, u32> = BTreeMap::new();
    let eligible = snapshot
        .pools
        .iter()
        .filter(|pool| pool.eligibility == Eligibility::Eligible);
    for catalogue in eligible.filter_map(|pool| pool.catalogue.as_ref().ok()) {
        for offering in catalogue.types.iter().flat_map(|t| &t.offerings) {
            if let Some(reservation) = &offering.reservation {
                let least = capacity.entry(reservation.id).or_insert(reservation.capacity);
                *least = (*least).min(reservation.capacity);
            }
        }
    }
    let mut held: BTreeMap<Sym, u32> = BTreeMap::new();
    for named in launches {
        let own: BTreeSet<Sym> = named.launch.reservations.iter().copied().collect();
        for id in &own {
            *held.entry(*id).or_default() += 1;
        }
        check_holder(named, &own, found);
    }
    for (id, held) in held {
        let capacity = capacity.get(&id).copied().unwrap_or(0);
        if held > capacity {
            let id = snapshot.interner.text(id).to_owned();
            found.0.push(crate::Violation {
                node: None,
                pod: None,
                rule: Rule::Reservation { id, held, capacity },
            });
        }
    }
}

fn check_holder(named: &Named<'_>, own: &BTreeSet<Sym>, found: &mut Findings) {
    let launch = named.launch;
    let mut complain = |why: &str| found.node(&named.name, Rule::Launch { why: why.to_owned() });
    let usable: BTreeSet<Sym> = named
        .outcomes()
        .filter_map(|outcome| outcome.offering.reservation.map(|reservation| reservation.id))
        .collect();
    if !own.is_subset(&usable) {
        complain("it holds a reservation it cannot use");
    }
    if own.is_empty() {
        let reserved = |outcome: crate::outcome::Outcome<'_>| outcome.offering.reservation.is_some();
        if named.cheapest().is_some_and(reserved) {
            complain("its cheapest offering is of a reservation it does not hold");
        }
        return;
    }
    if !usable.is_subset(own) {
        complain("it may use a reservation it does not hold");
    }
    if launch
        .requirements
        .get(sym::CAPACITY_TYPE)
        .and_then(kerf_model::requirement::Requirement::single)
        != Some(sym::RESERVED)
    {
        complain("it holds reservations without requiring reserved capacity");
    }
}
