//! What holds of every plan.

use super::generate;
use super::seeds::hold;
use crate::fixture::Fixture;
use kerf_model::plan::Plan;
use kerf_model::price::Price;
use kerf_scheduler::{MinValuesPolicy, Options, Packing, PreferencePolicy, ReservedMode};

fn result(plan: &Plan) -> (usize, Price) {
    let launched: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    let existing: usize = plan.existing.iter().map(|placed| placed.pods.len()).sum();
    (
        launched + existing,
        plan.launches.iter().filter_map(kerf_model::plan::Launch::price).sum(),
    )
}

/// What the comments of a cluster ask for.
pub(super) fn options(text: &str, packing: Packing) -> Options {
    let mut options = Options {
        packing,
        ..Options::default()
    };
    for line in text.lines() {
        match line.trim() {
            "# ignore-preferences" => options.preference_policy = PreferencePolicy::Ignore,
            "# best-effort" => options.min_values_policy = MinValuesPolicy::BestEffort,
            "# fallback" => options.reserved = ReservedMode::Fallback,
            _ => {}
        }
    }
    options
}

/// The checker accepts the plan of both packings, and the cheaper one places no fewer pods and costs no more for as many.
pub(super) fn is_sound(text: &str) -> Result<(), String> {
    let fixture = Fixture::read(text);
    let solve = |packing| {
        let solved = fixture.try_solve(&options(text, packing));
        solved.map_err(|why| format!("{packing:?}: {why}"))
    };
    let (greedy, cheapest) = (result(&solve(Packing::Upstream)?), result(&solve(Packing::Cheapest)?));
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

#[test]
fn every_plan_of_odd_clusters_is_one_too() {
    hold(100, generate::wide, is_sound);
}
