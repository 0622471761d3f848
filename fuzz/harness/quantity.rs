// Quantities: what reads prints, and what was printed reads as the same amount.

use kerf_units::quantity::{Quantity, Scale};

/// One input.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(quantity) = text.parse::<Quantity>() else { return };
    let shown = quantity.to_string();
    let again: Quantity = shown.parse().expect("a printed quantity reads");
    assert_eq!(again, quantity, "{text:?} prints as {shown:?}");
    assert_eq!(again.to_string(), shown, "{text:?} is printed in one way");
    let written: Quantity = quantity.as_written().parse().expect("a written quantity reads");
    assert_eq!(written, quantity, "{text:?}");
    for scale in [Scale::Milli, Scale::Unit] {
        assert!(quantity.floor_to(scale) <= quantity.ceil_to(scale), "{text:?}");
    }
    let _ = (quantity.to_f64(), quantity.saturating_add(&quantity));
    if let Some(nothing) = quantity.checked_sub(&quantity) {
        assert!(nothing.is_zero(), "{text:?}");
    }
}
