//! The built-in list of instance types of the KWOK provider (KWK-026 to KWK-031).

use crate::type_definition::{OfferingDefinition, TypeDefinition};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::price::Price;
use kerf_model::requirement::Operator;
use kerf_units::quantity::Quantity;
use std::sync::Arc;

const CORES: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// Gi of memory per core, and the family's name.
const FAMILIES: [(i64, &str); 3] = [(2, "c"), (4, "s"), (8, "m")];
const SYSTEMS: [&str; 2] = ["linux", "windows"];
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
const PODS_PER_CORE: i64 = 16;
const PODS_MAX: i64 = 1024;
const SPOT_FACTOR: f64 = 0.7;

/// The built-in catalogue: 144 types of three families, two systems and two architectures.
pub fn builtin_catalogue(interner: &Interner) -> Arc<Catalogue> {
    let mut types = Vec::with_capacity(144);
    for cores in CORES {
        for family in FAMILIES {
            for system in SYSTEMS {
                for architecture in ARCHITECTURES {
                    types.push(definition(cores, family, system, architecture).build(interner));
                }
            }
        }
    }
    Arc::new(Catalogue { types })
}

fn definition(cores: i64, (factor, family): (i64, &str), system: &str, architecture: &str) -> TypeDefinition {
    let memory_bytes = (cores * factor) << 30;
    let on_demand = 0.025 * cores as f64 + 0.001 * memory_bytes as f64 / 1e9;
    let offering = |zone: &str, capacity_type: &str, price: f64| OfferingDefinition {
        price: Price::from_per_hour(price).unwrap_or_default(),
        reservation_capacity: 0,
        requirements: vec![
            (
                "karpenter.sh/capacity-type".into(),
                Operator::In,
                vec![capacity_type.into()],
            ),
            ("topology.kubernetes.io/zone".into(), Operator::In, vec![zone.into()]),
        ],
    };
    TypeDefinition {
        name: format!("{family}-{cores}x-{architecture}-{system}"),
        architecture: architecture.into(),
        operating_systems: vec![system.into()],
        resources: vec![
            ("cpu".into(), Quantity::from_units(cores)),
            ("memory".into(), Quantity::from_bytes(memory_bytes)),
            (
                "pods".into(),
                Quantity::from_units((PODS_PER_CORE * cores).min(PODS_MAX)),
            ),
            ("ephemeral-storage".into(), Quantity::from_bytes(20 << 30)),
        ],
        offerings: ZONES
            .iter()
            .flat_map(|zone| {
                [
                    offering(zone, "spot", on_demand * SPOT_FACTOR),
                    offering(zone, "on-demand", on_demand),
                ]
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::intern::sym;

    // KWK-026, KWK-027
    #[test]
    fn there_are_144_types_in_nested_order() {
        let interner = Interner::default();
        let catalogue = builtin_catalogue(&interner);
        let names: Vec<_> = catalogue.types.iter().map(|kind| interner.text(kind.name)).collect();
        assert_eq!(names.len(), 144);
        assert_eq!(
            names[..5],
            [
                "c-1x-amd64-linux",
                "c-1x-arm64-linux",
                "c-1x-amd64-windows",
                "c-1x-arm64-windows",
                "s-1x-amd64-linux"
            ]
        );
        assert_eq!((names[12], names[143]), ("c-2x-amd64-linux", "m-256x-arm64-windows"));
    }

    // KWK-028, KWK-029, KWK-031
    #[test]
    fn resources_and_prices_follow_from_cores_and_memory() {
        let interner = Interner::default();
        let catalogue = builtin_catalogue(&interner);
        let find = |name: &str| {
            catalogue
                .types
                .iter()
                .find(|kind| interner.text(kind.name) == name)
                .expect("a built-in type")
        };
        for (name, cpu, memory, pods, spot, on_demand) in [
            (
                "c-1x-amd64-linux",
                1_000,
                2 << 30,
                16,
                0.019_003_238_554,
                0.027_147_483_648,
            ),
            (
                "m-256x-arm64-windows",
                256_000,
                2 << 40,
                1024,
                6.019_316_278_886,
                8.599_023_255_552,
            ),
        ] {
            let kind = find(name);
            let has = [sym::CPU, sym::MEMORY, sym::PODS, sym::EPHEMERAL_STORAGE].map(|r| kind.capacity.get(r));
            assert_eq!(has, [cpu, memory, pods, 20 << 30], "{name}");
            for (at, offering) in kind.offerings.iter().enumerate() {
                let price = Price::from_per_hour(if at % 2 == 0 { spot } else { on_demand });
                assert_eq!(Some(offering.price), price, "{name} {at}");
            }
        }
        assert_eq!(find("s-8x-amd64-linux").offerings, find("s-8x-arm64-windows").offerings);
        let memory = interner.intern("karpenter.kwok.sh/instance-memory");
        let largest = find("m-256x-arm64-windows")
            .requirements
            .get(memory)
            .and_then(kerf_model::requirement::Requirement::single);
        assert_eq!(largest.map(|value| interner.text(value)), Some("2Ti"));
    }

    // KWK-030
    #[test]
    fn each_zone_offers_spot_then_on_demand() {
        let interner = Interner::default();
        let catalogue = builtin_catalogue(&interner);
        let offered: Vec<_> = catalogue.types[0]
            .offerings
            .iter()
            .map(|o| {
                (
                    o.zone().map_or("", |z| interner.text(z)),
                    o.capacity_type().map_or("", |c| interner.text(c)),
                )
            })
            .collect();
        let expected: Vec<_> = ZONES
            .iter()
            .flat_map(|zone| [(*zone, "spot"), (*zone, "on-demand")])
            .collect();
        assert_eq!(offered, expected);
    }
}
