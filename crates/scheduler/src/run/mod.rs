//! One run over a world: what changes while pods are placed. It answers "does this class fit this machine, given everything placed so far,
//! and what would that narrow to", and books what strategies decide.

mod attempts;
mod booking;
mod narrow;
mod targets;

pub(crate) use targets::TargetNo;

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::claims::{ByPods, Claim};
use crate::classes::{Class, ClassId, Variant};
use crate::launches::offered;
use crate::limits::Limits;
use crate::reservations::{Held, Reservations, ReservedConflict};
use crate::states::{StateId, States};
use crate::topology::{Allowed, Counts};
use crate::touched::Touched;
use crate::world::World;
use kerf_model::pod::HostPort;
use kerf_model::price::Price;

/// What changes while pods are placed.
#[derive(Clone, Debug)]
pub(crate) struct Run<'w, 'a> {
    pub(crate) world: &'w World<'a>,
    pub(crate) states: States,
    pub(crate) claims: Vec<Claim>,
    by_pods: ByPods,
    /// The least of each resource any class asks for.
    least: Amounts,
    /// Targets pods were placed on.
    pub(crate) touched: Touched,
    pub(crate) counts: Counts,
    pub(crate) limits: Limits,
    reservations: Reservations,
    /// Per topology key and domain: the claims that may land there.
    claims_in: Vec<Vec<Bits>>,
    /// Per topology key: claims whose node will not carry it.
    claims_without: Vec<Bits>,
    /// Per reading: machines that refused it for good.
    dead: Vec<Dead>,
    first_reading: Vec<usize>,
    /// Whether equally good domains are chosen by price.
    by_price: bool,
    /// Attempts made, the measure of effort.
    pub(crate) work: u64,
    /// How many pods were placed.
    pub(crate) placed: u64,
    /// The pods placed, in the order they were.
    pub(crate) order: Vec<u32>,
    /// The pods placed by another reading than their strictest, with its level.
    pub(crate) relaxed: Vec<(u32, usize)>,
}

#[derive(Clone, Debug, Default)]
struct Dead {
    targets: Bits,
    claims: Bits,
    /// Words of claims all of which are dead or hold a pod this one must be apart from, which is for good as well.
    spent: Bits,
    templates: Bits,
}

/// What a claim becomes if it takes a pod.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) state: StateId,
    pub(crate) rows: Bits,
    held: Held,
    relaxed: bool,
}

/// Why a claim or template does not take a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum No {
    /// It never will in this run.
    Ever,
    /// Not now.
    Now,
    /// Only reservations stand in the way.
    Reserved(ReservedConflict),
}

/// A class under one reading, with what topology allows it now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'x> {
    pub(crate) class: &'x Class,
    pub(crate) variant: &'x Variant,
    pub(crate) allowed: &'x Allowed,
    /// Number of the reading among all.
    pub(crate) reading: usize,
}

impl<'w, 'a> Run<'w, 'a> {
    pub(crate) fn new(world: &'w World<'a>) -> Self {
        let mut readings = 0;
        let first_reading = world.classes.iter().map(|class| {
            readings += class.variants.len();
            readings - class.variants.len()
        });
        let first_reading = first_reading.collect();
        let tables = &world.keys.tables;
        Self {
            world,
            states: world.states.clone(),
            claims: Vec::new(),
            by_pods: ByPods::default(),
            least: least(world),
            touched: Touched::new(world.targets.len()),
            counts: world.counts.clone(),
            limits: world.limits.clone(),
            reservations: Reservations::new(world),
            claims_in: tables
                .iter()
                .map(|table| vec![Bits::default(); table.values.len()])
                .collect(),
            claims_without: vec![Bits::default(); tables.len()],
            dead: vec![Dead::default(); readings],
            first_reading,
            by_price: false,
            work: 0,
            placed: 0,
            order: Vec::new(),
            relaxed: Vec::new(),
        }
    }

    /// A run that takes the cheaper of equally good domains.
    pub(crate) fn by_price(world: &'w World<'a>) -> Self {
        Self {
            by_price: true,
            ..Self::new(world)
        }
    }

    /// The number of a reading of a class.
    pub(crate) fn reading(&self, class: ClassId, level: usize) -> usize {
        self.first_reading[class as usize] + level
    }

    /// A class under the reading of a level, where topology allows so much; nothing where it has no such reading.
    pub(crate) fn ask<'x>(&self, class: ClassId, level: usize, allowed: &'x Allowed) -> Option<Ask<'x>>
    where
        'w: 'x,
    {
        let compiled = self.world.class(class);
        Some(Ask {
            class: compiled,
            variant: compiled.variants.get(level)?,
            allowed,
            reading: self.reading(class, level),
        })
    }

    /// Takes the limits anew, each claim the largest type it has left; whether more of them is left now.
    pub(crate) fn retake_limits(&mut self) -> bool {
        let mut limits = self.world.limits.clone();
        for claim in &self.claims {
            limits.take(self.world, claim.template, &claim.rows);
        }
        let looser = limits.leave_more_than(&self.limits);
        self.limits = limits;
        if looser {
            // What pools refused for good they may take now.
            self.dead.iter_mut().for_each(|dead| dead.templates = Bits::default());
        }
        looser
    }

    /// What the claims cost at their cheapest.
    pub(crate) fn cost(&mut self) -> Price {
        (0..self.claims.len()).map(|at| self.price_of(at)).sum()
    }

    /// The cheapest price of a claim.
    pub(crate) fn price_of(&mut self, at: usize) -> Price {
        let claim = &self.claims[at];
        let state = if self.states.get(claim.state).reserved.is_empty() {
            claim.state
        } else {
            // What it holds decides which reserved offerings it may use.
            let claim = claim.clone();
            offered(self.world, self, &claim).1
        };
        self.states
            .cheapest(self.world, state, &self.claims[at].rows)
            .map_or(Price::MAX, |cheapest| cheapest.0)
    }
}

/// The least of each resource that any class asks for.
fn least(world: &World<'_>) -> Amounts {
    let mut requests = world.classes.iter().map(|class| &class.requests);
    let mut least = requests.next().cloned().unwrap_or_default();
    for other in requests {
        for (least, amount) in least.iter_mut().zip(other) {
            *least = (*least).min(*amount);
        }
    }
    least
}

fn ports_conflict(wanted: &[HostPort], held: &[HostPort]) -> bool {
    wanted.iter().any(|port| held.iter().any(|other| port.conflicts(other)))
}
