//! What launches share: the limits of their pool and capacity reservations.

use crate::launch::NamedLaunch;
use crate::outcome::Outcome;
use crate::rules::amounts::Amounts;
use crate::violation::{Rule, Violations};
use kerf_model::intern::sym;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// SCH-145 to SCH-149: whatever the launches become, the pool stays within its limits.
pub(crate) fn check_pool_limits(
    snapshot: &Snapshot,
    pool: &NodePool,
    launches: &[NamedLaunch<'_>],
    found: &mut Violations,
) {
    let Some(limits) = &pool.limits else { return };
    let interner = &*snapshot.interner;
    let own: Vec<_> = launches.iter().filter(|named| named.pool.name == pool.name).collect();
    if own.is_empty() {
        return;
    }
    let mut wanted = Amounts::default();
    for named in &own {
        let mut largest = Amounts::default();
        for usable in named.types() {
            for (name, amount) in Amounts::read(&usable.instance_type.capacity, interner).0 {
                let known = largest.0.entry(name).or_insert(amount);
                *known = amount.max(*known);
            }
        }
        largest.0.insert(interner.text(sym::NODES), 1);
        wanted.add(&largest);
    }
    let usage = Amounts::read(&pool.usage, interner);
    for (name, limit) in Amounts::read(limits, interner).0 {
        let remaining = limit.saturating_sub(usage.of(name));
        let wanted = wanted.of(name);
        // SCH-147: a resource over its limit blocks every launch, also of types that do not have it.
        if wanted > remaining || remaining < 0 {
            let resource = name.to_owned();
            let rule = Rule::PoolLimit {
                resource,
                wanted,
                remaining,
            };
            found.add_for_node(&pool.name, rule);
        }
    }
}

/// SCH-290 to SCH-293, SCH-300: reservations are held by launches that may use them, and never oversubscribed.
pub(crate) fn check_reservations(snapshot: &Snapshot, launches: &[NamedLaunch<'_>], found: &mut Violations) {
    let text = |id| snapshot.interner.text(id);
    let mut capacity: BTreeMap<&str, u32> = BTreeMap::new();
    let eligible = snapshot
        .pools
        .iter()
        .filter(|pool| pool.eligibility == Eligibility::Eligible);
    for catalogue in eligible.filter_map(|pool| pool.catalogue.as_ref().ok()) {
        for offering in catalogue.types.iter().flat_map(|t| &t.offerings) {
            if let Some(reservation) = &offering.reservation {
                let least = capacity.entry(text(reservation.id)).or_insert(reservation.capacity);
                *least = (*least).min(reservation.capacity);
            }
        }
    }
    let mut held: BTreeMap<&str, u32> = BTreeMap::new();
    for named in launches {
        let own: BTreeSet<&str> = named.launch.reservations.iter().map(|id| text(*id)).collect();
        for id in &own {
            *held.entry(*id).or_default() += 1;
        }
        check_holder(snapshot, named, &own, found);
    }
    for (id, held) in held {
        let capacity = capacity.get(id).copied().unwrap_or(0);
        if held > capacity {
            let id = id.to_owned();
            found.0.push(crate::Violation {
                node: None,
                pod: None,
                rule: Rule::Reservation { id, held, capacity },
            });
        }
    }
}

fn check_holder(snapshot: &Snapshot, named: &NamedLaunch<'_>, own: &BTreeSet<&str>, found: &mut Violations) {
    let interner = &*snapshot.interner;
    let mut complain = |why: &str| found.add_for_node(&named.name, Rule::Launch { why: why.to_owned() });
    let usable: BTreeSet<&str> = named
        .outcomes()
        .filter_map(|outcome| outcome.offering.reservation)
        .map(|reservation| interner.text(reservation.id))
        .collect();
    if !own.is_subset(&usable) {
        complain("it holds a reservation it cannot use");
    }
    if own.is_empty() {
        let reserved = |outcome: Outcome<'_>| outcome.offering.reservation.is_some();
        if named.cheapest().is_some_and(reserved) {
            complain("its cheapest offering is of a reservation it does not hold");
        }
        return;
    }
    if !usable.is_subset(own) {
        complain("it may use a reservation it does not hold");
    }
    let capacity_type = named.own_label(interner.text(sym::CAPACITY_TYPE), interner);
    if capacity_type.only() != Some(interner.text(sym::RESERVED)) {
        complain("it holds reservations without requiring reserved capacity");
    }
}
