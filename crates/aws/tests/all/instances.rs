//! Instances as EC2 describes them, drift, garbage, and reservations.

use crate::class::{class, class_with_status, resolved};
use jiff::{SignedDuration, Timestamp};
use kerf_api::NodeClaim;
use kerf_aws::drift::{CurrentGroup, Drift, DriftClaim, DriftError, DriftInstance, instance_drift, static_drift};
use kerf_aws::instance::{DescribedInstance, Instance, LIVE_STATES, launched, list_query};
use kerf_aws::offering::CapacityType;
use kerf_aws::orphans::orphans;
use kerf_aws::reservation::{
    DescribedReservation, ReservationCounts, demoted_labels, is_expiring, requeue_after, status_reservation, usable,
};
use kerf_aws::tags::{Tags, launch_tags};
use kerf_model::intern::Interner;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn described(change: impl FnOnce(&mut DescribedInstance)) -> DescribedInstance {
    let mut described = DescribedInstance {
        id: "i-1".to_owned(),
        state: "running".to_owned(),
        state_reason: None,
        instance_type: "m5.large".to_owned(),
        image_id: "ami-1".to_owned(),
        zone: "us-east-1a".to_owned(),
        zone_id: None,
        launched: now() - SignedDuration::from_mins(10),
        tags: launch_tags(None, "prod", "default", "nodes"),
        spot_request_id: None,
        lifecycle: String::new(),
        reservation_id: None,
        reservation_preference: None,
        tenancy: String::new(),
        interface_types: vec!["interface".to_owned()],
        partition: 0,
        subnet_id: "subnet-a".to_owned(),
        security_group_ids: BTreeSet::from(["sg-1".to_owned()]),
    };
    change(&mut described);
    described
}

fn instance(change: impl FnOnce(&mut DescribedInstance)) -> Instance {
    Instance::new(described(change), true)
}

// AWS-258
#[test]
fn terminated_instances_do_not_exist() {
    assert_eq!(
        LIVE_STATES,
        ["pending", "running", "stopping", "stopped", "shutting-down"]
    );
    assert!(instance(|one| one.state = "shutting-down".to_owned()).is_terminating());
    assert!(!instance(|one| one.state = "stopping".to_owned()).is_terminating());
}

// AWS-260
#[test]
fn instances_are_listed_by_the_tags_of_the_cluster() {
    let query: Vec<String> = list_query("prod")
        .iter()
        .map(|filter| format!("{}={}", filter.name, filter.values.join(",")))
        .collect();
    assert_eq!(
        query,
        [
            "tag-key=karpenter.sh/nodepool",
            "tag-key=karpenter.k8s.aws/ec2nodeclass",
            "tag:eks:eks-cluster-name=prod",
            "instance-state-name=pending,running,stopping,stopped,shutting-down",
        ]
    );
}

// AWS-261, AWS-489
#[test]
fn how_an_instance_was_bought_shows_in_its_description() {
    let reserve = |one: &mut DescribedInstance, preference: &str| {
        one.reservation_id = Some("cr-1".to_owned());
        one.reservation_preference = Some(preference.to_owned());
    };
    assert_eq!(instance(|_| {}).capacity_type, CapacityType::OnDemand);
    let spot = instance(|one| one.spot_request_id = Some("sir-1".to_owned()));
    assert_eq!(spot.capacity_type, CapacityType::Spot);
    // The lifecycle alone says nothing.
    assert_eq!(
        instance(|one| one.lifecycle = "spot".to_owned()).capacity_type,
        CapacityType::OnDemand
    );
    let pinned = instance(|one| reserve(one, "capacity-reservations-only"));
    assert_eq!(pinned.capacity_type, CapacityType::Reserved);
    assert_eq!(pinned.reservation.as_ref().unwrap().reservation_type, "default");
    assert_eq!(
        instance(|one| reserve(one, "open")).capacity_type,
        CapacityType::OnDemand
    );
    let gate_off = Instance::new(described(|one| reserve(one, "capacity-reservations-only")), false);
    assert_eq!(gate_off.capacity_type, CapacityType::OnDemand);
    let block = instance(|one| {
        reserve(one, "capacity-reservations-only");
        one.lifecycle = "capacity-block".to_owned();
    });
    assert_eq!(block.reservation.unwrap().reservation_type, "capacity-block");
    let interruptible = instance(|one| {
        reserve(one, "capacity-reservations-only");
        one.lifecycle = "interruptible-capacity-reservation".to_owned();
    });
    assert!(interruptible.reservation.unwrap().interruptible);
    let more = instance(|one| {
        one.interface_types = ["interface", "efa", "efa-only"].map(str::to_owned).into();
        one.partition = 3;
    });
    assert_eq!(
        (more.efa_count, more.partition, more.tenancy.as_str()),
        (2, Some(3), "default")
    );
    assert_eq!(instance(|_| {}).partition, None);
}

// AWS-325
#[test]
fn orphans_are_old_owned_and_without_claim() {
    let make = |id: &str, seconds: i64, state: &str, tags: Tags| {
        instance(|one| {
            one.id = id.to_owned();
            one.launched = now() - SignedDuration::from_secs(seconds);
            one.state = state.to_owned();
            one.tags = tags;
        })
    };
    let own = || launch_tags(None, "prod", "default", "nodes");
    let instances = [
        make("i-orphan", 31, "running", own()),
        make("i-young", 30, "running", own()),
        make("i-claimed", 60, "running", own()),
        make("i-unstored", 60, "running", own()),
        make("i-replaced", 60, "running", own()),
        make("i-left", 60, "running", own()),
        make("i-ending", 60, "shutting-down", own()),
        make("i-stranger", 60, "running", Tags::new()),
        make("i-other", 60, "running", launch_tags(None, "test", "default", "nodes")),
    ];
    let claim = |name: &str, provider_id: Option<&str>| -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []},
            "status": {"providerID": provider_id},
        }))
        .unwrap()
    };
    let claims = [
        claim("stored", Some("aws:///us-east-1a/i-claimed")),
        claim("unstored", None),
    ];
    let launched_for = |id: &str| {
        let claim = match id {
            "i-unstored" => "unstored",
            // Its claim has another instance by now.
            "i-replaced" => "stored",
            "i-left" => "deleted",
            _ => return None,
        };
        Some(claim.to_owned())
    };
    assert_eq!(
        orphans(&instances, &claims, launched_for, "prod", now()),
        ["i-orphan", "i-replaced", "i-left"]
    );
}

// AWS-288, AWS-289, AWS-287, AWS-290
#[test]
fn an_instance_becomes_the_terms_of_a_claim() {
    let interner = Interner::default();
    let class = class(json!({}));
    let kind = resolved("m6idn.32xlarge", &class, &interner);
    let hash = BTreeMap::from([("karpenter.k8s.aws/ec2nodeclass-hash".to_owned(), "1".to_owned())]);
    let reserved = instance(|one| {
        one.reservation_id = Some("cr-1".to_owned());
        one.reservation_preference = Some("capacity-reservations-only".to_owned());
        one.state = "shutting-down".to_owned();
    });
    let full = launched(&reserved, Some(&kind), Some(&class.status), hash.clone(), &interner);
    assert_eq!(full.annotations, hash);
    assert_eq!(full.provider_id, "aws:///us-east-1a/i-1");
    assert_eq!(full.image_id.as_deref(), Some("ami-1"));
    assert_eq!(full.created, Some(reserved.described.launched));
    assert!(full.deleting);
    for (key, want) in [
        ("topology.kubernetes.io/zone", "us-east-1a"),
        ("topology.k8s.aws/zone-id", "use1-az1"),
        ("karpenter.sh/capacity-type", "reserved"),
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.k8s.aws/instance-tenancy", "default"),
        ("karpenter.k8s.aws/capacity-reservation-id", "cr-1"),
        ("karpenter.k8s.aws/capacity-reservation-type", "default"),
        ("karpenter.k8s.aws/capacity-reservation-interruptible", "false"),
        ("karpenter.k8s.aws/instance-family", "m6idn"),
        ("kubernetes.io/arch", "amd64"),
    ] {
        assert_eq!(full.labels.get(key).map(String::as_str), Some(want), "{key}");
    }
    assert!(!full.labels.contains_key("karpenter.k8s.aws/instance-gpu-name"));
    assert_eq!(full.capacity["cpu"].to_string(), "128");
    assert!(full.allocatable["memory"] < full.capacity["memory"]);
    // No EFA was asked for.
    assert!(!full.capacity.contains_key("vpc.amazonaws.com/efa"));
    let efa = instance(|one| one.interface_types = vec!["efa".to_owned()]);
    let efa = launched(&efa, Some(&kind), None, BTreeMap::new(), &interner);
    assert_eq!(efa.capacity["vpc.amazonaws.com/efa"].to_string(), "1");
    let bare = launched(&instance(|_| {}), None, None, BTreeMap::new(), &interner);
    assert_eq!(bare.labels["topology.kubernetes.io/zone"], "us-east-1a");
    assert!(bare.capacity.is_empty() && !bare.deleting);
}

fn claim<'a>(annotations: &'a BTreeMap<String, String>, image: Option<&'a str>) -> DriftClaim<'a> {
    DriftClaim {
        annotations,
        instance_type: "m5.large",
        image_id: image,
        group_id: "",
    }
}

fn status(changes: serde_json::Value) -> kerf_api::EC2NodeClassStatus {
    class_with_status(json!({}), changes).status
}

// AWS-293, AWS-295
#[test]
fn hash_and_image_drift_first() {
    let annotations = |hash: &str| {
        BTreeMap::from([
            ("karpenter.k8s.aws/ec2nodeclass-hash".to_owned(), hash.to_owned()),
            (
                "karpenter.k8s.aws/ec2nodeclass-hash-version".to_owned(),
                "v5".to_owned(),
            ),
        ])
    };
    let (one, two) = (annotations("1"), annotations("2"));
    let with_ami = status(json!({"amis": [{"id": "ami-1", "requirements": []}]}));
    let judge = |image, current, class: &BTreeMap<String, String>, status| {
        static_drift(&claim(&one, image), class, status, current)
    };
    assert_eq!(judge(Some("ami-1"), Some(Some("ami-1")), &one, &with_ami), Ok(None));
    assert_eq!(
        judge(Some("ami-1"), Some(Some("ami-1")), &two, &with_ami),
        Ok(Some(Drift::NodeClass))
    );
    assert_eq!(
        judge(Some("ami-0"), Some(Some("ami-1")), &one, &with_ami),
        Ok(Some(Drift::Ami))
    );
    assert_eq!(judge(Some("ami-1"), Some(None), &one, &with_ami), Ok(Some(Drift::Ami)));
    let unknown = DriftError::InstanceTypeUnknown("m5.large".to_owned());
    assert_eq!(judge(Some("ami-1"), None, &one, &with_ami), Err(unknown));
    assert_eq!(
        judge(None, Some(Some("ami-1")), &one, &with_ami),
        Err(DriftError::NoImage)
    );
    let without = status(json!({}));
    assert_eq!(
        judge(Some("ami-1"), Some(None), &one, &without),
        Err(DriftError::NoAmis)
    );
    assert_eq!(Drift::Ami.reason(), "AMIDrift");
}

// AWS-293, AWS-296, AWS-297, AWS-298, AWS-299
#[test]
fn the_first_difference_of_the_instance_is_reported() {
    let reservation = json!({
        "availabilityZone": "us-east-1a", "id": "cr-1", "instanceMatchCriteria": "open", "instanceType": "m5.large",
        "ownerID": "123456789012",
    });
    let status = status(json!({ "capacityReservations": [reservation] }));
    let none = BTreeMap::new();
    let good = DriftInstance {
        security_group_ids: ["sg-1".to_owned()].into(),
        subnet_id: "subnet-a".to_owned(),
        reservation_id: None,
    };
    let judge = |instance: &DriftInstance, group_id: &str, fresh: Option<&str>, group| {
        let claim = DriftClaim {
            group_id,
            ..claim(&none, None)
        };
        instance_drift(instance, &claim, &status, || fresh.map(str::to_owned), group).unwrap()
    };
    let reserved = |id: &str| DriftInstance {
        reservation_id: Some(id.to_owned()),
        ..good.clone()
    };
    assert_eq!(judge(&good, "", None, CurrentGroup::None), None);
    let groups = DriftInstance {
        security_group_ids: ["sg-1".to_owned(), "sg-2".to_owned()].into(),
        subnet_id: "subnet-x".to_owned(),
        reservation_id: None,
    };
    assert_eq!(judge(&groups, "", None, CurrentGroup::None), Some(Drift::SecurityGroup));
    let subnet = DriftInstance {
        subnet_id: "subnet-x".to_owned(),
        ..good.clone()
    };
    assert_eq!(judge(&subnet, "", None, CurrentGroup::None), Some(Drift::Subnet));
    assert_eq!(judge(&reserved("cr-1"), "", None, CurrentGroup::None), None);
    assert_eq!(
        judge(&reserved("cr-9"), "", Some("cr-9"), CurrentGroup::None),
        Some(Drift::CapacityReservation)
    );
    // It fell back to on-demand meanwhile.
    assert_eq!(judge(&reserved("cr-9"), "", None, CurrentGroup::None), None);
    assert_eq!(
        judge(&good, "pg-1", None, CurrentGroup::None),
        Some(Drift::PlacementGroup)
    );
    assert_eq!(
        judge(&good, "", None, CurrentGroup::Id("pg-1")),
        Some(Drift::PlacementGroup)
    );
    assert_eq!(judge(&good, "pg-1", None, CurrentGroup::Id("pg-1")), None);
    assert_eq!(judge(&good, "pg-1", None, CurrentGroup::Unknown), None);
    let empty = |changes| {
        let status = self::status(changes);
        instance_drift(&good, &claim(&none, None), &status, || None, CurrentGroup::None)
    };
    assert_eq!(empty(json!({"securityGroups": []})), Err(DriftError::NoSecurityGroups));
    assert_eq!(empty(json!({"subnets": []})), Err(DriftError::NoSubnets));
}

fn reservation(id: &str, change: impl FnOnce(&mut DescribedReservation)) -> DescribedReservation {
    let mut reservation = DescribedReservation {
        id: id.to_owned(),
        zone: "us-east-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        owner_id: "123456789012".to_owned(),
        instance_match_criteria: "open".to_owned(),
        reservation_type: String::new(),
        interruptible: None,
        end: None,
        available: 3,
    };
    change(&mut reservation);
    reservation
}

// AWS-272
#[test]
fn reservations_count_once_and_until_they_end() {
    let all = [
        reservation("cr-2", |_| {}),
        reservation("cr-1", |one| one.end = Some(now() + SignedDuration::from_secs(1))),
        reservation("cr-2", |_| {}),
        reservation("cr-3", |one| one.end = Some(now())),
    ];
    let ids: Vec<&str> = usable(&all, now()).iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["cr-1", "cr-2"]);
}

// AWS-274
#[test]
fn reservations_of_unknown_kinds_are_left_out() {
    let status = |change: fn(&mut DescribedReservation)| status_reservation(&reservation("cr-1", change), now());
    let plain = status(|_| {}).unwrap();
    assert_eq!(
        (
            plain.reservation_type.as_str(),
            plain.interruptible,
            plain.state.as_str()
        ),
        ("default", false, "active")
    );
    assert!(status(|one| one.instance_match_criteria = "odd".to_owned()).is_err());
    assert!(status(|one| one.reservation_type = "odd".to_owned()).is_err());
    let block = |minutes: i64, kind: &str| {
        let reservation = reservation("cr-1", |one| {
            one.reservation_type = kind.to_owned();
            one.end = Some(now() + SignedDuration::from_mins(minutes));
        });
        status_reservation(&reservation, now()).unwrap().state
    };
    assert_eq!(block(40, "capacity-block"), "expiring");
    assert_eq!(block(41, "capacity-block"), "active");
    assert_eq!(block(1, "default"), "active");
}

// AWS-063
#[test]
fn a_class_is_looked_at_when_its_first_reservation_ends() {
    let status = |end: Option<i64>| {
        let reservation = reservation("cr-1", |one| {
            one.end = end.map(|seconds| now() + SignedDuration::from_secs(seconds));
        });
        vec![status_reservation(&reservation, now()).unwrap()]
    };
    for (end, seconds) in [(None, 60), (Some(600), 60), (Some(20), 20), (Some(-5), 0)] {
        assert_eq!(
            requeue_after(&status(end), now()),
            SignedDuration::from_secs(seconds),
            "{end:?}"
        );
    }
}

// AWS-273, AWS-275
#[test]
fn free_capacity_follows_launches_until_it_is_reported_anew() {
    let mut counts = ReservationCounts::default();
    counts.report(&[reservation("cr-1", |_| {})], now());
    assert_eq!((counts.available("cr-1"), counts.available("cr-9")), (3, 0));
    counts.launched("cr-1", now());
    counts.launched("cr-9", now());
    assert_eq!(counts.available("cr-1"), 2);
    // The report is newer than the launch and has counted it.
    counts.launched("cr-1", now() - SignedDuration::from_secs(1));
    assert_eq!(counts.available("cr-1"), 2);
    counts.terminated("cr-1");
    assert_eq!(counts.available("cr-1"), 3);
    counts.exhausted("cr-1");
    counts.launched("cr-1", now());
    assert_eq!(counts.available("cr-1"), 0);
}

// AWS-276
#[test]
fn claims_of_expiring_blocks_are_deleted() {
    let labels = |id: &str| BTreeMap::from([("karpenter.k8s.aws/capacity-reservation-id".to_owned(), id.to_owned())]);
    let block = reservation("cr-1", |one| {
        one.reservation_type = "capacity-block".to_owned();
        one.end = Some(now() + SignedDuration::from_mins(5));
    });
    let reservations = [status_reservation(&block, now()).unwrap()];
    assert!(is_expiring(&labels("cr-1"), &reservations, now()));
    assert!(!is_expiring(&labels("cr-2"), &reservations, now()));
    assert!(!is_expiring(&BTreeMap::new(), &reservations, now()));
    // Nobody updates the status of a class that ends.
    let hours_ago = [status_reservation(&block, now() - SignedDuration::from_hours(3)).unwrap()];
    assert_eq!(hours_ago[0].state, "active");
    assert!(is_expiring(&labels("cr-1"), &hours_ago, now()));
    let at = |minutes| now() - SignedDuration::from_mins(minutes);
    assert!(is_expiring(&labels("cr-1"), &hours_ago, at(35)));
    assert!(!is_expiring(&labels("cr-1"), &hours_ago, at(36)));
    let endless = [status_reservation(&reservation("cr-1", |one| one.end = block.end), now()).unwrap()];
    assert!(!is_expiring(&labels("cr-1"), &endless, now()), "it is no block");
}

// AWS-277, AWS-278
#[test]
fn claims_whose_reservation_ended_become_on_demand() {
    let labels: BTreeMap<String, String> = [
        ("karpenter.sh/capacity-type", "reserved"),
        ("karpenter.k8s.aws/capacity-reservation-id", "cr-1"),
        ("karpenter.k8s.aws/capacity-reservation-type", "default"),
        ("karpenter.k8s.aws/capacity-reservation-interruptible", "true"),
        ("team", "a"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let demoted = demoted_labels(&labels).unwrap();
    let left: Vec<(&str, &str)> = demoted
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(left, [("karpenter.sh/capacity-type", "on-demand"), ("team", "a")]);
    assert_eq!(demoted_labels(&demoted), None);
}
