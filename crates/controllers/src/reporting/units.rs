//! Amounts in the units of metrics: cpu in cores, everything else in base units.

use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::resources::Resources;
use kerf_units::quantity::Quantity;

/// A resource's name as a label value (OPS-128).
pub(super) fn resource_type(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// An amount of the model.
pub(super) fn amount(name: Sym, amount: i64) -> f64 {
    if name == sym::CPU {
        amount as f64 / 1000.0
    } else {
        amount as f64
    }
}

/// An amount of an API object.
pub(super) fn quantity(name: &str, written: &Quantity) -> f64 {
    if name == "cpu" {
        written.milli_ceil() as f64 / 1000.0
    } else {
        written.units_ceil() as f64
    }
}

/// All amounts with their label values, except the number of nodes, which nodes do not have.
pub(super) fn of_node<'a>(
    resources: &'a Resources,
    interner: &'a Interner,
) -> impl Iterator<Item = (String, f64)> + 'a {
    let real = resources.iter().filter(|(name, _)| *name != sym::NODES);
    real.map(|(name, number)| (resource_type(interner.text(name)), amount(name, number)))
}
