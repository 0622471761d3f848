//! Sums and differences of resources, and what a machine can give to pods.

use super::config;
use crate::rules::amounts::{Amounts, allocatable};
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, sym};
use kerf_model::price::Price;
use kerf_model::requirement::Requirements;
use kerf_model::resources::Resources;
use proptest::prelude::*;

const NAMES: [&str; 5] = ["cpu", "memory", "hugepages-2Mi", "hugepages-1Gi", "nvidia.com/gpu"];

/// Amounts of some resources; now and then so large that a sum would overflow.
fn amounts() -> impl Strategy<Value = Vec<(usize, i64)>> {
    let amount = prop_oneof![9 => 0_i64..20, 1 => Just(i64::MAX - 5), 1 => -20_i64..0];
    prop::collection::vec((0..NAMES.len(), amount), 0..5)
}

fn read(amounts: &[(usize, i64)], interner: &Interner) -> Resources {
    amounts
        .iter()
        .map(|(name, amount)| (interner.intern(NAMES[*name]), *amount))
        .collect()
}

proptest! {
    #![proptest_config(config(4))]

    #[test]
    fn sums_differences_and_fits_are_alike(one in amounts(), other in amounts()) {
        let interner = Interner::default();
        let (one, other) = (read(&one, &interner), read(&other, &interner));
        let amounts = |resources: &Resources| {
            let entries = resources.iter().map(|(name, amount)| (interner.text(name), amount));
            Amounts(entries.collect())
        };
        let (mut sum, mut left) = (one.clone(), one.clone());
        sum.add(&other);
        left.subtract(&other);
        prop_assert_eq!(Amounts::sum([&one, &other], &interner), amounts(&sum));
        let mut taken = amounts(&one);
        taken.take(&amounts(&other));
        prop_assert_eq!(taken, amounts(&left));
        // The model refuses everything once any total is negative; what a pod does not want does not keep it away.
        if one.iter().chain(other.iter()).all(|(_, amount)| amount >= 0) {
            prop_assert_eq!(amounts(&one).short_of(&amounts(&other)).is_empty(), one.fits(&other));
        }
    }

    #[test]
    fn a_machine_gives_as_much(
        capacity in amounts(), overhead in amounts(), more in prop::option::of(amounts()), less in prop::option::of(amounts()),
    ) {
        let interner = Interner::default();
        let offering = Offering {
            requirements: Requirements::new(),
            price: Price::ZERO,
            available: true,
            reservation: None,
            capacity_override: more.map(|more| Box::new(read(&more, &interner))),
            overhead_override: less.map(|less| Box::new(read(&less, &interner))),
        };
        let instance_type = InstanceType {
            name: sym::EMPTY,
            requirements: Requirements::new(),
            capacity: read(&capacity, &interner),
            overhead: read(&overhead, &interner),
            offerings: Vec::new(),
            price_overlaid: false,
            capacity_overlaid: false,
        };
        let expected = instance_type.allocatable_of(&offering, |name| interner.text(name).starts_with("hugepages-"));
        prop_assert_eq!(allocatable(&instance_type, &offering, &interner), Amounts::read(&expected, &interner));
    }
}
