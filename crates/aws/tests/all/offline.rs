//! The instance types of a class without a call of AWS.

use crate::class::{class, class_with_status, label, settings, single};
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use kerf_api::ec2_node_class::NodeClassSubnet;
use kerf_aws::catalogue::InstanceTypes;
use kerf_aws::discovered_memory::{DiscoveredMemory, images_key};
use kerf_aws::instance_type::{BUILTIN_ZONES, builtin_types};
use kerf_aws::market::Market;
use kerf_aws::offline::{OfflineSettings, guesses, offline_catalogue};
use kerf_aws::pricing::{PriceBook, SpotPrices};
use kerf_aws::reservation::{DescribedReservation, ReservationCounts, described_counts};
use kerf_aws::services::InstanceTypeZone;
use kerf_model::instance_type::{Catalogue, InstanceType};
use kerf_model::intern::{Interner, sym};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

fn catalogue(class: &EC2NodeClass, interner: &Interner) -> Arc<Catalogue> {
    offline_catalogue(class, &defaults(), Timestamp::UNIX_EPOCH, interner)
}

fn defaults() -> OfflineSettings {
    OfflineSettings::new(settings(), PriceBook::new("us-east-1", SpotPrices::Modelled))
}

fn find<'a>(catalogue: &'a Catalogue, name: &str, interner: &Interner) -> &'a InstanceType {
    let mut named = catalogue.types.iter().filter(|kind| interner.text(kind.name) == name);
    named.next().unwrap()
}

#[test]
fn types_are_those_of_the_class() {
    let interner = Interner::default();
    let plain = catalogue(&class(json!({})), &interner);
    assert_eq!(plain.types.len(), builtin_types().len());
    let m5 = find(&plain, "m5.large", &interner);
    assert_eq!(m5.offerings.len(), 4);
    assert!(m5.offerings.iter().all(|offering| offering.available));
    assert!(m5.offerings[1].price < m5.offerings[0].price);
    let small = class(json!({"kubelet": {"maxPods": 10}, "instanceStorePolicy": "RAID0"}));
    let small = catalogue(&small, &interner);
    assert_eq!(find(&small, "m5.large", &interner).capacity.get(sym::PODS), 10);
    let nvme = find(&small, "m5d.large", &interner)
        .capacity
        .get(sym::EPHEMERAL_STORAGE);
    assert_eq!(nvme, 75_000_000_000);
}

/// The types of a class as the running provider has them, where every type is offered in every zone.
fn running(
    class: &EC2NodeClass,
    market: &Market,
    left: &BTreeMap<String, u32>,
    interner: &Arc<Interner>,
) -> Arc<Catalogue> {
    let zones = builtin_types().keys().flat_map(|name| {
        BUILTIN_ZONES.map(|zone| InstanceTypeZone {
            instance_type: name.clone(),
            zone: zone.to_owned(),
        })
    });
    let types = InstanceTypes::new(settings(), Arc::clone(interner));
    types.report(builtin_types().values().cloned().collect(), zones.collect());
    let mut counts = ReservationCounts::default();
    let described = left.iter().map(|(id, available)| DescribedReservation {
        id: id.clone(),
        zone: String::new(),
        instance_type: String::new(),
        owner_id: String::new(),
        instance_match_criteria: String::new(),
        reservation_type: String::new(),
        interruptible: None,
        end: None,
        available: *available,
    });
    counts.report(&described.collect::<Vec<_>>(), Timestamp::UNIX_EPOCH);
    let list = types.list(class, None, market, &counts, Arc::default(), Timestamp::UNIX_EPOCH);
    list.unwrap()
}

#[test]
fn offline_types_are_exactly_those_of_the_running_provider() {
    let disk = |device: &str, size: &str| json!({"deviceName": device, "ebs": {"volumeSize": size}});
    let interface =
        |device: i32, kind: &str| json!({"networkCardIndex": 0, "deviceIndex": device, "interfaceType": kind});
    let reservation = |id: &str, kind: &str, of: &str| {
        json!({
            "availabilityZone": "us-east-1b", "id": id, "instanceMatchCriteria": "targeted", "instanceType": kind,
            "ownerID": "123456789012", "reservationType": of, "endTime": "1970-01-01T12:00:00Z",
        })
    };
    let reservations = json!({"capacityReservations": [
        reservation("cr-1", "m5.large", "default"), reservation("cr-2", "p5.48xlarge", "capacity-block"),
        reservation("cr-3", "c6g.xlarge", "default"),
    ]});
    let left = BTreeMap::from([("cr-1".to_owned(), 3), ("cr-2".to_owned(), 1)]);
    let kubelet = json!({
        "maxPods": 20, "podsPerCore": 7, "kubeReserved": {"cpu": "200m", "memory": "1Gi"},
        "systemReserved": {"memory": "300Mi", "ephemeral-storage": "2Gi"}, "evictionHard": {"memory.available": "5%", "nodefs.available": "7%"},
    });
    let alias = |alias: &str| json!([{ "alias": alias }]);
    for (spec, status) in [
        (json!({}), json!({})),
        (json!({"kubelet": kubelet}), json!({})),
        (
            json!({"blockDeviceMappings": [disk("/dev/xvda", "123Gi"), disk("/dev/xvdb", "7Gi")]}),
            json!({}),
        ),
        (json!({"instanceStorePolicy": "RAID0"}), json!({})),
        (
            json!({"amiSelectorTerms": alias("bottlerocket@latest"), "kubelet": {"maxPods": 30},
                "blockDeviceMappings": [disk("/dev/xvda", "4Gi"), disk("/dev/xvdb", "90Gi")]}),
            json!({}),
        ),
        (json!({"amiSelectorTerms": alias("windows2022@latest")}), json!({})),
        (json!({}), reservations),
        (
            json!({"networkInterfaces": [interface(0, "interface"), interface(1, "efa-only")]}),
            json!({}),
        ),
        (json!({"connectionTracking": {"udpTimeout": 30}}), json!({})),
    ] {
        let mut class = class_with_status(spec.clone(), status);
        let subnets = BUILTIN_ZONES.iter().enumerate().map(|(at, zone)| NodeClassSubnet {
            id: format!("subnet-{at}"),
            zone: (*zone).to_owned(),
            zone_id: Some(format!("use1-az{at}")),
        });
        class.status.subnets = subnets.collect();
        let interner = Arc::new(Interner::default());
        let market = Market::new("us-east-1", false);
        let offline = OfflineSettings {
            reservation_counts: Some(left.clone()),
            ..OfflineSettings::new(settings(), market.prices())
        };
        let offline = offline_catalogue(&class, &offline, Timestamp::UNIX_EPOCH, &interner);
        let running = running(&class, &market, &left, &interner);
        assert_eq!(offline.types.len(), running.types.len());
        for (offline, running) in offline.types.iter().zip(&running.types) {
            let name = interner.text(running.name);
            assert_eq!(offline.capacity, running.capacity, "{name} {spec}");
            assert_eq!(offline.overhead, running.overhead, "{name} {spec}");
            assert_eq!(offline.requirements, running.requirements, "{name} {spec}");
            assert_eq!(offline.offerings, running.offerings, "{name} {spec}");
            assert_eq!(offline, running, "{name} {spec}");
        }
        let reserved = running
            .types
            .iter()
            .flat_map(|kind| &kind.offerings)
            .filter(|one| one.reservation.is_some());
        assert_eq!(reserved.count(), class.status.capacity_reservations.len(), "{spec}");
    }
}

#[test]
fn a_class_without_status_has_four_zones() {
    let interner = Interner::default();
    let bare = class_with_status(json!({}), json!({"subnets": null}));
    let kinds = catalogue(&bare, &interner);
    let zones = label(
        find(&kinds, "m5.large", &interner),
        "topology.kubernetes.io/zone",
        &interner,
    )
    .unwrap();
    assert_eq!(zones, ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"]);
}

fn with_reservation() -> EC2NodeClass {
    let reservation = json!({
        "availabilityZone": "us-east-1a", "id": "cr-1", "instanceMatchCriteria": "open", "instanceType": "m5.large",
        "ownerID": "123456789012",
    });
    class_with_status(json!({}), json!({ "capacityReservations": [reservation] }))
}

#[test]
fn a_class_of_another_region_or_with_a_placement_group_says_what_is_guessed() {
    let in_zone = |spec: serde_json::Value, zone: &str| {
        let subnet = json!({"id": "subnet-1", "zone": zone});
        class_with_status(spec, json!({"subnets": [subnet]}))
    };
    let group = || json!({"placementGroupSelector": {"name": "near"}});
    for (class, parts) in [
        (in_zone(json!({}), "us-east-1a"), [].as_slice()),
        (in_zone(json!({}), "us-east-1-bos-1a"), &[]),
        (
            in_zone(json!({}), "eu-west-1a"),
            &["eu-west-1a", "us-east-1", "--region"],
        ),
        (
            in_zone(group(), "us-east-1a"),
            &["placement group", "strategy", "partitions"],
        ),
    ] {
        let said = guesses(&class, &defaults(), Timestamp::UNIX_EPOCH);
        assert_eq!(said.len(), usize::from(!parts.is_empty()), "{said:?}");
        assert!(parts.iter().all(|part| said.concat().contains(part)), "{said:?}");
    }
}

// AWS-273
#[test]
fn reservations_of_the_status_are_offered_with_the_instances_that_ec2_says_are_left() {
    let class = with_reservation();
    let described = |left: u32| {
        let one = json!({"CapacityReservationId": "cr-1", "AvailableInstanceCount": left, "TotalInstanceCount": 9});
        let text = json!({"CapacityReservations": [one]}).to_string();
        Some(described_counts(&text).unwrap())
    };
    for (counts, left, available, guessed) in [
        (described(7), 7, true, false),
        (described(0), 0, false, false),
        (Some(BTreeMap::new()), 0, false, false),
        (None, 1, true, true),
    ] {
        let interner = Interner::default();
        let settings = OfflineSettings {
            reservation_counts: counts,
            ..defaults()
        };
        let kinds = offline_catalogue(&class, &settings, Timestamp::UNIX_EPOCH, &interner);
        let m5 = find(&kinds, "m5.large", &interner);
        let reserved = m5
            .offerings
            .iter()
            .find_map(|one| Some((one.reservation.as_ref()?, one)));
        let (reservation, offering) = reserved.unwrap();
        assert_eq!((reservation.capacity, offering.available), (left, available));
        let id = single(m5, "karpenter.k8s.aws/capacity-reservation-id", &interner);
        assert_eq!(id.as_deref(), Some("cr-1"));
        let said = guesses(&class, &settings, Timestamp::UNIX_EPOCH).join("\n");
        assert_eq!(said.contains("cr-1"), guessed, "{said}");
    }
    assert!(described_counts("{}").is_err());
}

// AWS-199
#[test]
fn memory_that_nodes_reported_counts_as_for_the_running_provider() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let amis = json!([{"id": "ami-1", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}]);
    let mut class = class_with_status(json!({}), json!({ "amis": amis }));
    let mut learned = DiscoveredMemory::default();
    for node in [1, 2] {
        learned.observe(
            "m5.large",
            images_key(&class.status.amis),
            node,
            8_000_000_000,
            true,
            now,
        );
    }
    let memory = |class: &EC2NodeClass, learn_memory: bool| {
        let settings = OfflineSettings {
            learn_memory,
            ..defaults()
        };
        let interner = Interner::default();
        let kinds = offline_catalogue(class, &settings, now, &interner);
        let memory = find(&kinds, "m5.large", &interner).capacity.get(sym::MEMORY);
        (memory, guesses(class, &settings, now))
    };
    let (guess, none) = memory(&class, true);
    assert_eq!(none, Vec::<String>::new());
    let annotate = |class: &mut EC2NodeClass, text: String| {
        let annotations = class.metadata.annotations.get_or_insert_default();
        annotations.insert("kerf.sh/discovered-memory".to_owned(), text);
    };
    annotate(&mut class, learned.to_text());
    assert_eq!(memory(&class, true), (8_000_000_000, vec![]));
    assert_eq!(memory(&class, false), (guess, vec![]));
    annotate(&mut class, "v9".to_owned());
    let (unread, said) = memory(&class, true);
    assert_eq!(unread, guess);
    assert!(said.concat().contains("kerf.sh/discovered-memory"), "{said:?}");
}
