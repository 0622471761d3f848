//! When no other plan can be cheaper, so that none needs to be looked for.

use crate::classes::ClassId;
use crate::run::Run;
use crate::strategy::Outcome;
use crate::topology::Allowed;
use kerf_model::price::Price;

/// Whether no plan can be cheaper that puts the same pods on existing nodes: one machine was opened, and one of its pods alone costs as much.
pub(crate) fn minimal(outcome: &mut Outcome<'_, '_>) -> bool {
    let run = &mut outcome.run;
    let [claim] = run.claims.as_slice() else {
        return false;
    };
    if !outcome.failed.is_empty() {
        return false;
    }
    // Without what this plan takes of limits.
    let mut untouched = Run::new(run.world);
    let members: Vec<_> = claim.members.iter().map(|member| member.0).collect();
    let price = run.price_of(0);
    members
        .into_iter()
        .any(|class| least_price(&mut untouched, class).is_some_and(|least| least >= price))
}

/// The least a machine for a pod of a class alone costs, in whatever pool; nothing where more than node requirements, taints and resources
/// decides where it may be.
fn least_price(run: &mut Run<'_, '_>, class: ClassId) -> Option<Price> {
    let world = run.world;
    let allowed = Allowed::default();
    let mut least: Option<Price> = None;
    let levels = 0..world.class(class).variants.len();
    for level in levels {
        let Some(ask) = run.ask(class, level, &allowed) else {
            continue;
        };
        for template in 0..world.templates.len() {
            if let Ok(fit) = run.would_take(&ask, template)
                && let Some((price, _, _)) = run.states.cheapest(world, fit.state, &fit.rows)
            {
                least = Some(least.map_or(price, |least| least.min(price)));
            }
        }
    }
    least
}
