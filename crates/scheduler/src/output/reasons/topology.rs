//! Topology constraints that nothing satisfies: which group it is, and why.

use crate::compile::classes::{CompiledLevel, OwnGroup};
use crate::compile::targets::TargetId;
use crate::compile::topology::{Domain, DomainId, GroupId, GroupKind, KeyId, TopologyKey};
use crate::dense::id_set::IdSet;
use crate::output::reasons::reason::Reason;
use crate::output::reasons::text::listed;
use crate::search::allowed::permitted_domains;
use crate::search::assignment::Assignment;
use crate::search::query::Query;
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::{Cause, TopologyKind};
use kerf_model::requirement::{Requirement, Requirements};

/// The groups that constrain a class at one level: its own, and those of other pods that repel it.
fn binding(query: &Query<'_>) -> Vec<OwnGroup> {
    let anti_affinity = query.class.repelling_groups.iter().map(|group| OwnGroup {
        group: *group,
        selects_self: false,
        pod_domains: None,
    });
    query.level.own_groups.iter().cloned().chain(anti_affinity).collect()
}

/// The first group that excludes a target.
pub(super) fn on_target(assignment: &Assignment<'_, '_>, query: &Query<'_>, at: TargetId) -> Option<GroupId> {
    let problem = assignment.problem;
    let objects = |own_group: &OwnGroup| {
        let group = &problem.groups.list[own_group.group];
        let counts = assignment.counts.get(own_group.group);
        match group.identity.key {
            TopologyKey::Host => match group.kind() {
                GroupKind::Spread => {
                    let most = group
                        .identity
                        .max_skew
                        .saturating_sub(u32::from(own_group.selects_self));
                    counts.by_target.get(at).is_some_and(|count| *count > most)
                }
                GroupKind::Affinity => counts.total > 0 && !counts.occupied_targets.get(at),
                GroupKind::AntiAffinity | GroupKind::Inverse => counts.occupied_targets.get(at),
            },
            TopologyKey::Domain(key) => {
                let valid = permitted_domains(problem, &assignment.counts, query.level, own_group).unwrap_or_default();
                match problem.keys.tables[key].domain_of(at) {
                    Some(domain) => !valid.get(domain),
                    None => matches!(group.kind(), GroupKind::Spread | GroupKind::Affinity),
                }
            }
        }
    };
    binding(query)
        .into_iter()
        .find(objects)
        .map(|own_group| own_group.group)
}

/// The group that leaves no domain to a new node with these requirements, if one does.
pub(super) fn on_new_node(
    assignment: &Assignment<'_, '_>,
    query: &Query<'_>,
    merged: &Requirements,
) -> Option<GroupId> {
    let problem = assignment.problem;
    if query.allowed.no_new_host {
        return query.allowed.host_affinity.first().copied();
    }
    for rule in &query.allowed.rules {
        let table = &problem.keys.tables[rule.key];
        let requirement = merged.get(table.key);
        let undefined = requirement.is_none() && !problem.may_be_undefined(table.key);
        let admitted: IdSet<Domain> = table
            .values
            .ids()
            .filter(|domain| !undefined && requirement.is_none_or(|r| r.has(table.values[*domain], problem.interner())))
            .collect();
        if admitted.intersects(&rule.valid) || (undefined && !rule.needs_key) {
            continue;
        }
        let on_key =
            |own_group: &&OwnGroup| problem.groups.list[own_group.group].identity.key == TopologyKey::Domain(rule.key);
        let groups = binding(query);
        let alone = |own_group: &&OwnGroup| {
            let valid = permitted_domains(problem, &assignment.counts, query.level, own_group).unwrap_or_default();
            !admitted.intersects(&valid)
        };
        // Prefer a group that excludes every domain by itself; otherwise the first of those that do it together.
        let excluding = groups.iter().filter(on_key).find(alone);
        return excluding
            .or_else(|| groups.iter().find(on_key))
            .map(|own_group| own_group.group);
    }
    None
}

/// The cause for a group: the constraint, its counts, and why it cannot be met (SCH-210).
pub(super) fn topology_reason(
    assignment: &Assignment<'_, '_>,
    level: &CompiledLevel,
    merged: &Requirements,
    id: GroupId,
) -> Reason {
    (cause(assignment, level, merged, id), nearest(assignment, level, id))
}

fn cause(assignment: &Assignment<'_, '_>, level: &CompiledLevel, merged: &Requirements, id: GroupId) -> Cause {
    let problem = assignment.problem;
    let interner = problem.interner();
    let group = &problem.groups.list[id];
    let counts = assignment.counts.get(id);
    let (key, mut domains): (Sym, Vec<String>) = match group.identity.key {
        TopologyKey::Host => (sym::HOSTNAME, host_counts(assignment, id)),
        TopologyKey::Domain(key) => {
            let table = &problem.keys.tables[key];
            let shown = |domain: &DomainId| group.domains.get(*domain) || counts.by_domain[*domain] > 0;
            let text =
                |domain: DomainId| format!("{}: {}", interner.text(table.values[domain]), counts.by_domain[domain]);
            (table.key, table.values.ids().filter(shown).map(text).collect())
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
        pod_domains: requirement(problem.req_sets.get(level.strict).get(key)),
        node_domains: requirement(merged.get(key)),
    }
}

/// The counts of a hostname group by node and claim, as text.
fn host_counts(assignment: &Assignment<'_, '_>, id: GroupId) -> Vec<String> {
    let (problem, counts) = (assignment.problem, assignment.counts.get(id));
    let claims = counts
        .by_claim
        .entries()
        .map(|(claim, n)| format!("hostname-placeholder-{:04}: {n}", claim.index() + 1));
    let targets = problem.targets.entries().zip(&*counts.by_target);
    targets
        .filter(|((at, _), _)| !problem.excluded.get(*at))
        .map(|((_, target), n)| format!("{}: {n}", problem.interner().text(target.node.hostname)))
        .chain(claims)
        .collect()
}

/// Why a group cannot be met, as text.
fn nearest(assignment: &Assignment<'_, '_>, level: &CompiledLevel, id: GroupId) -> Option<String> {
    let problem = assignment.problem;
    let group = &problem.groups.list[id];
    let counts = assignment.counts.get(id);
    match group.kind() {
        GroupKind::Spread => match group.identity.key {
            TopologyKey::Host => Some(format!(
                "maxSkew {} admits no more on one node",
                group.identity.max_skew
            )),
            TopologyKey::Domain(key) => {
                let table = &problem.keys.tables[key];
                let mut possible = group.domains.clone();
                let own_group = level.own_groups.iter().find(|own_group| own_group.group == id);
                if let Some(domains) = own_group.and_then(|own_group| own_group.pod_domains.as_ref()) {
                    possible.and(domains);
                }
                let Some(least) = possible.iter().map(|domain| counts.by_domain[domain]).min() else {
                    let key = problem.interner().text(table.key);
                    return Some(format!("no pool and no node has a value of {key} the pod may use"));
                };
                let skew = group.identity.max_skew;
                if let Some(min) = group.identity.min_domains.filter(|min| possible.len() < *min as usize) {
                    return Some(format!(
                        "there are {} of minDomains {min}, so none may hold more than {skew}",
                        possible.len()
                    ));
                }
                let emptiest = possible.iter().filter(|domain| counts.by_domain[*domain] == least);
                let names = names(assignment, key, emptiest);
                let most = u64::from(least) + u64::from(skew);
                Some(format!(
                    "with maxSkew {skew} none may hold more than {most} while {names} has {least}"
                ))
            }
        },
        GroupKind::Affinity if counts.total == 0 => {
            Some("no pod it must be near is anywhere yet, nor does it match its own rule".to_owned())
        }
        GroupKind::Affinity => Some(format!("pods it must be near are in {}", where_counted(assignment, id))),
        GroupKind::AntiAffinity => Some(format!(
            "pods it must be apart from are in {}",
            where_counted(assignment, id)
        )),
        GroupKind::Inverse => Some(format!(
            "pods that must be apart from it are in {}",
            where_counted(assignment, id)
        )),
    }
}

fn names(assignment: &Assignment<'_, '_>, key: KeyId, domains: impl Iterator<Item = DomainId>) -> String {
    let (table, interner) = (&assignment.problem.keys.tables[key], assignment.problem.interner());
    let mut names: Vec<String> = domains
        .map(|domain| interner.text(table.values[domain]).to_owned())
        .collect();
    names.sort_unstable();
    listed(names)
}

/// The domains or nodes in which a group counts pods, as text.
fn where_counted(assignment: &Assignment<'_, '_>, id: GroupId) -> String {
    let problem = assignment.problem;
    let counts = assignment.counts.get(id);
    match problem.groups.list[id].identity.key {
        TopologyKey::Domain(key) => {
            let counted = counts.by_domain.ids().filter(|domain| counts.by_domain[*domain] > 0);
            names(assignment, key, counted)
        }
        TopologyKey::Host => {
            let targets = counts.occupied_targets.iter();
            let mut names: Vec<String> = targets.map(|at| problem.targets[at].node.name.to_string()).collect();
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
