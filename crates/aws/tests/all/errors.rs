//! Error codes and the classification of launch errors.

use kerf_aws::error_advice::{advice, condition_reason, explain};
use kerf_aws::errors::{ApiError, classify};

// AWS-390, AWS-504
#[test]
fn not_found_is_a_fixed_list_of_codes() {
    let not_found = |code: &str| ApiError::new(code, "").is_not_found();
    for code in [
        "InvalidCapacityReservationId.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "QueueDoesNotExist",
        "NoSuchEntity",
        "ParameterNotFound",
    ] {
        assert!(not_found(code), "{code}");
    }
    for code in [
        "ResourceNotFoundException",
        "InvalidPlacementGroup.Unknown",
        "InvalidInstanceID.Malformed",
    ] {
        assert!(!not_found(code), "{code}");
    }
    assert!(ApiError::new("EntityAlreadyExists", "").is_already_exists());
}

// AWS-391
#[test]
fn missing_capacity_has_eight_codes() {
    for code in [
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "InsufficientFreeAddressesInSubnet",
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
    ] {
        assert!(ApiError::new(code, "").is_unfulfillable(), "{code}");
    }
    for code in [
        "RequestLimitExceeded",
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    ] {
        assert!(!ApiError::new(code, "").is_unfulfillable(), "{code}");
    }
}

// AWS-392, AWS-503, AWS-094
#[test]
fn some_errors_are_known_by_code_and_message() {
    assert!(ApiError::new("RequestLimitExceeded", "").is_rate_limited());
    assert!(ApiError::new("DryRunOperation", "").is_dry_run_success());
    assert!(ApiError::new("UnauthorizedOperation", "").is_unauthorized());
    assert!(
        ApiError::new(
            "InvalidParameterValue",
            "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
        )
        .is_profile_not_visible()
    );
    assert!(!ApiError::new("InvalidParameterValue", "bad subnet").is_profile_not_visible());
    let limit = "You've reached the limit of instances in this spread placement group.";
    let spread = ApiError::new("InsufficientInstanceCapacity", limit);
    assert!(spread.is_spread_limit() && spread.is_unfulfillable());
    assert!(ApiError::new("NoSuchEntity", "The role with name x cannot be found.").is_role_not_found());
    assert!(ApiError::new("NoSuchEntity", "Role x not found").is_role_not_found());
    assert!(!ApiError::new("NoSuchEntity", "Instance Profile x cannot be found.").is_role_not_found());
}

#[test]
fn launch_errors_are_classified_by_the_first_rule_that_matches() {
    let denied = "UnauthorizedOperation: You are not authorized";
    for (text, reason) in [
        // AWS-394
        (
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted: no".to_owned(),
            "SpotSLRCreationFailed",
        ),
        // AWS-395
        (
            format!("{denied} with an explicit deny in a permissions boundary"),
            "Unauthorized",
        ),
        // AWS-396
        (
            format!("{denied} with an explicit deny in a service control policy"),
            "Unauthorized",
        ),
        // AWS-397
        (
            "AuthFailure: Not authorized for images: [ami-1]".to_owned(),
            "AMIAuthorizationFailure",
        ),
        // AWS-398
        (denied.to_owned(), "Unauthorized"),
        ("AccessDenied: no".to_owned(), "Unauthorized"),
        // AWS-399
        (
            "InvalidParameter: Security group sg-1 and subnet subnet-1 belong to different networks.".to_owned(),
            "SecurityGroupSubnetVPCMismatch",
        ),
        // AWS-400
        (
            "InvalidParameterValue: Value (x) for parameter iamInstanceProfile.name is invalid".to_owned(),
            "InstanceProfileNameInvalid",
        ),
        // AWS-401
        (
            "InvalidLaunchTemplateId.NotFound: x".to_owned(),
            "LaunchTemplateNotFound",
        ),
        // AWS-402
        (
            "InvalidUserData.Malformed: User data is limited to 16384 bytes".to_owned(),
            "UserDataSizeLimitExceeded",
        ),
        // AWS-403
        ("InvalidAMIID.Malformed: x".to_owned(), "InvalidAMIID"),
        ("InvalidAMIID.NotFound: x".to_owned(), "AMINotFound"),
        // AWS-404
        ("RequestLimitExceeded: x".to_owned(), "RequestLimitExceeded"),
        // AWS-405
        ("InternalError: x".to_owned(), "InternalError"),
        // AWS-406
        (
            "InvalidParameterCombination: not eligible for Free Tier".to_owned(),
            "FreeTierIneligible",
        ),
        // AWS-407
        ("MaxFleetCountExceeded: x".to_owned(), "FleetQuotaExceeded"),
        // AWS-408
        ("PendingVerification: x".to_owned(), "AccountPendingVerification"),
        // AWS-409
        ("MaxSpotInstanceCountExceeded: x".to_owned(), "SpotQuotaExceeded"),
        // AWS-410
        ("VcpuLimitExceeded: x".to_owned(), "VCPULimitExceeded"),
        // AWS-411
        (
            "InsufficientFreeAddressesInSubnet: x".to_owned(),
            "InsufficientFreeAddressesInSubnet",
        ),
        // AWS-412
        ("SomethingElse: x".to_owned(), "LaunchFailed"),
        // AWS-393: several errors in one text.
        (
            "VcpuLimitExceeded: x; RequestLimitExceeded: y".to_owned(),
            "RequestLimitExceeded",
        ),
    ] {
        assert_eq!(classify(&text).reason, reason, "{text}");
        // AWS-413
        assert!(!classify(&text).message.is_empty());
    }
}

// AWS-414
#[test]
fn denied_calls_name_what_denies_them() {
    let message = |text: &str| classify(&format!("UnauthorizedOperation: {text}")).message;
    assert!(message("with an explicit deny in a permissions boundary").ends_with("due to a permission boundary"));
    assert!(message("with an explicit deny in a service control policy").ends_with("due to a service control policy"));
    assert!(message("").ends_with("because no identity-based policy allows it"));
}

#[test]
fn errors_of_access_say_what_to_do() {
    for (code, message, remedy) in [
        (
            "ExpiredToken",
            "The security token included in the request is expired",
            "renew the session token",
        ),
        (
            "ExpiredTokenException",
            "The security token included in the request is expired",
            "renew the session token",
        ),
        ("RequestExpired", "Request has expired.", "clock"),
        (
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            "clock",
        ),
        (
            "InvalidSignatureException",
            "Signature expired: 20260101T000000Z is now earlier than 20260101T001500Z",
            "clock",
        ),
        (
            "SignatureDoesNotMatch",
            "Signature not yet current: 20260101T001500Z",
            "clock",
        ),
        (
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match",
            "access key",
        ),
        (
            "AuthFailure",
            "AWS was not able to validate the provided access credentials",
            "AWS_REGION",
        ),
        (
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
            "access key",
        ),
        (
            "InvalidClientTokenId",
            "The security token included in the request is invalid.",
            "access key",
        ),
        (
            "OptInRequired",
            "You are not subscribed to this service.",
            "enable the region",
        ),
        (
            "AccessDenied",
            "User is not authorized to perform: iam:CreateInstanceProfile",
            "kerf manifests --iam",
        ),
        (
            "ResourceNotFoundException",
            "No cluster found for name: x.",
            "--cluster-name",
        ),
        (
            "RequestError",
            "dispatch failure: no providers in chain provided credentials",
            "EKS Pod Identity",
        ),
        (
            "RequestError",
            "dispatch failure: dns error: failed to lookup address information",
            "AWS_REGION and DNS",
        ),
        ("RequestError", "dispatch failure: Connection refused", "NAT gateway"),
        ("RequestTimeout", "operation timed out", "NAT gateway"),
        (
            "InvalidParameter",
            "Security group sg-1 and subnet s-1 belong to different networks.",
            "select one VPC",
        ),
        ("NoSuchEntity", "The role with name x cannot be found.", "spec.role"),
        (
            "InvalidParameterValue",
            "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
            "spec.instanceProfile",
        ),
        (
            "InvalidAMIID.NotFound",
            "The image id '[ami-1]' does not exist",
            "spec.amiSelectorTerms",
        ),
        (
            "InvalidBlockDeviceMapping",
            "Volume of size 1GB is smaller than snapshot 'snap-1', expect size >= 20GB",
            "spec.blockDeviceMappings",
        ),
    ] {
        let error = ApiError::new(code, message);
        let text = explain(&error);
        assert!(advice(&error).is_some_and(|advice| advice.contains(remedy)), "{text}");
        assert!(
            text.starts_with(code) && text.contains(remedy) && !text.contains('\n'),
            "{text}"
        );
    }
    let large = ApiError::new("InvalidUserData.Malformed", "User data is limited to 16384 bytes");
    assert!(
        explain(&large).ends_with("; shorten spec.userData"),
        "{}",
        explain(&large)
    );
    assert_eq!(explain(&ApiError::new("Odd", "Something.")), "Odd: Something");
}

// AWS-087
#[test]
fn a_denied_call_is_explained_in_the_same_words_each_time() {
    let denied = |secret: &str| {
        let text = format!("You are not authorized. Encoded authorization failure message: {secret}");
        explain(&ApiError::new("UnauthorizedOperation", &text))
    };
    assert_eq!(denied("abc"), denied("def"));
    // Each try names a new profile.
    for (code, because) in [
        (
            "AccessDenied",
            " because no identity-based policy allows the iam:CreateInstanceProfile action",
        ),
        ("AccessDenied", " with an explicit deny in a service control policy"),
        ("AccessDeniedException", ""),
    ] {
        let denied = |resource: &str| {
            let user = "User: arn:aws:sts::111122223333:assumed-role/kerf/pod is not authorized to perform";
            let text = format!("{user}: iam:CreateInstanceProfile on resource: {resource}{because}");
            explain(&ApiError::new(code, &text))
        };
        let first = denied("arn:aws:iam::111122223333:instance-profile/karpenter/us-east-1/kerf_123");
        assert_eq!(first, denied("instance profile kerf_456"));
        let kept = ["iam:CreateInstanceProfile", because, "kerf manifests --iam"];
        assert!(kept.iter().all(|part| first.contains(part)), "{first}");
    }
    // The message has the time.
    for (code, text) in [
        ("RequestExpired", "Request has expired. Timestamp date is TIME"),
        (
            "SignatureDoesNotMatch",
            "Signature expired: TIME is now earlier than TIME",
        ),
        (
            "InvalidSignatureException",
            "Signature not yet current: TIME is still later than TIME",
        ),
    ] {
        let at = |time: &str| explain(&ApiError::new(code, &text.replace("TIME", time)));
        assert_eq!(at("20260101T000000Z"), at("20260101T000100Z"));
    }
    let code = |code: &str| condition_reason(&ApiError::new(code, ""));
    assert_eq!(code("InvalidGroup.NotFound"), "InvalidGroupNotFound");
    assert_eq!(code("503"), "Error503");
}

#[test]
fn what_one_type_or_moment_may_cause_refuses_no_class() {
    let refused = |code: &str, message: &str| ApiError::new(code, message).is_refused_class();
    assert!(refused("InvalidGroup.NotFound", "") && refused("InvalidAMIID.NotFound", ""));
    assert!(refused("InvalidBlockDeviceMapping", ""));
    assert!(refused(
        "InvalidParameter",
        "sg-1 and subnet-1 belong to different networks."
    ));
    for code in [
        "InvalidParameterValue",
        "InvalidParameterCombination",
        "InvalidLaunchTemplateName.NotFoundException",
        "InsufficientInstanceCapacity",
        "RequestLimitExceeded",
        "AuthFailure",
    ] {
        assert!(!refused(code, ""), "{code}");
    }
}
