//! Why a pod goes nowhere: the first cause per pool and per existing node, in the contract's words (section 22), and how near it was.

mod labels;
mod limits;
mod nodes;
mod topology;
mod types;

use crate::classes::{ClassId, Variant};
use crate::limits::Within;
use crate::run::{Ask, No, Run};
use crate::topology::Allowed;
use crate::world::World;
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::plan::{Cause, Refusal, Refuser};
use kerf_model::resources::Resources;
use kerf_model::taint::{Taint, first_untolerated};
use std::sync::Arc;

/// A cause, and how near it was where that can be said.
type Reason = (Cause, Option<String>);

/// How much may be spent on saying how near a refusal was. A pass may have thousands of classes to refuse; a person asks about one pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Depth {
    /// What falls out of the cause.
    Cheap,
    /// What would be left without each single requirement, too.
    Thorough,
}

/// One refusal per pool, in the order pools are tried, for the weakest reading of a class (SCH-329 to SCH-331).
pub(crate) fn refusals(run: &mut Run<'_, '_>, class: ClassId) -> Vec<Refusal> {
    let world = run.world;
    let Some((_, variant)) = world.class(class).reported() else {
        return Vec::new();
    };
    let mut refusals = Vec::new();
    for template in 0..world.templates.len() {
        let (cause, nearest_miss) = refuse(run, class, variant, template, Depth::Cheap);
        // SCH-297: a reservation conflict ends the search, lighter pools are not asked.
        let last = matches!(cause, Cause::ReservationUnavailable | Cause::ReservationLost);
        refusals.push(of_pool(&world.templates[template].pool.name, cause, nearest_miss));
        if last {
            break;
        }
    }
    refusals
}

/// Refusals of existing nodes, of pools that would not make a new one, and of nodes and pools that take part in nothing (for `explain`).
pub(crate) fn explain(run: &mut Run<'_, '_>, class_id: ClassId) -> Vec<Refusal> {
    let world = run.world;
    let class = world.class(class_id);
    let Some((_, variant)) = class.reported() else {
        return Vec::new();
    };
    let mut all = nodes::refusals(run, class_id, variant);
    let allowed = Allowed::compute(world, &run.counts, class, variant);
    for template in 0..world.templates.len() {
        if let Ok(allowed) = &allowed {
            let ask = ask(run, class_id, variant, allowed);
            if run.would_take(&ask, template).is_ok() {
                continue;
            }
        }
        let (cause, nearest_miss) = refuse(run, class_id, variant, template, Depth::Thorough);
        all.push(of_pool(&world.templates[template].pool.name, cause, nearest_miss));
    }
    all.extend(idle_pools(world));
    all
}

fn of_pool(pool: &Arc<str>, cause: Cause, nearest_miss: Option<String>) -> Refusal {
    Refusal {
        by: Refuser::Pool(Arc::clone(pool)),
        cause,
        nearest_miss,
    }
}

fn ask<'x>(run: &Run<'x, '_>, class_id: ClassId, variant: &'x Variant, allowed: &'x Allowed) -> Ask<'x> {
    let class = run.world.class(class_id);
    Ask {
        class,
        variant,
        allowed,
        reading: run.reading(class_id, class.reported().map_or(0, |(level, _)| level)),
    }
}

/// Why one pool makes no new node for a class, in the order of section 22.1.
fn refuse(run: &mut Run<'_, '_>, class_id: ClassId, variant: &Variant, number: usize, depth: Depth) -> Reason {
    let world = run.world;
    let (class, template) = (world.class(class_id), &world.templates[number]);
    let pool = || Arc::clone(&template.pool.name);
    let mut options = template.rows.clone();
    options.and(&run.states.get(world.base[number]).rows);
    match run.limits.within(world, number) {
        Within::NoNode => {
            let cause = Cause::NodeLimit { pool: pool() };
            return (cause, limits::of_nodes(&template.pool));
        }
        Within::Rows(rows) => {
            let before = options.clone();
            options.and(&rows);
            if options.is_empty() {
                let miss = limits::nearest(world, &run.limits, number, &before);
                return (Cause::Limits { pool: pool() }, miss);
            }
        }
        Within::All => {}
    }
    if let Some(reason) = taints(&template.pool.taints, variant) {
        return reason;
    }
    let wanted = world.req_sets.get(variant.full);
    if class.reach.unclear {
        return (Cause::VolumeChoices, None);
    }
    let volumes = class.reach.last.map(|last| world.req_sets.get(last));
    let search = types::Search {
        world,
        template,
        class,
        options: &options,
        depth,
    };
    if let Some(cause) = labels::of_pool(world, &template.requirements, wanted, false) {
        let miss = labels::contradiction(world, wanted).or_else(|| search.without_one(wanted, volumes));
        return (cause, miss);
    }
    let mut merged = template.requirements.clone();
    merged.add_all(&wanted.labels, world.interner());
    if let Some(volumes) = volumes {
        if let Some(cause) = labels::of_pool(world, &merged, volumes, true) {
            let miss = labels::contradiction(world, volumes).or_else(|| search.without_one(wanted, Some(volumes)));
            return (cause, miss);
        }
        merged.add_all(&volumes.labels, world.interner());
    }
    let allowed = match Allowed::compute(world, &run.counts, class, variant) {
        Ok(allowed) => allowed,
        Err(group) => return topology::unmet(run, variant, &merged, group),
    };
    let ask = ask(run, class_id, variant, &allowed);
    if let Err(No::Reserved(conflict)) = run.would_take(&ask, number) {
        return (conflict.cause(), None);
    }
    if let Some(group) = topology::on_new_machine(run, &ask, &merged) {
        return topology::unmet(run, variant, &merged, group);
    }
    search.reason(&merged, wanted, volumes)
}

/// The first taint that is not tolerated; the miss names the others.
fn taints(taints: &[Taint], variant: &Variant) -> Option<Reason> {
    let first = first_untolerated(taints, &variant.tolerations)?;
    let untolerated = |taint: &&Taint| first_untolerated(std::slice::from_ref(*taint), &variant.tolerations).is_some();
    let others: Vec<String> = taints
        .iter()
        .filter(|taint| *taint != first)
        .filter(untolerated)
        .map(ToString::to_string)
        .collect();
    let miss = (!others.is_empty()).then(|| format!("nor are these tolerated: {}", listed(others)));
    Some((Cause::Taint(first.to_string()), miss))
}

/// Pools that make no node for any pod, in the order of names, with why.
fn idle_pools(world: &World<'_>) -> Vec<Refusal> {
    let takes_part = |pool: &Arc<NodePool>| world.templates.iter().any(|template| template.pool.name == pool.name);
    let pools = world.snapshot.pools.iter().filter(|pool| !takes_part(pool));
    let refusal = |pool: &Arc<NodePool>| {
        let why = match &pool.eligibility {
            Eligibility::Static => {
                "it holds a fixed number of nodes (spec.replicas) and makes none for pods".to_owned()
            }
            Eligibility::NotReady(why) => format!("it is not ready: {why}"),
            Eligibility::Deleting => "it is being deleted".to_owned(),
            Eligibility::ForeignNodeClass => "its node class is of a kind this provider does not serve".to_owned(),
            Eligibility::Eligible => match &pool.catalogue {
                Err(fault) => format!("its instance types are not known: {fault}"),
                Ok(_) => {
                    let emptied = world.empty_pools.iter().find(|(name, _)| *name == pool.name);
                    let (due, miss) = match emptied {
                        Some((_, true)) => (" due to minValues incompatibility", None),
                        _ => ("", types::emptied(world, pool)),
                    };
                    let cause = Cause::PoolNotUsable(format!(
                        "NodePool requirements filtered out all compatible available instance types{due}"
                    ));
                    return of_pool(&pool.name, cause, miss);
                }
            },
        };
        of_pool(&pool.name, Cause::PoolNotUsable(why), None)
    };
    pools.map(refusal).collect()
}

/// The first resource of which less is there than is wanted, with both amounts for people.
fn first_short(world: &World<'_>, wanted: &[i64], have: impl Fn(usize) -> i64) -> Option<(String, String, String)> {
    let short = |(at, wanted): (usize, &i64)| (*wanted > 0 && *wanted > have(at)).then_some((at, *wanted));
    let (at, wanted) = wanted.iter().enumerate().find_map(short)?;
    let name = *world.resources.names.get(at)?;
    let (wanted, have) = amounts(name, wanted, have(at).max(0));
    Some((world.interner().text(name).to_owned(), wanted, have))
}

/// Two amounts of one resource for people; exact where rounding would make them look alike.
fn amounts(name: Sym, a: i64, b: i64) -> (String, String) {
    let rounded = (amount(name, a), amount(name, b));
    if rounded.0 == rounded.1 && a != b {
        return (Resources::print(name, a), Resources::print(name, b));
    }
    rounded
}

/// An amount for people: cores, and memory in the largest unit with at most two decimals.
fn amount(name: Sym, amount: i64) -> String {
    if name == sym::CPU {
        return decimals(amount as f64 / 1e3, 3);
    }
    if name == sym::MEMORY || name == sym::EPHEMERAL_STORAGE {
        let units = [(1u64 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
        for (unit, suffix) in units {
            if amount.unsigned_abs() >= unit {
                return decimals(amount as f64 / unit as f64, 2) + suffix;
            }
        }
    }
    Resources::print(name, amount)
}

fn decimals(number: f64, most: usize) -> String {
    let text = format!("{number:.most$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Names for people: five at most, and how many more there are.
fn listed(mut names: Vec<String>) -> String {
    const MOST: usize = 5;
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
