//! Offerings, prices, and offerings without capacity.

use crate::class::{class, class_with_status, description, resolved, zones};
use jiff::{SignedDuration, Timestamp};
use kerf_api::EC2NodeClass;
use kerf_aws::offering::{
    CapacityType, GroupScope, OfferingContext, OfferingsOfClass, UnavailableKey, UnavailableOfferings,
};
use kerf_aws::placement_group::{PlacementGroup, Strategy};
use kerf_aws::pricing::{
    PriceBook, SPOT_PRODUCTS, SpotPriceRow, SpotPrices, currency, has_builtin_prices, on_demand_prices, price_queries,
    pricing_endpoint_region, skips_on_demand_refresh, spot_prices,
};
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::Interner;
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Everything offerings depend on, ready to be changed by a test.
struct Market {
    interner: Interner,
    all_zones: BTreeSet<String>,
    prices: PriceBook,
    overlay_prices: BTreeMap<String, Price>,
    unavailable: UnavailableOfferings,
    counts: BTreeMap<String, u32>,
    shifted: BTreeSet<String>,
    group: Option<PlacementGroup>,
    reserved: bool,
    now: Timestamp,
}

impl Market {
    fn new() -> Self {
        Self {
            interner: Interner::default(),
            all_zones: zones(&["us-east-1a", "us-east-1b", "us-east-1c"]),
            prices: PriceBook::new("us-east-1", SpotPrices::Unknown),
            overlay_prices: BTreeMap::new(),
            unavailable: UnavailableOfferings::default(),
            counts: BTreeMap::new(),
            shifted: BTreeSet::new(),
            group: None,
            reserved: true,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn kind(&self, name: &str, class: &EC2NodeClass) -> InstanceType {
        let mut kind = resolved(name, class, &self.interner);
        let context = OfferingContext {
            all_zones: &self.all_zones,
            prices: &self.prices,
            overlay_prices: &self.overlay_prices,
            unavailable: &self.unavailable,
            reservation_counts: &self.counts,
            shifted_zone_ids: &self.shifted,
            group: self.group.as_ref(),
            reserved_capacity: self.reserved,
            now: self.now,
            interner: &self.interner,
        };
        OfferingsOfClass::new(class, &context).inject(&mut kind, &description(name));
        kind
    }

    /// `zone/capacity type` of each available offering.
    fn available(&self, name: &str, class: &EC2NodeClass) -> Vec<String> {
        let kind = self.kind(name, class);
        let available = kind.offerings.iter().filter(|offering| offering.available);
        available.map(|offering| self.place(offering)).collect()
    }

    fn place(&self, offering: &Offering) -> String {
        let text = |value| self.interner.text(value);
        let zone = offering.zone().map(text).unwrap_or_default();
        let capacity_type = offering.capacity_type().map(text).unwrap_or_default();
        format!("{}/{capacity_type}", zone.trim_start_matches("us-east-1"))
    }
}

const EVERYWHERE: [&str; 4] = ["a/on-demand", "a/spot", "b/on-demand", "b/spot"];

// AWS-214, AWS-480, AWS-215
#[test]
fn every_zone_has_offerings_and_those_with_subnets_are_available() {
    let market = Market::new();
    let class = class(json!({}));
    let kind = market.kind("m5.large", &class);
    assert_eq!(kind.offerings.len(), 6);
    assert_eq!(market.available("m5.large", &class), EVERYWHERE);
    let label = |offering: &Offering, key: &str| {
        let value = offering.value(market.interner.intern(key))?;
        Some(market.interner.text(value).to_owned())
    };
    let ids: Vec<_> = kind
        .offerings
        .iter()
        .map(|offering| label(offering, "topology.k8s.aws/zone-id"))
        .collect();
    let id = |text: &str| Some(text.to_owned());
    assert_eq!(
        ids,
        [
            id("use1-az1"),
            id("use1-az1"),
            id("use1-az2"),
            id("use1-az2"),
            None,
            None
        ]
    );
    for offering in &kind.offerings {
        let reservation = offering
            .requirements
            .get(market.interner.intern("karpenter.k8s.aws/capacity-reservation-id"));
        assert!(reservation.is_some_and(Requirement::is_does_not_exist));
    }
}

// AWS-192
#[test]
fn a_type_that_does_not_go_with_the_class_has_no_available_offering() {
    let market = Market::new();
    let class = class(json!({}));
    assert_eq!(market.available("a1.large", &class), Vec::<String>::new());
    assert_eq!(market.kind("a1.large", &class).offerings.len(), 6);
}

// AWS-215
#[test]
fn a_shifted_zone_is_not_available() {
    let mut market = Market::new();
    market.shifted = zones(&["use1-az1"]);
    assert_eq!(
        market.available("m5.large", &class(json!({}))),
        ["b/on-demand", "b/spot"]
    );
}

// AWS-216
#[test]
fn without_a_price_an_offering_exists_and_is_not_available() {
    let mut market = Market::new();
    let class = class(json!({}));
    let name = "hpc6a.48xlarge";
    assert_eq!(market.prices.on_demand(name), None);
    assert_eq!(market.available(name, &class), Vec::<String>::new());
    assert!(
        market
            .kind(name, &class)
            .offerings
            .iter()
            .all(|offering| offering.price == Price::ZERO)
    );
    market.overlay_prices.insert(name.to_owned(), Price::from_pico(5));
    assert_eq!(market.available(name, &class), EVERYWHERE);
}

fn reservation(id: &str, changes: Value) -> Value {
    let mut reservation = json!({
        "availabilityZone": "us-east-1a",
        "id": id,
        "instanceMatchCriteria": "open",
        "instanceType": "m5.large",
        "ownerID": "123456789012",
        "reservationType": "default",
        "interruptible": false,
        "state": "active",
    });
    for (key, value) in changes.as_object().unwrap() {
        reservation[key] = value.clone();
    }
    reservation
}

// AWS-217, AWS-189
#[test]
fn reservations_give_offerings_that_cost_next_to_nothing() {
    let mut market = Market::new();
    let reservations = [
        reservation("cr-1", json!({})),
        reservation("cr-2", json!({"availabilityZone": "us-east-1b"})),
        reservation("cr-3", json!({"state": "expiring"})),
        reservation("cr-4", json!({"availabilityZone": "us-east-1c"})),
        reservation("cr-5", json!({"instanceType": "m5.xlarge"})),
    ];
    let class = class_with_status(json!({}), json!({ "capacityReservations": reservations }));
    market.counts = ["cr-1", "cr-3", "cr-4"].map(|id| (id.to_owned(), 3)).into();
    let kind = market.kind("m5.large", &class);
    let reserved: Vec<&Offering> = kind
        .offerings
        .iter()
        .filter(|offering| offering.reservation.is_some())
        .collect();
    let seen: Vec<_> = reserved
        .iter()
        .map(|offering| {
            let reservation = offering.reservation.unwrap();
            (
                market.interner.text(reservation.id),
                reservation.capacity,
                offering.available,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("cr-1", 3, true),
            ("cr-2", 0, false),
            ("cr-3", 3, false),
            ("cr-4", 3, false)
        ]
    );
    let on_demand = market.prices.on_demand("m5.large").unwrap();
    assert_eq!(reserved[0].price.pico(), on_demand.pico() / 10_000_000);
    let types = crate::class::label(&kind, "karpenter.sh/capacity-type", &market.interner);
    assert_eq!(types.unwrap(), ["on-demand", "reserved", "spot"]);
    let ids = crate::class::label(&kind, "karpenter.k8s.aws/capacity-reservation-id", &market.interner);
    assert_eq!(ids.unwrap(), ["cr-1", "cr-2", "cr-3", "cr-4"]);
    market.reserved = false;
    assert!(
        market
            .kind("m5.large", &class)
            .offerings
            .iter()
            .all(|offering| offering.reservation.is_none())
    );
}

fn partition_group() -> PlacementGroup {
    PlacementGroup {
        id: "pg-1".to_owned(),
        name: "one".to_owned(),
        strategy: Strategy::Partition,
        partitions: 3,
    }
}

// AWS-218, AWS-219
#[test]
fn partitions_multiply_offerings() {
    let mut market = Market::new();
    market.group = Some(partition_group());
    let class = class(json!({}));
    let kind = market.kind("m5.large", &class);
    assert_eq!(kind.offerings.len(), 18);
    let values = |key: &str| crate::class::label(&kind, key, &market.interner).unwrap();
    assert_eq!(values("karpenter.k8s.aws/placement-group-partition"), ["1", "2", "3"]);
    assert_eq!(values("karpenter.k8s.aws/placement-group-id"), ["pg-1"]);
    market.group = Some(PlacementGroup {
        strategy: Strategy::Cluster,
        ..partition_group()
    });
    let kind = market.kind("m5.large", &class);
    assert_eq!(kind.offerings.len(), 6);
}

fn key(zone: &str, capacity_type: CapacityType, group: Option<(&str, Option<u32>)>) -> UnavailableKey {
    UnavailableKey {
        instance_type: "m5.large".to_owned(),
        zone: format!("us-east-1{zone}"),
        capacity_type,
        group: group.map(|(id, partition)| GroupScope {
            id: id.to_owned(),
            partition,
        }),
    }
}

// AWS-228, AWS-229, AWS-231
#[test]
fn marks_last_three_minutes() {
    let mut market = Market::new();
    let class = class(json!({}));
    let start = market.now;
    market.unavailable.mark(key("a", CapacityType::Spot, None), start);
    assert_eq!(
        market.available("m5.large", &class),
        ["a/on-demand", "b/on-demand", "b/spot"]
    );
    assert_eq!(market.available("m5.xlarge", &class), EVERYWHERE);
    market.unavailable.mark_capacity_type(CapacityType::OnDemand, start);
    assert_eq!(market.available("m5.large", &class), ["b/spot"]);
    market
        .unavailable
        .mark_subnet("subnet-b", start + SignedDuration::from_mins(1));
    assert_eq!(market.available("m5.large", &class), Vec::<String>::new());
    market.now = start + SignedDuration::from_mins(3);
    assert_eq!(market.available("m5.large", &class), ["a/on-demand", "a/spot"]);
    market.now = start + SignedDuration::from_mins(4);
    assert_eq!(market.available("m5.large", &class), EVERYWHERE);
}

// AWS-229
#[test]
fn a_zone_is_out_of_addresses_only_with_all_its_subnets() {
    let mut market = Market::new();
    let two = class_with_status(
        json!({}),
        json!({"subnets": [{"id": "s1", "zone": "us-east-1a"}, {"id": "s2", "zone": "us-east-1a"}]}),
    );
    market.unavailable.mark_subnet("s1", market.now);
    assert_eq!(market.available("m5.large", &two), ["a/on-demand", "a/spot"]);
    market.unavailable.mark_subnet("s2", market.now);
    assert_eq!(market.available("m5.large", &two), Vec::<String>::new());
    let unavailable = |subnets: &[String]| {
        market
            .unavailable
            .is_unavailable("m5.large", "us-east-1a", CapacityType::Spot, subnets, None, market.now)
    };
    assert!(!unavailable(&[]));
}

// AWS-230, AWS-482
#[test]
fn marks_of_a_placement_group_hold_for_it_alone() {
    let mut market = Market::new();
    let class = class(json!({}));
    let now = market.now;
    market
        .unavailable
        .mark(key("a", CapacityType::OnDemand, Some(("pg-1", None))), now);
    market
        .unavailable
        .mark(key("b", CapacityType::OnDemand, Some(("pg-1", Some(2)))), now);
    assert_eq!(market.available("m5.large", &class), EVERYWHERE);
    market.group = Some(partition_group());
    let available = market.available("m5.large", &class);
    let count = |place: &str| available.iter().filter(|one| *one == place).count();
    assert_eq!(
        [
            count("a/on-demand"),
            count("b/on-demand"),
            count("a/spot"),
            count("b/spot")
        ],
        [0, 2, 3, 3]
    );
    market.unavailable.mark(key("a", CapacityType::Spot, None), now);
    assert!(!market.available("m5.large", &class).contains(&"a/spot".to_owned()));
}

// Deviation of AWS-228: upstream tries an empty pool again after three minutes, for as long as it is empty.
#[test]
fn an_offering_that_stays_empty_is_tried_less_and_less_often() {
    let mut unavailable = UnavailableOfferings::default();
    let start = Timestamp::UNIX_EPOCH;
    let is_marked = |unavailable: &UnavailableOfferings, key: &UnavailableKey, now| {
        unavailable.is_unavailable(&key.instance_type, &key.zone, key.capacity_type, &[], None, now)
    };
    let (spot, other) = (key("a", CapacityType::Spot, None), key("b", CapacityType::Spot, None));
    // The minutes that marks last when each launch after a mark finds nothing.
    let lengths = |unavailable: &mut UnavailableOfferings, key: &UnavailableKey, mut now: Timestamp, times: usize| {
        let mut all = Vec::new();
        for _ in 0..times {
            unavailable.sweep(now);
            unavailable.mark_exhausted(key.clone(), now);
            let minutes =
                (1..60).find(|minutes| !is_marked(unavailable, key, now + SignedDuration::from_mins(*minutes)));
            all.push(minutes.unwrap());
            now += SignedDuration::from_mins(minutes.unwrap());
        }
        (all, now)
    };
    let (all, now) = lengths(&mut unavailable, &spot, start, 6);
    assert_eq!(all, [3, 6, 12, 12, 12, 12]);
    assert!(!is_marked(&unavailable, &other, start), "each zone has its own");
    assert_eq!(lengths(&mut unavailable, &other, now, 2).0, [3, 6]);
    // Launches of one moment count once, and the last of them decides when the mark ends.
    let mut storm = UnavailableOfferings::default();
    for second in 0..50 {
        storm.mark_exhausted(spot.clone(), start + SignedDuration::from_secs(second));
    }
    let end = start + SignedDuration::from_secs(49 + 180);
    assert!(is_marked(&storm, &spot, end - SignedDuration::from_secs(1)) && !is_marked(&storm, &spot, end));
    assert_eq!(lengths(&mut storm, &spot, end, 2).0, [6, 12]);
    // A launch that works starts anew, and so does time without a launch.
    let (_, now) = lengths(&mut unavailable, &spot, now, 1);
    unavailable.launched("m5.large", "us-east-1a", CapacityType::OnDemand);
    assert_eq!(
        lengths(&mut unavailable.clone(), &spot, now, 1).0,
        [12],
        "another capacity type says nothing"
    );
    unavailable.launched("m5.large", "us-east-1a", CapacityType::Spot);
    let (all, now) = lengths(&mut unavailable, &spot, now, 2);
    assert_eq!(all, [3, 6]);
    let later = now + SignedDuration::from_mins(6);
    assert_eq!(lengths(&mut unavailable, &spot, later, 1).0, [3]);
    // What a spot interruption marks is three minutes, and shortens no longer mark.
    unavailable.mark_exhausted(spot.clone(), later + SignedDuration::from_mins(4));
    unavailable.mark(spot.clone(), later + SignedDuration::from_mins(5));
    assert!(is_marked(&unavailable, &spot, later + SignedDuration::from_mins(9)));
}

// AWS-231, AWS-220
#[test]
fn sequence_numbers_change_for_the_types_concerned() {
    let mut unavailable = UnavailableOfferings::default();
    let now = Timestamp::UNIX_EPOCH;
    let both =
        |unavailable: &UnavailableOfferings| (unavailable.sequence("m5.large"), unavailable.sequence("c5.large"));
    let before = both(&unavailable);
    unavailable.mark(key("a", CapacityType::Spot, None), now);
    let marked = both(&unavailable);
    assert!(marked.0 != before.0 && marked.1 == before.1);
    unavailable.mark_subnet("s", now);
    let subnet = both(&unavailable);
    assert!(subnet.0 != marked.0 && subnet.1 != marked.1);
    unavailable.sweep(now + SignedDuration::from_mins(1));
    assert_eq!(both(&unavailable), subnet);
    unavailable.sweep(now + SignedDuration::from_mins(5));
    let over = both(&unavailable);
    assert!(over.0 != subnet.0 && over.1 != subnet.1);
}

fn price(value: f64) -> Price {
    Price::from_per_hour(value).unwrap()
}

// AWS-221, AWS-227, AWS-499, AWS-500
#[test]
fn prices_come_from_the_api_or_the_tables() {
    for region in ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"] {
        assert!(has_builtin_prices(region), "{region}");
    }
    assert!(!has_builtin_prices("eu-west-1"));
    let book = |region: &str| PriceBook::new(region, SpotPrices::Unknown);
    let virginia = book("us-east-1").on_demand("m5.large");
    assert_eq!(virginia, Some(price(0.096)));
    assert_eq!(book("eu-west-1").on_demand("m5.large"), virginia);
    assert_ne!(book("us-gov-west-1").on_demand("m5.large"), virginia);
    // Before the first answer spot costs what on-demand costs.
    let mut book = book("us-east-1");
    assert_eq!(book.of_type("m5.large").spot("us-east-1a"), virginia);
    let zone = |value: f64| BTreeMap::from([("us-east-1a".to_owned(), price(value))]);
    book.merge_spot([("m5.large".to_owned(), zone(0.03))].into());
    assert_eq!(book.of_type("m5.large").spot("us-east-1a"), Some(price(0.03)));
    assert_eq!(book.of_type("m5.large").spot("us-east-1b"), None);
    assert_eq!(book.of_type("c5.large").spot("us-east-1a"), None);
    // AWS-225
    book.merge_spot([("c5.large".to_owned(), zone(0.02))].into());
    assert_eq!(book.of_type("m5.large").spot("us-east-1a"), Some(price(0.03)));
    book.merge_on_demand([("m5.large".to_owned(), price(0.1))].into());
    book.merge_on_demand([("c5.large".to_owned(), price(0.2))].into());
    assert_eq!(book.on_demand("m5.large"), Some(price(0.1)));
}

// AWS-222
#[test]
fn two_queries_ask_for_on_demand_prices() {
    let texts: Vec<Vec<String>> = price_queries("eu-west-1")
        .iter()
        .map(|query| {
            query
                .iter()
                .map(|filter| format!("{}={}", filter.name, filter.values[0]))
                .collect()
        })
        .collect();
    let shared = ["tenancy=Shared", "productFamily=Compute Instance"];
    let metal = ["tenancy=Dedicated", "productFamily=Compute Instance (bare metal)"];
    assert_eq!(texts[0][6..], shared);
    assert_eq!(texts[1][6..], metal);
    let common = [
        "regionCode=eu-west-1",
        "serviceCode=AmazonEC2",
        "preInstalledSw=NA",
        "operatingSystem=Linux",
        "capacitystatus=Used",
        "marketoption=OnDemand",
    ];
    assert!(texts.iter().all(|query| query[..6] == common));
}

// AWS-226
#[test]
fn the_price_list_has_few_endpoints_and_some_regions_none() {
    for (region, endpoint) in [
        ("us-west-2", "us-east-1"),
        ("ap-northeast-1", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("eu-west-1", "eu-central-1"),
        ("sa-east-1", "us-east-1"),
    ] {
        assert_eq!(pricing_endpoint_region(region), endpoint);
    }
    assert!(skips_on_demand_refresh("us-east-1", true));
    for region in [
        "us-gov-west-1",
        "eusc-de-east-1",
        "us-iso-east-1",
        "us-isob-east-1",
        "eu-isoe-west-1",
    ] {
        assert!(skips_on_demand_refresh(region, false), "{region}");
    }
    assert!(!skips_on_demand_refresh("cn-north-1", false));
    assert!(!skips_on_demand_refresh("us-east-1", false));
}

// AWS-223
#[test]
fn on_demand_prices_are_read_in_the_currency_of_the_region() {
    let item = |kind: &str, currency: &str, price: &str| {
        json!({
            "product": {"attributes": {"instanceType": kind}},
            "terms": {"OnDemand": {"x": {"priceDimensions": {"y": {"pricePerUnit": {currency: price}}}}}},
        })
        .to_string()
    };
    let shared = [
        item("m5.large", "USD", "0.0960000000"),
        item("free", "USD", "0.0"),
        item("odd", "USD", "n/a"),
        item("yuan", "CNY", "1.0"),
        "not json".to_owned(),
    ];
    let metal = [item("m5.metal", "USD", "4.608")];
    let prices = on_demand_prices([&shared, &metal], "us-east-1").unwrap();
    let names: Vec<&String> = prices.keys().collect();
    assert_eq!(names, ["m5.large", "m5.metal"]);
    assert_eq!(prices["m5.metal"], price(4.608));
    assert!(on_demand_prices([&shared, &[]], "us-east-1").is_err());
    assert!(on_demand_prices([&[], &metal], "us-east-1").is_err());
    assert_eq!(currency("cn-north-1"), "CNY");
    assert!(on_demand_prices([&shared, &metal], "cn-north-1").is_err());
}

// AWS-224
#[test]
fn spot_prices_are_the_newest_of_the_history() {
    let row = |kind: &str, zone: &str, price: &str, since: Option<i64>| SpotPriceRow {
        instance_type: kind.to_owned(),
        zone: zone.to_owned(),
        price: price.to_owned(),
        since: since.map(|seconds| Timestamp::from_second(seconds).unwrap()),
    };
    let rows = [
        row("m5.large", "a", "0.03", Some(10)),
        row("m5.large", "a", "0.04", Some(20)),
        row("m5.large", "a", "0.05", Some(15)),
        row("m5.large", "b", "0.02", Some(5)),
        row("m5.large", "c", "odd", Some(5)),
        row("m5.large", "d", "0.02", None),
    ];
    let prices = spot_prices(&rows).unwrap();
    let zones: Vec<_> = prices["m5.large"]
        .iter()
        .map(|(zone, price)| (zone.as_str(), *price))
        .collect();
    assert_eq!(zones, [("a", price(0.04)), ("b", price(0.02))]);
    assert!(spot_prices(&[]).is_err());
    assert!(spot_prices(&rows[4..]).is_err());
    assert_eq!(SPOT_PRODUCTS, ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]);
}
