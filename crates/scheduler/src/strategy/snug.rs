//! The snug strategy: a pod goes where it fits into what a machine has to spare at its cheapest, tightly; else some machine grows or another
//! is opened, whichever buys capacity at the better price. It works under all constraints, and a pod costs a bounded number of attempts.

use crate::amounts::{Amounts, add};
use crate::bits::{Bits, ones};
use crate::classes::{Class, ClassId};
use crate::run::{Ask, Fit, No, Run};
use crate::states::StateId;
use crate::strategy::greedy::{Attempt, Choose, FewestPods, solve};
use crate::strategy::shelves::Shelves;
use crate::strategy::values::Values;
use crate::strategy::worth::value;
use crate::strategy::{Outcome, Start, Stop};
use crate::topology::{GroupKind, TopologyKey};
use crate::world::World;
use smallvec::SmallVec;

/// Machines looked at for a pod.
const LOOKED_MAX: usize = 1024;
/// Where there are more than these, only a sample of those that have about the same to spare: others are about as good.
const FEW_CLAIMS: usize = 2048;
const ALIKE_MAX: usize = 16;
/// The most promising of them, which are tried; when so many have enough to spare, no more are looked at.
const TRIED: usize = 4;
/// What capacity is worth before it is known that somebody will use it, as a part of its value.
const HOPE: f64 = 0.9;

/// What a machine costs, in 10⁻¹² dollars per hour, and has to spare as the cheapest type it can be.
#[derive(Clone, Debug)]
struct Spare {
    price: f64,
    amounts: Amounts,
}

impl Spare {
    /// Of a machine in some state with these rows that uses so much; nothing where it has no price.
    fn new(run: &mut Run<'_, '_>, template: usize, (state, rows): (StateId, &Bits), used: &[i64]) -> Option<Self> {
        let world = run.world;
        let (price, row, _) = run.states.cheapest(world, state, rows)?;
        let usable = world.usable(template, row as usize).zip(used);
        let amounts = usable.map(|(usable, used)| usable.saturating_sub(*used));
        Some(Self {
            price: price.pico() as f64,
            amounts: amounts.collect(),
        })
    }
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
    shelves: Shelves,
    open_to: Mask,
}

/// Which claims a pod may join, 64 at a time, remembered while one pod is looked at.
#[derive(Debug, Default)]
struct Mask {
    words: Vec<(u32, u64)>,
    pod: u32,
}

impl Mask {
    fn forget(&mut self, claims: usize) {
        self.words.resize(claims.div_ceil(64), (0, 0));
        self.pod = self.pod.wrapping_add(1);
        if self.pod == 0 {
            self.words.fill((0, 0));
            self.pod = 1;
        }
    }

    fn word(&mut self, at: usize, mask: impl FnOnce() -> u64) -> u64 {
        let (pod, word) = &mut self.words[at];
        if *pod != self.pod {
            (*pod, *word) = (self.pod, mask());
        }
        *word
    }
}

impl<'x> Snug<'x> {
    /// For a run without claims, and the pods of a queue.
    pub(crate) fn new(values: &'x Values, run: &Run<'_, '_>, queue: &[u32]) -> Self {
        Self {
            values,
            spare: Vec::new(),
            shelves: Shelves::new(run, queue),
            open_to: Mask::default(),
        }
    }

    /// Books the pod on a claim whose price does not rise by it, if there is one.
    pub(crate) fn seat(&mut self, run: &mut Run<'_, '_>, ask: &Ask<'_>, class: ClassId, pod: u32) -> bool {
        let Some(worth) = self.values.worth_to(class) else {
            return false;
        };
        match self.best(run, ask, worth) {
            Some(growth) if self.is_free(&growth) => {
                self.grow(run, growth, class, pod);
                true
            }
            _ => false,
        }
    }

    fn is_free(&self, growth: &Growth) -> bool {
        growth.spare.price <= self.spare[growth.claim].price
    }

    /// Notes what a claim has to spare now.
    fn note(&mut self, claim: usize, spare: Spare) {
        let cell = self.shelves.cell(&spare.amounts);
        match self.spare.get_mut(claim) {
            Some(known) => {
                let before = self.shelves.cell(&known.amounts);
                *known = spare;
                if before == cell {
                    return;
                }
                self.shelves.take(claim, before);
            }
            None => self.spare.push(spare),
        }
        self.shelves.put(claim, cell);
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

    /// The claims that look best for a pod, best first: by what they lack, priced, then by what would be left of what they have to spare.
    fn promising(&mut self, run: &mut Run<'_, '_>, ask: &Ask<'_>, worth: &[f64]) -> SmallVec<[Promise; TRIED + 1]> {
        let requests = &ask.class.requests;
        let mut best: SmallVec<[Promise; TRIED + 1]> = SmallVec::new();
        let (mut looked, mut roomy) = (0, 0);
        self.open_to.forget(run.claims.len());
        let alike_max = if run.claims.len() > FEW_CLAIMS {
            ALIKE_MAX
        } else {
            LOOKED_MAX
        };
        let spent = run.spent(ask).clone();
        for (lacking, shelf) in self.shelves.ranked(requests, worth) {
            if best.get(TRIED - 1).is_some_and(|last| lacking > last.lacking) {
                continue;
            }
            let enough = looked + alike_max;
            'shelf: for (word, claims) in shelf.words_besides(&spent) {
                let claims = claims & self.open_to.word(word, || run.claim_word(ask, word));
                for claim in ones(claims).map(|bit| word * 64 + bit) {
                    looked += 1;
                    let promise = Promise::of(claim, &self.spare[claim].amounts, requests, worth);
                    let beaten = best.get(TRIED - 1).is_some_and(|last| !promise.better(last));
                    if !beaten && run.may_hold(ask, claim) {
                        let at = best.partition_point(|known| !promise.better(known));
                        best.insert(at, promise);
                        best.truncate(TRIED);
                        roomy += usize::from(promise.lacking <= 0.0);
                    }
                    if looked == LOOKED_MAX || roomy == TRIED {
                        return best;
                    }
                    if looked == enough {
                        break 'shelf;
                    }
                }
            }
        }
        best
    }

    /// The claim that takes the pod at the best price, one that costs no more than before first of all.
    fn best(&mut self, run: &mut Run<'_, '_>, ask: &Ask<'_>, worth: &[f64]) -> Option<Growth> {
        let mut best: Option<Growth> = None;
        for promise in self.promising(run, ask, worth) {
            let Some(growth) = self.grown(run, ask, promise.claim, worth) else {
                continue;
            };
            if self.is_free(&growth) {
                return Some(growth);
            }
            if best.as_ref().is_none_or(|best| growth.net < best.net) {
                best = Some(growth);
            }
        }
        best
    }

    /// A new machine of the first pool that takes the pod (SCH-141).
    fn open(&self, run: &mut Run<'_, '_>, ask: &Ask<'_>, worth: &[f64]) -> Result<Opening, No> {
        let (template, fit) = run.first_template(ask)?;
        let requests = &ask.class.requests;
        let spare = Spare::new(run, template, (fit.state, &fit.rows), requests).ok_or(No::Now)?;
        let bought = value(worth, &spare.amounts) + value(worth, requests);
        let net = spare.price - HOPE * bought;
        Ok(Opening {
            template,
            fit,
            spare,
            net,
        })
    }
}

/// How a claim looks for a pod, before it is tried.
#[derive(Clone, Copy, Debug)]
struct Promise {
    claim: usize,
    /// What it would have to grow by, as far as that has worth.
    lacking: f64,
    /// What it would have to spare still.
    left: f64,
}

impl Promise {
    /// Of a claim that has so much to spare, for a pod that asks for `requests`.
    fn of(claim: usize, spare: &[i64], requests: &[i64], worth: &[f64]) -> Self {
        let (mut lacking, mut left) = (0.0, 0.0);
        for ((worth, want), have) in worth.iter().zip(requests).zip(spare) {
            let over = worth * (have - want) as f64;
            if over < 0.0 && *want > 0 {
                lacking -= over;
            } else {
                left += over;
            }
        }
        Self { claim, lacking, left }
    }

    fn better(&self, other: &Self) -> bool {
        let order = self.lacking.total_cmp(&other.lacking);
        order.then(self.left.total_cmp(&other.left)).is_lt()
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
        let mut growth = self.best(run, ask, worth);
        if let Some(growth) = growth.take_if(|growth| self.is_free(growth)) {
            self.grow(run, growth, class, pod);
            return Attempt::Placed;
        }
        match (self.open(run, ask, worth), growth) {
            (Ok(opening), growth) if growth.as_ref().is_none_or(|growth| opening.net < growth.net) => {
                let claim = run.open(opening.template, &opening.fit, class, pod);
                self.note(claim, opening.spare);
                Attempt::Placed
            }
            (_, Some(growth)) => {
                self.grow(run, growth, class, pod);
                Attempt::Placed
            }
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
    fn grow(&mut self, run: &mut Run<'_, '_>, growth: Growth, class: ClassId, pod: u32) {
        run.place_on_claim(growth.claim, &growth.fit, class, pod);
        self.note(growth.claim, growth.spare);
    }

    /// Notes what another chooser did with a pod.
    fn catch_up(&mut self, run: &mut Run<'_, '_>, pod: u32) {
        let Some(claim) = run.claims.iter().rposition(|claim| claim.pods.last() == Some(&pod)) else {
            return;
        };
        let claim_now = run.claims[claim].clone();
        let launched = (claim_now.state, &claim_now.rows);
        let spare = Spare::new(run, claim_now.template, launched, &claim_now.used);
        let nothing = || Spare {
            price: f64::MAX,
            amounts: run.world.resources.zero(),
        };
        self.note(claim, spare.unwrap_or_else(nothing));
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

/// Pods that need machines of their own, then all others, the most valuable first.
pub(crate) fn order(world: &World<'_>, values: &Values, queue: &[u32]) -> Vec<u32> {
    let apart = |pod: &u32| world.of_pod[*pod as usize].is_some_and(|class| apart(world, world.class(class)));
    let (mut order, mut rest): (Vec<u32>, Vec<u32>) = queue.iter().copied().partition(apart);
    let worth = |pod: &u32| {
        let class = world.of_pod[*pod as usize];
        class
            .and_then(|class| Some(value(values.worth_to(class)?, world.requests(class))))
            .unwrap_or_default()
    };
    rest.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    order.extend(rest);
    order
}

/// Places all pods snugly.
pub(super) fn snug<'w, 'a>(start: &Start<'w, 'a>, queue: &[u32], _: u64, stop: Stop<'_>) -> Option<Outcome<'w, 'a>> {
    let (run, values) = (start.run.clone(), &start.values);
    let order = order(run.world, values, queue);
    let mut snug = Snug::new(values, &run, queue);
    Some(solve(run, &order, &mut snug, stop))
}
