//! Reserved capacity (section 19): which claim holds which reservation.

use crate::bits::Bits;
use crate::options::ReservedMode;
use crate::states::State;
use crate::world::World;
use kerf_model::intern::Sym;
use kerf_model::plan::Cause;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The reservations a claim holds, by text.
pub(crate) type Held = SmallVec<[Sym; 2]>;

/// What is left of every reservation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    mode: ReservedMode,
    left: FxHashMap<Sym, i64>,
}

/// Why a claim may not be had because of reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReservedConflict {
    /// All compatible ones are taken (SCH-295 a).
    Unavailable,
    /// The claim would lose those it holds (SCH-295 b).
    Lost,
}

impl ReservedConflict {
    pub(crate) fn cause(self) -> Cause {
        match self {
            Self::Unavailable => Cause::ReservationUnavailable,
            Self::Lost => Cause::ReservationLost,
        }
    }
}

impl Reservations {
    /// SCH-290: the smallest capacity seen per id, over every eligible pool.
    pub(crate) fn new(world: &World<'_>) -> Self {
        let mode = world.options.reserved;
        let mut left: FxHashMap<Sym, i64> = FxHashMap::default();
        if mode != ReservedMode::Off {
            let types = world.catalogues.iter().flat_map(|types| &types.catalogue.types);
            for reservation in types
                .flat_map(|one| &one.offerings)
                .filter_map(|offering| offering.reservation)
            {
                let capacity = i64::from(reservation.capacity);
                let known = left.entry(reservation.id).or_insert(capacity);
                *known = (*known).min(capacity);
            }
        }
        Self { mode, left }
    }

    /// What a claim in `state` with `rows` would hold (SCH-293), or why it may not be had (SCH-295).
    pub(crate) fn would_hold(
        &self,
        world: &World<'_>,
        state: &State,
        rows: &Bits,
        held: &Held,
    ) -> Result<Held, ReservedConflict> {
        if self.left.is_empty() || (state.reserved.is_empty() && held.is_empty()) {
            return Ok(Held::new());
        }
        let compatible = state
            .reserved
            .iter()
            .filter(|(row, _)| rows.get(*row as usize))
            .map(|(_, id)| *id);
        let mut some = false;
        let mut hold: Held = compatible
            .inspect(|_| some = true)
            .filter(|id| held.contains(id) || self.left.get(id).is_some_and(|left| *left > 0))
            .collect();
        hold.sort_by_key(|id| world.interner().text(*id));
        hold.dedup();
        match (self.mode, hold.is_empty()) {
            (ReservedMode::Strict, true) if !held.is_empty() => Err(ReservedConflict::Lost),
            (ReservedMode::Strict, true) if some => Err(ReservedConflict::Unavailable),
            _ => Ok(hold),
        }
    }

    /// Books the change from what a claim held to what it holds now (SCH-291).
    pub(crate) fn exchange(&mut self, before: &Held, after: &Held) {
        for id in before.iter().filter(|id| !after.contains(id)) {
            *self.left.entry(*id).or_default() += 1;
        }
        for id in after.iter().filter(|id| !before.contains(id)) {
            *self.left.entry(*id).or_default() -= 1;
        }
    }
}
