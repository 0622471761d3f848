//! Consolidations that did not last are not repeated for ever (`docs/deviations.md` at DIS-119).

use crate::fixture::ago;
use kerf_disruption::Unconsolidatable;

#[test]
fn it_is_said_why_a_node_stays() {
    let why = Unconsolidatable::Resting(ago(0));
    assert_eq!(
        why.message(),
        "Pods like its own were moved before and needed a new node again"
    );
    assert!(why.is_event());
    assert_eq!(why.code(), "Resting");
}
