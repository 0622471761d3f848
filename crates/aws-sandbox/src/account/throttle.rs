//! How many calls EC2 takes: token buckets by kind of call.

use super::refusal::{Answer, Refusal};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The kinds of calls that share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// Calls that read.
    Describe,
    /// Calls that change something, except for those below.
    Mutate,
    /// RunInstances.
    RunInstances,
    /// TerminateInstances.
    TerminateInstances,
    /// CreateTags.
    CreateTags,
}

impl CallKind {
    /// The kind of an action of EC2.
    pub fn of(action: &str) -> Self {
        match action {
            "RunInstances" => Self::RunInstances,
            "TerminateInstances" => Self::TerminateInstances,
            "CreateTags" => Self::CreateTags,
            _ if action.starts_with("Describe") || action.starts_with("Get") => Self::Describe,
            _ => Self::Mutate,
        }
    }
}

/// A token bucket: how many calls are added each second, and how many it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Calls for each second.
    pub per_second: u32,
    /// Most calls at once.
    pub burst: u32,
}

const fn limit(per_second: u32, burst: u32) -> Limit {
    Limit { per_second, burst }
}

/// The buckets of an account.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    /// The limits; a kind without one is not limited.
    pub limits: BTreeMap<CallKind, Limit>,
    /// What is left, in thousandths of a call, and when that was.
    left: BTreeMap<CallKind, (i64, Timestamp)>,
}

impl Throttle {
    /// The limits that EC2 has in a new account.
    pub fn realistic() -> Self {
        let limits = [
            (CallKind::Describe, limit(20, 100)),
            (CallKind::Mutate, limit(5, 50)),
            (CallKind::RunInstances, limit(2, 5)),
            (CallKind::TerminateInstances, limit(5, 100)),
            (CallKind::CreateTags, limit(10, 100)),
        ];
        Self {
            limits: limits.into(),
            left: BTreeMap::new(),
        }
    }

    /// Takes one call.
    pub fn take(&mut self, action: &str, now: Timestamp) -> Answer<()> {
        let kind = CallKind::of(action);
        let Some(limit) = self.limits.get(&kind) else {
            return Ok(());
        };
        let full = i64::from(limit.burst) * 1000;
        let (left, since) = self.left.get(&kind).copied().unwrap_or((full, now));
        let passed = i64::try_from(now.duration_since(since).as_millis())
            .unwrap_or(i64::MAX)
            .max(0);
        // One call each second is one thousandth each millisecond.
        let gained = passed.saturating_mul(i64::from(limit.per_second));
        let left = left.saturating_add(gained).min(full);
        let refused = left < 1000;
        self.left.insert(kind, (if refused { left } else { left - 1000 }, now));
        if refused {
            return Err(Refusal::new("RequestLimitExceeded", "Request limit exceeded.").with_status(503));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    // AWS-475
    #[test]
    fn a_burst_passes_and_then_so_many_calls_each_second() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut throttle = Throttle::realistic();
        let mut passed = |action: &str, after_ms: i64| {
            let now = start + SignedDuration::from_millis(after_ms);
            (0..1000).take_while(|_| throttle.take(action, now).is_ok()).count()
        };
        assert_eq!(passed("DescribeInstances", 0), 100);
        assert_eq!(passed("CreateFleet", 0), 50);
        assert_eq!(passed("RunInstances", 0), 5);
        assert_eq!(passed("TerminateInstances", 0), 100);
        assert_eq!(passed("CreateTags", 0), 100);
        assert_eq!(passed("DescribeSubnets", 1000), 20);
        assert_eq!(passed("DescribeSubnets", 1049), 0);
        assert_eq!(passed("DescribeSubnets", 1050), 1);
        assert_eq!(passed("CreateLaunchTemplate", 3_600_000), 50);
        for (action, each_second) in [
            ("CreateFleet", 5),
            ("RunInstances", 2),
            ("TerminateInstances", 5),
            ("CreateTags", 10),
        ] {
            let hour = 3_600_000 * 2;
            passed(action, hour);
            assert_eq!(passed(action, hour + 1000), each_second, "{action}");
        }
        let refused = throttle.take("CreateTags", start + SignedDuration::from_millis(3_600_000 * 2 + 1000));
        assert_eq!(refused.unwrap_err().code, "RequestLimitExceeded");
    }
}
