//! The instance types of a class as an account has them.

use crate::class::{class, settings};
use crate::fake_aws::{FakeAws, reservation};
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use kerf_aws::instance_type::ResolveSettings;
use kerf_aws::live::{LiveCatalogue, LiveError, live_catalogue};
use kerf_aws::offline::{OfflineSettings, offline_catalogue};
use kerf_aws::pricing::{PriceBook, SpotPriceRow, SpotPrices};
use kerf_aws::subnet::Subnet;
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::Interner;
use kerf_runtime::Clock;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn offline() -> OfflineSettings {
    OfflineSettings::new(settings(), PriceBook::new("us-east-1", SpotPrices::Modelled))
}

/// An account with m5.large and c6g.large in two zones, a subnet in one of them, and spot prices there.
fn account() -> Arc<FakeAws> {
    let aws = FakeAws::new(&Clock::simulated(now()), &["m5.large", "c6g.large"]);
    let mut account = aws.account();
    account.subnets = vec![Subnet {
        id: "subnet-a".to_owned(),
        zone: "us-east-1a".to_owned(),
        zone_id: Some("use1-az1".to_owned()),
        free_addresses: 100,
    }];
    account.spot_rows = vec![SpotPriceRow {
        instance_type: "m5.large".to_owned(),
        zone: "us-east-1a".to_owned(),
        price: "0.0333".to_owned(),
        since: Some(now()),
    }];
    drop(account);
    aws
}

async fn live(
    aws: &Arc<FakeAws>,
    class: &EC2NodeClass,
    settings: &OfflineSettings,
    interner: &Arc<Interner>,
) -> Result<LiveCatalogue, LiveError> {
    live_catalogue(&aws.services(), class, settings, now(), interner).await
}

/// Zone, capacity type and price in ten thousandths of a dollar of what can be launched.
fn offers(kind: &InstanceType, interner: &Interner) -> BTreeSet<(String, String, u64)> {
    let available = kind.offerings.iter().filter(|one| one.available);
    let text = |value| interner.text(value).to_owned();
    let price = |price: f64| (price * 10_000.0).round() as u64;
    available
        .map(|one| {
            let (zone, bought) = (one.zone().map(text), one.capacity_type().map(text));
            (
                zone.unwrap_or_default(),
                bought.unwrap_or_default(),
                price(one.price.per_hour()),
            )
        })
        .collect()
}

// AWS-177, AWS-221, AWS-273
#[tokio::test(start_paused = true)]
async fn the_account_decides_about_types_zones_prices_and_reservations() {
    let (aws, interner) = (account(), Arc::<Interner>::default());
    aws.account().reservations = vec![reservation("cr-1", 4)];
    let class = class(json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}));
    let found = live(&aws, &class, &offline(), &interner).await.unwrap();
    let names: Vec<&str> = found
        .catalogue
        .types
        .iter()
        .map(|kind| interner.text(kind.name))
        .collect();
    assert_eq!(names, ["c6g.large", "m5.large"]);
    let [c6g, m5] = found.catalogue.types.as_slice() else {
        panic!("{names:?}");
    };
    let offer = |bought: &str, price| ("us-east-1a".to_owned(), bought.to_owned(), price);
    let bought = offers(m5, &interner);
    assert!(
        bought.contains(&offer("spot", 333)) && bought.contains(&offer("on-demand", 960)),
        "{bought:?}"
    );
    let left = m5.offerings.iter().find_map(|one| one.reservation.as_ref());
    assert_eq!(left.map(|one| one.capacity), Some(4));
    // It has no spot price.
    assert!(
        offers(c6g, &interner)
            .iter()
            .all(|(_, bought, _)| bought == "on-demand")
    );
    // The Price List of this account is empty.
    assert!(
        found.notes.concat().contains("on-demand prices are those built in"),
        "{:?}",
        found.notes
    );
}

#[tokio::test(start_paused = true)]
async fn resources_are_those_of_the_types_built_in() {
    let (aws, interner) = (account(), Arc::<Interner>::default());
    let class = class(json!({"kubelet": {"maxPods": 12}, "instanceStorePolicy": "RAID0"}));
    let found = live(&aws, &class, &offline(), &interner).await.unwrap();
    let built_in = offline_catalogue(&class, &offline(), now(), &interner);
    for kind in &found.catalogue.types {
        let same = built_in.types.iter().find(|one| one.name == kind.name).unwrap();
        assert_eq!((&kind.capacity, &kind.overhead), (&same.capacity, &same.overhead));
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_without_selectors_has_all_zones() {
    let (aws, interner) = (account(), Arc::<Interner>::default());
    let mut bare = class(json!({}));
    bare.spec.subnet_selector_terms.clear();
    let found = live(&aws, &bare, &offline(), &interner).await.unwrap();
    let zones: BTreeSet<String> = found
        .catalogue
        .types
        .iter()
        .flat_map(|kind| offers(kind, &interner))
        .map(|(zone, _, _)| zone)
        .collect();
    assert_eq!(zones, ["us-east-1a", "us-east-1b"].map(str::to_owned).into());
    assert_eq!(aws.count("DescribeSubnets"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_said_with_field_and_remedy() {
    let (aws, interner) = (account(), Arc::<Interner>::default());
    aws.account().subnets.clear();
    let error = live(&aws, &class(json!({})), &offline(), &interner).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("EC2NodeClass/nodes: spec.subnetSelectorTerms selects nothing in us-east-1"),
        "{text}"
    );
    aws.fail("DescribeInstanceTypes", "UnauthorizedOperation", "no");
    let text = live(&aws, &class(json!({})), &offline(), &interner)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("describing instance types, UnauthorizedOperation"),
        "{text}"
    );
    assert!(text.contains("kerf manifests --iam"), "{text}");
    let named = class(json!({"placementGroupSelector": {"name": "gone"}}));
    let aws = account();
    let text = live(&aws, &named, &offline(), &interner).await.unwrap_err().to_string();
    assert!(text.contains("spec.placementGroupSelector"), "{text}");
    let off = OfflineSettings {
        resolve: ResolveSettings {
            reserved_capacity: false,
            ..settings()
        },
        ..offline()
    };
    aws.fail("DescribeCapacityReservations", "InternalError", "no");
    let with_terms = class(json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}));
    assert!(
        live(&aws, &with_terms, &off, &interner).await.is_ok(),
        "the gate is off"
    );
    assert!(live(&aws, &with_terms, &offline(), &interner).await.is_err());
}
