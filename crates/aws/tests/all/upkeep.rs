//! What the provider keeps up to date: facts about the cluster, prices, memory, zonal shifts, gauges.

use crate::world::{World, after_launch, options, plain_claim, ready_class, start, world, world_with};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Service};
use kerf_api::NodeClaim;
use kerf_aws::controllers::{
    ZonalShiftController, discover_memory, refresh_instance_types, refresh_prices, report_offerings,
};
use kerf_aws::pricing::SpotPriceRow;
use kerf_aws::provider::{DiscoveryError, discover_cluster};
use kerf_aws::zonal_shift::Shift;
use kerf_cloud::CloudProvider;
use kerf_model::instance_type::InstanceType;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use std::time::Duration;

// AWS-334
#[tokio::test(start_paused = true)]
async fn the_cluster_is_known_from_options_eks_and_its_dns_service() {
    let world = world(&[]).await;
    let services = world.aws.services();
    let discover = async |flags: &[(&str, &str)]| {
        let options = options(flags);
        discover_cluster(&services, &options, "us-east-1", &world.client, "Q0xJRU5U").await
    };
    let facts = discover(&[]).await.unwrap();
    assert_eq!(
        (facts.endpoint.as_str(), facts.ca_bundle.as_str()),
        ("https://cluster", "Q0xJRU5U")
    );
    assert_eq!(facts.kube_dns, None, "its absence is only logged");
    let dns: Service = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kube-dns"}, "spec": {"clusterIP": "10.100.0.10", "ports": [{"port": 53}]}}))
    .unwrap();
    let api = Api::<Service>::namespaced(world.client.clone(), "kube-system");
    api.create(&PostParams::default(), &dns).await.unwrap();
    world.aws.take_calls();
    let facts = discover(&[("cluster-endpoint", "https://other"), ("cluster-ca-bundle", "T1RIRVI=")])
        .await
        .unwrap();
    assert_eq!(
        (facts.endpoint.as_str(), facts.ca_bundle.as_str()),
        ("https://other", "T1RIRVI=")
    );
    assert_eq!(facts.kube_dns.as_deref(), Some("10.100.0.10"));
    assert_eq!(world.aws.take_calls(), Vec::<String>::new(), "EKS is not needed");
    let endpoint = "set --cluster-endpoint, so that eks:DescribeCluster is not needed";
    for (code, remedy, has_other_way) in [
        (
            "ResourceNotFoundException",
            "check --cluster-name and AWS_REGION",
            false,
        ),
        ("AccessDeniedException", "kerf manifests --iam", true),
        ("RequestError", "NAT gateway", true),
        ("RequestTimeout", "NAT gateway", true),
    ] {
        world.aws.fail("DescribeCluster", code, "no");
        let error = discover(&[]).await.unwrap_err();
        assert!(matches!(error, DiscoveryError::Describe { .. }));
        let text = error.to_string();
        assert!(text.contains(code) && text.contains(remedy), "{text}");
        assert_eq!(text.contains(endpoint), has_other_way, "{text}");
    }
}

// AWS-335
#[tokio::test(start_paused = true)]
async fn the_version_is_that_of_eks_only_with_the_option() {
    let world = world(&[]).await;
    let services = world.aws.services();
    world.aws.account().cluster.version = "1.27".to_owned();
    let version = async |flags: &[(&str, &str)]| {
        let options = options(flags);
        let facts = discover_cluster(&services, &options, "us-east-1", &world.client, "")
            .await
            .unwrap();
        facts.version().to_string()
    };
    assert_eq!(version(&[("eks-control-plane", "true")]).await, "1.27");
    assert_ne!(version(&[]).await, "1.27", "the API server says it");
}

// AWS-222, AWS-224, AWS-225, AWS-433
#[tokio::test(start_paused = true)]
async fn prices_are_asked_for_and_reach_offerings() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let pool = world.put_pool().await;
    let row = |zone: &str, price: &str| SpotPriceRow {
        instance_type: "m5.large".to_owned(),
        zone: zone.to_owned(),
        price: price.to_owned(),
        since: Some(start()),
    };
    world.aws.account().spot_rows = vec![row("us-east-1a", "0.031")];
    // The Price List answers nothing: its prices stay, those of spot count.
    assert!(refresh_prices(&world.cloud).await.is_err());
    let prices = async |zone: &str, bought: &str| -> Vec<(f64, bool)> {
        let types = world.provider.instance_types(&pool).await.unwrap();
        let interner = &world.cloud.interner;
        let (zone, bought) = (interner.get(zone), interner.get(bought));
        let offerings = types.types[0].offerings.iter();
        let wanted = offerings.filter(|one| one.zone() == zone && one.capacity_type() == bought);
        wanted.map(|one| (one.price.per_hour(), one.available)).collect()
    };
    assert_eq!(prices("us-east-1a", "spot").await, [(0.031, true)]);
    // A zone without price has no spot offering that is available.
    assert_eq!(prices("us-east-1b", "spot").await, [(0.0, false)]);
    let product = json!({"product": {"attributes": {"instanceType": "m5.large"}}, "terms": {"OnDemand": {"a":
        {"priceDimensions": {"b": {"pricePerUnit": {"USD": "0.5"}}}}}}});
    world.aws.account().products = vec![product.to_string()];
    world.aws.account().spot_rows = vec![row("us-east-1b", "0.032")];
    refresh_prices(&world.cloud).await.unwrap();
    assert_eq!(prices("us-east-1a", "on-demand").await, [(0.5, true)]);
    assert_eq!(
        prices("us-east-1a", "spot").await,
        [(0.031, true)],
        "what is missing keeps its price"
    );
    assert_eq!(prices("us-east-1b", "spot").await, [(0.032, true)]);
}

// AWS-226, AWS-500
#[tokio::test(start_paused = true)]
async fn in_an_isolated_vpc_only_spot_prices_are_asked_for() {
    let world = world_with(&["m5.large"], &[("isolated-vpc", "true")]).await;
    let _: Result<_, _> = refresh_prices(&world.cloud).await;
    assert_eq!(world.aws.take_calls(), ["DescribeSpotPriceHistory"]);
}

/// Launches a claim, and writes it with a node that reports so much memory.
pub(crate) async fn put_registered(world: &World, name: &str, memory: &str) {
    let claim = plain_claim(name);
    let launched = world.provider.create(&claim).await.unwrap();
    let claim = after_launch(&claim, &launched);
    let claims = Api::<NodeClaim>::all(world.client.clone());
    let mut new = claim.clone();
    new.metadata.uid = None;
    claims.create(&PostParams::default(), &new).await.unwrap();
    let status = Patch::Merge(json!({"status": claim.status}));
    claims
        .patch_status(name, &PatchParams::default(), &status)
        .await
        .unwrap();
    let labels = json!({"node.kubernetes.io/instance-type": "m5.large", "karpenter.sh/registered": "true"});
    let node: Node = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels}, "spec": {"providerID": launched.provider_id}}))
    .unwrap();
    let nodes = Api::<Node>::all(world.client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = Patch::Merge(json!({"status": {"capacity": {"memory": memory}}}));
    nodes
        .patch_status(name, &PatchParams::default(), &status)
        .await
        .unwrap();
}

// AWS-199, AWS-200, AWS-441
#[tokio::test(start_paused = true)]
async fn memory_that_nodes_report_reaches_the_instance_types() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let pool = world.put_pool().await;
    let memory = async || {
        let types = world.provider.instance_types(&pool).await.unwrap();
        let kind: &InstanceType = &types.types[0];
        kind.capacity.get(kerf_model::intern::sym::MEMORY)
    };
    let assumed = memory().await;
    put_registered(&world, "one", "7900000Ki").await;
    discover_memory(&world.cloud, "one").await.unwrap();
    assert_eq!(memory().await, assumed, "one node may be odd");
    put_registered(&world, "two", "7910000Ki").await;
    discover_memory(&world.cloud, "two").await.unwrap();
    assert_eq!(memory().await, 7_900_000 * 1024, "the least that was reported");
    // Other images are another matter.
    let arch = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    world
        .patch_status(json!({"amis": [{"id": "ami-new", "requirements": arch}]}))
        .await;
    assert_eq!(memory().await, assumed);
    for _ in 0..2 {
        discover_memory(&world.cloud, "two").await.unwrap();
    }
    assert_eq!(
        memory().await,
        assumed,
        "a node of an old image says nothing about a new one"
    );
    discover_memory(&world.cloud, "gone").await.unwrap();
}

// AWS-329, AWS-330, AWS-332, AWS-386, AWS-389
#[tokio::test(start_paused = true)]
async fn pools_hear_of_zonal_shifts_once() {
    let mut world = world_with(&["m5.large"], &[("enable-zonal-shift", "true")]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    world.put_pool().await;
    world.aws.fail(
        "GetManagedResource",
        "ResourceNotFoundException",
        "the cluster is not registered",
    );
    assert!(ZonalShiftController::start(&world.cloud).await.is_err());
    let shift = |zone_id: &str| Shift {
        zone_id: zone_id.to_owned(),
        expires: start() + SignedDuration::from_mins(30),
        applied: true,
    };
    world.aws.account().shifts = vec![shift("use1-az1"), shift("use1-az6")];
    let controller = ZonalShiftController::start(&world.cloud).await.unwrap().unwrap();
    assert!(
        world.cloud.market.shifts().is_shifted("use1-az1", start()),
        "it is known before the first pass"
    );
    controller.reconcile().await.unwrap();
    controller.reconcile().await.unwrap();
    let events = world.events();
    let reasons: Vec<(&str, &str)> = events
        .iter()
        .map(|event| (event.object.name.as_str(), event.reason.as_ref()))
        .collect();
    assert_eq!(
        reasons,
        [("default", "ZonalShiftActive")],
        "no pool has a subnet in the other zone"
    );
    assert_eq!(events[0].dedupe, [events[0].object.uid.clone(), "use1-az1".to_owned()]);
    tokio::time::sleep(Duration::from_secs(1800)).await;
    controller.reconcile().await.unwrap();
    let events = world.events();
    assert_eq!((events.len(), events[0].reason.as_ref()), (1, "ZonalShiftCleared"));
    // Without the option there is no controller.
    let without = world_with(&[], &[]).await;
    assert!(ZonalShiftController::start(&without.cloud).await.unwrap().is_none());
    assert_eq!(without.aws.count("GetManagedResource"), 0);
}

// AWS-361, AWS-362, AWS-363, AWS-364, AWS-376
#[tokio::test(start_paused = true)]
async fn gauges_show_types_and_offerings() {
    let world = world(&["m5.large"]).await;
    let mut zone = world.aws.account().type_zones[0].clone();
    zone.zone = "us-east-1c".to_owned();
    world.aws.account().type_zones.push(zone);
    refresh_instance_types(&world.cloud).await.unwrap();
    let reservation = json!({"availabilityZone": "us-east-1a", "id": "cr-1", "instanceMatchCriteria": "targeted",
        "instanceType": "m5.large", "ownerID": "123456789012", "reservationType": "default", "interruptible": false,
        "state": "active"});
    let class = ready_class(
        json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}),
        json!({"capacityReservations": [reservation]}),
    );
    world.put_class(&class).await;
    world.put_pool().await;
    let described = kerf_aws::reservation::DescribedReservation {
        id: "cr-1".to_owned(),
        zone: "us-east-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        owner_id: String::new(),
        instance_match_criteria: "targeted".to_owned(),
        reservation_type: String::new(),
        interruptible: None,
        end: None,
        available: 2,
    };
    world
        .cloud
        .reservations
        .counts()
        .report(&[described], world.clock.now());
    report_offerings(&world.cloud).await.unwrap();
    let kind = |name: &str| {
        world.metric(&format!(
            "karpenter_cloudprovider_instance_type_{name}{{instance_type=\"m5.large\"}}"
        ))
    };
    assert_eq!(
        (kind("cpu_cores"), kind("memory_bytes")),
        (Some(2.0), Some(8192.0 * 1024.0 * 1024.0))
    );
    let offering = |name: &str, bought: &str, zone: &str| {
        let name = format!("karpenter_cloudprovider_instance_type_offering_{name}");
        world.metric(&format!(
            "{name}{{capacity_type=\"{bought}\",instance_type=\"m5.large\",zone=\"us-east-1{zone}\"}}"
        ))
    };
    assert_eq!(offering("available", "on-demand", "a"), Some(1.0));
    assert_eq!(offering("price_estimate", "on-demand", "a"), Some(0.096));
    // A zone without subnet of the class has a price.
    assert_eq!(
        (
            offering("available", "spot", "c"),
            offering("price_estimate", "spot", "c")
        ),
        (Some(0.0), Some(0.096))
    );
    assert_eq!(offering("available", "reserved", "a"), Some(1.0));
    assert_eq!(
        (
            offering("available", "reserved", "b"),
            offering("price_estimate", "reserved", "b")
        ),
        (Some(0.0), Some(0.0))
    );
    // A reservation that is gone turns to zero.
    world.patch_status(json!({"capacityReservations": null})).await;
    report_offerings(&world.cloud).await.unwrap();
    assert_eq!(offering("available", "reserved", "a"), Some(0.0));
}

// AWS-374
#[test]
fn histograms_have_the_buckets_that_dashboards_expect() {
    let read = |text: &str| -> Vec<f64> { text.split(' ').map(|bound| bound.parse().unwrap()).collect() };
    let durations = "0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.6 0.7 0.8 0.9 1 1.25 1.5 1.75 2 2.5 3 \
        3.5 4 4.5 5 6 7 8 9 10 15 20 25 30 40 50 60 120 150 300 450 600";
    assert_eq!(kerf_runtime::metrics::buckets::DURATION.to_vec(), read(durations));
    let sizes = "1 2 4 5 10 15 20 25 30 40 50 60 70 80 90 100 125 150 175 200 225 250 275 300 350 400 450 500 550 600 700 \
        800 900 1000";
    assert_eq!(kerf_aws::metrics::BATCH_SIZES.to_vec(), read(sizes));
}
