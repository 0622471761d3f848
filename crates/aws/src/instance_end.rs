//! Why EC2 ended an instance before it became a node, and what to do about it.
//!
//! EC2 checks some parts of a launch only when the machine starts: CreateFleet has returned an instance by then, and it ends at once.

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
