//! What holds of every plan.

use super::generate;
use super::seeds::hold;
use crate::fixture::{Fixture, upstream};
use kerf_model::plan::Plan;
use kerf_model::price::Price;
use kerf_scheduler::Options;

fn result(plan: &Plan) -> (usize, Price) {
    let launched: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    let existing: usize = plan.existing.iter().map(|placed| placed.pods.len()).sum();
    (
        launched + existing,
        plan.launches.iter().filter_map(kerf_model::plan::Launch::price).sum(),
    )
}

/// The checker accepts the plan of both packings, and the cheaper one places no fewer pods and costs no more for as many.
pub(super) fn is_sound(text: &str) -> Result<(), String> {
    let fixture = Fixture::read(text);
    let greedy = fixture
        .try_solve(&upstream())
        .map_err(|why| format!("upstream packing: {why}"))?;
    let cheapest = fixture
        .try_solve(&Options::default())
        .map_err(|why| format!("cheapest packing: {why}"))?;
    let (greedy, cheapest) = (result(&greedy), result(&cheapest));
    if cheapest.0 < greedy.0 {
        return Err("the cheapest packing places fewer pods".to_owned());
    }
    if cheapest.0 == greedy.0 && cheapest.1 > greedy.1 {
        return Err("the cheapest packing is dearer".to_owned());
    }
    Ok(())
}

#[test]
fn every_plan_is_one_kube_scheduler_would_carry_out() {
    hold(100, generate::common, is_sound);
}
