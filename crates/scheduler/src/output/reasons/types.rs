//! The instance-type filter (section 22.2 of `docs/behaviour/scheduling.md`): which of requirements, resources and offering some type met, and
//! what would help.

use crate::compile::catalogue::{RowId, TypeIndex, TypeRow};
use crate::compile::classes::PodClass;
use crate::compile::daemons::least;
use crate::compile::problem::Problem;
use crate::compile::requirements::{ReqSet, requirements_overlap};
use crate::compile::templates::{Template, unmet};
use crate::dense::amounts::{Amounts, add};
use crate::dense::id_set::IdSet;
use crate::output::launches::keys_text;
use crate::output::reasons::reason::{Depth, Reason};
use crate::output::reasons::text::first_short;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::nodepool::NodePool;
use kerf_model::plan::{Cause, TypeFilter};
use kerf_model::pod::HostPort;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use std::sync::Arc;

/// The instance types that are examined for a class.
pub(super) struct TypeSearch<'x> {
    pub(super) problem: &'x Problem<'x>,
    pub(super) template: &'x Template,
    pub(super) class: &'x PodClass,
    /// The rows that pool and limits leave.
    pub(super) options: &'x IdSet<TypeRow>,
    pub(super) depth: Depth,
}

/// The result of examining every type.
#[derive(Default)]
struct TypeScan<'x> {
    filter: TypeFilter,
    /// Rows that met everything together.
    survivors: IdSet<TypeRow>,
    /// The requests of DaemonSets, by examined partition.
    overheads: Vec<&'x Resources>,
    /// A host port of a DaemonSet that excludes a partition.
    port: Option<&'x HostPort>,
}

impl<'x> TypeSearch<'x> {
    fn types(&self) -> &'x TypeIndex {
        &self.problem.catalogues[self.template.catalogue]
    }

    /// Examines every type for these requirements and requests.
    fn look(&self, merged: &Requirements, requests: &[i64]) -> TypeScan<'x> {
        let mut found = TypeScan::default();
        for partition in &self.template.partitions {
            if !self.options.intersects(&partition.rows) {
                continue;
            }
            let wanted = &self.class.shape.host_ports;
            let clash = |held: &&HostPort| wanted.iter().any(|port| port.conflicts(held));
            if let Some(port) = partition.ports.iter().find(clash) {
                found.port = Some(port);
                continue;
            }
            found.overheads.push(&partition.requests);
            let mut total = Amounts::from_slice(requests);
            add(&mut total, &partition.overhead);
            let mut rows = self.options.clone();
            rows.and(&partition.rows);
            let matching = examine(self.problem, self.types(), &rows, &total, merged, &mut found.filter);
            found.survivors.or(&matching);
        }
        found
    }

    /// Why no type is left under requirements that are compatible (SCH-332 to SCH-337).
    pub(super) fn reason(&self, merged: &Requirements, wanted: &ReqSet, volumes: Option<&ReqSet>) -> Reason {
        let interner = self.problem.interner();
        let found = self.look(merged, &self.class.requests);
        let mut shown = merged.clone();
        for key in [sym::REGISTERED, sym::INITIALIZED] {
            shown.remove(key);
        }
        let requirements = shown.print(interner);
        let shape = &self.class.shape;
        let resources = resources_text(&shape.requests, &found.overheads, interner);
        let short = unmet(self.types(), merged, &found.survivors);
        if !found.survivors.is_empty() && !short.is_empty() {
            let cause = Cause::MinValues {
                keys: keys_text(self.problem, &short),
                requirements,
                resources,
            };
            return (cause, values_left(merged, &short, interner));
        }
        let filter = found.filter;
        let cpu_typo = filter.requirements
            && filter.offering
            && !filter.resources
            && shape.requests.get(sym::CPU) >= 1_000_000_000;
        let cause = Cause::InstanceTypes {
            filter,
            requirements,
            resources,
            cpu_typo,
        };
        (cause, self.nearest(merged, wanted, volumes, &found))
    }

    /// What is missing, as text.
    fn nearest(
        &self,
        merged: &Requirements,
        wanted: &ReqSet,
        volumes: Option<&ReqSet>,
        found: &TypeScan<'_>,
    ) -> Option<String> {
        if let (Some(port), true) = (found.port, found.overheads.is_empty()) {
            return Some(format!(
                "a DaemonSet claims host port {}/{} on every node of the pool",
                port.port, port.protocol
            ));
        }
        if self.depth == Depth::Cheap {
            return (!found.filter.resources).then(|| self.largest(self.options, "the pool allows"));
        }
        // Types that lack only resources.
        let rest = self.look(merged, &self.problem.resources.zero()).survivors;
        if !rest.is_empty() {
            return Some(self.largest(&rest, "that meets its requirements"));
        }
        let unavailable = self.unavailable(merged);
        if unavailable > 0 {
            return Some(format!("{} would do but cannot be had now", types_text(unavailable)));
        }
        self.without_one(wanted, volumes)
            .or_else(|| (!found.filter.resources).then(|| self.largest(self.options, "the pool allows")))
    }

    /// The first resource of which no row of `rows` has enough, as text.
    fn largest(&self, rows: &IdSet<TypeRow>, which: &str) -> String {
        let types = self.types();
        let free = |at: usize| {
            let left = |row: RowId| {
                let mine = self.template.partition_of(row);
                types.amounts[at][row].saturating_sub(mine.map_or(0, |partition| partition.overhead[at]))
            };
            rows.iter().map(left).max().unwrap_or(0)
        };
        match first_short(self.problem, &self.class.requests, free) {
            Some((name, wanted, most)) => format!("needs {wanted} {name}; the largest type {which} leaves {most}"),
            None => "each amount is there, but no single type has all of them".to_owned(),
        }
    }

    /// The requirement of the pod or its volumes without which most types would fit, as text.
    pub(super) fn without_one(&self, wanted: &ReqSet, volumes: Option<&ReqSet>) -> Option<String> {
        if self.depth == Depth::Cheap {
            return None;
        }
        let interner = self.problem.interner();
        let sets = || std::iter::once(wanted).chain(volumes);
        let parts = || sets().flat_map(|set| &set.labels);
        let mut keys: Vec<Sym> = parts().map(|part| part.key).collect();
        keys.sort_by_key(|key| interner.text(*key));
        keys.dedup();
        let host_is_free = sets().all(ReqSet::allows_new_host);
        let mut best: Option<(usize, String)> = None;
        if !host_is_free {
            let host = sets().find_map(|set| set.host.as_ref())?;
            let mut merged = self.template.requirements.clone();
            parts().for_each(|part| merged.add(part.clone(), interner));
            let count = self.count(&self.look(&merged, &self.class.requests).survivors);
            return (count > 0).then(|| sentence(count, &[host], interner));
        }
        for key in keys {
            let mut merged = self.template.requirements.clone();
            let mut left_out = Vec::new();
            let mut goes = true;
            for part in parts() {
                if part.key == key {
                    left_out.push(part);
                    continue;
                }
                let one = Requirements::from_all([part.clone()], interner);
                goes &= merged
                    .compatible(&one, |key| self.problem.may_be_undefined(key), interner)
                    .is_ok();
                merged.add(part.clone(), interner);
            }
            let contradicted = sets().any(|set| set.contradiction.is_some_and(|other| other != key));
            if !goes || contradicted {
                continue;
            }
            let count = self.count(&self.look(&merged, &self.class.requests).survivors);
            if count > best.as_ref().map_or(0, |best| best.0) {
                best = Some((count, sentence(count, &left_out, interner)));
            }
        }
        best.map(|(_, text)| text)
    }

    /// The number of distinct instance types among some rows.
    fn count(&self, rows: &IdSet<TypeRow>) -> usize {
        let types = self.types();
        let mut numbers: Vec<usize> = rows.iter().map(|row| types.rows[row].instance_type).collect();
        numbers.dedup();
        numbers.len()
    }

    /// The number of types that would fit if their offerings were available.
    fn unavailable(&self, merged: &Requirements) -> usize {
        let interner = self.problem.interner();
        let types = self.types();
        let mut numbers: Vec<usize> = self
            .template
            .rows
            .iter()
            .map(|row| types.rows[row].instance_type)
            .collect();
        numbers.dedup();
        let would_do = |number: &usize| {
            let kind = &types.catalogue.types[*number];
            let meets = merged.iter().all(|want| {
                let own = kind.requirements.get(want.key);
                own.is_none_or(|own| requirements_overlap(own, want, interner))
            });
            let mut rows = types.rows.entries();
            let fits = rows
                .find(|(_, row)| row.instance_type == *number)
                .is_some_and(|(row, _)| types.row_fits(row, &self.class.requests));
            let mut off = kind.offerings.iter().filter(|offering| !offering.available);
            meets && fits && off.any(|offering| offers(self.problem, offering, merged))
        };
        numbers.iter().filter(|number| would_do(number)).count()
    }
}

fn types_text(count: usize) -> String {
    match count {
        1 => "1 instance type".to_owned(),
        count => format!("{count} instance types"),
    }
}

fn sentence(count: usize, without: &[&Requirement], interner: &Interner) -> String {
    let texts: Vec<String> = without.iter().map(|part| part.print(interner)).collect();
    format!("{} would do but for {}", types_text(count), texts.join(" and "))
}

/// The number of values left of a key with `minValues`, as text.
fn values_left(merged: &Requirements, short: &[(Sym, u32)], interner: &Interner) -> Option<String> {
    let mut short = short.to_vec();
    short.sort_by_key(|(key, _)| interner.text(*key));
    let (key, left) = *short.first()?;
    let least = merged.get(key)?.min_values?;
    Some(format!(
        "needs {least} values of {}; {left} are left",
        interner.text(key)
    ))
}

/// The requirement of a pool without which it would have instance types, as text.
pub(super) fn emptied_pool(problem: &Problem<'_>, pool: &NodePool) -> Option<String> {
    let interner = problem.interner();
    let catalogue = pool.catalogue.as_ref().ok()?;
    let types = problem
        .catalogues
        .iter()
        .find(|types| Arc::ptr_eq(&types.catalogue, catalogue))?;
    let mut keys: Vec<&Requirement> = pool.requirements.iter().collect();
    keys.sort_by_key(|requirement| interner.text(requirement.key));
    let mut best: Option<(usize, String)> = None;
    for requirement in keys {
        let mut rest = pool.requirements.clone();
        rest.remove(requirement.key);
        let mut filter = TypeFilter::default();
        let matching = examine(problem, types, &types.sound, &[], &rest, &mut filter);
        let mut numbers: Vec<usize> = matching.iter().map(|row| types.rows[row].instance_type).collect();
        numbers.dedup();
        if numbers.len() > best.as_ref().map_or(0, |best| best.0) {
            best = Some((numbers.len(), sentence(numbers.len(), &[requirement], interner)));
        }
    }
    best.map(|(_, text)| text)
}

/// Examines the types of `rows`, each with all its offerings. Returns the rows that met everything together.
fn examine(
    problem: &Problem<'_>,
    types: &TypeIndex,
    rows: &IdSet<TypeRow>,
    total: &[i64],
    merged: &Requirements,
    filter: &mut TypeFilter,
) -> IdSet<TypeRow> {
    let mut survivors = IdSet::default();
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
                .is_none_or(|own| requirements_overlap(own, want, problem.interner()))
        });
        let (mut fits, mut offered, mut together) = (false, false, false);
        for row in types.rows_of_type(first) {
            let big = types.row_fits(row, total);
            let mut offered_by_row = types.offers_of(row);
            let had = offered_by_row.any(|offer| offers(problem, types.offering(offer), merged));
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

/// Returns whether an offering is compatible with these requirements.
fn offers(problem: &Problem<'_>, offering: &kerf_model::instance_type::Offering, merged: &Requirements) -> bool {
    merged
        .compatible(
            &offering.requirements,
            |key| problem.may_be_undefined(key),
            problem.interner(),
        )
        .is_ok()
}

/// The pod's requests plus overhead as JSON, or the range where partitions differ (SCH-337).
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
    let (mut min, mut max) = (first.clone(), first.clone());
    for other in &named[1..] {
        max.max_with(other);
        min = least(&min, other);
    }
    format!("min={}, max={}", json(&min, interner), json(&max, interner))
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
