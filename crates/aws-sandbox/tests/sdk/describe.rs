//! Describe calls of EC2.

use crate::fixture::{account, later, start, tags, world, world_of};
use kerf_api::ec2_node_class::AmiFamily;
use kerf_aws::instance_type::builtin_types;
use kerf_aws::placement_group::{PlacementGroupQuery, Strategy};
use kerf_aws::pricing::{SPOT_PRODUCTS, spot_prices};
use kerf_aws::selector::{Filter, ImageQuery, ReservationQuery};
use kerf_aws::tags::Tags;
use kerf_aws_sandbox::account::{PlacementGroup, Reservation, Subnet};
use kerf_cloud::modelled_spot_price;
use std::collections::BTreeMap;

#[tokio::test(start_paused = true)]
async fn all_instance_types_come_back_as_they_are() {
    let world = world();
    let found = world.services.ec2.instance_types(&[]).await.unwrap();
    let found: BTreeMap<_, _> = found.into_iter().map(|one| (one.name.clone(), one)).collect();
    assert_eq!(found.len(), builtin_types().len());
    for (name, known) in builtin_types() {
        assert_eq!(&found[name], known);
    }
    let pages = builtin_types().len().div_ceil(100);
    assert_eq!(world.calls("DescribeInstanceTypes").len(), pages);
}

#[tokio::test(start_paused = true)]
async fn instance_types_are_filtered() {
    let world = world();
    let arm = [
        Filter::new("processor-info.supported-architecture", ["arm64"]),
        Filter::new("supported-virtualization-type", ["hvm"]),
    ];
    let found = world.services.ec2.instance_types(&arm).await.unwrap();
    assert!(!found.is_empty() && found.iter().all(|one| one.architectures == ["arm64"]));
    let error = world
        .services
        .ec2
        .instance_types(&[Filter::new("colour", ["red"])])
        .await
        .unwrap_err();
    assert_eq!(error.code, "InvalidParameterValue");
}

#[tokio::test(start_paused = true)]
async fn zones_say_which_types_they_offer() {
    let mut account = account();
    account.only_types = Some(["m5.large", "c5.large"].map(str::to_owned).into());
    account
        .not_offered
        .insert(("c5.large".to_owned(), "us-east-1b".to_owned()));
    let world = world_of(account);
    let found = world.services.ec2.instance_type_zones().await.unwrap();
    assert_eq!(found.len(), 7);
    assert!(
        !found
            .iter()
            .any(|one| one.instance_type == "c5.large" && one.zone == "us-east-1b")
    );
    assert_eq!(
        world.calls("DescribeInstanceTypeOfferings")[0].parameters["MaxResults"],
        "1000"
    );
}

#[tokio::test(start_paused = true)]
async fn subnets_are_found_by_tags_and_ids_over_several_pages() {
    let mut account = account();
    let zone = account.zones[0].clone();
    account.subnets.extend((0..1200).map(|number| Subnet {
        id: format!("subnet-{number}"),
        vpc_id: "vpc-1".to_owned(),
        zone: zone.clone(),
        addresses: 10,
        tags: tags([("many", "yes")]),
    }));
    let world = world_of(account);
    let ec2 = &world.services.ec2;
    let found = ec2
        .subnets(&vec![Filter::new("tag:karpenter.sh/discovery", ["prod"])])
        .await
        .unwrap();
    assert_eq!(found.len(), 4);
    assert_eq!(
        (found[0].id.as_str(), found[0].zone.as_str()),
        ("subnet-us-east-1a", "us-east-1a")
    );
    assert_eq!(
        (found[0].zone_id.as_deref(), found[0].free_addresses),
        (Some("use1-az1"), 250)
    );
    let ids = vec![Filter::new("subnet-id", ["subnet-7", "subnet-us-east-1b"])];
    assert_eq!(ec2.subnets(&ids).await.unwrap().len(), 2);
    world.calls("");
    assert_eq!(
        ec2.subnets(&vec![Filter::new("tag-key", ["many"])])
            .await
            .unwrap()
            .len(),
        1200
    );
    let calls = world.calls("DescribeSubnets");
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.parameters["MaxResults"] == "500"));
    assert!(
        ec2.subnets(&vec![Filter::new("tag:many", ["no"])])
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn security_groups_are_found_by_name_id_and_tags() {
    let world = world();
    let ec2 = &world.services.ec2;
    for filter in [
        Filter::new("group-name", ["no*"]),
        Filter::new("group-id", ["sg-1"]),
        Filter::new("tag:karpenter.sh/discovery", ["prod"]),
    ] {
        let found = ec2.security_groups(&vec![filter]).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].id.as_str(), found[0].name.as_deref()),
            ("sg-1", Some("nodes"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn images_are_found_by_owner_and_name_also_deprecated_ones() {
    let mut account = account();
    account.images[0].deprecated_from = Some(later(-60));
    account.images[1].owner_id.clone_from(&account.id);
    account.images[1].owner_alias = None;
    account.images[2].state = "pending".to_owned();
    let ids: Vec<String> = account.images.iter().map(|image| image.id.clone()).collect();
    let world = world_of(account);
    let available = || Filter::new("state", ["available"]);
    let find = async |owners: &[&str], filters: Vec<Filter>| {
        let owners = owners.iter().map(|owner| (*owner).to_owned()).collect();
        let found = world
            .services
            .ec2
            .images(&ImageQuery { owners, filters })
            .await
            .unwrap();
        found.into_iter().map(|image| image.id).collect::<Vec<_>>()
    };
    assert_eq!(find(&["self"], vec![]).await, [ids[1].as_str()]);
    assert_eq!(find(&["self", "amazon"], vec![available()]).await.len(), 4);
    assert_eq!(
        find(&["amazon"], vec![available(), Filter::new("name", ["*arm64*"])])
            .await
            .len(),
        2
    );
    let by_id = vec![available(), Filter::new("image-id", [&ids[0], &ids[2]])];
    assert_eq!(find(&[], by_id).await, [ids[0].as_str()]);
    let query = ImageQuery {
        owners: vec![],
        filters: vec![Filter::new("image-id", [&ids[0]])],
    };
    let image = world.services.ec2.images(&query).await.unwrap().remove(0);
    assert_eq!((image.architecture.as_str(), image.created), ("x86_64", Some(start())));
    assert_eq!(image.deprecated_from, Some(later(-60)));
    assert!(image.name.unwrap().contains("amazon-linux-2023"));
}

#[tokio::test(start_paused = true)]
async fn reservations_are_found_by_id_and_filters() {
    let mut account = account();
    let reservation = |id: &str, kind: &str| Reservation {
        id: id.to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: account.zones[1].clone(),
        owner_id: account.id.clone(),
        match_criteria: "targeted".to_owned(),
        kind: kind.to_owned(),
        interruptible: kind == "default",
        total: 5,
        ends: (kind == "capacity-block").then(|| later(3600)),
        tags: tags([("kind", kind)]),
    };
    account.reservations = vec![reservation("cr-1", "default"), reservation("cr-2", "capacity-block")];
    let world = world_of(account);
    let ec2 = &world.services.ec2;
    let by_id = |id: &str| ReservationQuery {
        id: Some(id.to_owned()),
        filters: vec![Filter::new("state", ["active"])],
    };
    let block = ec2.capacity_reservations(&by_id("cr-2")).await.unwrap().remove(0);
    assert_eq!(
        (block.reservation_type.as_str(), block.end),
        ("capacity-block", Some(later(3600)))
    );
    assert_eq!(
        (block.zone.as_str(), block.instance_type.as_str()),
        ("us-east-1b", "m5.large")
    );
    assert_eq!((block.available, block.interruptible), (5, Some(false)));
    assert_eq!(
        (block.owner_id.as_str(), block.instance_match_criteria.as_str()),
        ("111122223333", "targeted")
    );
    assert!(
        ec2.capacity_reservations(&by_id("cr-9"))
            .await
            .unwrap_err()
            .is_not_found()
    );
    let by_tag = ReservationQuery {
        id: None,
        filters: vec![Filter::new("tag:kind", ["default"])],
    };
    let open = ec2.capacity_reservations(&by_tag).await.unwrap();
    assert_eq!(
        (open.len(), open[0].id.as_str(), open[0].interruptible),
        (1, "cr-1", Some(true))
    );
    // The block has ended.
    crate::fixture::pass(3600).await;
    assert!(ec2.capacity_reservations(&by_id("cr-2")).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn placement_groups_are_found_by_id_and_name() {
    let mut account = account();
    account.placement_groups = vec![PlacementGroup {
        id: "pg-1".to_owned(),
        name: "parts".to_owned(),
        strategy: Strategy::Partition,
        partitions: 5,
        state: "available".to_owned(),
        tags: Tags::new(),
    }];
    let world = world_of(account);
    let query = |ids: &[&str], names: &[&str]| PlacementGroupQuery {
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        filters: vec![Filter::new("state", ["available"])],
    };
    let ec2 = &world.services.ec2;
    for query in [query(&["pg-1"], &[]), query(&[], &["parts"])] {
        let found = ec2.placement_groups(&query).await.unwrap();
        assert_eq!(
            (found.len(), found[0].strategy, found[0].partitions),
            (1, Strategy::Partition, 5)
        );
    }
    let unknown = ec2.placement_groups(&query(&[], &["other"])).await.unwrap_err();
    assert_eq!(
        (unknown.code.as_str(), unknown.is_not_found()),
        ("InvalidPlacementGroup.Unknown", false)
    );
}

#[tokio::test(start_paused = true)]
async fn spot_prices_come_in_pages_for_all_types_and_zones() {
    let world = world();
    let rows = world
        .services
        .ec2
        .spot_price_history(start(), &SPOT_PRODUCTS)
        .await
        .unwrap();
    let prices = spot_prices(&rows).unwrap();
    let on_demand = world
        .sandbox
        .with(|account, _| account.on_demand_price("m5.large"))
        .unwrap();
    let expected = modelled_spot_price("m5.large", "us-east-1c", on_demand).per_hour();
    assert!((prices["m5.large"]["us-east-1c"].per_hour() - expected).abs() < 1e-6);
    let calls = world.calls("DescribeSpotPriceHistory");
    assert_eq!(calls.len(), rows.len().div_ceil(1000));
    assert_eq!(calls[0].parameters["StartTime"], "2026-01-01T00:00:00Z");
    let none = world
        .services
        .ec2
        .spot_price_history(start(), &["Windows"])
        .await
        .unwrap();
    assert!(none.is_empty());
}

#[test]
fn new_releases_move_the_parameter_of_the_newest_one() {
    let mut account = account();
    let path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard";
    let newest = format!("{path}/recommended/image_id");
    let old = account.parameters[&newest].clone();
    account.publish_images(AmiFamily::Al2023, "1.33", "v20260201", later(0));
    assert_ne!(account.parameters[&newest], old);
    let pinned = format!("{path}/amazon-eks-node-al2023-x86_64-standard-1.33-v20260101/image_id");
    assert_eq!(account.parameters[&pinned], old);
}
