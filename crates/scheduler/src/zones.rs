//! By zone, how many pods wait for a machine they can only have there: what a batch looks like before anything is placed (SCH-350).

use crate::classes::Class;
use crate::options::{Options, WhatIf};
use crate::prepared::Prepared;
use crate::topology::{TopologyKey, permitted};
use crate::world::World;
use kerf_model::intern::{Sym, sym};
use kerf_model::pod::Phase;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where a pod can go, as far as zones are concerned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EffectiveZone {
    /// This zone alone.
    Only(Arc<str>),
    /// Several, or any.
    Flexible,
    /// None.
    Nowhere,
}

impl EffectiveZone {
    /// As the metric's label says it.
    pub fn label(&self) -> &str {
        match self {
            Self::Only(zone) => zone,
            Self::Flexible => "flexible",
            Self::Nowhere => "none",
        }
    }
}

impl Prepared {
    /// The pods of a question whose phase is Pending, by the zone they can use: what topology permits them in the zone they ask for, else
    /// in those of their volumes, else in any there is. Preferences do not narrow it. Groups that permit nothing in common leave no zone
    /// (SCH-486).
    pub fn effective_zones(&self, what_if: &WhatIf<'_>, options: &Options) -> BTreeMap<EffectiveZone, usize> {
        let world = World::compile(self, what_if, options);
        let mut of_class: BTreeMap<u32, usize> = BTreeMap::new();
        for (pod, class) in world.pods.iter().zip(&world.of_pod) {
            if let Some(class) = class.filter(|_| pod.phase == Phase::Pending && pod.node_name.is_none()) {
                *of_class.entry(class).or_default() += 1;
            }
        }
        let mut zones: BTreeMap<EffectiveZone, usize> = BTreeMap::new();
        for (class, count) in of_class {
            let zone = effective_zone(&world, &world.classes[class as usize]);
            *zones.entry(zone).or_default() += count;
        }
        zones
    }
}

fn effective_zone(world: &World<'_>, class: &Class) -> EffectiveZone {
    let Some(variant) = class.variants.first() else {
        return EffectiveZone::Flexible;
    };
    let asked = world.req_sets.sets[variant.strict as usize].get(sym::ZONE);
    let asked = asked.filter(|asked| !asked.complement);
    let mut zones: BTreeSet<Sym> = match asked {
        Some(asked) => asked.values.iter().copied().collect(),
        None => {
            of_volumes(world, class).unwrap_or_else(|| world.prepared.table(sym::ZONE).values.iter().copied().collect())
        }
    };
    // Nothing is known of any zone: then nothing narrows them.
    let unknown = asked.is_none() && zones.is_empty();
    for owned in &variant.owned {
        let TopologyKey::Domain(key) = world.groups.list[owned.group as usize].identity.key else {
            continue;
        };
        let table = &world.keys.tables[key as usize];
        if table.key == sym::ZONE {
            let open = permitted(world, &world.counts, variant, owned);
            let is_open = |zone: Sym| {
                let number = table.number(zone);
                number.is_some_and(|number| open.as_ref().is_some_and(|open| open.get(number as usize)))
            };
            zones.retain(|zone| is_open(*zone));
        }
    }
    let mut left = zones.into_iter();
    match (left.next(), left.next()) {
        (None, _) if unknown => EffectiveZone::Flexible,
        (None, _) => EffectiveZone::Nowhere,
        (Some(only), None) => EffectiveZone::Only(world.prepared.interner().text(only).into()),
        (Some(_), Some(_)) => EffectiveZone::Flexible,
    }
}

/// The zones all volumes can be reached from; `None` where they do not say.
fn of_volumes(world: &World<'_>, class: &Class) -> Option<BTreeSet<Sym>> {
    let mut zones: Option<BTreeSet<Sym>> = None;
    for alternatives in &class.reach.choices {
        let of = |set: &u32| {
            world.req_sets.sets[*set as usize]
                .get(sym::ZONE)
                .filter(|zone| !zone.complement)
        };
        let Some(each) = alternatives.iter().map(of).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let here: BTreeSet<Sym> = each.into_iter().flat_map(|zone| zone.values.iter().copied()).collect();
        zones = Some(match zones {
            Some(zones) => zones.intersection(&here).copied().collect(),
            None => here,
        });
    }
    zones
}
