//! The forecast of the crate `decide` for what was read.

use crate::decision::DecisionInputs;
use crate::messages::say;
use kerf_decide::Forecast;

/// The commands a controller would start now, and everything that keeps the other nodes: all of them, or `only` one by its index.
pub(crate) fn forecast(inputs: &DecisionInputs, only: Option<usize>) -> Forecast {
    let forecast = kerf_decide::forecast(&inputs.view(), only);
    for violations in &forecast.refused_plans {
        say!("note: a plan breaks a rule and is not carried out: {violations}");
    }
    forecast
}
