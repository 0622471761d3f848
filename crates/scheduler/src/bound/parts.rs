//! The pods of a class in parts that the linear program can tell apart: what topology constraints imply for how many share a machine, and for how
//! many are in each zone.

use crate::compile::catalogue::{Offer, OfferId};
use crate::compile::classes::{ClassId, OwnGroup, PodClass};
use crate::compile::problem::Problem;
use crate::compile::templates::TemplateId;
use crate::compile::topology::{Domain, DomainId, GroupKind, KeyId, TopologyKey};
use crate::dense::amounts::{Amounts, fits};
use crate::dense::id_set::IdSet;
use crate::search::assignment::Assignment;
use kerf_model::intern::sym;
use kerf_model::price::Price;
use std::collections::BTreeMap;

/// The number of pods of each class.
pub(super) type ClassCounts = BTreeMap<ClassId, u32>;

/// Pods of one class that may run on the same machines.
pub(super) struct Part {
    pub(super) requests: Amounts,
    /// The offers they may run on, by template.
    pub(super) offers: Vec<Vec<OfferId>>,
    pub(super) count: u32,
    /// How many of them one machine may run, whatever its room.
    pub(super) per_machine: u32,
}

/// The parts of a class.
pub(super) fn parts(assignment: &mut Assignment<'_, '_>, counts: &ClassCounts, class: ClassId) -> Vec<Part> {
    let problem = assignment.problem;
    let count = counts.get(&class).copied().unwrap_or(0);
    let requests = problem.requests(class);
    if share_a_machine(problem, counts, class) {
        // They are one large pod.
        let requests: Amounts = requests
            .iter()
            .map(|each| each.saturating_mul(i64::from(count)))
            .collect();
        return vec![Part {
            offers: allowed(assignment, class, &requests, None),
            requests,
            count: 1,
            per_machine: 1,
        }];
    }
    let per_machine = most_per_machine(problem, class).min(count);
    let part = |offers, count| Part {
        requests: requests.clone(),
        offers,
        count,
        per_machine,
    };
    let anywhere = allowed(assignment, class, requests, None);
    let Some(zones) = least_per_zone(problem, counts, class) else {
        return vec![part(anywhere, count)];
    };
    let in_zones: Vec<Vec<Vec<OfferId>>> = zones
        .domains
        .iter()
        .map(|zone| allowed(assignment, class, requests, Some((zones.key, zone))))
        .collect();
    // Where all zones have the same types at the same prices, it does not matter in which the pods are.
    let priced: Vec<_> = in_zones.iter().map(|offers| prices(problem, offers)).collect();
    if priced.iter().all(|prices| Some(prices) == priced.first()) {
        return vec![part(anywhere, count)];
    }
    let rest = count.saturating_sub(zones.least.saturating_mul(in_zones.len() as u32));
    let mut parts: Vec<Part> = in_zones.into_iter().map(|offers| part(offers, zones.least)).collect();
    if rest > 0 {
        parts.push(part(anywhere, rest));
    }
    parts
}

/// The groups of a class whose constraint holds at every level.
fn required<'a>(class: &'a PodClass) -> impl Iterator<Item = &'a OwnGroup> + 'a {
    let (first, others) = class.levels.split_first().unzip();
    let in_others = move |group: &&OwnGroup| {
        let mut others = others.into_iter().flatten();
        others.all(|level| level.own_groups.iter().any(|own| own.group == group.group))
    };
    first.into_iter().flat_map(|level| &level.own_groups).filter(in_others)
}

/// How many pods of a class one machine may run: one where they use a port of it or have a required anti-affinity to each other there, and the
/// largest skew of a spread over hostnames, of which the least count is always zero (SCH-215).
fn most_per_machine(problem: &Problem<'_>, id: ClassId) -> u32 {
    let class = problem.class(id);
    let mut own = class.inverse_groups.iter();
    let apart = !class.shape.host_ports.is_empty()
        || own.any(|id| {
            class.repelling_groups.contains(id) && problem.groups.list[*id].identity.key == TopologyKey::Host
        });
    let spread = required(class).filter(|own| own.selects_self).filter_map(|own| {
        let identity = &problem.groups.list[own.group].identity;
        (identity.kind == GroupKind::Spread && identity.key == TopologyKey::Host).then_some(identity.max_skew)
    });
    spread.min().unwrap_or(u32::MAX).min(if apart { 1 } else { u32::MAX })
}

/// Whether all pods of a class are on one machine: they have a required affinity to each other there, and no other pod is selected.
fn share_a_machine(problem: &Problem<'_>, counts: &ClassCounts, id: ClassId) -> bool {
    required(problem.class(id)).any(|own| {
        let identity = &problem.groups.list[own.group].identity;
        identity.kind == GroupKind::Affinity
            && identity.key == TopologyKey::Host
            && counts_only(problem, counts, own, id)
    })
}

/// Whether a group selects the pods of a class, and no other pods.
fn counts_only(problem: &Problem<'_>, counts: &ClassCounts, own: &OwnGroup, id: ClassId) -> bool {
    let counted = |class: &ClassId| problem.class(*class).counting_groups.contains(&own.group);
    own.selects_self
        && problem.counts.get(own.group).total == 0
        && counts.keys().filter(|class| counted(class)).all(|class| *class == id)
}

/// The zones over which a required spread constraint distributes pods.
struct Zones {
    key: KeyId,
    domains: IdSet<Domain>,
    /// How many of the pods are in each of them at least.
    least: u32,
}

/// How many pods of a class are in each zone at least, where a spread constraint says so.
///
/// With a largest skew of s and D domains, a domain with the fewest pods has n of them, and the others have at most n + s. So all of them together
/// have at most D n + (D - 1) s.
fn least_per_zone(problem: &Problem<'_>, counts: &ClassCounts, id: ClassId) -> Option<Zones> {
    let count = counts.get(&id).copied()?;
    required(problem.class(id)).find_map(|own| {
        let group = &problem.groups.list[own.group];
        let key = group.identity.key.table()?;
        if group.identity.kind != GroupKind::Spread
            || problem.keys.tables[key].key != sym::ZONE
            || !counts_only(problem, counts, own, id)
        {
            return None;
        }
        let all = u32::try_from(group.domains.len()).ok()?;
        let unequal = all.saturating_sub(1).saturating_mul(group.identity.max_skew);
        let least = count.saturating_sub(unequal).div_ceil(all.max(1));
        let mut domains = group.domains.clone();
        if let Some(admitted) = &own.pod_domains {
            domains.and(admitted);
        }
        (least > 0).then_some(Zones { key, domains, least })
    })
}

/// The types and prices of offers, whatever their zone.
fn prices(problem: &Problem<'_>, offers: &[Vec<OfferId>]) -> Vec<(TemplateId, usize, Price)> {
    let of_templates = problem.templates.ids().zip(offers);
    let mut prices: Vec<_> = of_templates
        .flat_map(|(template, offers)| {
            let types = problem.types(template);
            offers.iter().map(move |offer| {
                let offer = &types.offers[*offer];
                (template, types.rows[offer.row].instance_type, offer.price)
            })
        })
        .collect();
    prices.sort_unstable();
    prices
}

/// The offers, by template, that may hold a pod of a class with these requests at some level, apart from topology, ports, volumes and limits;
/// `within` is the only domain of a topology key they may be in.
fn allowed(
    assignment: &mut Assignment<'_, '_>,
    class: ClassId,
    requests: &Amounts,
    within: Option<(KeyId, DomainId)>,
) -> Vec<Vec<OfferId>> {
    let problem = assignment.problem;
    let of_template = |template: TemplateId| {
        let types = problem.types(template);
        let mut offers: IdSet<Offer> = IdSet::default();
        for level in problem.class(class).levels.iter() {
            if !level.tolerated.get(problem.templates[template].taints) {
                continue;
            }
            let initial = assignment.instance.initial_spec(template);
            let Some(mut spec) = assignment.specs.with_requirements(problem, initial, level.full) else {
                continue;
            };
            if let Some((key, domain)) = within {
                spec = assignment.specs.with_domain(problem, spec, key, domain);
            }
            let spec = assignment.specs.get(spec);
            for offer in spec.offers.iter() {
                let row = types.offers[offer].row;
                let room: Amounts = problem.usable(template, row).collect();
                if spec.rows.get(row) && fits(requests, &room) {
                    offers.insert(offer);
                }
            }
        }
        offers.iter().collect()
    };
    problem.templates.ids().map(of_template).collect()
}
