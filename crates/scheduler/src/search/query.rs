//! A question to the search, and its answers: does a claim accept this class, and what would it become?

use crate::compile::catalogue::TypeRow;
use crate::compile::classes::{CompiledLevel, LevelId, PodClass};
use crate::dense::id_set::IdSet;
use crate::search::allowed::AllowedPlacement;
use crate::search::reservations::{HeldReservations, ReservedConflict};
use crate::search::specs::SpecId;

/// What a claim becomes if it accepts a pod.
#[derive(Clone, Debug)]
pub(crate) struct Narrowed {
    pub(crate) spec: SpecId,
    pub(crate) rows: IdSet<TypeRow>,
    pub(super) held_reservations: HeldReservations,
    pub(super) min_values_lowered: bool,
}

/// Why a claim or a template rejects a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rejection {
    /// It will reject the class in this assignment whatever else is placed.
    Permanent,
    /// It rejects the class now, but may accept it after further placements.
    Temporary,
    /// Only reservations prevent it.
    Reserved(ReservedConflict),
}

/// A class at one relaxation level, with what topology allows now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'x> {
    pub(crate) class: &'x PodClass,
    pub(crate) level: &'x CompiledLevel,
    pub(crate) allowed: &'x AllowedPlacement,
    /// The id of the level among all levels of all classes.
    pub(crate) level_id: LevelId,
}
