//! Machines opened by patterns of most value per dollar.
//!
//! What topology, ports or volumes bind is placed first, snugly; then, for the free pods of each requirement state, it opens
//! again and again the type whose best filling has most value per dollar. A filling is built greedily: the pod whose shape fits best into
//! what is left, weighed by worth. Cost: wares × pods per node × distinct shapes per pattern, and a pattern is used as often as pods last.

use crate::amounts::{fits, subtract};
use crate::classes::{Class, ClassId};
use crate::run::Run;
use crate::states::StateId;
use crate::strategy::greedy::solve;
use crate::strategy::snug::{self, Snug};
use crate::strategy::thrifty::Thrifty;
use crate::strategy::values::Values;
use crate::strategy::worth::{Ware, value};
use crate::strategy::{Outcome, Start, Stop};
use crate::topology::Allowed;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Patterns this close to the best are as good, so that fewer, larger machines win.
const NEARLY: f64 = 0.999;
/// Wares looked at per pattern: the most efficient and the cheapest.
const EFFICIENT_WARES: usize = 32;
const CHEAP_WARES: usize = 16;
/// Classes looked at per pattern, from the front and the back of the queue.
const FRONT_CLASSES: usize = 160;
const BACK_CLASSES: usize = 40;

/// Whether nothing but node requirements, taints and resources decides where the pods of a class go.
fn free(class: &Class) -> bool {
    let bound = |groups: &[u32]| !groups.is_empty();
    let owned = class.variants.iter().any(|variant| !variant.owned.is_empty());
    !(owned
        || bound(&class.repels)
        || bound(&class.repelled_by)
        || bound(&class.settles)
        || !class.shape.host_ports.is_empty()
        || !class.volumes.is_empty())
}

/// Opens machines by patterns of most value per dollar.
pub(super) fn patterns<'w, 'a>(
    start: &Start<'w, 'a>,
    queue: &[u32],
    effort: u64,
    stop: Stop<'_>,
) -> Option<Outcome<'w, 'a>> {
    let (world, values) = (start.run.world, &start.values);
    let free: Vec<bool> = world.classes.iter().map(free).collect();
    let is_free = |pod: &u32| world.of_pod[*pod as usize].is_some_and(|class| free[class as usize]);
    let (loose, bound): (Vec<u32>, Vec<u32>) = queue.iter().copied().partition(is_free);
    if loose.is_empty() {
        return None;
    }
    let run = start.run.clone();
    let mut snug = Snug::new(values, &run, queue);
    let bound = snug::order(world, values, &bound);
    let Outcome {
        run: after,
        failed,
        unattempted,
    } = solve(run, &bound, &mut snug, stop);
    let mut run = after;
    let mut groups: BTreeMap<StateId, Vec<Shelf>> = BTreeMap::new();
    let mut rest: Vec<u32> = failed.into_iter().map(|(pod, _)| pod).chain(unattempted).collect();
    for pod in loose {
        let Some(class) = world.of_pod[pod as usize] else {
            continue;
        };
        if seat(&mut run, &mut snug, class, pod) {
            continue;
        }
        match values.by_class[class as usize] {
            Some((state, _)) => shelve(groups.entry(state).or_default(), class, pod),
            None => rest.push(pod),
        }
    }
    for (state, mut shelves) in groups {
        pack(&mut run, values, state, &mut shelves, effort, stop);
        rest.extend(shelves.into_iter().flat_map(|shelf| shelf.pods));
    }
    let order: FxHashMap<u32, usize> = queue.iter().enumerate().map(|(at, pod)| (*pod, at)).collect();
    rest.sort_unstable_by_key(|pod| order[pod]);
    Some(solve(run, &rest, &mut Thrifty(values), stop))
}

/// Pods of one class still to be placed.
struct Shelf {
    class: ClassId,
    pods: Vec<u32>,
}

fn shelve(shelves: &mut Vec<Shelf>, class: ClassId, pod: u32) {
    match shelves.iter_mut().rev().find(|shelf| shelf.class == class) {
        Some(shelf) => shelf.pods.push(pod),
        None => shelves.push(Shelf { class, pods: vec![pod] }),
    }
}

/// Seats a free pod on an existing node, or on a claim that has room at its price.
fn seat(run: &mut Run<'_, '_>, snug: &mut Snug<'_>, class: ClassId, pod: u32) -> bool {
    let allowed = Allowed::default();
    let Some(ask) = run.ask(class, 0, &allowed) else {
        return false;
    };
    if let Some(target) = run.first_target(&ask) {
        run.place_on_target(target, class, pod);
        return true;
    }
    !run.claims.is_empty() && snug.seat(run, &ask, class, pod)
}

/// How often each class goes onto one machine, and what that is worth per dollar.
struct Pattern {
    counts: Vec<(usize, usize)>,
    ratio: f64,
    /// What its pods are worth.
    value: f64,
}

/// Opens machines for the shelves of one state until nothing is left or no machine can be opened.
fn pack(run: &mut Run<'_, '_>, values: &Values, state: StateId, shelves: &mut Vec<Shelf>, effort: u64, stop: Stop<'_>) {
    let (worth, stock) = (&values.worth[&state], &values.wares[&state]);
    let mut by_efficiency: Vec<(f64, usize)> = stock
        .iter()
        .enumerate()
        .map(|(at, ware)| (ware.price / value(worth, &ware.room).max(1.0), at))
        .collect();
    by_efficiency.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = by_efficiency
        .iter()
        .take(EFFICIENT_WARES)
        .map(|entry| entry.1)
        .chain(0..stock.len().min(CHEAP_WARES))
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    // Pods are taken from the end: the oldest first.
    shelves.iter_mut().for_each(|shelf| shelf.pods.reverse());
    while !shelves.is_empty() && run.work < effort && !stop() {
        let patterns: Vec<Pattern> = chosen.iter().map(|at| fill(run, worth, &stock[*at], shelves)).collect();
        let most = patterns.iter().map(|pattern| pattern.ratio).fold(0.0, f64::max);
        // Of those about as good, the one that needs fewest machines.
        let near = patterns
            .into_iter()
            .filter(|pattern| pattern.ratio > 0.0 && pattern.ratio >= most * NEARLY);
        let best = near.reduce(|best, next| if next.value > best.value { next } else { best });
        // The most efficient wares may be too small for what is left.
        let Some(pattern) = best.or_else(|| {
            stock
                .iter()
                .map(|ware| fill(run, worth, ware, shelves))
                .find(|pattern| pattern.ratio > 0.0)
        }) else {
            return;
        };
        let times = pattern
            .counts
            .iter()
            .map(|(at, n)| shelves[*at].pods.len() / n)
            .min()
            .unwrap_or(0);
        for _ in 0..times.max(1) {
            if !open(run, shelves, &pattern) {
                return;
            }
        }
        shelves.retain(|shelf| !shelf.pods.is_empty());
    }
}

/// Fills one machine: always the class that fits best into what is left.
fn fill(run: &mut Run<'_, '_>, worth: &[f64], ware: &Ware, shelves: &[Shelf]) -> Pattern {
    let world = run.world;
    let mut left = ware.room.clone();
    let mut counts: Vec<(usize, usize)> = Vec::new();
    let mut total = 0.0;
    let back = shelves
        .len()
        .saturating_sub(BACK_CLASSES)
        .max(FRONT_CLASSES.min(shelves.len()));
    let mut candidates: Vec<usize> = (0..shelves.len().min(FRONT_CLASSES))
        .chain(back..shelves.len())
        .collect();
    let mut used = vec![0usize; shelves.len()];
    loop {
        candidates.retain(|at| used[*at] < shelves[*at].pods.len() && fits(world.requests(shelves[*at].class), &left));
        run.work += 1 + candidates.len() as u64 / 16;
        let score = |at: usize| -> f64 {
            let requests = world.requests(shelves[at].class);
            (0..requests.len())
                .filter(|r| ware.room[*r] > 0)
                .map(|r| worth[r] * requests[r] as f64 * (left[r] as f64 / ware.room[r] as f64))
                .sum()
        };
        let mut best: Option<(f64, usize)> = None;
        for at in &candidates {
            let score = score(*at);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, *at));
            }
        }
        let Some((_, at)) = best else { break };
        subtract(&mut left, world.requests(shelves[at].class));
        total += value(worth, world.requests(shelves[at].class));
        used[at] += 1;
    }
    counts.extend(used.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, n)| (at, *n)));
    Pattern {
        counts,
        ratio: total / ware.price.max(1.0),
        value: total,
    }
}

/// Opens one machine with the pods of a pattern, the largest first.
fn open(run: &mut Run<'_, '_>, shelves: &mut [Shelf], pattern: &Pattern) -> bool {
    let allowed = Allowed::default();
    let mut claim = None;
    for (at, n) in &pattern.counts {
        let class = shelves[*at].class;
        let Some(ask) = run.ask(class, 0, &allowed) else {
            return false;
        };
        for _ in 0..*n {
            let Some(pod) = shelves[*at].pods.last().copied() else {
                break;
            };
            let placed = match claim {
                None => run
                    .first_template(&ask)
                    .map(|(template, fit)| claim = Some(run.open(template, &fit, class, pod)))
                    .is_ok(),
                Some(claim) => run
                    .try_claim(&ask, claim)
                    .map(|fit| run.place_on_claim(claim, &fit, class, pod))
                    .is_ok(),
            };
            if placed {
                shelves[*at].pods.pop();
            } else if claim.is_none() {
                return false;
            } else {
                break;
            }
        }
    }
    claim.is_some()
}
