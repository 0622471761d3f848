//! Polled instance status: what of it needs action (AWS-312 to AWS-314, AWS-320 to AWS-323).

use crate::selector::{Filter, Query};
use jiff::Timestamp;
use kerf_cloud::InterruptionKind;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a check may fail before the node goes (AWS-321).
pub const IMPAIRED_TOLERATION: Duration = Duration::from_secs(120);

/// What a status detail is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatusCategory {
    /// The check of the instance itself.
    Instance,
    /// The check of the system below it.
    System,
    /// A maintenance event.
    Event,
    /// The check of attached EBS volumes, which never leads to action.
    Ebs,
}

impl StatusCategory {
    /// The label in metrics (AWS-373); `None` for checks that lead to no action.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Instance => Some("InstanceStatus"),
            Self::System => Some("SystemStatus"),
            Self::Event => Some("EventStatus"),
            Self::Ebs => None,
        }
    }

    /// The signal it gives.
    const fn kind(self) -> Option<InterruptionKind> {
        match self {
            Self::Instance => Some(InterruptionKind::InstanceUnhealthy),
            Self::System => Some(InterruptionKind::SystemUnhealthy),
            Self::Event => Some(InterruptionKind::StatusEvent),
            Self::Ebs => None,
        }
    }
}

/// One detail of an instance's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusDetail {
    /// What it is about.
    pub category: StatusCategory,
    /// Whether a check failed; ignored for maintenance events.
    pub failed: bool,
    /// Since when the check fails.
    pub impaired_since: Option<Timestamp>,
}

/// The codes of the maintenance events that count (AWS-320).
const EVENT_CODES: [&str; 5] = [
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
];
/// The prefixes of the descriptions of events that have ended. EC2 lists them for about another week.
const OVER: [&str; 2] = ["[Completed]", "[Canceled]"];

/// Whether a maintenance event is one that counts, and has not ended.
pub fn is_event_due(code: &str, description: &str) -> bool {
    EVENT_CODES.contains(&code) && !OVER.iter().any(|over| description.starts_with(over))
}

/// The filters of the three DescribeInstanceStatus calls.
pub fn status_queries() -> [Query; 3] {
    [
        vec![Filter::new("instance-status.status", ["impaired"])],
        vec![Filter::new("system-status.status", ["impaired"])],
        vec![Filter::new("event.code", EVENT_CODES)],
    ]
}

/// What the status of one instance asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFinding {
    /// The categories that count, in order.
    pub categories: BTreeSet<StatusCategory>,
    /// The signal: that of the gravest category.
    pub kind: InterruptionKind,
    /// Whether the node goes without a graceful drain: a check failed. Maintenance events alone leave time to drain (AWS-318).
    pub forceful: bool,
}

/// What the details of one instance's status ask for; `None` if none counts.
pub fn finding(details: &[StatusDetail], now: Timestamp) -> Option<StatusFinding> {
    let counts = |detail: &&StatusDetail| match detail.category {
        StatusCategory::Event => true,
        StatusCategory::Ebs => false,
        StatusCategory::Instance | StatusCategory::System => {
            let since =
                |since: Timestamp| now.duration_since(since).unsigned_abs() >= IMPAIRED_TOLERATION && since <= now;
            detail.failed && detail.impaired_since.is_some_and(since)
        }
    };
    let categories: BTreeSet<StatusCategory> = details.iter().filter(counts).map(|detail| detail.category).collect();
    let kind = categories.first()?.kind()?;
    let forceful = categories
        .iter()
        .any(|category| matches!(category, StatusCategory::Instance | StatusCategory::System));
    Some(StatusFinding {
        categories,
        kind,
        forceful,
    })
}

/// Which unhealthy instances were counted already: each counts once until it recovers (AWS-323).
#[derive(Clone, Debug, Default)]
pub struct UnhealthyCounts {
    counted: BTreeSet<(String, StatusCategory)>,
}

impl UnhealthyCounts {
    /// Takes the instances of one poll that belong to the cluster. Returns the categories to count, one for each new pair of instance and
    /// category.
    pub fn observe<'a>(
        &mut self,
        unhealthy: impl IntoIterator<Item = (&'a str, StatusCategory)>,
    ) -> Vec<StatusCategory> {
        let seen: BTreeSet<(String, StatusCategory)> = unhealthy
            .into_iter()
            .map(|(instance, category)| (instance.to_owned(), category))
            .collect();
        let new = seen.difference(&self.counted).map(|(_, category)| *category).collect();
        self.counted = seen;
        new
    }
}
