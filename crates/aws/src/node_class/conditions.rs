//! Conditions of a class (AWS-058 to AWS-066).

use jiff::SignedDuration;
use std::fmt;

/// A topic of a class's readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionType {
    /// Images were found.
    Amis,
    /// Capacity reservations were looked up.
    CapacityReservations,
    /// The placement group was found.
    PlacementGroup,
    /// Subnets were found.
    Subnets,
    /// Security groups were found.
    SecurityGroups,
    /// The instance profile exists.
    InstanceProfile,
    /// Dry runs succeeded.
    Validation,
}

impl ConditionType {
    /// The condition's type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Amis => "AMIsReady",
            Self::CapacityReservations => "CapacityReservationsReady",
            Self::PlacementGroup => "PlacementGroupReady",
            Self::Subnets => "SubnetsReady",
            Self::SecurityGroups => "SecurityGroupsReady",
            Self::InstanceProfile => "InstanceProfileReady",
            Self::Validation => "ValidationSucceeded",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The topics in the order in which they are worked on; reservations only where they are used (AWS-056, AWS-058).
pub fn condition_types(reserved_capacity: bool) -> Vec<ConditionType> {
    let all = [
        ConditionType::Amis,
        ConditionType::CapacityReservations,
        ConditionType::PlacementGroup,
        ConditionType::Subnets,
        ConditionType::SecurityGroups,
        ConditionType::InstanceProfile,
        ConditionType::Validation,
    ];
    let used = all
        .into_iter()
        .filter(|kind| reserved_capacity || *kind != ConditionType::CapacityReservations);
    used.collect()
}

/// The result of a look-up: the condition, and when to repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the topic is ready.
    pub ready: bool,
    /// Reason of a condition that is False.
    pub reason: &'static str,
    /// When to repeat the look-up.
    pub again_after: SignedDuration,
}

/// The finding of a look-up with `count` results; zero means that nothing was found. Reservations and a class without placement group are
/// ready with nothing.
pub fn finding(kind: ConditionType, count: usize) -> Finding {
    let minute = SignedDuration::from_mins(1);
    let five = SignedDuration::from_mins(5);
    let (reason, again) = match kind {
        ConditionType::Amis => ("AMINotFound", five),
        ConditionType::Subnets => ("SubnetsNotFound", minute),
        ConditionType::SecurityGroups => ("SecurityGroupsNotFound", five),
        ConditionType::PlacementGroup => ("PlacementGroupNotFound", minute),
        ConditionType::CapacityReservations | ConditionType::InstanceProfile | ConditionType::Validation => {
            return Finding {
                ready: true,
                reason: "",
                again_after: minute,
            };
        }
    };
    match count {
        0 => Finding {
            ready: false,
            reason,
            again_after: minute,
        },
        _ => Finding {
            ready: true,
            reason: "",
            again_after: again,
        },
    }
}

/// Whether the class as a whole is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyState {
    /// All topics are.
    True,
    /// Some are not; the message lists them.
    False(String),
    /// Some are not known yet; the message lists them.
    Unknown(String),
}

/// The root condition from the status of each topic: `True`, `False` or `Unknown`, absent for one that was not evaluated.
pub fn ready(statuses: &[(ConditionType, Option<bool>)]) -> ReadyState {
    let listed = |wanted: Option<bool>, text: &str| {
        let of_status = statuses.iter().filter(|(_, status)| *status == wanted);
        let names: Vec<String> = of_status.map(|(kind, _)| format!("{kind}={text}")).collect();
        names.join(", ")
    };
    let (no, unknown) = (listed(Some(false), "False"), listed(None, "Unknown"));
    match (no.as_str(), unknown.as_str()) {
        ("", "") => ReadyState::True,
        ("", _) => ReadyState::Unknown(unknown),
        (_, "") => ReadyState::False(no),
        _ => ReadyState::False(format!("{no}, {unknown}")),
    }
}
