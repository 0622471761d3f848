//! Error codes of AWS: what they mean to callers, and how a failed launch is reported (section 30 of `docs/behaviour/aws.md`).
//!
//! Only this and [`error_advice`](crate::error_advice), which says what to do about an error, know error codes.

use kerf_runtime::client::describe;

/// The code of a call that got no answer from the service.
pub const NO_ANSWER: &str = "RequestError";
/// The code of a call that took too long.
pub const TIMEOUT: &str = "RequestTimeout";

/// An error as an AWS API answers it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// The service's error code.
    pub code: String,
    /// The service's message.
    pub message: String,
    /// Whether the service says that the fault is its own.
    pub server_fault: bool,
}

/// Codes that mean that the thing does not exist (AWS-390).
const NOT_FOUND: [&str; 7] = [
    "InvalidCapacityReservationId.NotFound",
    "InvalidInstanceID.NotFound",
    LAUNCH_TEMPLATE_NOT_FOUND,
    "InvalidLaunchTemplateId.NotFound",
    "QueueDoesNotExist",
    "NoSuchEntity",
    "ParameterNotFound",
];
/// Codes that mean that there is no capacity for a launch now (AWS-391).
const UNFULFILLABLE: [&str; 8] = [
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    SUBNET_FULL,
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
];
/// Codes of launches that cannot succeed with the class as it is.
const REFUSED_CLASS: [&str; 9] = [
    "InvalidAMIID.NotFound",
    "InvalidAMIID.Malformed",
    "InvalidAMIID.Unavailable",
    "InvalidGroup.NotFound",
    "InvalidSubnetID.NotFound",
    "InvalidSnapshot.NotFound",
    "InvalidBlockDeviceMapping",
    "InvalidPlacementGroup.Unknown",
    "InvalidKMSKey.InvalidState",
];
const DIFFERENT_NETWORKS: &str = "belong to different networks";
const LAUNCH_TEMPLATE_NOT_FOUND: &str = "InvalidLaunchTemplateName.NotFoundException";
const LAUNCH_TEMPLATE_NAME_TAKEN: &str = "InvalidLaunchTemplateName.AlreadyExistsException";
const SUBNET_FULL: &str = "InsufficientFreeAddressesInSubnet";
const SERVICE_LINKED_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
const USER_DATA_LIMIT: &str = "User data is limited to";

impl ApiError {
    /// An error with a code and a message.
    pub fn new(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
            server_fault: false,
        }
    }

    /// An object of the Kubernetes API cannot be used in a call. No AWS service has been asked.
    pub(crate) fn of_object(error: &kube::Error) -> Self {
        Self::new("InvalidObject", &describe(error))
    }

    /// Whether the thing asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        NOT_FOUND.contains(&self.code.as_str())
    }

    /// Whether the thing to create exists already.
    pub fn is_already_exists(&self) -> bool {
        self.code == "EntityAlreadyExists"
    }

    /// Whether a dry run would have succeeded.
    pub fn is_dry_run_success(&self) -> bool {
        self.code == "DryRunOperation"
    }

    /// Whether a permission is missing.
    pub fn is_unauthorized(&self) -> bool {
        self.code == "UnauthorizedOperation"
    }

    /// Whether a permission is missing, as every service but EC2 says it.
    pub fn is_access_denied(&self) -> bool {
        matches!(self.code.as_str(), "AccessDenied" | "AccessDeniedException")
    }

    /// Whether the call got no answer from the service.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.code.as_str(), NO_ANSWER | TIMEOUT)
    }

    /// Whether too many requests were made.
    pub fn is_rate_limited(&self) -> bool {
        self.code == "RequestLimitExceeded"
    }

    /// Whether the cause is the number of calls, the service or the network, so that the same call for fewer ids would fail as well.
    pub fn is_about_no_id(&self) -> bool {
        self.is_rate_limited() || self.is_unanswered() || self.server_fault
    }

    /// Whether the service may have done what the call asked for: this is the error of its last try, and the answer of an earlier one may be lost.
    pub fn may_be_done(&self) -> bool {
        self.is_about_no_id()
    }

    /// Whether the launch template of a fleet is gone (AWS-159).
    pub fn is_launch_template_not_found(&self) -> bool {
        self.code == LAUNCH_TEMPLATE_NOT_FOUND
    }

    /// Whether a launch template of this name exists already (AWS-157).
    pub fn is_launch_template_name_taken(&self) -> bool {
        self.code == LAUNCH_TEMPLATE_NAME_TAKEN
    }

    /// Whether EC2 does not see a new instance profile yet (AWS-392).
    pub fn is_profile_not_visible(&self) -> bool {
        self.code == "InvalidParameterValue" && self.message.contains("Invalid IAM Instance Profile name")
    }

    /// Whether the user data is larger than EC2 takes (AWS-079).
    pub fn is_user_data_too_large(&self) -> bool {
        self.code == "InvalidUserData.Malformed" && self.message.contains(USER_DATA_LIMIT)
    }

    /// Whether IAM says that the role, and not the profile, does not exist (AWS-094).
    pub fn is_role_not_found(&self) -> bool {
        self.code == "NoSuchEntity" && self.message.to_lowercase().contains("role")
    }

    /// Whether subnet and security group of a launch are of different VPCs.
    pub fn is_of_different_networks(&self) -> bool {
        self.code.starts_with("InvalidParameter") && self.message.contains(DIFFERENT_NETWORKS)
    }

    /// Whether EC2 refuses every launch of the class until the class, or what it names, is changed. Errors about one instance type or
    /// one moment are not among these.
    pub fn is_refused_class(&self) -> bool {
        REFUSED_CLASS.contains(&self.code.as_str()) || self.is_of_different_networks()
    }

    /// Whether there is no capacity for the launch now.
    pub fn is_unfulfillable(&self) -> bool {
        UNFULFILLABLE.contains(&self.code.as_str())
    }

    /// Whether spot instances cannot be launched because the account lacks their service-linked role.
    pub fn is_service_linked_role_missing(&self) -> bool {
        self.code == SERVICE_LINKED_ROLE
    }

    /// Whether the subnet has no free addresses.
    pub fn is_subnet_full(&self) -> bool {
        self.code == SUBNET_FULL
    }

    /// Whether a spread placement group has as many instances in the zone as it may have. The code is that of missing capacity (AWS-503).
    pub fn is_spread_limit(&self) -> bool {
        self.message
            .contains("limit of instances in this spread placement group")
    }
}

/// Reason and message of a failed launch, for the claim's condition and the metric (AWS-413).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchFailureReason {
    /// The condition's reason.
    pub reason: &'static str,
    /// The condition's message.
    pub message: &'static str,
}

const fn because(reason: &'static str, message: &'static str) -> LaunchFailureReason {
    LaunchFailureReason { reason, message }
}

/// Classifies the text of a launch error; the first rule that matches decides (AWS-393 to AWS-412). Rules about capacity come last, because
/// a launch that failed for capacity alone is reported as such elsewhere.
pub fn classify(text: &str) -> LaunchFailureReason {
    let has = |part: &str| text.contains(part);
    if has(SERVICE_LINKED_ROLE) {
        return because(
            "SpotSLRCreationFailed",
            "spot instances need the service-linked role for EC2 Spot, which may not be created",
        );
    }
    if ["UnauthorizedOperation", "AccessDenied", "AuthFailure"]
        .into_iter()
        .any(has)
    {
        return unauthorized(text);
    }
    if has("InvalidParameter") && has(DIFFERENT_NETWORKS) {
        return because(
            "SecurityGroupSubnetVPCMismatch",
            "security groups and subnets are of different VPCs",
        );
    }
    let table = [
        (
            "iamInstanceProfile.name is invalid",
            "InstanceProfileNameInvalid",
            "the instance profile in the status of the EC2NodeClass does not exist",
        ),
        (
            "InvalidLaunchTemplateId.NotFound",
            "LaunchTemplateNotFound",
            "the launch template does not exist",
        ),
        (
            USER_DATA_LIMIT,
            "UserDataSizeLimitExceeded",
            "the user data is larger than EC2 allows",
        ),
        ("InvalidAMIID.Malformed", "InvalidAMIID", "the image id is not valid"),
        (
            "InvalidAMIID.NotFound",
            "AMINotFound",
            "the image does not exist or is not shared with this account",
        ),
        (
            "RequestLimitExceeded",
            "RequestLimitExceeded",
            "too many requests to EC2",
        ),
        ("InternalError", "InternalError", "EC2 had an internal error"),
        (
            "not eligible for Free Tier",
            "FreeTierIneligible",
            "the instance type is not part of the account's free tier",
        ),
        (
            "MaxFleetCountExceeded",
            "FleetQuotaExceeded",
            "the account's quota of fleets is used up",
        ),
        (
            "PendingVerification",
            "AccountPendingVerification",
            "the account is still being verified for this region",
        ),
        (
            "MaxSpotInstanceCountExceeded",
            "SpotQuotaExceeded",
            "the account's quota of spot instances is used up",
        ),
        (
            "VcpuLimitExceeded",
            "VCPULimitExceeded",
            "the account's quota of vCPUs is used up",
        ),
        (SUBNET_FULL, SUBNET_FULL, "the subnet has no free addresses"),
    ];
    let found = table.into_iter().find(|(part, _, _)| has(part));
    found.map_or(
        because("LaunchFailed", "the instance could not be launched"),
        |(_, reason, message)| because(reason, message),
    )
}

/// The rules for denied calls. Log parsers rely on the ends of the messages (AWS-414).
fn unauthorized(text: &str) -> LaunchFailureReason {
    if text.contains("with an explicit deny in a permissions boundary") {
        because("Unauthorized", "the call is denied due to a permission boundary")
    } else if text.contains("with an explicit deny in a service control policy") {
        because("Unauthorized", "the call is denied due to a service control policy")
    } else if text.contains("Not authorized for images") {
        because("AMIAuthorizationFailure", "the image may not be used by this account")
    } else {
        because(
            "Unauthorized",
            "the call is denied because no identity-based policy allows it",
        )
    }
}
