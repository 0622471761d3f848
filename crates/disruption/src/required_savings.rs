//! What a command must save: an amount per pod it moves, and more for moves like those that did not last (deviations at DIS-119, DIS-134).

use crate::candidate::Candidate;
use crate::command::Command;
use crate::consolidation::Consolidation;
use crate::cost::Cost;
use crate::savings_per_pod::required;
use crate::single_node_results::{SingleNodeResult, SingleNodeResults};
use crate::unconsolidatable::Unconsolidatable;
use kerf_model::in_flight::{MachineKind, UndoneMove};
use kerf_model::price::Price;
use std::collections::BTreeSet;

impl Consolidation<'_> {
    /// Why a command saves too little, if it does. Nodes of unknown price need not save anything per pod.
    pub fn too_little(&self, command: &Command) -> Option<Unconsolidatable> {
        let savings = command.savings();
        let per_pod = self.for_pods(&command.candidates);
        let repeated: Vec<&UndoneMove> = self.active().filter(|undone| self.repeats(undone, command)).collect();
        let moved = |undone: &&UndoneMove| surcharge(undone, &command.candidates);
        let surcharge: Price = repeated.iter().map(moved).sum();
        let required = per_pod + surcharge;
        if savings < per_pod {
            return Some(Unconsolidatable::SavesTooLittle { savings, required });
        }
        let until = repeated.iter().map(|undone| undone.until).max()?;
        (savings <= required).then_some(Unconsolidatable::MoveUndone {
            savings,
            required,
            until,
        })
    }

    fn for_pods<'c>(&self, candidates: impl IntoIterator<Item = &'c Candidate> + Clone) -> Price {
        if candidates
            .clone()
            .into_iter()
            .any(|candidate| candidate.price == Price::ZERO)
        {
            return Price::ZERO;
        }
        let moved = candidates.into_iter().map(|candidate| candidate.cost.less(Cost::ONE));
        required(self.settings.savings_per_pod, moved.sum())
    }

    fn active(&self) -> impl Iterator<Item = &UndoneMove> {
        let now = self.what_if.now();
        self.undone.iter().filter(move |undone| undone.until > now)
    }

    fn repeats(&self, undone: &UndoneMove, command: &Command) -> bool {
        let mut moved = command.candidates.iter().flat_map(|candidate| &candidate.pods);
        let plan = command.plan.as_ref().filter(|_| moved.any(|pod| undone.is_about(pod)));
        plan.is_some_and(|plan| {
            let to = MachineKind::of_destinations(self.what_if.snapshot(), plan, &|pod| undone.is_about(pod));
            !to.is_disjoint(&undone.destinations)
        })
    }

    /// The candidates, by index, that no set of nodes should contain: those whose whole price is too little for their pods, or no more than
    /// repeating undone moves with them must save.
    pub(crate) fn never_worth_it(&self, candidates: &[&Candidate], results: &SingleNodeResults) -> BTreeSet<usize> {
        let poor = candidates
            .iter()
            .filter(|candidate| candidate.price < self.for_pods([**candidate]));
        let mut found: BTreeSet<usize> = poor.map(|candidate| candidate.index).collect();
        let repeating = candidates.iter().filter(|candidate| {
            let alone = results.get(candidate.index);
            let Some(SingleNodeResult::Unconsolidatable(Unconsolidatable::MoveUndone { .. })) = alone else {
                return false;
            };
            let surcharges = self.active().map(|undone| surcharge(undone, [**candidate]));
            candidate.price <= surcharges.sum()
        });
        found.extend(repeating.map(|candidate| candidate.index));
        found
    }
}

/// What moving the pods of these nodes has to save because such moves were undone.
fn surcharge<'c>(undone: &UndoneMove, candidates: impl IntoIterator<Item = &'c Candidate>) -> Price {
    let pods = candidates.into_iter().flat_map(|candidate| &candidate.pods);
    let count = pods.filter(|pod| undone.is_about(pod)).count();
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Price::from_pico(undone.surcharge_per_pod.pico().saturating_mul(count))
}
