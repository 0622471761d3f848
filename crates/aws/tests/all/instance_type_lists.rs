//! Lists of instance types and their offerings: what they depend on, and how often they are computed.

use crate::class::description;
use crate::world::{ready_class, ready_world, world};
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use kerf_aws::catalogue::InstanceTypes;
use kerf_aws::instance_type::ResolveSettings;
use kerf_aws::market::Market;
use kerf_aws::reservation::ReservationCounts;
use kerf_aws::services::InstanceTypeZone;
use kerf_cloud::CloudProvider;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::requirement::Requirements;
use serde_json::json;
use std::sync::Arc;

// AWS-177, AWS-178, AWS-180
#[tokio::test(start_paused = true)]
async fn instance_types_are_computed_once_per_change() {
    let world = ready_world(&["m5.large", "c5.large"]).await;
    let pool = world.put_pool().await;
    let list = async || world.provider.instance_types(&pool).await.unwrap();
    let first = list().await;
    assert_eq!(first.types.len(), 2);
    assert!(Arc::ptr_eq(&first, &list().await));
    // An equal answer changes nothing; an error neither.
    world.cloud.types.refresh(&*world.aws).await.unwrap();
    let calls = world.aws.take_calls();
    let filters =
        "DescribeInstanceTypes supported-virtualization-type=hvm processor-info.supported-architecture=x86_64,arm64";
    assert_eq!(calls, [filters, "DescribeInstanceTypeOfferings"]);
    world.aws.account().types.truncate(1);
    world.aws.fail("DescribeInstanceTypeOfferings", "InternalError", "");
    assert!(world.cloud.types.refresh(&*world.aws).await.is_err());
    assert!(Arc::ptr_eq(&first, &list().await));
    world.cloud.types.refresh(&*world.aws).await.unwrap();
    assert_eq!(list().await.types.len(), 1);
    // A zone that no type had before is a zone of all.
    let mut zone = world.aws.account().type_zones[0].clone();
    zone.zone = "us-east-1f".to_owned();
    world.aws.account().type_zones.push(zone);
    world.cloud.types.refresh(&*world.aws).await.unwrap();
    assert_eq!(list().await.types[0].offerings.len(), 2 * 3);
    // A change of the class is a change of its list.
    let before = list().await;
    world
        .patch_status(json!({"subnets": [{"id": "subnet-a", "zone": "us-east-1a"}]}))
        .await;
    let after = list().await;
    assert!(!Arc::ptr_eq(&before, &after));
    assert!(Arc::ptr_eq(&after, &list().await));
}

// AWS-220, AWS-481
#[tokio::test(start_paused = true)]
async fn offerings_follow_everything_that_availability_depends_on() {
    let world = ready_world(&["m5.large"]).await;
    // All classes have the same name, as one class has that is changed.
    let list = |spec| {
        let class = ready_class(spec, json!({}));
        let (cloud, now) = (&world.cloud, world.cloud.clock.now());
        let types = &cloud.types;
        types
            .list(
                &class,
                None,
                &cloud.market,
                &cloud.reservations.counts(),
                Arc::default(),
                now,
            )
            .unwrap()
    };
    let available = |list: &Catalogue| list.types[0].offerings.iter().filter(|one| one.available).count();
    let base = list(json!({}));
    assert!(available(&base) > 0);
    assert!(Arc::ptr_eq(&base, &list(json!({}))));
    for changes in [
        json!({"amiFamily": "Custom"}),
        json!({"connectionTracking": {"udpTimeout": 30}}),
        json!({"networkInterfaces": []}),
    ] {
        list(json!({}));
        assert!(!Arc::ptr_eq(&base, &list(changes.clone())), "{changes}");
    }
    // Machines of the type cannot nest virtual machines.
    let nested = list(json!({"cpuOptions": {"nestedVirtualization": "enabled"}}));
    assert_eq!(available(&nested), 0);
    assert_eq!(available(&list(json!({}))), available(&base));
}

// AWS-180, AWS-181
#[test]
fn labels_known_from_another_class_are_those_of_the_class() {
    let interner = Arc::new(Interner::default());
    let names = ["m5.large", "m6g.large"];
    let types = || {
        let types = InstanceTypes::new(ResolveSettings::new("us-east-1"), Arc::clone(&interner));
        let zones = names.into_iter().flat_map(|name| {
            ["us-east-1a", "us-east-1b"].map(|zone| InstanceTypeZone {
                instance_type: name.to_owned(),
                zone: zone.to_owned(),
            })
        });
        types.report(names.map(description).into(), zones.collect());
        types
    };
    let market = Market::new("us-east-1", false);
    let labels = |types: &InstanceTypes, class: &EC2NodeClass| -> Vec<Requirements> {
        let counts = ReservationCounts::default();
        let list = types.list(class, None, &market, &counts, Arc::default(), Timestamp::UNIX_EPOCH);
        let list = list.unwrap();
        list.types.iter().map(|one| one.requirements.clone()).collect()
    };
    let subnet = |id: &str| json!({"id": "subnet-a", "zone": "us-east-1a", "zoneID": id});
    let reservation = |id: &str| {
        json!({
            "availabilityZone": "us-east-1a", "id": id, "instanceMatchCriteria": "open", "instanceType": "m5.large",
            "ownerID": "123456789012",
        })
    };
    let classes = [
        ready_class(json!({}), json!({})),
        ready_class(json!({"kubelet": {"maxPods": 8}}), json!({})),
        ready_class(json!({"amiFamily": "Windows2022"}), json!({})),
        ready_class(json!({"amiFamily": "Windows2019"}), json!({})),
        ready_class(json!({"amiFamily": "Custom"}), json!({})),
        ready_class(json!({}), json!({"subnets": [subnet("use1-az1")]})),
        ready_class(json!({}), json!({"subnets": [subnet("use1-az6")]})),
        ready_class(json!({}), json!({"capacityReservations": [reservation("cr-1")]})),
        ready_class(json!({}), json!({"capacityReservations": [reservation("cr-2")]})),
    ];
    let shared = types();
    for class in &classes {
        assert_eq!(labels(&shared, class), labels(&types(), class), "{class:?}");
    }
    // Equal ones share their memory.
    let mut pairs = labels(&shared, &classes[0])
        .into_iter()
        .zip(labels(&shared, &classes[1]));
    assert!(pairs.all(|(one, other)| std::ptr::eq(one.iter().as_slice(), other.iter().as_slice())));
}

// AWS-179
#[tokio::test(start_paused = true)]
async fn a_list_needs_types_zones_and_subnets() {
    let world = ready_world(&[]).await;
    let pool = world.put_pool().await;
    let error = async || world.provider.instance_types(&pool).await.unwrap_err().to_string();
    assert_eq!(error().await, "no instance types found");
    world.aws.account().types = vec![crate::class::description("m5.large")];
    world.cloud.types.refresh(&*world.aws).await.unwrap();
    assert_eq!(error().await, "no instance types offerings found");
    let zone = kerf_aws::services::InstanceTypeZone {
        instance_type: "m5.large".to_owned(),
        zone: "us-east-1a".to_owned(),
    };
    world.aws.account().type_zones.push(zone);
    world.cloud.types.refresh(&*world.aws).await.unwrap();
    assert!(world.provider.instance_types(&pool).await.is_ok());
    world.patch_status(json!({"subnets": null})).await;
    assert_eq!(error().await, "no subnets found");
}

// AWS-291, AWS-387
#[tokio::test(start_paused = true)]
async fn a_pool_without_class_has_no_instance_types() {
    let mut world = world(&["m5.large"]).await;
    let pool = world.put_pool().await;
    assert!(world.provider.instance_types(&pool).await.unwrap().types.is_empty());
    let events = world.events();
    assert_eq!(
        (events[0].object.kind.as_str(), events[0].object.name.as_str()),
        ("NodePool", "default")
    );
}
