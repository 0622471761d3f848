//! Reserved capacity (section 19 of `docs/behaviour/scheduling.md`): which claim has which reservation.

use crate::compile::catalogue::TypeRow;
use crate::compile::problem::Problem;
use crate::dense::id_set::IdSet;
use crate::options::ReservedMode;
use crate::search::specs::ClaimSpec;
use kerf_model::intern::Sym;
use kerf_model::plan::Cause;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The ids of the reservations a claim has, sorted by text.
pub(crate) type HeldReservations = SmallVec<[Sym; 2]>;

/// What is left of every reservation.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Reservations {
    mode: ReservedMode,
    left: FxHashMap<Sym, i64>,
}

/// Why reservations prevent a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReservedConflict {
    /// All compatible reservations are used up (SCH-295 a).
    Unavailable,
    /// The claim would lose its reservations (SCH-295 b).
    Lost,
}

impl ReservedConflict {
    /// The cause reported for the conflict.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Self::Unavailable => Cause::ReservationUnavailable,
            Self::Lost => Cause::ReservationLost,
        }
    }
}

impl Reservations {
    /// The smallest capacity per reservation over the catalogues of all eligible pools (SCH-290).
    pub(crate) fn new(problem: &Problem<'_>) -> Self {
        let mode = problem.options.reserved;
        let mut left: FxHashMap<Sym, i64> = FxHashMap::default();
        if mode != ReservedMode::Off {
            let types = problem.catalogues.iter().flat_map(|types| &types.catalogue.types);
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

    /// The reservations a claim with this spec and these rows would have (SCH-293), or why there can be no such claim (SCH-295).
    pub(crate) fn holdable(
        &self,
        problem: &Problem<'_>,
        spec: &ClaimSpec,
        rows: &IdSet<TypeRow>,
        held_reservations: &HeldReservations,
    ) -> Result<HeldReservations, ReservedConflict> {
        if self.left.is_empty() || (spec.reserved.is_empty() && held_reservations.is_empty()) {
            return Ok(HeldReservations::new());
        }
        let compatible = spec
            .reserved
            .iter()
            .filter(|(row, _)| rows.get(*row))
            .map(|(_, id)| *id);
        let mut some = false;
        let mut hold: HeldReservations = compatible
            .inspect(|_| some = true)
            .filter(|id| held_reservations.contains(id) || self.left.get(id).is_some_and(|left| *left > 0))
            .collect();
        hold.sort_by_key(|id| problem.interner().text(*id));
        hold.dedup();
        match (self.mode, hold.is_empty()) {
            (ReservedMode::Strict, true) if !held_reservations.is_empty() => Err(ReservedConflict::Lost),
            (ReservedMode::Strict, true) if some => Err(ReservedConflict::Unavailable),
            _ => Ok(hold),
        }
    }

    /// Updates what is left when a claim's reservations change (SCH-291).
    pub(crate) fn exchange(&mut self, before: &HeldReservations, after: &HeldReservations) {
        for id in before.iter().filter(|id| !after.contains(id)) {
            *self.left.entry(*id).or_default() += 1;
        }
        for id in after.iter().filter(|id| !before.contains(id)) {
            *self.left.entry(*id).or_default() -= 1;
        }
    }
}
