//! Why EC2 ended an instance before it became a node, and what to do about it.
//!
//! EC2 checks some parts of a launch only when the machine starts: CreateFleet has returned an instance by then, and it ends at once.

use std::time::Duration;

/// The reason of events and conditions about instances that ended right after their launch.
pub const ENDED_AT_LAUNCH: &str = "InstanceEndedAtLaunch";
/// Ends in a row after which nothing is launched with a class: one may be a coincidence.
const ENDS_MAX: u32 = 2;

/// Why EC2 changed the state of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateReason {
    /// EC2's code, such as `Client.UserInitiatedShutdown`.
    pub code: String,
    /// EC2's message.
    pub message: String,
}

const KEY: &str = "the EBS volumes are encrypted with a KMS key that cannot be used: correct kmsKeyID in spec.blockDeviceMappings, or the key \
     that the account has by default for EBS; the key must be enabled, and the controller's role and, for spot instances, \
     AWSServiceRoleForEC2Spot must be allowed to use it";
/// What to do by the beginning of the code. An internal error of the client is a key that may not be used, in nearly all cases.
const ADVICE: [(&str, &str); 5] = [
    ("Client.InvalidKMSKey", KEY),
    ("Client.InternalError", KEY),
    (
        "Client.InvalidSnapshot",
        "correct snapshotID in spec.blockDeviceMappings, or share the snapshot with this account",
    ),
    (
        "Client.VolumeLimitExceeded",
        "lower volumeSize in spec.blockDeviceMappings, or raise the account's quota of EBS volumes",
    ),
    (
        "Server.InternalError",
        "EC2 had an internal error; the next launch may succeed",
    ),
];

/// Beginnings of the codes of ends that the class causes: each launch with it ends in the same way. A quota has room again some time, and
/// faults of EC2 go away.
const OF_CLASS: [&str; 3] = ["Client.InvalidKMSKey", "Client.InternalError", "Client.InvalidSnapshot"];

impl StateReason {
    /// Whether the next launch with the class as it is would end in the same way.
    pub fn is_of_class(&self) -> bool {
        OF_CLASS.iter().any(|code| self.code.starts_with(code))
    }

    /// What a user should know: EC2's words, and what to do. `None` for an end that is not about the launch, such as a termination.
    pub fn explain(&self) -> Option<String> {
        let (_, advice) = ADVICE.iter().find(|(code, _)| self.code.starts_with(code))?;
        let (code, message) = (&self.code, self.message.trim_end_matches('.'));
        // EC2's messages begin with the code.
        let said = if message.starts_with(code.as_str()) {
            message.to_owned()
        } else {
            format!("{code}: {message}")
        };
        Some(format!("{said}; {advice}"))
    }
}

/// Instances of one class that ended right after their launch, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndsInARow {
    count: u32,
    /// Why the last one ended ([`StateReason::explain`]).
    explained: String,
}

impl EndsInARow {
    /// One end more than before.
    #[must_use]
    pub fn after(before: Option<Self>, explained: &str) -> Self {
        Self {
            count: before.map_or(0, |before| before.count).saturating_add(1),
            explained: explained.to_owned(),
        }
    }

    /// Why nothing is launched with the class for `lasts`; `None` after a single end.
    pub fn refusal(&self, lasts: Duration) -> Option<String> {
        let (explained, minutes) = (&self.explained, lasts.as_secs() / 60);
        (self.count >= ENDS_MAX).then(|| {
            format!(
                "EC2 ended instances right after their launch: {explained}. Nothing is launched until the class changes, or for {minutes} minutes"
            )
        })
    }
}
