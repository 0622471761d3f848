//! The number of pending pods by the only zone they can use, before any pod is placed (SCH-350).

use crate::compile::classes::{ClassId, PodClass};
use crate::compile::prepared::Prepared;
use crate::compile::problem::Problem;
use crate::compile::requirements::ReqId;
use crate::compile::topology::TopologyKey;
use crate::options::{Options, WhatIf};
use crate::search::allowed::permitted_domains;
use kerf_model::intern::{Sym, sym};
use kerf_model::pod::Phase;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The zones a pod can use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EffectiveZone {
    /// Only this zone.
    Only(Arc<str>),
    /// Several zones, or any.
    Flexible,
    /// No zone.
    Nowhere,
}

impl EffectiveZone {
    /// The value of the metric's label.
    pub fn label(&self) -> &str {
        match self {
            Self::Only(zone) => zone,
            Self::Flexible => "flexible",
            Self::Nowhere => "none",
        }
    }
}

impl Prepared {
    /// Counts the pods of a question whose phase is Pending, by the zones they can use. These are the zones a pod asks for, else those of
    /// its volumes, else all, restricted by its topology constraints. Preferences do not restrict them. Constraints without a common zone
    /// leave no zone (SCH-486).
    pub fn effective_zones(&self, what_if: &WhatIf<'_>, options: &Options) -> BTreeMap<EffectiveZone, usize> {
        let problem = Problem::compile(self, what_if, options);
        let mut of_class: BTreeMap<ClassId, usize> = BTreeMap::new();
        for (pod, class) in problem.pods.iter().zip(&problem.of_pod) {
            if let Some(class) = class.filter(|_| pod.phase == Phase::Pending && pod.node_name.is_none()) {
                *of_class.entry(class).or_default() += 1;
            }
        }
        let mut zones: BTreeMap<EffectiveZone, usize> = BTreeMap::new();
        for (class, count) in of_class {
            let zone = effective_zone(&problem, &problem.classes[class]);
            *zones.entry(zone).or_default() += count;
        }
        zones
    }
}

/// The zones the pods of a class can use at their strictest level.
fn effective_zone(problem: &Problem<'_>, class: &PodClass) -> EffectiveZone {
    let Some(level) = class.levels.first() else {
        return EffectiveZone::Flexible;
    };
    let asked = problem.req_sets.sets[level.strict].get(sym::ZONE);
    let asked = asked.filter(|asked| !asked.complement);
    let mut zones: BTreeSet<Sym> = match asked {
        Some(asked) => asked.values.iter().copied().collect(),
        None => of_volumes(problem, class)
            .unwrap_or_else(|| problem.prepared.table(sym::ZONE).values.iter().copied().collect()),
    };
    // No zone is known, so nothing can restrict the pods.
    let unknown = asked.is_none() && zones.is_empty();
    for own_group in &level.own_groups {
        let TopologyKey::Domain(key) = problem.groups.list[own_group.group].identity.key else {
            continue;
        };
        let table = &problem.keys.tables[key];
        if table.key == sym::ZONE {
            let open = permitted_domains(problem, &problem.counts, level, own_group);
            let is_open = |zone: Sym| {
                let domain = table.domain(zone);
                domain.is_some_and(|domain| open.as_ref().is_some_and(|open| open.get(domain)))
            };
            zones.retain(|zone| is_open(*zone));
        }
    }
    let mut left = zones.into_iter();
    match (left.next(), left.next()) {
        (None, _) if unknown => EffectiveZone::Flexible,
        (None, _) => EffectiveZone::Nowhere,
        (Some(only), None) => EffectiveZone::Only(problem.prepared.interner().text(only).into()),
        (Some(_), Some(_)) => EffectiveZone::Flexible,
    }
}

/// The zones from which all volumes can be reached; `None` where volumes do not restrict them.
fn of_volumes(problem: &Problem<'_>, class: &PodClass) -> Option<BTreeSet<Sym>> {
    let mut zones: Option<BTreeSet<Sym>> = None;
    for alternatives in &class.volume_topology.alternatives {
        let of = |set: &ReqId| {
            problem.req_sets.sets[*set]
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
