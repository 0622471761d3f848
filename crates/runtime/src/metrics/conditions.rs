//! The families about conditions and termination that exist once per kind.

use std::borrow::Cow;

use super::catalogue::{
    STATUS_CONDITION_COUNT, STATUS_CURRENT_STATUS_SECONDS, STATUS_TRANSITION_SECONDS, STATUS_TRANSITIONS,
    TERMINATION_CURRENT_TIME, TERMINATION_DURATION,
};
use super::{ExtraLabels, MetricDef, MetricKind, buckets};

/// The six families about conditions and termination of one kind (OPS-170).
#[derive(Clone, Debug)]
pub struct StatusConditions {
    /// How long the previous status lasted, labelled with it (OPS-174).
    pub transition_seconds: MetricDef,
    /// 1 per condition of an object.
    pub condition_count: MetricDef,
    /// How long a condition has held its status.
    pub current_status_seconds: MetricDef,
    /// Changes, labelled with the new status and reason (OPS-174).
    pub transitions_total: MetricDef,
    /// How long an object has been terminating.
    pub termination_current_time_seconds: MetricDef,
    /// Recorded when an object disappears (OPS-175).
    pub termination_duration_seconds: MetricDef,
}

/// The families of `kind`: nodeclaim, nodepool, node or capacitybuffer.
pub fn status_conditions(kind: &str) -> StatusConditions {
    let extra = match kind {
        "nodeclaim" => ExtraLabels::NodeClaim,
        "node" => ExtraLabels::Node,
        _ => ExtraLabels::None,
    };
    let family = |of: &str, metric: MetricKind, labels, help| MetricDef {
        name: Cow::Owned(format!("operator_{kind}_{of}")),
        kind: metric,
        labels,
        extra,
        help,
    };
    let histogram = MetricKind::Histogram(&buckets::STATUS);
    let condition: &[&str] = &["namespace", "name", "type", "status", "reason"];
    StatusConditions {
        transition_seconds: family(
            "status_condition_transition_seconds",
            histogram,
            &["type", "status"],
            STATUS_TRANSITION_SECONDS.help,
        ),
        condition_count: family(
            "status_condition_count",
            MetricKind::Gauge,
            condition,
            STATUS_CONDITION_COUNT.help,
        ),
        current_status_seconds: family(
            "status_condition_current_status_seconds",
            MetricKind::Gauge,
            condition,
            STATUS_CURRENT_STATUS_SECONDS.help,
        ),
        transitions_total: family(
            "status_condition_transitions_total",
            MetricKind::Counter,
            &["type", "status", "reason"],
            STATUS_TRANSITIONS.help,
        ),
        termination_current_time_seconds: family(
            "termination_current_time_seconds",
            MetricKind::Gauge,
            &["namespace", "name"],
            TERMINATION_CURRENT_TIME.help,
        ),
        termination_duration_seconds: family(
            "termination_duration_seconds",
            histogram,
            &[],
            TERMINATION_DURATION.help,
        ),
    }
}
