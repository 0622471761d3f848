//! Choosing the offering to launch among those a claim allows.

use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, Sym};
use kerf_model::price::Price;
use kerf_model::requirement::Requirements;

/// The available offerings of a type that are compatible with a claim's requirements; `well_known` keys may be undefined on the claim.
pub fn usable<'a>(
    kind: &'a InstanceType,
    claim: &Requirements,
    well_known: impl Fn(Sym) -> bool,
    interner: &Interner,
) -> Vec<&'a Offering> {
    kind.offerings
        .iter()
        .filter(|offering| offering.available)
        .filter(|offering| claim.compatible(&offering.requirements, &well_known, interner).is_ok())
        .collect()
}

/// A type with the offerings that share its lowest price.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The type.
    pub kind: &'a InstanceType,
    /// The lowest price.
    pub price: Price,
    /// All usable offerings of that price, in catalogue order; never empty.
    pub offerings: Vec<&'a Offering>,
}

/// The cheapest of `kinds` under a claim's requirements: of equally cheap ones the first. Types without a usable offering are
/// skipped (KWK-034, KWK-037).
pub fn cheapest<'a>(
    kinds: impl IntoIterator<Item = &'a InstanceType>,
    claim: &Requirements,
    well_known: impl Fn(Sym) -> bool,
    interner: &Interner,
) -> Option<Choice<'a>> {
    let mut best: Option<Choice<'a>> = None;
    for kind in kinds {
        let mut offerings = usable(kind, claim, &well_known, interner);
        let Some(price) = offerings.iter().map(|offering| offering.price).min() else {
            continue;
        };
        if best.as_ref().is_none_or(|best| price < best.price) {
            offerings.retain(|offering| offering.price == price);
            best = Some(Choice { kind, price, offerings });
        }
    }
    best
}

/// A source of random numbers in `0..bound`; 0 for a bound of 0. Callers pass a seeded generator.
pub trait Randomness: Send + Sync {
    /// The next number in `0..bound`.
    fn below(&self, bound: u64) -> u64;
}

impl<F: Fn(u64) -> u64 + Send + Sync> Randomness for F {
    fn below(&self, bound: u64) -> u64 {
        self(bound)
    }
}

/// One of `items` at random.
pub fn pick<'a, T>(items: &'a [T], random: &dyn Randomness) -> Option<&'a T> {
    let at = random.below(items.len() as u64);
    items.get(usize::try_from(at).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::TypeBuilder;
    use kerf_model::intern::sym;
    use kerf_model::requirement::Requirement;

    fn dollars(amount: f64) -> Price {
        Price::from_per_hour(amount).expect("a price")
    }

    #[test]
    fn the_first_of_the_cheapest_wins_and_types_without_offering_are_skipped() {
        let interner = Interner::default();
        let make = |name: &str, spot: f64, on_demand: f64| {
            TypeBuilder::new(&interner, name)
                .offering("zone-a", "spot", dollars(spot))
                .offering("zone-a", "on-demand", dollars(on_demand))
                .offering("zone-b", "on-demand", dollars(on_demand))
                .build()
        };
        let mut kinds = vec![
            make("none", 0.0, 0.0),
            make("a", 0.2, 0.5),
            make("b", 0.1, 0.5),
            make("c", 0.1, 0.5),
        ];
        kinds[0].offerings.clear();
        let any = |_: Sym| true;
        let free = Requirements::new();
        let best = cheapest(&kinds, &free, any, &interner).expect("something fits");
        assert_eq!((interner.text(best.kind.name), best.price), ("b", dollars(0.1)));
        let on_demand = Requirements::from_all([Requirement::is(sym::CAPACITY_TYPE, sym::ON_DEMAND)], &interner);
        let best = cheapest(&kinds, &on_demand, any, &interner).expect("something fits");
        assert_eq!((interner.text(best.kind.name), best.offerings.len()), ("a", 2));
        kinds.truncate(1);
        assert!(cheapest(&kinds, &free, any, &interner).is_none());
    }
}
