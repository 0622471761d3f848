//! Offerings without capacity, remembered for a time so that the next launch avoids them.

use jiff::{SignedDuration, Timestamp};
use kerf_model::instance_type::{Catalogue, Offering};
use kerf_model::intern::Sym;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How long a failed offering is avoided unless a provider says otherwise.
pub const UNAVAILABLE_FOR: SignedDuration = SignedDuration::from_mins(3);

/// A set of offerings without capacity: those that agree with every part that is given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Exhausted {
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: Sym,
    /// The type; `None` for every type.
    pub instance_type: Option<Sym>,
    /// The zone; `None` for every zone.
    pub zone: Option<Sym>,
}

impl Exhausted {
    fn covers(&self, kind: Sym, offering: &Offering) -> bool {
        offering.capacity_type() == Some(self.capacity_type)
            && self.instance_type.is_none_or(|name| name == kind)
            && self.zone.is_none_or(|zone| offering.zone() == Some(zone))
    }
}

/// The offerings without capacity, each until its time has passed.
#[derive(Debug)]
pub struct UnavailableOfferings {
    keep: SignedDuration,
    until: Mutex<BTreeMap<Exhausted, Timestamp>>,
}

impl Default for UnavailableOfferings {
    fn default() -> Self {
        Self::new(UNAVAILABLE_FOR)
    }
}

impl UnavailableOfferings {
    /// Remembers each failure for `keep`.
    pub fn new(keep: SignedDuration) -> Self {
        Self {
            keep,
            until: Mutex::default(),
        }
    }

    /// Records offerings without capacity at `now`; a repeated record starts its time again.
    pub fn mark(&self, what: Exhausted, now: Timestamp) {
        let end = now.saturating_add(self.keep).unwrap_or(Timestamp::MAX);
        self.until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(what, end);
    }

    /// The offerings to avoid at `now`; removes expired records.
    pub fn current(&self, now: Timestamp) -> Vec<Exhausted> {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.retain(|_, end| *end > now);
        until.keys().copied().collect()
    }

    /// Whether an offering of a type is to be avoided at `now`.
    pub fn covers(&self, kind: Sym, offering: &Offering, now: Timestamp) -> bool {
        self.current(now).iter().any(|what| what.covers(kind, offering))
    }

    /// The catalogue with the offerings to avoid marked unavailable; the same `Arc` if there are none.
    pub fn mask(&self, catalogue: &Arc<Catalogue>, now: Timestamp) -> Arc<Catalogue> {
        let avoided = self.current(now);
        if avoided.is_empty() {
            return Arc::clone(catalogue);
        }
        let mut masked = Catalogue::clone(catalogue);
        for kind in &mut masked.types {
            let name = kind.name;
            for offering in &mut kind.offerings {
                offering.available &= !avoided.iter().any(|what| what.covers(name, offering));
            }
        }
        Arc::new(masked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::TypeBuilder;
    use kerf_model::intern::{Interner, sym};
    use kerf_model::price::Price;

    #[test]
    fn a_failed_offering_is_masked_until_its_time_is_over() {
        let interner = Interner::default();
        let make = |name: &str| {
            TypeBuilder::new(&interner, name)
                .offering("zone-a", "spot", Price::ZERO)
                .offering("zone-b", "spot", Price::ZERO)
                .offering("zone-a", "on-demand", Price::ZERO)
                .build()
        };
        let catalogue = Arc::new(Catalogue {
            types: vec![make("a"), make("b")],
        });
        let available = |catalogue: &Catalogue| -> Vec<bool> {
            catalogue
                .types
                .iter()
                .flat_map(|kind| &kind.offerings)
                .map(|offering| offering.available)
                .collect()
        };
        let memory = UnavailableOfferings::default();
        let start = Timestamp::UNIX_EPOCH;
        assert!(Arc::ptr_eq(&memory.mask(&catalogue, start), &catalogue));
        let one = Exhausted {
            capacity_type: sym::SPOT,
            instance_type: interner.get("a"),
            zone: interner.get("zone-b"),
        };
        memory.mark(one, start);
        assert_eq!(
            available(&memory.mask(&catalogue, start)),
            [true, false, true, true, true, true]
        );
        let all_spot = Exhausted {
            capacity_type: sym::SPOT,
            instance_type: None,
            zone: None,
        };
        memory.mark(all_spot, start + SignedDuration::from_mins(1));
        let later = start + SignedDuration::from_mins(3);
        assert_eq!(
            available(&memory.mask(&catalogue, later)),
            [false, false, true, false, false, true]
        );
        assert!(Arc::ptr_eq(
            &memory.mask(&catalogue, start + SignedDuration::from_mins(4)),
            &catalogue
        ));
        assert_eq!(available(&catalogue), [true; 6]);
    }
}
