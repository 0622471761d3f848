//! The amount that a command must save for each pod it moves.

use crate::cost::Cost;
use kerf_model::price::Price;
pub use kerf_units::savings_per_pod::SavingsPerPod;

/// What moving pods of this cost must save per hour.
pub(crate) fn required(savings: SavingsPerPod, moved: Cost) -> Price {
    let pico = i128::from(savings.pico()) * i128::from(moved.raw()) / i128::from(Cost::ONE.raw());
    Price::from_pico(i64::try_from(pico).unwrap_or(i64::MAX))
}
