//! Topology constraints nothing satisfies: which of a pod's groups it is, and why.

use super::{Reason, listed};
use crate::bits::Bits;
use crate::classes::{Owned, Variant};
use crate::run::{Ask, Run};
use crate::topology::{GroupId, GroupKind, TopologyKey, permitted};
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::{Cause, TopologyKind};
use kerf_model::requirement::{Requirement, Requirements};

/// The groups that bind a reading of a class: those it owns, and those of others that repel it.
fn binding(ask: &Ask<'_>) -> Vec<Owned> {
    let repelling = ask.class.repelled_by.iter().map(|group| Owned {
        group: *group,
        selects_self: false,
        pod_domains: None,
    });
    ask.variant.owned.iter().cloned().chain(repelling).collect()
}

/// The first group that keeps a class off a target.
pub(super) fn on_target(run: &Run<'_, '_>, ask: &Ask<'_>, at: usize) -> Option<GroupId> {
    let world = run.world;
    let objects = |owned: &Owned| {
        let group = &world.groups.list[owned.group as usize];
        let counts = run.counts.get(owned.group);
        match group.identity.key {
            TopologyKey::Host => match group.kind() {
                GroupKind::Spread => {
                    let most = group.identity.max_skew.saturating_sub(u32::from(owned.selects_self));
                    counts.by_target.get(at).is_some_and(|count| *count > most)
                }
                GroupKind::Affinity => counts.total > 0 && !counts.occupied_targets.get(at),
                GroupKind::AntiAffinity | GroupKind::Inverse => counts.occupied_targets.get(at),
            },
            TopologyKey::Domain(key) => {
                let valid = permitted(world, &run.counts, ask.variant, owned).unwrap_or_default();
                match world.keys.tables[key as usize].domain_of(at) {
                    Some(domain) => !valid.get(domain as usize),
                    None => matches!(group.kind(), GroupKind::Spread | GroupKind::Affinity),
                }
            }
        }
    };
    binding(ask).into_iter().find(objects).map(|owned| owned.group)
}

/// The group that leaves a new machine with these requirements no domain, if one does.
pub(super) fn on_new_machine(run: &Run<'_, '_>, ask: &Ask<'_>, merged: &Requirements) -> Option<GroupId> {
    let world = run.world;
    if ask.allowed.no_new_host {
        return ask.allowed.beside.first().copied();
    }
    for rule in &ask.allowed.rules {
        let table = &world.keys.tables[rule.key as usize];
        let requirement = merged.get(table.key);
        let undefined = requirement.is_none() && !world.is_known(table.key);
        let admitted: Bits = (0..table.values.len())
            .filter(|domain| !undefined && requirement.is_none_or(|r| r.has(table.values[*domain], world.interner())))
            .collect();
        if admitted.intersects(&rule.valid) || (undefined && !rule.needs_key) {
            continue;
        }
        let on_key =
            |owned: &&Owned| world.groups.list[owned.group as usize].identity.key == TopologyKey::Domain(rule.key);
        let groups = binding(ask);
        let alone = |owned: &&Owned| {
            let valid = permitted(world, &run.counts, ask.variant, owned).unwrap_or_default();
            !admitted.intersects(&valid)
        };
        // One that rules everything out by itself, else the first of those that do it together.
        let guilty = groups.iter().filter(on_key).find(alone);
        return guilty.or_else(|| groups.iter().find(on_key)).map(|owned| owned.group);
    }
    None
}

/// SCH-210: the constraint a group stands for, with what it counts, and what keeps it from being met.
pub(super) fn unmet(run: &Run<'_, '_>, variant: &Variant, merged: &Requirements, id: GroupId) -> Reason {
    (cause(run, variant, merged, id), nearest(run, variant, id))
}

fn cause(run: &Run<'_, '_>, variant: &Variant, merged: &Requirements, id: GroupId) -> Cause {
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

/// What keeps a group from being met, for people.
fn nearest(run: &Run<'_, '_>, variant: &Variant, id: GroupId) -> Option<String> {
    let world = run.world;
    let group = &world.groups.list[id as usize];
    let counts = run.counts.get(id);
    match group.kind() {
        GroupKind::Spread => match group.identity.key {
            TopologyKey::Host => Some(format!(
                "maxSkew {} admits no more on one node",
                group.identity.max_skew
            )),
            TopologyKey::Domain(key) => {
                let table = &world.keys.tables[key as usize];
                let mut known = group.known.clone();
                let owned = variant.owned.iter().find(|owned| owned.group == id);
                if let Some(domains) = owned.and_then(|owned| owned.pod_domains.as_ref()) {
                    known.and(domains);
                }
                let Some(least) = known.iter().map(|domain| counts.by_domain[domain]).min() else {
                    let key = world.interner().text(table.key);
                    return Some(format!("no pool and no node has a value of {key} the pod may use"));
                };
                let skew = group.identity.max_skew;
                if let Some(min) = group.identity.min_domains.filter(|min| known.len() < *min as usize) {
                    return Some(format!(
                        "there are {} of minDomains {min}, so none may hold more than {skew}",
                        known.len()
                    ));
                }
                let emptiest = known.iter().filter(|domain| counts.by_domain[*domain] == least);
                let names = names(run, key, emptiest);
                let most = u64::from(least) + u64::from(skew);
                Some(format!(
                    "with maxSkew {skew} none may hold more than {most} while {names} has {least}"
                ))
            }
        },
        GroupKind::Affinity if counts.total == 0 => {
            Some("no pod it must be near is anywhere yet, nor does it match its own rule".to_owned())
        }
        GroupKind::Affinity => Some(format!("pods it must be near are in {}", where_counted(run, id))),
        GroupKind::AntiAffinity => Some(format!("pods it must be apart from are in {}", where_counted(run, id))),
        GroupKind::Inverse => Some(format!(
            "pods that must be apart from it are in {}",
            where_counted(run, id)
        )),
    }
}

fn names(run: &Run<'_, '_>, key: u32, domains: impl Iterator<Item = usize>) -> String {
    let (table, interner) = (&run.world.keys.tables[key as usize], run.world.interner());
    let mut names: Vec<String> = domains
        .map(|domain| interner.text(table.values[domain]).to_owned())
        .collect();
    names.sort_unstable();
    listed(names)
}

/// The domains or nodes in which a group counts pods.
fn where_counted(run: &Run<'_, '_>, id: GroupId) -> String {
    let world = run.world;
    let counts = run.counts.get(id);
    match world.groups.list[id as usize].identity.key {
        TopologyKey::Domain(key) => {
            let counted = (0..counts.by_domain.len()).filter(|domain| counts.by_domain[*domain] > 0);
            names(run, key, counted)
        }
        TopologyKey::Host => {
            let targets = counts.occupied_targets.iter();
            let mut names: Vec<String> = targets.map(|at| world.targets[at].node.name.to_string()).collect();
            names.sort_unstable();
            let claims = counts.occupied_claims.len();
            if claims > 0 {
                names.push(format!("nodes planned in this pass ({claims})"));
            }
            if names.is_empty() {
                return "nodes that take no pods".to_owned();
            }
            listed(names)
        }
    }
}
