//! What pods are worth, by class: the worth of what they ask for to a new machine that takes them.

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::classes::ClassId;
use crate::run::Run;
use crate::states::StateId;
use crate::strategy::worth::{Ware, Worth, value, wares, worth};
use crate::topology::Allowed;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What pods are worth, by class.
pub(crate) struct Values {
    pub(super) by_class: Vec<Option<(StateId, f64)>>,
    pub(super) worth: FxHashMap<StateId, Worth>,
    pub(super) wares: FxHashMap<StateId, Vec<Ware>>,
    /// Beyond this much work everything is worth its price.
    pub(super) effort: u64,
}

impl Values {
    /// Values every class of the queue by the state a new machine for it would start in.
    pub(crate) fn new(run: &mut Run<'_, '_>, queue: &[u32], effort: u64) -> Self {
        let world = run.world;
        let mut counts: BTreeMap<ClassId, i64> = BTreeMap::new();
        for class in queue.iter().filter_map(|pod| world.of_pod[*pod as usize]) {
            *counts.entry(class).or_default() += 1;
        }
        let mut demand: BTreeMap<StateId, (Amounts, Bits)> = BTreeMap::new();
        let mut states = vec![None; world.classes.len()];
        for (class, count) in counts {
            let Some((state, rows)) = start(run, class) else {
                continue;
            };
            states[class as usize] = Some(state);
            let (sum, all) = demand
                .entry(state)
                .or_insert_with(|| (world.resources.zero(), Bits::default()));
            for (sum, amount) in sum.iter_mut().zip(world.requests(class)) {
                *sum = sum.saturating_add(amount.saturating_mul(count));
            }
            all.or(&rows);
        }
        let mut values = Self {
            by_class: Vec::new(),
            worth: FxHashMap::default(),
            wares: FxHashMap::default(),
            effort,
        };
        for (state, (sum, rows)) in demand {
            let stock = wares(run, state, &rows);
            values.worth.insert(state, worth(&stock, &sum));
            values.wares.insert(state, stock);
        }
        let of = |(class, state): (usize, &Option<StateId>)| {
            state.map(|state| (state, value(&values.worth[&state], world.requests(class as ClassId))))
        };
        values.by_class = states.iter().enumerate().map(of).collect();
        values
    }

    /// What resources are worth to a class; nothing where it fits no new machine.
    pub(crate) fn worth_to(&self, class: ClassId) -> Option<&Worth> {
        let (state, _) = self.by_class[class as usize]?;
        self.worth.get(&state)
    }
}

/// The state a new machine for a class starts in, of the first pool that takes it, before topology.
fn start(run: &mut Run<'_, '_>, class: ClassId) -> Option<(StateId, Bits)> {
    let world = run.world;
    let allowed = Allowed::default();
    let ask = run.ask(class, 0, &allowed)?;
    (0..world.templates.len())
        .find_map(|template| run.would_take(&ask, template).ok())
        .map(|fit| (fit.state, fit.rows))
}
