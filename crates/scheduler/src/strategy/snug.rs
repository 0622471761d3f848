//! The snug strategy: a pod goes where it fits into what a machine has to spare at its cheapest, tightly; else some machine grows or another
//! is opened, whichever buys capacity at the better price. It works under all constraints, and a pod costs a bounded number of attempts.

use crate::amounts::{Amounts, add, fits};
use crate::bits::Bits;
use crate::claims::{Bucket, Position};
use crate::classes::{Class, ClassId};
use crate::run::{Ask, Fit, No, Run};
use crate::states::StateId;
use crate::strategy::Outcome;
use crate::strategy::by_value::{Values, by_price};
use crate::strategy::greedy::{Attempt, Choose, FewestPods, solve};
use crate::strategy::values::value;
use crate::topology::{GroupKind, TopologyKey};
use crate::world::World;

/// Machines looked at for a pod, by what they have to spare.
const LOOKED_MAX: usize = 512;
/// Machines with enough to spare that are tried; the tightest wins.
const ROOMY_MAX: usize = 4;
/// Machines with less that are tried, on either side of the nearest.
const GROWING_MAX: usize = 4;
/// What capacity is worth before it is known that somebody will use it, as a part of its value.
const HOPE: f64 = 0.9;

/// What a machine costs, in 10⁻¹² dollars per hour, and has to spare as the cheapest type it can be.
#[derive(Clone, Debug, Default)]
struct Spare {
    price: f64,
    amounts: Amounts,
}

impl Spare {
    /// Of a machine in some state with these rows that uses so much; nothing where it has no price.
    fn new(run: &mut Run<'_, '_>, template: usize, (state, rows): (StateId, &Bits), used: &[i64]) -> Option<Self> {
        let world = run.world;
        let (price, row, _) = run.states.cheapest(world, state, rows)?;
        let template = &world.templates[template];
        let types = &world.catalogues[template.catalogue];
        let row = row as usize;
        let partition = template.partitions.iter().find(|partition| partition.rows.get(row));
        let amounts = (0..used.len()).map(|at| {
            let overhead = partition.map_or(0, |partition| partition.overhead[at]);
            types.amounts[at][row].saturating_sub(overhead).saturating_sub(used[at])
        });
        Some(Self {
            price: price.pico() as f64,
            amounts: amounts.collect(),
        })
    }

    /// Where it stands among the levels.
    fn level(&self) -> usize {
        level(self.amounts.first().copied().unwrap_or(0))
    }
}

/// Quarters of powers of two.
fn level(amount: i64) -> usize {
    if amount <= 0 {
        return 0;
    }
    let top = amount.ilog2() as usize;
    let next = if top >= 2 {
        amount >> (top - 2)
    } else {
        amount << (2 - top)
    };
    1 + top * 4 + (next & 3) as usize
}

/// A claim that would take the pod, and what that would make of it.
struct Growth {
    claim: usize,
    fit: Fit,
    spare: Spare,
    /// What it costs beyond what it brings.
    net: f64,
}

/// Chooses machines snugly.
pub(crate) struct Snug<'x> {
    values: &'x Values,
    spare: Vec<Spare>,
    /// Claims by how much of the first resource they have to spare.
    levels: Vec<Bucket>,
    occupied: Bits,
}

impl<'x> Snug<'x> {
    fn new(values: &'x Values) -> Self {
        Self {
            values,
            spare: Vec::new(),
            levels: Vec::new(),
            occupied: Bits::default(),
        }
    }

    /// Notes what a claim has to spare now.
    fn note(&mut self, claim: usize, spare: Spare) {
        if let Some(before) = self.spare.get(claim).map(Spare::level) {
            self.levels[before].remove(claim);
            if self.levels[before].is_empty() {
                self.occupied.remove(before);
            }
        }
        let after = spare.level();
        if after >= self.levels.len() {
            self.levels.resize(after + 1, Bucket::default());
        }
        self.levels[after].insert(claim);
        self.occupied.insert(after);
        match self.spare.get_mut(claim) {
            Some(known) => *known = spare,
            None => self.spare.push(spare),
        }
    }

    /// What `claim` would become.
    fn grown(&self, run: &mut Run<'_, '_>, ask: &Ask<'_>, claim: usize, worth: &[f64]) -> Option<Growth> {
        let fit = run.try_claim(ask, claim).ok()?;
        let mut used = run.claims[claim].used.clone();
        add(&mut used, &ask.class.requests);
        let spare = Spare::new(run, run.claims[claim].template, (fit.state, &fit.rows), &used)?;
        let before = &self.spare[claim];
        let bought = value(worth, &spare.amounts) + value(worth, &ask.class.requests) - value(worth, &before.amounts);
        let net = spare.price - before.price - HOPE * bought.max(0.0);
        Some(Growth { claim, fit, spare, net })
    }

    /// The claim that takes the pod at no price, tightest; else of those that grow the one with the best price.
    fn best(&self, run: &mut Run<'_, '_>, ask: &Ask<'_>, worth: &[f64]) -> Option<Growth> {
        let requests = &ask.class.requests;
        let needed = level(requests.first().copied().unwrap_or(0));
        let (mut looked, mut roomy, mut growing) = (0, 0, 0);
        let mut snuggest: Option<(f64, Growth)> = None;
        let mut cheapest: Option<Growth> = None;
        let mut consider = |growth: Option<Growth>| {
            if let Some(growth) = growth
                && cheapest.as_ref().is_none_or(|best| growth.net < best.net)
            {
                cheapest = Some(growth);
            }
        };
        let mut upwards = self.occupied.first_from(needed);
        'up: while let Some(level) = upwards {
            let mut position = Position::default();
            while let Some(claim) = run.next_claim_of(&self.levels[level], ask, &mut position) {
                looked += 1;
                if looked > LOOKED_MAX {
                    break 'up;
                }
                let spare = &self.spare[claim];
                if fits(requests, &spare.amounts) {
                    let price = spare.price;
                    let growth = self.grown(run, ask, claim, worth);
                    match growth {
                        Some(growth) if growth.spare.price <= price => {
                            roomy += 1;
                            let left = value(worth, &growth.spare.amounts);
                            if snuggest.as_ref().is_none_or(|(least, _)| left < *least) {
                                snuggest = Some((left, growth));
                            }
                            if roomy == ROOMY_MAX {
                                break 'up;
                            }
                        }
                        other => consider(other),
                    }
                } else if growing < GROWING_MAX && snuggest.is_none() {
                    growing += 1;
                    consider(self.grown(run, ask, claim, worth));
                }
            }
            upwards = self.occupied.first_from(level + 1);
        }
        if let Some((_, growth)) = snuggest {
            return Some(growth);
        }
        let mut growing = 0;
        let mut downwards = self.occupied.last_below(needed);
        while let Some(level) = downwards {
            let mut position = Position::default();
            while let Some(claim) = run.next_claim_of(&self.levels[level], ask, &mut position) {
                if growing == GROWING_MAX {
                    return cheapest;
                }
                growing += 1;
                consider(self.grown(run, ask, claim, worth));
            }
            downwards = self.occupied.last_below(level);
        }
        cheapest
    }

    /// A new machine of the first pool that takes the pod (SCH-141).
    fn open(&self, run: &mut Run<'_, '_>, ask: &Ask<'_>, worth: &[f64]) -> Result<Opening, No> {
        let mut last = No::Ever;
        for template in 0..run.world.templates.len() {
            match run.try_template(ask, template) {
                Ok(fit) => {
                    let requests = &ask.class.requests;
                    let spare = Spare::new(run, template, (fit.state, &fit.rows), requests);
                    let Some(spare) = spare else { continue };
                    let bought = value(worth, &spare.amounts) + value(worth, requests);
                    let net = spare.price - HOPE * bought;
                    return Ok(Opening {
                        template,
                        fit,
                        spare,
                        net,
                    });
                }
                Err(No::Reserved(conflict)) => return Err(No::Reserved(conflict)),
                Err(no) => last = no,
            }
        }
        Err(last)
    }
}

/// A machine that could be opened.
struct Opening {
    template: usize,
    fit: Fit,
    spare: Spare,
    net: f64,
}

impl Choose for Snug<'_> {
    fn place(&mut self, run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> Attempt {
        let zero = Vec::new();
        let worth = self.values.worth_to(class).unwrap_or(&zero);
        let growth = self.best(run, ask, worth);
        let free = |growth: &Growth| growth.spare.price <= self.spare[growth.claim].price;
        let growth = match growth {
            Some(growth) if free(&growth) => return self.grow(run, growth, class, pod),
            other => other,
        };
        match (self.open(run, ask, worth), growth) {
            (Ok(opening), growth) if growth.as_ref().is_none_or(|growth| opening.net < growth.net) => {
                let claim = run.open(opening.template, &opening.fit, class, pod, None);
                self.note(claim, opening.spare);
                Attempt::Placed
            }
            (_, Some(growth)) => self.grow(run, growth, class, pod),
            // None of those looked at: whichever there is.
            (opening, None) => match FewestPods.place(run, ask, class, pod) {
                Attempt::Placed => {
                    self.catch_up(run, pod);
                    Attempt::Placed
                }
                _ if matches!(opening, Err(No::Reserved(_))) => Attempt::Deferred,
                other => other,
            },
        }
    }
}

impl Snug<'_> {
    fn grow(&mut self, run: &mut Run<'_, '_>, growth: Growth, class: ClassId, pod: u32) -> Attempt {
        run.place_on_claim(growth.claim, &growth.fit, class, pod);
        self.note(growth.claim, growth.spare);
        Attempt::Placed
    }

    /// Notes what another chooser did with a pod.
    fn catch_up(&mut self, run: &mut Run<'_, '_>, pod: u32) {
        let Some(claim) = run.claims.iter().rposition(|claim| claim.pods.last() == Some(&pod)) else {
            return;
        };
        let claim_now = run.claims[claim].clone();
        let launched = (claim_now.state, &claim_now.rows);
        let spare = Spare::new(run, claim_now.template, launched, &claim_now.used);
        self.note(claim, spare.unwrap_or_default());
    }
}

/// Whether no two pods of a class may share a machine: each needs its own anyway, and others fill them up.
fn apart(world: &World<'_>, class: &Class) -> bool {
    let owned = class.variants.first().map_or(&[][..], |variant| &variant.owned);
    owned.iter().any(|owned| {
        let group = &world.groups.list[owned.group as usize];
        let repels = group.kind() == GroupKind::AntiAffinity && group.identity.key == TopologyKey::Host;
        repels && owned.selects_self
    })
}

/// Places the pods that need machines of their own, then all others, snugly.
pub(crate) fn snug<'w, 'a>(
    world: &'w World<'a>,
    queue: &[u32],
    _: &Outcome<'w, 'a>,
    effort: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Outcome<'w, 'a>> {
    let mut run = by_price(world);
    let values = Values::new(&mut run, queue, effort);
    let apart = |pod: &u32| world.of_pod[*pod as usize].is_some_and(|class| apart(world, world.class(class)));
    let (mut order, rest): (Vec<u32>, Vec<u32>) = queue.iter().copied().partition(apart);
    order.extend(rest);
    Some(solve(run, &order, &mut Snug::new(&values), stop))
}
