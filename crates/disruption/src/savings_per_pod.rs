//! The amount that a command must save for each pod it moves.

use crate::cost::Cost;
use kerf_model::price::Price;

/// What a command of consolidation must save per hour for each plain pod it moves. The default accepts every saving, as upstream does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SavingsPerPod(pub Price);

impl SavingsPerPod {
    /// What moving these pods must save.
    pub(crate) fn of(self, moved: Cost) -> Price {
        let pico = i128::from(self.0.pico()) * i128::from(moved.raw()) / i128::from(Cost::ONE.raw());
        Price::from_pico(i64::try_from(pico).unwrap_or(i64::MAX))
    }
}
