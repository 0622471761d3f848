//! Why a pod goes nowhere: the first cause per pool, in the contract's words (section 22), and how near it was.

use crate::amounts::{Amounts, add};
use crate::bits::Bits;
use crate::classes::{Class, ClassId, Variant};
use crate::launches::keys_text;
use crate::limits::Within;
use crate::requirements::ReqSet;
use crate::run::{Ask, No, Run, TargetNo};
use crate::templates::{Template, unmet};
use crate::topology::{Allowed, GroupId, GroupKind, TopologyKey};
use crate::types::{TypeIndex, goes_with};
use crate::world::World;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::plan::{Cause, Refusal, Refuser, TopologyKind, TypeFilter};
use kerf_model::requirement::{Incompatibility, Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::taint::first_untolerated;
use std::sync::Arc;

/// One refusal per pool, in the order pools are tried, for the weakest reading of a class (SCH-329 to SCH-331).
pub(crate) fn refusals(run: &mut Run<'_, '_>, class: ClassId) -> Vec<Refusal> {
    let world = run.world;
    let Some(variant) = world.class(class).variants.last() else {
        return Vec::new();
    };
    let mut refusals = Vec::new();
    for template in 0..world.templates.len() {
        let (cause, nearest_miss) = refuse(run, class, variant, template);
        // SCH-297: a reservation conflict ends the search, lighter pools are not asked.
        let last = matches!(cause, Cause::ReservationUnavailable | Cause::ReservationLost);
        let by = Refuser::Pool(Arc::clone(&world.templates[template].pool.name));
        refusals.push(Refusal {
            by,
            cause,
            nearest_miss,
        });
        if last {
            break;
        }
    }
    refusals
}

/// Refusals of existing nodes, then of pools that would not make a new one (for `explain`).
pub(crate) fn explain(run: &mut Run<'_, '_>, class_id: ClassId) -> Vec<Refusal> {
    let world = run.world;
    let class = world.class(class_id);
    let Some(variant) = class.variants.last() else {
        return Vec::new();
    };
    let allowed = Allowed::compute(world, &run.counts, class, variant);
    let mut all = Vec::new();
    let targets = world.targets.iter().enumerate();
    for (at, target) in targets.filter(|(at, _)| !world.excluded.get(*at)) {
        let cause = match &allowed {
            Err(group) => Some(topology(
                run,
                variant,
                &Requirements::from_labels(&target.node.labels, world.interner()),
                *group,
            )),
            Ok(allowed) => {
                let ask = Ask {
                    class,
                    variant,
                    allowed,
                    reading: run.reading(class_id, class.variants.len() - 1),
                };
                run.target_refusal(&ask, at).map(|no| node_cause(run, &ask, at, no))
            }
        };
        let by = Refuser::Node(Arc::clone(&target.node.name));
        all.extend(cause.map(|cause| Refusal {
            by,
            cause,
            nearest_miss: None,
        }));
    }
    for template in 0..world.templates.len() {
        if let Ok(allowed) = &allowed {
            let ask = Ask {
                class,
                variant,
                allowed,
                reading: run.reading(class_id, class.variants.len() - 1),
            };
            if run.try_template_inner(&ask, template, None).is_ok() {
                continue;
            }
        }
        let (cause, nearest_miss) = refuse(run, class_id, variant, template);
        all.push(Refusal {
            by: Refuser::Pool(Arc::clone(&world.templates[template].pool.name)),
            cause,
            nearest_miss,
        });
    }
    all
}

/// The cause behind a target's refusal.
fn node_cause(run: &Run<'_, '_>, ask: &Ask<'_>, at: usize, no: TargetNo) -> Cause {
    let world = run.world;
    let node = &world.targets[at].node;
    let labels = Requirements::from_labels(&node.labels, world.interner());
    let unmet = |set: u32, volume: bool| {
        incompatible_node(world, &labels, world.req_sets.get(set), volume)
            .unwrap_or(Cause::NodeNotUsable("labels".into()))
    };
    match no {
        TargetNo::Closed => Cause::NodeNotUsable("the node is overcommitted or over an attach limit".into()),
        TargetNo::Settling => Cause::NodeNotUsable("a pod came or left too recently to move another one there".into()),
        TargetNo::Taint => first_untolerated(&node.taints, &ask.variant.tolerations)
            .map_or(Cause::NodeResources, |taint| Cause::Taint(taint.to_string())),
        TargetNo::Volumes => Cause::NodeNotUsable("would exceed volume limit".into()),
        TargetNo::Ports => {
            let ports = |ports: &[kerf_model::pod::HostPort]| {
                let texts: Vec<String> = ports
                    .iter()
                    .map(|port| format!("{}:{}/{}", port.ip, port.port, port.protocol))
                    .collect();
                texts.join(" ")
            };
            Cause::HostPort {
                existing: ports(run.ports_of(at)),
                pod: ports(&ask.class.shape.host_ports),
            }
        }
        TargetNo::Resources => Cause::NodeResources,
        TargetNo::Labels => unmet(ask.variant.full, false),
        TargetNo::Reach => ask
            .class
            .volume_choices
            .last()
            .map_or(Cause::NodeResources, |set| unmet(*set, true)),
        TargetNo::Topology => {
            let groups = ask
                .variant
                .owned
                .iter()
                .map(|owned| owned.group)
                .chain(ask.class.repelled_by.iter().copied());
            groups
                .into_iter()
                .next()
                .map_or(Cause::NodeResources, |group| topology(run, ask.variant, &labels, group))
        }
    }
}

/// The first conflict of an existing node's labels with a requirement set.
fn incompatible_node(world: &World<'_>, have: &Requirements, wanted: &ReqSet, volume: bool) -> Option<Cause> {
    let interner = world.interner();
    let parts = || wanted.labels.iter().chain(wanted.host.as_ref());
    let missing = parts().find(|want| have.get(want.key).is_none() && !want.admits_absence());
    if let Some(want) = missing {
        return Some(Cause::UndefinedLabel {
            key: interner.text(want.key).to_owned(),
            hint: hint(world, have, want.key),
            volume,
        });
    }
    let (want, own) = parts()
        .filter_map(|want| Some((want, have.get(want.key)?)))
        .find(|(want, own)| !goes_with(own, want, interner))?;
    let key = interner.text(want.key).to_owned();
    Some(Cause::Incompatible {
        key,
        wanted: want.print(interner),
        offered: own.print(interner),
        volume,
    })
}

fn refuse(run: &mut Run<'_, '_>, class_id: ClassId, variant: &Variant, number: usize) -> (Cause, Option<String>) {
    let world = run.world;
    let (class, template) = (world.class(class_id), &world.templates[number]);
    let pool = || Arc::clone(&template.pool.name);
    let mut options = template.rows.clone();
    options.and(&run.states.get(world.base[number]).rows);
    match run.limits.within(world, number) {
        Within::NoNode => return (Cause::NodeLimit { pool: pool() }, None),
        Within::Rows(rows) => {
            options.and(&rows);
            if options.is_empty() {
                return (Cause::Limits { pool: pool() }, None);
            }
        }
        Within::All => {}
    }
    if let Some(taint) = first_untolerated(&template.pool.taints, &variant.tolerations) {
        return (Cause::Taint(taint.to_string()), None);
    }
    let wanted = world.req_sets.get(variant.full);
    if let Some(cause) = incompatible(world, &template.requirements, wanted, false) {
        return (cause, None);
    }
    let mut merged = template.requirements.clone();
    merged.add_all(&wanted.labels, world.interner());
    if let Some(last) = class.volume_choices.last() {
        let volumes = world.req_sets.get(*last);
        if let Some(cause) = incompatible(world, &merged, volumes, true) {
            return (cause, None);
        }
        merged.add_all(&volumes.labels, world.interner());
    }
    let allowed = match Allowed::compute(world, &run.counts, class, variant) {
        Ok(allowed) => allowed,
        Err(group) => return (topology(run, variant, &merged, group), None),
    };
    let reading = run.reading(class_id, class.variants.len() - 1);
    let ask = Ask {
        class,
        variant,
        allowed: &allowed,
        reading,
    };
    if let Err(No::Reserved(conflict)) = run.try_template_inner(&ask, number, None) {
        return (conflict.cause(), None);
    }
    if let Some(group) = blocking(run, &ask, &merged) {
        return (topology(run, variant, &merged, group), None);
    }
    types(world, template, class, &options, &merged)
}

/// The first conflict with a requirement set, as a cause.
fn incompatible(world: &World<'_>, have: &Requirements, wanted: &ReqSet, volume: bool) -> Option<Cause> {
    let interner = world.interner();
    let text = |requirement: &Requirement| requirement.print(interner);
    let conflict = |key: Sym, wanted: String, offered: String| Cause::Incompatible {
        key: interner.text(key).to_owned(),
        wanted,
        offered,
        volume,
    };
    if let Err(incompatibility) = have.compatible(&wanted.labels, |key| world.is_known(key), interner) {
        return Some(match incompatibility {
            Incompatibility::UndefinedKey(key) => Cause::UndefinedLabel {
                key: interner.text(key).to_owned(),
                hint: hint(world, have, key),
                volume,
            },
            Incompatibility::Conflict { wanted, offered } => conflict(wanted.key, text(&wanted), text(&offered)),
        });
    }
    if let Some(key) = wanted.contradiction {
        let offered = have.get(key).cloned().unwrap_or_else(|| Requirement::exists(key));
        return Some(conflict(key, text(&Requirement::does_not_exist(key)), text(&offered)));
    }
    let host = wanted.host.as_ref().filter(|_| !wanted.allows_new_host())?;
    Some(conflict(
        sym::HOSTNAME,
        text(host),
        text(&Requirement::exists(sym::HOSTNAME)),
    ))
}

/// SCH-105: the well-known key, else the candidate's, that the offending one may be a typo of.
fn hint(world: &World<'_>, have: &Requirements, key: Sym) -> String {
    let interner = world.interner();
    let text = interner.text(key);
    let tail = text.rsplit('/').next().unwrap_or(text);
    let alike = |known: &&str| known.contains(text) || (!tail.is_empty() && known.ends_with(tail));
    let sorted = |keys: &mut dyn Iterator<Item = Sym>| {
        let mut texts: Vec<&str> = keys.map(|key| interner.text(key)).collect();
        texts.sort_unstable();
        texts
    };
    let well_known = sorted(&mut world.snapshot.well_known.iter().copied());
    let own = sorted(&mut have.iter().map(|requirement| requirement.key));
    let found = well_known.iter().chain(&own).find(|known| alike(known));
    found.map_or_else(String::new, |known| format!(" (typo of \"{known}\"?)"))
}

/// The group that leaves a new machine with these requirements no domain, if one does.
fn blocking(run: &Run<'_, '_>, ask: &Ask<'_>, merged: &Requirements) -> Option<GroupId> {
    let world = run.world;
    if ask.allowed.no_new_host {
        return ask.allowed.beside.first().copied();
    }
    for rule in &ask.allowed.rules {
        let table = &world.keys.tables[rule.key as usize];
        let requirement = merged.get(table.key);
        let admitted = |domain: &usize| {
            requirement.is_none_or(|requirement| requirement.has(table.values[*domain], world.interner()))
        };
        let undefined = requirement.is_none() && !world.is_known(table.key);
        let left = rule.valid.iter().any(|domain| admitted(&domain)) && !undefined;
        if !left && (rule.needs_key || !undefined) {
            let mine = |id: &GroupId| world.groups.list[*id as usize].identity.key == TopologyKey::Domain(rule.key);
            let owned = ask.variant.owned.iter().map(|owned| owned.group);
            return owned.chain(ask.class.repelled_by.iter().copied()).find(mine);
        }
    }
    None
}

/// SCH-210.
fn topology(run: &Run<'_, '_>, variant: &Variant, merged: &Requirements, id: GroupId) -> Cause {
    let world = run.world;
    let interner = world.interner();
    let group = &world.groups.list[id as usize];
    let counts = run.counts.get(id);
    let (key, mut domains): (Sym, Vec<String>) = match group.identity.key {
        TopologyKey::Host => (sym::HOSTNAME, host_counts(run, id)),
        TopologyKey::Domain(key) => {
            let table = &world.keys.tables[key as usize];
            let shown = |domain: &usize| group.known.get(*domain) || counts.by_domain[*domain] > 0;
            let text = |domain: usize| format!("{}: {}", interner.text(table.values[domain]), counts.by_domain[domain]);
            (table.key, (0..table.values.len()).filter(shown).map(text).collect())
        }
    };
    domains.sort_unstable();
    let more = domains.len().saturating_sub(25);
    domains.truncate(25);
    let more = if more > 0 {
        format!(" and {more} other(s)")
    } else {
        String::new()
    };
    let requirement =
        |set: Option<&Requirement>| set.cloned().unwrap_or_else(|| Requirement::exists(key)).print(interner);
    Cause::Topology {
        kind: match group.kind() {
            GroupKind::Spread => TopologyKind::Spread,
            GroupKind::Affinity => TopologyKind::Affinity,
            GroupKind::AntiAffinity | GroupKind::Inverse => TopologyKind::AntiAffinity,
        },
        key: interner.text(key).to_owned(),
        counts: format!("{}{more}", domains.join(", ")),
        pod_domains: requirement(world.req_sets.get(variant.strict).get(key)),
        node_domains: requirement(merged.get(key)),
    }
}

fn host_counts(run: &Run<'_, '_>, id: GroupId) -> Vec<String> {
    let (world, counts) = (run.world, run.counts.get(id));
    let claims = counts
        .by_claim
        .iter()
        .enumerate()
        .map(|(at, n)| format!("hostname-placeholder-{:04}: {n}", at + 1));
    let targets = world.targets.iter().zip(&*counts.by_target).enumerate();
    targets
        .filter(|(at, _)| !world.excluded.get(*at))
        .map(|(_, (target, n))| format!("{}: {n}", world.interner().text(target.node.hostname)))
        .chain(claims)
        .collect()
}

/// The instance-type filter (section 22.2): which of requirements, resources and offering some type met.
fn types(
    world: &World<'_>,
    template: &Template,
    class: &Class,
    options: &Bits,
    merged: &Requirements,
) -> (Cause, Option<String>) {
    let interner = world.interner();
    let types = &world.catalogues[template.catalogue];
    let mut filter = TypeFilter::default();
    let mut survivors = Bits::default();
    let mut overheads: Vec<&Resources> = Vec::new();
    for partition in &template.partitions {
        let blocked = class
            .shape
            .host_ports
            .iter()
            .any(|port| partition.ports.iter().any(|other| port.conflicts(other)));
        if blocked || !options.intersects(&partition.rows) {
            continue;
        }
        overheads.push(&partition.requests);
        let mut total: Amounts = class.requests.clone();
        add(&mut total, &partition.overhead);
        let mut rows = options.clone();
        rows.and(&partition.rows);
        survivors.or(&examine(world, types, &rows, &total, merged, &mut filter));
    }
    let mut shown = merged.clone();
    for key in [sym::REGISTERED, sym::INITIALIZED] {
        shown.remove(key);
    }
    let requirements = shown.print(interner);
    let resources = resources_text(&class.shape.requests, &overheads, interner);
    let short = unmet(types, merged, &survivors);
    if !survivors.is_empty() && !short.is_empty() {
        return (
            Cause::MinValues {
                keys: keys_text(world, &short),
                requirements,
                resources,
            },
            None,
        );
    }
    let cpu_typo = filter.requirements
        && filter.offering
        && !filter.resources
        && class.shape.requests.get(sym::CPU) >= 1_000_000_000;
    let miss = if filter.resources {
        None
    } else {
        largest(world, template, class, options)
    };
    (
        Cause::InstanceTypes {
            filter,
            requirements,
            resources,
            cpu_typo,
        },
        miss,
    )
}

/// Examines the types of `rows`, each with all its groups of offerings; returns the rows that met everything together.
fn examine(
    world: &World<'_>,
    types: &TypeIndex,
    rows: &Bits,
    total: &[i64],
    merged: &Requirements,
    filter: &mut TypeFilter,
) -> Bits {
    let mut survivors = Bits::default();
    let mut last = usize::MAX;
    for first in rows.iter() {
        let number = types.rows[first].instance_type;
        if number == last {
            continue;
        }
        last = number;
        let own = &types.instance_type(first).requirements;
        let meets = merged.iter().all(|want| {
            own.get(want.key)
                .is_none_or(|own| goes_with(own, want, world.interner()))
        });
        let (mut fits, mut offered, mut together) = (false, false, false);
        // The rows of a type are neighbours.
        let same = |row: &usize| types.rows[*row].instance_type == number;
        let start = (0..=first).rev().take_while(same).last().unwrap_or(first);
        let group = (start..types.rows.len()).take_while(same);
        for row in group {
            let big = types.row_fits(row, total);
            let had = types.rows[row]
                .offers
                .clone()
                .any(|at| offers(world, types.offering(&types.offers[at]), merged));
            (fits, offered) = (fits || big, offered || had);
            if meets && big && had {
                together = true;
                survivors.insert(row);
            }
        }
        filter.requirements |= meets;
        filter.resources |= fits;
        filter.offering |= offered;
        filter.requirements_and_resources |= meets && fits && !offered;
        filter.requirements_and_offering |= meets && offered && !fits;
        filter.resources_and_offering |= fits && offered && !meets;
        debug_assert!(
            !together || (meets && fits && offered),
            "a survivor meets each condition"
        );
    }
    survivors
}

fn offers(world: &World<'_>, offering: &kerf_model::instance_type::Offering, merged: &Requirements) -> bool {
    merged
        .compatible(&offering.requirements, |key| world.is_known(key), world.interner())
        .is_ok()
}

/// SCH-337: the pod's requests plus overhead as JSON, or the range where partitions differ.
fn resources_text(requests: &Resources, overheads: &[&Resources], interner: &Interner) -> String {
    let total = |overhead: &Resources| {
        let mut sum = requests.clone();
        sum.add(overhead);
        sum
    };
    let named: Vec<Resources> = overheads
        .iter()
        .filter(|overhead| !overhead.is_empty())
        .map(|overhead| total(overhead))
        .collect();
    let Some(first) = named.first() else {
        return json(requests, interner);
    };
    if named.iter().all(|other| other == first) {
        return json(first, interner);
    }
    let mut least = first.clone();
    let mut most = first.clone();
    for other in &named[1..] {
        most.max_with(other);
        least = least
            .iter()
            .filter(|(name, _)| other.contains(*name))
            .map(|(name, n)| (name, n.min(other.get(name))))
            .collect();
    }
    format!("min={}, max={}", json(&least, interner), json(&most, interner))
}

fn json(resources: &Resources, interner: &Interner) -> String {
    let mut entries: Vec<(String, String)> = resources
        .iter()
        .map(|(name, amount)| (interner.text(name).to_owned(), Resources::print(name, amount)))
        .collect();
    entries.sort_unstable();
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(name, amount)| format!("\"{name}\":\"{amount}\""))
        .collect();
    format!("{{{}}}", entries.join(","))
}

/// The first resource no type of the pool has enough of, in words.
fn largest(world: &World<'_>, template: &Template, class: &Class, options: &Bits) -> Option<String> {
    let types = &world.catalogues[template.catalogue];
    for (at, name) in world.resources.names.iter().enumerate() {
        let free = |row: usize| {
            let overhead = template
                .partitions
                .iter()
                .find(|partition| partition.rows.get(row))
                .map_or(0, |p| p.overhead[at]);
            types.amounts[at][row].saturating_sub(overhead)
        };
        let most = options.iter().map(free).max()?;
        let wanted = class.requests[at];
        if wanted > most {
            let text = world.interner().text(*name);
            let (wanted, most) = (Resources::print(*name, wanted), Resources::print(*name, most.max(0)));
            return Some(format!(
                "needs {wanted} {text}; the largest type the pool allows leaves {most}"
            ));
        }
    }
    Some("each amount is there, but no single type has all of them".to_owned())
}
