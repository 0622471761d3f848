//! Zones that traffic is shifted away from (section 24 of `docs/behaviour/aws.md`).

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// A shift of one zone, as ARC reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Id of the zone.
    pub zone_id: String,
    /// When the shift ends.
    pub expires: Timestamp,
    /// Whether it is applied.
    pub applied: bool,
}

/// A zone whose shift began or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Warning `ZonalShiftActive`.
    Active(String),
    /// Normal `ZonalShiftCleared`.
    Cleared(String),
}

impl Transition {
    /// The id of the zone.
    pub fn zone_id(&self) -> &str {
        match self {
            Self::Active(zone) | Self::Cleared(zone) => zone,
        }
    }
}

/// The shifts known.
#[derive(Clone, Debug, Default)]
pub struct ZonalShifts {
    shifts: BTreeMap<String, (Timestamp, bool)>,
    published: BTreeSet<String>,
}

impl ZonalShifts {
    /// Takes over an answer of ARC. An empty one clears everything; others are merged, since shifts end by time (AWS-330).
    pub fn report(&mut self, shifts: &[Shift]) {
        if shifts.is_empty() {
            self.shifts.clear();
        }
        for shift in shifts {
            self.shifts
                .insert(shift.zone_id.clone(), (shift.expires, shift.applied));
        }
    }

    /// Whether a zone is shifted: the shift is applied and not over.
    pub fn is_shifted(&self, zone_id: &str, now: Timestamp) -> bool {
        self.shifts
            .get(zone_id)
            .is_some_and(|(expires, applied)| *applied && *expires > now)
    }

    /// The ids of all shifted zones.
    pub fn shifted(&self, now: Timestamp) -> BTreeSet<String> {
        let shifted = self.shifts.keys().filter(|zone| self.is_shifted(zone, now));
        shifted.cloned().collect()
    }

    /// What changed since the last transition that was published. A transition stays due until [`published`](Self::published) is called for
    /// it (AWS-332).
    pub fn transitions(&self, now: Timestamp) -> Vec<Transition> {
        let shifted = self.shifted(now);
        let begun = shifted.difference(&self.published).cloned().map(Transition::Active);
        let ended = self.published.difference(&shifted).cloned().map(Transition::Cleared);
        begun.chain(ended).collect()
    }

    /// A transition was published.
    pub fn published(&mut self, transition: &Transition) {
        match transition {
            Transition::Active(zone) => self.published.insert(zone.clone()),
            Transition::Cleared(zone) => self.published.remove(zone),
        };
    }
}
