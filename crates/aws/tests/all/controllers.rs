//! What controllers decide: conditions and validation of classes, batches, zonal shifts, facts about the cluster.

use crate::class::{class, resolved};
use crate::market::offering;
use jiff::{SignedDuration, Timestamp};
use kerf_api::AmiFamily;
use kerf_api::ec2_node_class::NodeClassAmi;
use kerf_aws::batch::{
    CREATE_FLEET, DESCRIBE_INSTANCES, FleetBucket, TERMINATE_INSTANCES, deal_described, deal_fleet, deal_terminated,
};
use kerf_aws::cluster::{ClusterVersion, cluster_cidr, is_ipv6};
use kerf_aws::errors::ApiError;
use kerf_aws::launch::{
    AllocationStrategy, FleetConfig, FleetError, FleetOutcome, FleetOverride, FleetRequest, TargetCapacity, Tenancy,
};
use kerf_aws::node_class::{
    ConditionType, DryRunStep, ReadyState, ValidationOutcome, candidate_types, condition_types, dependencies,
    dry_run_outcome, dry_run_tenancy, finding, ready, waiting_message,
};
use kerf_aws::zonal_shift::{Shift, Transition, ZonalShifts};
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::Interner;
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use serde_json::json;
use std::time::Duration;

// AWS-056, AWS-058
#[test]
fn a_class_is_ready_with_all_its_topics() {
    let names: Vec<&str> = condition_types(true).into_iter().map(ConditionType::as_str).collect();
    assert_eq!(
        names,
        [
            "AMIsReady",
            "CapacityReservationsReady",
            "PlacementGroupReady",
            "SubnetsReady",
            "SecurityGroupsReady",
            "InstanceProfileReady",
            "ValidationSucceeded",
        ]
    );
    assert_eq!(condition_types(false).len(), 6);
    let with = |changes: &[(ConditionType, Option<bool>)]| {
        let status = |kind: ConditionType| {
            let changed = changes.iter().find(|(changed, _)| *changed == kind);
            (kind, changed.map_or(Some(true), |(_, status)| *status))
        };
        ready(&condition_types(false).into_iter().map(status).collect::<Vec<_>>())
    };
    assert_eq!(with(&[]), ReadyState::True);
    let no = (ConditionType::Validation, Some(false));
    assert_eq!(with(&[no]), ReadyState::False("ValidationSucceeded=False".to_owned()));
    let two = [no, (ConditionType::Amis, None)];
    assert_eq!(
        with(&two),
        ReadyState::False("ValidationSucceeded=False, AMIsReady=Unknown".to_owned())
    );
    assert_eq!(with(&two[1..]), ReadyState::Unknown("AMIsReady=Unknown".to_owned()));
}

#[test]
fn findings_say_when_to_look_again() {
    use ConditionType::{Amis, CapacityReservations, PlacementGroup, SecurityGroups, Subnets};
    for (kind, count, ready, reason, minutes) in [
        // AWS-059
        (Amis, 1, true, "", 5),
        (Amis, 0, false, "AMINotFound", 1),
        // AWS-060
        (Subnets, 1, true, "", 1),
        (Subnets, 0, false, "SubnetsNotFound", 1),
        // AWS-061
        (SecurityGroups, 1, true, "", 5),
        (SecurityGroups, 0, false, "SecurityGroupsNotFound", 1),
        // AWS-063
        (CapacityReservations, 0, true, "", 1),
        // AWS-064
        (PlacementGroup, 0, false, "PlacementGroupNotFound", 1),
    ] {
        let finding = finding(kind, count);
        assert_eq!((finding.ready, finding.reason), (ready, reason), "{kind} {count}");
        assert_eq!(
            finding.again_after,
            SignedDuration::from_mins(minutes),
            "{kind} {count}"
        );
    }
}

// AWS-068
#[test]
fn a_deleted_class_names_the_claims_it_waits_for() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    assert_eq!(waiting_message(&[]), None);
    let five = waiting_message(&names[..5]).unwrap();
    assert!(five.ends_with("a, b, c, d, e"), "{five}");
    let seven = waiting_message(&names).unwrap();
    assert!(seven.ends_with("a, b, c, d, e and 2 other(s)"), "{seven}");
}

// AWS-070
#[test]
fn validation_waits_for_what_it_needs() {
    let all: Vec<(ConditionType, Option<bool>)> = condition_types(true)
        .into_iter()
        .map(|kind| (kind, Some(true)))
        .collect();
    let with = |kind: ConditionType, status: Option<bool>| {
        let mut changed = all.clone();
        changed
            .iter_mut()
            .filter(|(known, _)| *known == kind)
            .for_each(|entry| entry.1 = status);
        dependencies(&changed)
    };
    assert_eq!(dependencies(&all), Ok(()));
    for kind in [
        ConditionType::Amis,
        ConditionType::InstanceProfile,
        ConditionType::SecurityGroups,
        ConditionType::Subnets,
    ] {
        assert_eq!(with(kind, Some(false)), Err(Some(false)), "{kind}");
        assert_eq!(with(kind, None), Err(None), "{kind}");
    }
    assert_eq!(with(ConditionType::PlacementGroup, Some(false)), Ok(()));
    assert_eq!(with(ConditionType::CapacityReservations, Some(false)), Ok(()));
}

#[test]
fn answers_of_dry_runs_are_success_failure_or_another_try() {
    let outcome = |code: &str, message: &str| dry_run_outcome(DryRunStep::Fleet, Some(&ApiError::new(code, message)));
    assert_eq!(
        dry_run_outcome(DryRunStep::LaunchTemplate, None),
        ValidationOutcome::Succeeded
    );
    // AWS-077
    assert_eq!(outcome("DryRunOperation", ""), ValidationOutcome::Succeeded);
    assert_eq!(outcome("RequestLimitExceeded", ""), ValidationOutcome::Retry);
    let server = ApiError {
        server_fault: true,
        ..ApiError::new("InternalError", "")
    };
    assert_eq!(
        dry_run_outcome(DryRunStep::Fleet, Some(&server)),
        ValidationOutcome::Retry
    );
    assert_eq!(
        outcome("InvalidSubnet", "odd"),
        ValidationOutcome::Error("InvalidSubnet: odd".to_owned())
    );
    // AWS-078
    for (step, want) in [
        (DryRunStep::LaunchTemplate, "CreateLaunchTemplateAuthCheckFailed"),
        (DryRunStep::Fleet, "CreateFleetAuthCheckFailed"),
        (DryRunStep::Instances, "RunInstancesAuthCheckFailed"),
    ] {
        let denied = ApiError::new(
            "UnauthorizedOperation",
            "with an explicit deny in a service control policy",
        );
        let ValidationOutcome::Failed { reason, message } = dry_run_outcome(step, Some(&denied)) else {
            panic!("it is denied");
        };
        assert_eq!(reason, want);
        assert!(message.ends_with("due to a service control policy"), "{message}");
    }
    // AWS-079
    let large = outcome("InvalidUserData.Malformed", "User data is limited to 16384 bytes");
    assert!(matches!(
        large,
        ValidationOutcome::Failed {
            reason: "UserDataSizeLimitExceeded",
            ..
        }
    ));
    assert!(matches!(
        outcome("InvalidUserData.Malformed", "bad base64"),
        ValidationOutcome::Error(_)
    ));
    // AWS-080
    let invisible = outcome("InvalidParameterValue", "Invalid IAM Instance Profile name");
    assert_eq!(invisible, ValidationOutcome::Retry);
}

fn amis(gpu_first: bool) -> Vec<NodeClassAmi> {
    let arch = |name: &str| json!({"key": "kubernetes.io/arch", "operator": "In", "values": [name]});
    let gpu = json!({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"});
    let no_gpu = json!({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"});
    let mut list = vec![
        json!({"id": "ami-gpu", "requirements": [arch("amd64"), gpu]}),
        json!({"id": "ami-amd", "requirements": [arch("amd64"), no_gpu]}),
    ];
    if gpu_first {
        list.truncate(1);
    }
    serde_json::from_value(list.into()).unwrap()
}

// AWS-082, AWS-083, AWS-084
#[test]
fn dry_runs_use_a_type_of_the_pools_with_an_ordinary_image() {
    let interner = Interner::default();
    let class = class(json!({}));
    let kinds: Vec<InstanceType> = ["g5.xlarge", "c5.large", "m5.large", "m6g.large"]
        .map(|name| {
            let mut kind = resolved(name, &class, &interner);
            kind.offerings = vec![offering(&interner, "a", "on-demand", 0.1)];
            kind
        })
        .into();
    let family = |names: &[&str]| {
        let key = interner.intern("karpenter.k8s.aws/instance-family");
        let values = names.iter().map(|name| interner.intern(name));
        Requirements::from_all([Requirement::any_of(key, values)], &interner)
    };
    let names = |pools: &[Requirements], ami_family, amis: &[NodeClassAmi]| -> Vec<&str> {
        let candidates = candidate_types(&kinds, pools, ami_family, amis, &interner);
        candidates.iter().map(|kind| interner.text(kind.name)).collect()
    };
    let al2023 = AmiFamily::Al2023;
    assert_eq!(names(&[family(&["g5", "c5"])], al2023, &amis(false)), ["c5.large"]);
    assert_eq!(names(&[family(&["g5"])], al2023, &amis(false)), ["g5.xlarge"]);
    assert_eq!(
        names(&[family(&["c5"]), family(&["m5"])], al2023, &amis(false)),
        ["c5.large", "m5.large"]
    );
    // No pool, or Windows: stand-ins.
    assert_eq!(names(&[], al2023, &amis(false)), ["m5.large"]);
    assert_eq!(
        names(&[family(&["c5"])], AmiFamily::Windows2022, &amis(false)),
        ["m5.large"]
    );
    assert_eq!(names(&[family(&["g5"])], al2023, &amis(true)), ["g5.xlarge"]);
}

// AWS-085
#[test]
fn dry_runs_use_dedicated_hardware_if_a_pool_allows_it() {
    let interner = Interner::default();
    let key = interner.intern("karpenter.k8s.aws/instance-tenancy");
    let pool = |values: &[&str]| {
        let values = values.iter().map(|value| interner.intern(value));
        Requirements::from_all([Requirement::any_of(key, values)], &interner)
    };
    assert_eq!(dry_run_tenancy(&[], &interner), Tenancy::Default);
    assert_eq!(dry_run_tenancy(&[pool(&["default"])], &interner), Tenancy::Default);
    assert_eq!(
        dry_run_tenancy(&[pool(&["default"]), pool(&["default", "dedicated"])], &interner),
        Tenancy::Dedicated
    );
}

// AWS-265, AWS-375
#[test]
fn a_window_closes_when_idle_full_or_old() {
    let millis = Duration::from_millis;
    assert_eq!(CREATE_FLEET.closes_after(millis(10), 2), millis(45));
    assert_eq!(CREATE_FLEET.closes_after(millis(990), 2), millis(1000));
    assert_eq!(CREATE_FLEET.closes_after(millis(10), 1000), millis(10));
    assert_eq!(DESCRIBE_INSTANCES.closes_after(millis(10), 2), millis(110));
    let names = [CREATE_FLEET.name, DESCRIBE_INSTANCES.name, TERMINATE_INSTANCES.name];
    assert_eq!(names, ["create_fleet", "describe_instances", "terminate_instances"]);
    assert_eq!((DESCRIBE_INSTANCES.items, TERMINATE_INSTANCES.items), (500, 500));
}

fn request(types: &[&str], context: Option<&str>) -> FleetRequest {
    let overrides = types.iter().map(|name| FleetOverride {
        instance_type: (*name).to_owned(),
        zone: "us-east-1a".to_owned(),
        subnet_id: None,
        image_id: "ami-1".to_owned(),
        priority: Price::ZERO,
    });
    FleetRequest {
        configs: vec![FleetConfig {
            template_name: "one".to_owned(),
            overrides: overrides.collect(),
        }],
        target: TargetCapacity::Spot,
        strategy: AllocationStrategy::PriceCapacityOptimized,
        tags: Vec::new(),
        context: context.map(str::to_owned),
    }
}

// AWS-266
#[test]
fn equal_fleet_requests_share_a_call() {
    let bucket = |types: &[&str], context| FleetBucket::new(&request(types, context));
    assert_eq!(bucket(&["a", "b"], None), bucket(&["b", "a"], None));
    assert_ne!(bucket(&["a", "b"], None), bucket(&["a"], None));
    assert_ne!(bucket(&["a"], None), bucket(&["a"], Some("x")));
    assert_eq!(bucket(&["a"], None).request().configs.len(), 1);
}

fn fleet_instance(id: &str) -> FleetOutcome {
    FleetOutcome {
        instance_id: id.to_owned(),
        instance_type: "m5.large".to_owned(),
        image_id: "ami-1".to_owned(),
        zone: "us-east-1a".to_owned(),
        subnet_id: None,
    }
}

// AWS-266, AWS-267, AWS-270
#[test]
fn instances_of_a_fleet_are_dealt_one_to_each_caller() {
    let error = FleetError {
        error: ApiError::new("InsufficientInstanceCapacity", ""),
        instance_type: "m5.large".to_owned(),
        zone: "us-east-1a".to_owned(),
        subnet_id: None,
    };
    let instances = || vec![fleet_instance("i-1"), fleet_instance("i-2")];
    let (shares, surplus) = deal_fleet(3, instances(), std::slice::from_ref(&error));
    let seen: Vec<_> = shares
        .iter()
        .map(|share| {
            (
                share.instance.as_ref().map(|one| one.instance_id.as_str()),
                share.errors.len(),
            )
        })
        .collect();
    assert_eq!(seen, [(Some("i-1"), 1), (Some("i-2"), 1), (None, 1)]);
    assert!(surplus.is_empty());
    let (shares, _) = deal_fleet(3, instances(), &[]);
    assert_eq!(shares[0].errors.len(), 0);
    assert!(
        shares[2].errors[0]
            .error
            .to_string()
            .contains("too few instances returned")
    );
    let (_, surplus) = deal_fleet(1, instances(), &[]);
    assert_eq!(surplus, ["i-2"]);
}

// AWS-268, AWS-269
#[test]
fn what_a_merged_call_does_not_answer_is_asked_alone() {
    let ids = ["i-1", "i-2", "i-2", "i-3"].map(str::to_owned);
    let described = deal_described(&ids, [("i-1".to_owned(), 1), ("i-9".to_owned(), 9)]);
    assert_eq!(described.alone, ["i-2", "i-3"]);
    assert_eq!(described.answered.len(), 1);
    assert_eq!(deal_described::<u8>(&ids, []).alone.len(), 3);
    let state = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    let ended = deal_terminated(
        &ids,
        [
            state("i-1", "shutting-down"),
            state("i-2", "running"),
            state("i-3", "terminated"),
        ],
    );
    assert_eq!(ended.alone, ["i-2"]);
}

// AWS-330
#[test]
fn zones_are_shifted_while_a_shift_is_applied() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let shift = |zone: &str, minutes: i64, applied: bool| Shift {
        zone_id: zone.to_owned(),
        expires: now + SignedDuration::from_mins(minutes),
        applied,
    };
    let mut shifts = ZonalShifts::default();
    shifts.report(&[shift("az1", 10, true), shift("az2", 10, false)]);
    shifts.report(&[shift("az3", 5, true)]);
    let shifted = |shifts: &ZonalShifts, minutes: i64| -> Vec<String> {
        shifts
            .shifted(now + SignedDuration::from_mins(minutes))
            .into_iter()
            .collect()
    };
    assert_eq!(shifted(&shifts, 0), ["az1", "az3"]);
    assert_eq!(shifted(&shifts, 5), ["az1"]);
    shifts.report(&[]);
    assert_eq!(shifted(&shifts, 0), Vec::<String>::new());
}

// AWS-332
#[test]
fn a_transition_is_published_once() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut shifts = ZonalShifts::default();
    shifts.report(&[Shift {
        zone_id: "az1".to_owned(),
        expires: now + SignedDuration::from_mins(1),
        applied: true,
    }]);
    let active = Transition::Active("az1".to_owned());
    assert_eq!(shifts.transitions(now), std::slice::from_ref(&active));
    // Publishing failed: it is due again.
    assert_eq!(shifts.transitions(now), std::slice::from_ref(&active));
    shifts.published(&active);
    assert_eq!(shifts.transitions(now), []);
    let later = now + SignedDuration::from_mins(2);
    let cleared = Transition::Cleared("az1".to_owned());
    assert_eq!(shifts.transitions(later), std::slice::from_ref(&cleared));
    shifts.published(&cleared);
    assert_eq!(shifts.transitions(later), []);
}

// AWS-335
#[test]
fn versions_of_the_cluster() {
    for (text, want) in [
        ("1.33", Some("1.33")),
        ("1.33+", Some("1.33")),
        ("1.33.0", Some("1.33")),
        ("one", None),
    ] {
        let version = ClusterVersion::parse(text).as_ref().map(ToString::to_string);
        assert_eq!(version.as_deref(), want, "{text}");
    }
    for (text, supported) in [
        ("1.25", false),
        ("1.26", true),
        ("1.36", true),
        ("1.37", false),
        ("2.30", false),
    ] {
        assert_eq!(ClusterVersion::parse(text).unwrap().is_supported(), supported, "{text}");
    }
}

// AWS-336, AWS-172
#[test]
fn addresses_of_the_cluster() {
    assert_eq!(
        cluster_cidr(Some("10.0.0.0/16"), Some("fd00::/64")),
        Some("10.0.0.0/16")
    );
    assert_eq!(cluster_cidr(Some(""), Some("fd00::/64")), Some("fd00::/64"));
    assert_eq!(cluster_cidr(None, None), None);
    assert!(is_ipv6(Some("fd00::a")) && !is_ipv6(Some("10.0.0.10")) && !is_ipv6(None));
}
