//! The instance types of a class without AWS at hand.

use crate::class::{class, class_with_status, label, settings, single};
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use kerf_aws::instance_type::builtin_types;
use kerf_aws::offline::{OfflineSettings, offline_catalogue};
use kerf_aws::options::AwsFeatureGates;
use kerf_aws::pricing::{PriceBook, SpotPrices};
use kerf_model::instance_type::{Catalogue, InstanceType};
use kerf_model::intern::{Interner, sym};
use serde_json::json;
use std::sync::Arc;

fn catalogue(class: &EC2NodeClass, interner: &Interner) -> Arc<Catalogue> {
    let settings = OfflineSettings {
        resolve: settings(),
        prices: PriceBook::new("us-east-1", SpotPrices::Modelled),
        gates: AwsFeatureGates::default(),
    };
    offline_catalogue(class, &settings, Timestamp::UNIX_EPOCH, interner)
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

#[test]
fn reservations_of_the_status_are_offered() {
    let interner = Interner::default();
    let reservation = json!({
        "availabilityZone": "us-east-1a", "id": "cr-1", "instanceMatchCriteria": "open", "instanceType": "m5.large",
        "ownerID": "123456789012",
    });
    let kinds = catalogue(
        &class_with_status(json!({}), json!({ "capacityReservations": [reservation] })),
        &interner,
    );
    let m5 = find(&kinds, "m5.large", &interner);
    let reserved = m5
        .offerings
        .iter()
        .find(|offering| offering.reservation.is_some())
        .unwrap();
    assert!(reserved.available);
    let id = single(m5, "karpenter.k8s.aws/capacity-reservation-id", &interner);
    assert_eq!(id.as_deref(), Some("cr-1"));
}
