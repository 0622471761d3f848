//! The extent of one scale-up of another autoscaler.

use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A scale-up ends when no pod has begun to wait and no NodeClaim was created for this long: several of the longest default batch (SCH-001), so
/// that the pods of one rollout and the machines for them are compared as a whole.
const QUIET: Duration = Duration::from_secs(60);
/// The longest scale-up, for clusters in which some pod always begins to wait.
const SCALE_UP_MAX: Duration = Duration::from_secs(10 * 60);

/// The time in which pods begin to wait and another autoscaler launches machines for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScaleUp {
    /// When the first pod began to wait.
    pub began: Timestamp,
    /// The NodeClaims there were then, by name.
    pub before: BTreeSet<Arc<str>>,
    /// Whether a machine was removed meanwhile. Then machines may have been launched to replace it, and not for pods that waited.
    pub disturbed: bool,
    begins: Duration,
    last_news: Duration,
}

impl ScaleUp {
    /// A scale-up that begins now. `uptime` is time that does not jump.
    pub const fn begin(began: Timestamp, uptime: Duration, before: BTreeSet<Arc<str>>) -> Self {
        Self {
            began,
            before,
            disturbed: false,
            begins: uptime,
            last_news: uptime,
        }
    }

    /// Records that a pod began to wait, or that a NodeClaim was created.
    pub const fn note(&mut self, uptime: Duration) {
        self.last_news = uptime;
    }

    /// Whether the scale-up has ended.
    pub fn is_over(&self, uptime: Duration) -> bool {
        uptime.saturating_sub(self.last_news) >= QUIET || uptime.saturating_sub(self.begins) >= SCALE_UP_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_up_lasts_until_nothing_has_come_for_a_minute() {
        let at = Duration::from_secs;
        let mut scale_up = ScaleUp::begin(Timestamp::UNIX_EPOCH, at(100), BTreeSet::new());
        assert!(!scale_up.is_over(at(159)));
        assert!(scale_up.is_over(at(160)));
        scale_up.note(at(150));
        assert!(!scale_up.is_over(at(209)));
        assert!(scale_up.is_over(at(210)));
        for second in 150..700 {
            scale_up.note(at(second));
        }
        assert!(!scale_up.is_over(at(699)));
        assert!(scale_up.is_over(at(700)), "ten minutes are the longest");
    }
}
