//! One entry of `status.conditions`.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is not known yet.
    Unknown,
}

impl ConditionStatus {
    /// As written in objects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A finding of a controller about an object. Reason and message are optional because NodeClaims may lack them (API-101).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The topic.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Generation of the object this was derived from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status last changed, written in whole seconds.
    pub last_transition_time: Time,
    /// One word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The finding in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Condition {
    /// A condition that changed to `status` at `now`.
    pub fn new(type_: &str, status: ConditionStatus, reason: &str, message: &str, now: Timestamp) -> Self {
        Self {
            type_: type_.to_owned(),
            status,
            observed_generation: None,
            last_transition_time: Time(now),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
        }
    }

    /// The reason, empty when absent.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }

    /// The message, empty when absent.
    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// When the status last changed.
    pub const fn transitioned(&self) -> Timestamp {
        self.last_transition_time.0
    }

    /// Whether it holds.
    pub const fn is_true(&self) -> bool {
        matches!(self.status, ConditionStatus::True)
    }

    /// Whether it is known not to hold.
    pub const fn is_false(&self) -> bool {
        matches!(self.status, ConditionStatus::False)
    }

    /// Whether it is not known yet.
    pub const fn is_unknown(&self) -> bool {
        matches!(self.status, ConditionStatus::Unknown)
    }
}
