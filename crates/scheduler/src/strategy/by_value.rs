//! Cost-aware strategies: pods have a value (what their resources are worth), machines are opened by value per dollar and grow only while
//! that pays.
//!
//! [`patterns`] first places what topology, ports or volumes bind, thriftily; then, for the free pods of each requirement state, it opens
//! again and again the type whose best filling has most value per dollar. A filling is built greedily: the pod whose shape fits best into
//! what is left, weighed by worth. Cost: wares × pods per node × distinct shapes per pattern, and a pattern is used as often as pods last.

use crate::amounts::{Amounts, fits, subtract};
use crate::bits::Bits;
use crate::classes::{Class, ClassId};
use crate::run::{Ask, Fit, No, Run};
use crate::states::StateId;
use crate::strategy::Outcome;
use crate::strategy::greedy::{FewestPods, Thrift, Thrifty, solve};
use crate::strategy::snug::{self, Snug};
use crate::strategy::values::{Ware, Worth, value, wares, worth};
use crate::topology::Allowed;
use crate::world::World;
use kerf_model::price::Price;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A strategy: from a world, a queue and effort to an outcome; nothing where it does not apply.
pub(crate) type Strategy =
    for<'w, 'a> fn(&'w World<'a>, &[u32], u64, &(dyn Fn() -> bool + Sync)) -> Option<Outcome<'w, 'a>>;

/// How much dearer than the value it brings a growth may be.
const SLACK: f64 = 1.05;
/// Patterns this close to the best are as good, so that fewer, larger machines win.
const NEARLY: f64 = 0.999;
/// Wares looked at per pattern: the most efficient and the cheapest.
const EFFICIENT_WARES: usize = 32;
const CHEAP_WARES: usize = 16;
/// Classes looked at per pattern, from the front and the back of the queue.
const FRONT_CLASSES: usize = 160;
const BACK_CLASSES: usize = 40;

/// What pods are worth, by class.
pub(crate) struct Values {
    by_class: Vec<Option<(StateId, f64)>>,
    worth: FxHashMap<StateId, Worth>,
    wares: FxHashMap<StateId, Vec<Ware>>,
    /// Beyond this much work everything is worth its price.
    effort: u64,
}

impl Values {
    /// Values every class of the queue by the state a new machine for it would start in.
    pub(crate) fn new(run: &mut Run<'_, '_>, queue: &[u32], effort: u64) -> Self {
        let world = run.world;
        let mut counts: BTreeMap<ClassId, i64> = BTreeMap::new();
        for class in queue.iter().filter_map(|pod| world.of_pod[*pod as usize]) {
            *counts.entry(class).or_default() += 1;
        }
        let mut demand: BTreeMap<StateId, (Amounts, Bits)> = BTreeMap::new();
        let mut states = vec![None; world.classes.len()];
        for (class, count) in counts {
            let Some((state, rows)) = start(run, class) else {
                continue;
            };
            states[class as usize] = Some(state);
            let (sum, all) = demand
                .entry(state)
                .or_insert_with(|| (world.resources.zero(), Bits::default()));
            for (sum, amount) in sum.iter_mut().zip(world.requests(class)) {
                *sum = sum.saturating_add(amount.saturating_mul(count));
            }
            all.or(&rows);
        }
        let mut values = Self {
            by_class: Vec::new(),
            worth: FxHashMap::default(),
            wares: FxHashMap::default(),
            effort,
        };
        for (state, (sum, rows)) in demand {
            let stock = wares(run, state, &rows);
            values.worth.insert(state, worth(&stock, &sum));
            values.wares.insert(state, stock);
        }
        let of = |(class, state): (usize, &Option<StateId>)| {
            state.map(|state| (state, value(&values.worth[&state], world.requests(class as ClassId))))
        };
        values.by_class = states.iter().enumerate().map(of).collect();
        values
    }
}

impl Values {
    /// What resources are worth to a class; nothing where it fits no new machine.
    pub(crate) fn worth_to(&self, class: ClassId) -> Option<&Worth> {
        let (state, _) = self.by_class[class as usize]?;
        self.worth.get(&state)
    }
}

/// The state a new machine for a class starts in, of the first pool that takes it, before topology.
fn start(run: &mut Run<'_, '_>, class: ClassId) -> Option<(StateId, Bits)> {
    let world = run.world;
    let allowed = Allowed::default();
    let compiled = world.class(class);
    let variant = compiled.variants.first()?;
    let ask = Ask {
        class: compiled,
        variant,
        allowed: &allowed,
        reading: run.reading(class, 0),
    };
    (0..world.templates.len())
        .find_map(|template| run.try_template_inner(&ask, template, None).ok())
        .map(|fit| (fit.state, fit.rows))
}

/// The least a machine for a pod of a class alone costs, in whatever pool; nothing where more than node requirements, taints and resources
/// decides where it may be.
pub(crate) fn least_price(run: &mut Run<'_, '_>, class: ClassId) -> Option<Price> {
    let world = run.world;
    let compiled = world.class(class);
    let allowed = Allowed::default();
    let mut least: Option<Price> = None;
    for (level, variant) in compiled.variants.iter().enumerate() {
        let ask = Ask {
            class: compiled,
            variant,
            allowed: &allowed,
            reading: run.reading(class, level),
        };
        for template in 0..world.templates.len() {
            if let Ok(fit) = run.try_template_inner(&ask, template, None)
                && let Some((price, _, _)) = run.states.cheapest(world, fit.state, &fit.rows)
            {
                least = Some(least.map_or(price, |least| least.min(price)));
            }
        }
    }
    least
}

impl Thrift for Values {
    fn worth(&self, run: &mut Run<'_, '_>, claim: usize, fit: &Fit, class: ClassId) -> bool {
        let world = run.world;
        if run.work > self.effort {
            return true;
        }
        let Some((_, value)) = self.by_class[class as usize] else {
            return true;
        };
        let Some((after, _, _)) = run.states.cheapest(world, fit.state, &fit.rows) else {
            return true;
        };
        let before = run.price_of(claim);
        let rise = (after - before).pico() as f64;
        if rise <= value * SLACK {
            return true;
        }
        let members = &run.claims[claim].members;
        let held: f64 = members
            .iter()
            .filter_map(|(class, n)| Some(self.by_class[*class as usize]?.1 * f64::from(*n)))
            .sum();
        after.pico() as f64 <= (held + value) * SLACK
    }
}

/// A run that takes the cheaper of equally good domains.
pub(crate) fn by_price<'w, 'a>(world: &'w World<'a>) -> Run<'w, 'a> {
    let mut run = Run::new(world);
    run.by_price = true;
    run
}

/// The greedy with ties broken by price.
pub(crate) fn plain<'w, 'a>(
    world: &'w World<'a>,
    queue: &[u32],
    _: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Outcome<'w, 'a>> {
    let settles =
        |class: &Class| !class.settles.is_empty() || class.variants.iter().any(|variant| !variant.owned.is_empty());
    world
        .classes
        .iter()
        .any(settles)
        .then(|| solve(by_price(world), queue, &mut FewestPods, stop))
}

/// The greedy with growth only where it pays.
pub(crate) fn thrifty<'w, 'a>(
    world: &'w World<'a>,
    queue: &[u32],
    effort: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Outcome<'w, 'a>> {
    let mut run = by_price(world);
    let values = Values::new(&mut run, queue, effort);
    Some(solve(run, queue, &mut Thrifty(&values), stop))
}

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
pub(crate) fn patterns<'w, 'a>(
    world: &'w World<'a>,
    queue: &[u32],
    effort: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Outcome<'w, 'a>> {
    let mut run = by_price(world);
    let values = Values::new(&mut run, queue, effort);
    let is_free = |pod: &u32| world.of_pod[*pod as usize].is_some_and(|class| free(world.class(class)));
    let (loose, bound): (Vec<u32>, Vec<u32>) = queue.iter().copied().partition(is_free);
    if loose.is_empty() {
        return None;
    }
    let mut snug = Snug::new(&values, &run, queue);
    let bound = snug::order(world, &values, &bound);
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
        pack(&mut run, &values, state, &mut shelves, effort, stop);
        rest.extend(shelves.into_iter().flat_map(|shelf| shelf.pods));
    }
    let order: FxHashMap<u32, usize> = queue.iter().enumerate().map(|(at, pod)| (*pod, at)).collect();
    rest.sort_unstable_by_key(|pod| order[pod]);
    Some(solve(run, &rest, &mut Thrifty(&values), stop))
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
fn seat(run: &mut Run<'_, '_>, snug: &mut Snug<'_>, class_id: ClassId, pod: u32) -> bool {
    let world = run.world;
    let class = world.class(class_id);
    let allowed = Allowed::default();
    let Some(variant) = class.variants.first() else {
        return false;
    };
    let ask = Ask {
        class,
        variant,
        allowed: &allowed,
        reading: run.reading(class_id, 0),
    };
    if let Some(target) = run.first_target(&ask) {
        run.place_on_target(target, class_id, pod);
        return true;
    }
    !run.claims.is_empty() && snug.seat(run, &ask, class_id, pod)
}

/// How often each class goes onto one machine, and what that is worth per dollar.
struct Pattern {
    counts: Vec<(usize, usize)>,
    ratio: f64,
    /// What its pods are worth.
    value: f64,
}

/// Opens machines for the shelves of one state until nothing is left or no machine can be opened.
fn pack(
    run: &mut Run<'_, '_>,
    values: &Values,
    state: StateId,
    shelves: &mut Vec<Shelf>,
    effort: u64,
    stop: &(dyn Fn() -> bool + Sync),
) {
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
    let world = run.world;
    let allowed = Allowed::default();
    let mut claim = None;
    for (at, n) in &pattern.counts {
        let class_id = shelves[*at].class;
        let class = world.class(class_id);
        let Some(variant) = class.variants.first() else {
            return false;
        };
        let ask = Ask {
            class,
            variant,
            allowed: &allowed,
            reading: run.reading(class_id, 0),
        };
        for _ in 0..*n {
            let Some(pod) = shelves[*at].pods.last().copied() else {
                break;
            };
            let placed = match claim {
                None => first(run, &ask, class_id, pod)
                    .inspect(|opened| claim = Some(*opened))
                    .is_some(),
                Some(claim) => run
                    .try_claim(&ask, claim)
                    .map(|fit| run.place_on_claim(claim, &fit, class_id, pod))
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

/// A new claim of the first pool that takes the pod.
fn first(run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> Option<usize> {
    for template in 0..run.world.templates.len() {
        match run.try_template(ask, template) {
            Ok(fit) => return Some(run.open(template, &fit, class, pod, None)),
            Err(No::Reserved(_)) => return None,
            Err(No::Ever | No::Now) => {}
        }
    }
    None
}
