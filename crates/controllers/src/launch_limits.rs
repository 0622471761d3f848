//! The pools whose launches find no capacity, as the controllers share them ([`kerf_lifecycle::launch_limits`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kerf_lifecycle::launch_limits::{LaunchLimits, LaunchPermission};

/// The limited pools. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLaunchLimits(Arc<Mutex<LaunchLimits>>);

/// Allows one launch. Dropping it without a claim gives it back.
#[must_use = "the launch is not counted when this is dropped"]
pub(crate) struct Permit {
    limits: SharedLaunchLimits,
    /// The pool, as long as the launch is counted without a claim.
    counted: Option<String>,
}

impl SharedLaunchLimits {
    /// The pools, to record the result of a launch.
    pub(crate) fn locked(&self) -> MutexGuard<'_, LaunchLimits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Permits a launch in a pool, unless as many launches run as its limit allows.
    pub(crate) fn permit(&self, pool: &str, now: Timestamp) -> Option<Permit> {
        let counted = match self.locked().permit(pool, now) {
            LaunchPermission::Unlimited => None,
            LaunchPermission::Counted => Some(pool.to_owned()),
            LaunchPermission::Refused => return None,
        };
        Some(Permit {
            limits: self.clone(),
            counted,
        })
    }
}

impl Permit {
    /// Uses the permit for a claim.
    pub(crate) fn used_by(mut self, claim: &str, now: Timestamp) {
        if let Some(pool) = self.counted.take() {
            self.limits.locked().name(&pool, claim, now);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(pool) = &self.counted {
            self.limits.locked().give_up(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_counts_until_its_claim_has_a_result_or_it_is_dropped() {
        let (limits, now) = (SharedLaunchLimits::default(), Timestamp::UNIX_EPOCH);
        limits.locked().exhausted("a", "x", now);
        let used = limits.permit("a", now).unwrap();
        let dropped = limits.permit("a", now).unwrap();
        assert!(limits.permit("a", now).is_none());
        drop(dropped);
        used.used_by("a-1", now);
        let _other = limits.permit("a", now).unwrap();
        assert!(limits.permit("a", now).is_none());
        limits.locked().exhausted("a", "a-1", now);
        assert!(limits.permit("a", now).is_some());
    }
}
