//! Quantities in the model's units: CPU in milli-cores, everything else in base units.

use kerf_model::intern::{Sym, sym};
use kerf_units::quantity::Quantity;

/// An amount that is there, in the model's unit of the resource.
pub(crate) fn floor(name: Sym, quantity: &Quantity) -> i64 {
    if name == sym::CPU {
        quantity.milli_floor()
    } else {
        quantity.units_floor()
    }
}

/// An amount that is asked for, in the model's unit of the resource.
pub(crate) fn ceil(name: Sym, quantity: &Quantity) -> i64 {
    if name == sym::CPU {
        quantity.milli_ceil()
    } else {
        quantity.units_ceil()
    }
}
