//! What to do about an error of AWS, and how a condition of a class reports it.

use crate::errors::{ApiError, NO_ANSWER, TIMEOUT, classify};

/// Marks the part of a message that is different in each answer.
const ENCODED: &str = "Encoded authorization failure message";
/// Begins the part of a message of IAM that names what the call was about: a name that may be another one at each try.
const RESOURCE: &str = " on resource: ";
/// What follows the resource: why the call is denied.
const DENIED_BECAUSE: [&str; 2] = [" because ", " with an explicit deny"];

const EXPIRED: &str =
    "renew the session token, or use EKS Pod Identity or IAM roles for service accounts, which renew it";
const CLOCK: &str = "set the clock of this machine right: AWS takes signatures of the last few minutes only";
const CALLER: &str = "check access key, secret, session token, AWS_REGION and the clock of this machine";
const DENIED: &str = "allow it to the controller's role; `kerf manifests --iam` prints the policy";
const CREDENTIALS: &str =
    "use EKS Pod Identity, IAM roles for service accounts, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
const NAMES: &str = "check AWS_REGION and DNS";
const ROUTE: &str = "check the route to AWS: NAT gateway or VPC endpoints, proxy, security groups, DNS";

/// Advice by code of the error.
const BY_CODE: [(&str, &str); 26] = [
    ("ExpiredToken", EXPIRED),
    ("ExpiredTokenException", EXPIRED),
    ("RequestExpired", CLOCK),
    ("RequestTimeTooSkewed", CLOCK),
    ("RequestInTheFuture", CLOCK),
    ("AuthFailure", CALLER),
    ("InvalidClientTokenId", CALLER),
    ("UnrecognizedClientException", CALLER),
    ("IncompleteSignature", CALLER),
    (
        "OptInRequired",
        "enable the region for this account, or set AWS_REGION to another one",
    ),
    ("UnauthorizedOperation", DENIED),
    ("AccessDenied", DENIED),
    ("AccessDeniedException", DENIED),
    (TIMEOUT, ROUTE),
    (
        "InvalidAMIID.NotFound",
        "correct spec.amiSelectorTerms, or share the image with this account",
    ),
    ("InvalidAMIID.Malformed", "correct spec.amiSelectorTerms"),
    ("InvalidAMIID.Unavailable", "correct spec.amiSelectorTerms"),
    ("InvalidGroup.NotFound", "correct spec.securityGroupSelectorTerms"),
    ("InvalidSubnetID.NotFound", "correct spec.subnetSelectorTerms"),
    (
        "InvalidSnapshot.NotFound",
        "correct snapshotID in spec.blockDeviceMappings",
    ),
    ("InvalidBlockDeviceMapping", "correct spec.blockDeviceMappings"),
    ("InvalidPlacementGroup.Unknown", "correct spec.placementGroupSelector"),
    ("InvalidUserData.Malformed", "correct spec.userData"),
    (
        "InvalidKMSKey.InvalidState",
        "correct kmsKeyID in spec.blockDeviceMappings, or enable the key",
    ),
    (
        "QueueDoesNotExist",
        "create the queue, or correct --interruption-queue and AWS_REGION",
    ),
    ("ResourceNotFoundException", "check --cluster-name and AWS_REGION"),
];

/// What to do about an error, if that is known.
pub fn advice(error: &ApiError) -> Option<&'static str> {
    let text = error.message.as_str();
    if error.code == NO_ANSWER {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        return Some(if has(&["credential"]) {
            CREDENTIALS
        } else if has(&["dns error", "lookup address", "Name or service not known"]) {
            NAMES
        } else {
            ROUTE
        });
    }
    if matches!(
        error.code.as_str(),
        "SignatureDoesNotMatch" | "InvalidSignatureException"
    ) {
        let is_late = text.contains("expired") || text.contains("not yet") || text.contains("not valid yet");
        return Some(if is_late { CLOCK } else { CALLER });
    }
    if error.is_role_not_found() {
        return Some("create the role, or correct spec.role");
    }
    if error.is_user_data_too_large() {
        return Some("shorten spec.userData");
    }
    if error.is_profile_not_visible() {
        return Some("create the instance profile, or correct spec.instanceProfile");
    }
    if error.is_of_different_networks() {
        return Some("let spec.securityGroupSelectorTerms and spec.subnetSelectorTerms select one VPC");
    }
    let found = BY_CODE.iter().find(|(code, _)| *code == error.code);
    found.map(|(_, advice)| *advice)
}

/// An error as a condition or the line at start shows it: AWS's code, its message, and what to do. The same cause has the same words each
/// time, because a condition with other words would change at every retry. So what a denied call means stands for its message, the resource
/// of the call is left out, and of a clock that is wrong only the remedy is said: the message has the time.
pub fn explain(error: &ApiError) -> String {
    let advice = advice(error);
    if advice == Some(CLOCK) {
        return format!("{}: {CLOCK}", error.code);
    }
    let message = if error.is_unauthorized() || error.message.contains(ENCODED) {
        classify(&error.to_string()).message.to_owned()
    } else {
        without_resource(error)
    };
    let message = message.trim_end_matches('.');
    match advice {
        Some(advice) => format!("{}: {message}; {advice}", error.code),
        None => format!("{}: {message}", error.code),
    }
}

/// The message without the resource that a denied call names.
fn without_resource(error: &ApiError) -> String {
    let cut = error.message.split_once(RESOURCE).filter(|_| error.is_access_denied());
    let Some((before, after)) = cut else {
        return error.message.clone();
    };
    let because = DENIED_BECAUSE.iter().filter_map(|word| after.find(word)).min();
    let because = because.and_then(|at| after.get(at..)).unwrap_or_default();
    format!("{before}{because}")
}

/// AWS's code as the reason of a condition, which has letters and digits only.
pub fn condition_reason(error: &ApiError) -> String {
    let reason: String = error.code.chars().filter(char::is_ascii_alphanumeric).collect();
    if reason.starts_with(|first: char| first.is_ascii_alphabetic()) {
        reason
    } else {
        format!("Error{reason}")
    }
}
