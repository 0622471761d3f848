//! The states that a claim's conditions `Drifted` and `Consolidatable` should have (DIS-215 to DIS-218, LIF-142 to LIF-144).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_disruption::{requirements_drifted, settles_at};
use kerf_model::intern::{Interner, Sym};
use kerf_model::requirement::Requirements;
use kerf_units::duration::GoDuration;

/// Claims younger than this are not compared with the catalogue (DIS-237).
const TYPE_CHECK_FROM: SignedDuration = SignedDuration::from_hours(1);
/// The least time between two comparisons of a claim with the catalogue, if it passes (DIS-237).
const TYPE_CHECK_EVERY: Duration = Duration::from_mins(30);

/// How a claim differs from its pool's template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TemplateDrift {
    /// The hash of the template differs.
    Hash,
    /// The labels do not meet the requirements.
    Requirements,
}

/// How a claim differs from its pool's template, `None` if it does not. The hash is compared first (DIS-218). `template` has the requirements
/// that the template lists.
pub fn template_drift(
    hash_differs: bool,
    labels: &[(Sym, Sym)],
    template: &Requirements,
    interner: &Interner,
) -> Option<TemplateDrift> {
    if hash_differs {
        return Some(TemplateDrift::Hash);
    }
    requirements_drifted(labels, template, interner).then_some(TemplateDrift::Requirements)
}

/// Whether a claim is compared with the catalogue now (DIS-237). `passed` is the time since it passed the last comparison.
pub fn type_check_is_due(created: Option<Timestamp>, passed: Option<Duration>, now: Timestamp) -> bool {
    let is_old = created.is_some_and(|created| now.duration_since(created) > TYPE_CHECK_FROM);
    is_old && passed.is_none_or(|passed| passed >= TYPE_CHECK_EVERY)
}

/// The state that the consolidatable condition should have, and when to compute it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consolidatable {
    /// The pool is static: not touched (LIF-144).
    Untouched,
    /// Removed: `consolidateAfter` is `Never`.
    Disabled,
    /// Removed: the claim is not initialized.
    Uninitialized,
    /// Removed until this time, at which `consolidateAfter` has passed since the last event on the node.
    NotBefore(Timestamp),
    /// True.
    Yes,
}

/// What the consolidatable condition of a claim depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsolidatableFacts {
    /// Whether its pool has a fixed number of nodes.
    pub is_static: bool,
    /// The pool's `consolidateAfter`, `None` for `Never`.
    pub consolidate_after: Option<GoDuration>,
    /// When the claim was initialized; `None` if it is not.
    pub initialized_at: Option<Timestamp>,
    /// When a pod last came to or left its node.
    pub last_pod_event: Option<Timestamp>,
}

/// Whether consolidation may choose a claim (LIF-142, DIS-121).
pub fn consolidatable(facts: &ConsolidatableFacts, now: Timestamp) -> Consolidatable {
    if facts.is_static {
        return Consolidatable::Untouched;
    }
    let Some(after) = facts.consolidate_after else {
        return Consolidatable::Disabled;
    };
    match settles_at(facts.initialized_at, facts.last_pod_event, after) {
        None => Consolidatable::Uninitialized,
        Some(at) if now < at => Consolidatable::NotBefore(at),
        Some(_) => Consolidatable::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::at;
    use kerf_model::intern::sym;
    use kerf_model::requirement::Requirement;

    fn time(text: &str) -> Timestamp {
        at(&format!("2026-01-01T{text}Z"))
    }

    // DIS-121, LIF-142, LIF-144
    #[test]
    fn when_consolidation_may_look_at_a_claim() {
        let minutes = |minutes: i64| Some(GoDuration::from_secs(minutes * 60));
        let eleven = Some(time("11:00:00"));
        let table = [
            (None, eleven, None, Consolidatable::Disabled),
            (None, None, None, Consolidatable::Disabled),
            (minutes(0), eleven, None, Consolidatable::Yes),
            (minutes(60), eleven, None, Consolidatable::Yes),
            (minutes(61), eleven, None, Consolidatable::NotBefore(time("12:01:00"))),
            (
                minutes(30),
                eleven,
                Some("11:45:00"),
                Consolidatable::NotBefore(time("12:15:00")),
            ),
            (minutes(30), eleven, Some("11:30:00"), Consolidatable::Yes),
            (minutes(0), None, None, Consolidatable::Uninitialized),
            (minutes(0), None, Some("11:45:00"), Consolidatable::Uninitialized),
        ];
        for (consolidate_after, initialized_at, event, expected) in table {
            let facts = ConsolidatableFacts {
                is_static: false,
                consolidate_after,
                initialized_at,
                last_pod_event: event.map(time),
            };
            let noon = time("12:00:00");
            assert_eq!(consolidatable(&facts, noon), expected, "{facts:?}");
            let facts = ConsolidatableFacts {
                is_static: true,
                ..facts
            };
            assert_eq!(consolidatable(&facts, noon), Consolidatable::Untouched);
        }
    }

    // DIS-218
    #[test]
    fn the_hash_is_asked_before_the_requirements() {
        let interner = Interner::default();
        let labels = [(sym::ZONE, interner.intern("a"))];
        let template =
            |zone: &str| Requirements::from_all([Requirement::is(sym::ZONE, interner.intern(zone))], &interner);
        for (hash_differs, zone, expected) in [
            (false, "a", None),
            (false, "b", Some(TemplateDrift::Requirements)),
            (true, "a", Some(TemplateDrift::Hash)),
            (true, "b", Some(TemplateDrift::Hash)),
        ] {
            let drift = template_drift(hash_differs, &labels, &template(zone), &interner);
            assert_eq!(drift, expected, "{hash_differs} {zone}");
        }
    }

    // DIS-237
    #[test]
    fn the_catalogue_is_asked_about_claims_older_than_an_hour_every_half_hour() {
        let minutes = |minutes| Some(Duration::from_mins(minutes));
        for (created, passed, is_due) in [
            (None, None, false),
            (Some("11:00:00"), None, false),
            (Some("10:59:59"), None, true),
            (Some("10:59:59"), minutes(29), false),
            (Some("10:59:59"), minutes(30), true),
            (Some("11:00:00"), minutes(30), false),
        ] {
            let due = type_check_is_due(created.map(time), passed, time("12:00:00"));
            assert_eq!(due, is_due, "{created:?} {passed:?}");
        }
    }
}
