//! The provider: launches, reads, terminations and drift, with what they cost in calls.

use crate::fake_aws;
use crate::world::{
    CAPACITY, TYPE, World, ZONE, after_launch, claim, condition, launched, plain_claim, ready_class, ready_world,
    start, world, world_with,
};
use futures::future::join_all;
use jiff::SignedDuration;
use kerf_api::{EC2NodeClass, NodeClaim, NodeOverlay};
use kerf_aws::errors::ApiError;
use kerf_aws::provider::AwsProvider;
use kerf_aws::reservation::DescribedReservation;
use kerf_aws::tags::Tags;
use kerf_aws::zonal_shift::Shift;
use kerf_cloud::{CloudError, CloudProvider, HookOutcome, OverlayPool, OverlayProvider, evaluate};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

// AWS-283
#[tokio::test(start_paused = true)]
async fn the_provider_is_called_aws_and_serves_its_class() {
    let world = world(&[]).await;
    let profile = world.provider.profile();
    assert_eq!(profile.name, "aws");
    let kinds: Vec<&str> = profile.node_classes.iter().map(|kind| kind.kind).collect();
    assert_eq!(kinds, ["EC2NodeClass"]);
    assert!(profile.serves(&plain_claim("a").spec.node_class_ref));
}

// AWS-286
#[tokio::test(start_paused = true)]
async fn a_launch_counts_with_the_overlays_of_its_pool() {
    let world = ready_world(&["m5.large", "c5.large"]).await;
    let pool = world.put_pool().await;
    let provider: Arc<dyn CloudProvider> = Arc::new(AwsProvider::new(Arc::clone(&world.cloud)));
    let overlaid = OverlayProvider::new(Arc::clone(&provider));
    let interner = &world.cloud.interner;
    let overlay: NodeOverlay = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "contract"},
        "spec": {
            "requirements": [{"key": TYPE, "operator": "In", "values": ["m5.large"]}],
            "price": "0.001", "capacity": {"example.com/licence": "3"},
        },
    }))
    .unwrap();
    let rules = &provider.profile().vocabulary.labels;
    let catalogue = provider.instance_types(&pool).await.unwrap();
    let pools: Vec<OverlayPool> = OverlayPool::new(&pool, catalogue, rules, interner)
        .into_iter()
        .collect();
    overlaid.publish(&evaluate(&[overlay], &pools, rules, interner));
    let mut own = claim("own", &[(TYPE, &["m5.large", "c5.large"]), (CAPACITY, &["on-demand"])]);
    own.metadata.annotations = Some([("karpenter.sh/price-overlay-applied".to_owned(), "true".to_owned())].into());
    let mut without_pool = own.clone();
    without_pool.metadata.labels = None;
    let launched = CloudProvider::create(&overlaid, &own).await.unwrap();
    assert_eq!(launched.labels[TYPE], "m5.large", "the overlay makes it the cheapest");
    assert_eq!(launched.capacity["example.com/licence"].to_string(), "3");
    let priorities: Vec<String> = {
        let account = world.aws.account();
        let overrides = account.fleets[0].0.configs.iter().flat_map(|config| &config.overrides);
        let of_type = overrides.filter(|one| one.instance_type == "m5.large");
        of_type.map(|one| one.priority.per_hour().to_string()).collect()
    };
    assert!(priorities.iter().all(|price| price == "0.001"), "{priorities:?}");
    let launched = CloudProvider::create(&overlaid, &without_pool).await.unwrap();
    assert_eq!(launched.labels[TYPE], "c5.large", "a claim without pool has no overlay");
    assert!(!launched.capacity.contains_key("example.com/licence"));
}

// AWS-216
#[tokio::test(start_paused = true)]
async fn an_overlay_gives_types_without_price_theirs() {
    let name = "hpc6a.48xlarge";
    let world = ready_world(&[name]).await;
    let pool = world.put_pool().await;
    let provider: Arc<dyn CloudProvider> = Arc::new(AwsProvider::new(Arc::clone(&world.cloud)));
    let overlaid = OverlayProvider::new(Arc::clone(&provider));
    // The prices of the offerings that can be bought.
    let prices = async |overlays: &[(&str, i32, serde_json::Value)]| {
        let overlays: Vec<NodeOverlay> = overlays
            .iter()
            .map(|(name, weight, spec)| {
                let mut overlay = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
                    "metadata": {"name": name}, "spec": spec});
                overlay["spec"]["weight"] = json!(weight);
                serde_json::from_value(overlay).unwrap()
            })
            .collect();
        let rules = &provider.profile().vocabulary.labels;
        let catalogue = provider.instance_types(&pool).await.unwrap();
        let interner = &world.cloud.interner;
        let pools: Vec<OverlayPool> = OverlayPool::new(&pool, catalogue, rules, interner)
            .into_iter()
            .collect();
        overlaid.publish(&evaluate(&overlays, &pools, rules, interner));
        let catalogue = provider.instance_types(&pool).await.unwrap();
        let offerings = catalogue.types.iter().flat_map(|kind| &kind.offerings);
        let bought = offerings.filter(|offering| offering.available);
        bought
            .map(|offering| offering.price.per_hour().to_string())
            .collect::<Vec<_>>()
    };
    let is = json!({"key": TYPE, "operator": "In", "values": ["m5.large", name]});
    let zone = json!({"key": ZONE, "operator": "In", "values": ["us-east-1a"]});
    let is_not = json!({"key": TYPE, "operator": "NotIn", "values": ["m5.large"]});
    assert_eq!(prices(&[]).await, [""; 0]);
    for (refused, why) in [
        (json!({"requirements": [is, zone], "price": "0.5"}), "two requirements"),
        (json!({"requirements": [is_not], "price": "0.5"}), "it names no type"),
        (json!({"requirements": [is], "priceAdjustment": "+0.5"}), "no price"),
        (json!({"requirements": [is], "price": "free"}), "not valid"),
    ] {
        assert_eq!(prices(&[("a", 1, refused)]).await, [""; 0], "{why}");
    }
    let lower = json!({"requirements": [is], "price": "0.5"});
    let higher = json!({"requirements": [is], "price": "0.7"});
    // On demand and spot in two zones.
    assert_eq!(prices(&[("a", 1, lower.clone()), ("b", 2, higher)]).await, ["0.7"; 4]);
    assert_eq!(prices(&[("a", 1, lower)]).await, ["0.5"; 4]);
    let mut wanted = claim("own", &[(TYPE, &[name]), (CAPACITY, &["on-demand"])]);
    wanted.spec.resources = None;
    let launched = CloudProvider::create(&overlaid, &wanted).await.unwrap();
    assert_eq!(launched.labels[TYPE], name);
    assert_eq!(prices(&[]).await, [""; 0]);
}

// AWS-256, AWS-287, AWS-288, AWS-289
#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_instance_that_ec2_answers() {
    let world = ready_world(&["m5.large", "c5.large"]).await;
    let types: &[&str] = &["m5.large", "c5.large"];
    let launched = launched(&world, &claim("a", &[(TYPE, types), (CAPACITY, &["on-demand"])])).await;
    // c5.large is cheaper.
    assert_eq!(launched.provider_id, "aws:///us-east-1a/i-00000001");
    assert_eq!(launched.image_id.as_deref(), Some("ami-amd"));
    assert_eq!(
        launched.created,
        Some(start() + SignedDuration::from_millis(35)),
        "after the batch window"
    );
    assert!(!launched.deleting);
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "c5.large"),
        ("topology.kubernetes.io/zone", "us-east-1a"),
        ("topology.k8s.aws/zone-id", "use1-az1"),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("karpenter.k8s.aws/instance-tenancy", "default"),
        ("karpenter.sh/nodepool", "default"),
    ] {
        assert_eq!(launched.labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    let keys: Vec<&str> = launched.annotations.keys().map(String::as_str).collect();
    let own = [
        "ec2nodeclass-hash",
        "ec2nodeclass-hash-version",
        "instance-profile-name",
    ];
    assert_eq!(keys, own.map(|name| format!("karpenter.k8s.aws/{name}")));
    assert_eq!(
        launched.annotations["karpenter.k8s.aws/instance-profile-name"],
        "prod_1"
    );
    assert!(launched.capacity.contains_key("cpu") && !launched.capacity.contains_key("vpc.amazonaws.com/efa"));
    let calls = world.aws.take_calls();
    let templates: Vec<&String> = calls
        .iter()
        .filter(|call| call.starts_with("DescribeLaunchTemplates"))
        .collect();
    assert_eq!(templates.len(), 1);
    assert!(
        calls.ends_with(&["CreateLaunchTemplate".to_owned(), "CreateFleet 1".to_owned()]),
        "{calls:?}"
    );
    let account = world.aws.account();
    let (request, _) = &account.fleets[0];
    assert_eq!(request.configs[0].overrides.len(), 4, "two types in two zones");
    assert_eq!(account.instances[0].tags["karpenter.k8s.aws/ec2nodeclass"], "nodes");
}

// AWS-284, AWS-387
#[tokio::test(start_paused = true)]
async fn a_claim_without_class_is_dropped() {
    let mut world = world(&["m5.large"]).await;
    let error = world.provider.create(&plain_claim("a")).await.unwrap_err();
    assert!(matches!(error, CloudError::InsufficientCapacity(_)), "{error}");
    let events = world.events();
    assert_eq!(
        (events[0].object.kind.as_str(), events[0].object.name.as_str()),
        ("NodeClaim", "a")
    );
    // A class that is being deleted counts as none.
    let mut class = ready_class(json!({}), json!({}));
    class.metadata.annotations = None;
    world.put_class(&class).await;
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let keep = Patch::Merge(json!({"metadata": {"finalizers": ["karpenter.k8s.aws/termination"]}}));
    api.patch("nodes", &PatchParams::default(), &keep).await.unwrap();
    assert!(world.provider.create(&plain_claim("b")).await.is_ok());
    api.delete("nodes", &DeleteParams::default()).await.unwrap();
    let error = world.provider.create(&plain_claim("c")).await.unwrap_err();
    assert!(matches!(error, CloudError::InsufficientCapacity(_)), "{error}");
    assert_eq!(world.events()[0].object.name, "c");
}

// AWS-285, AWS-492
#[tokio::test(start_paused = true)]
async fn nothing_is_launched_before_the_status_of_the_class_is_that_of_its_spec() {
    let world = ready_world(&["m5.large"]).await;
    let error = async |status: &str, generation: i64| {
        world
            .patch_status(json!({"conditions": [condition("Ready", status, generation)]}))
            .await;
        world.provider.create(&plain_claim("a")).await.unwrap_err()
    };
    assert!(matches!(error("False", 1).await, CloudError::NodeClassNotReady(_)));
    let unknown = error("Unknown", 1).await;
    assert!(matches!(&unknown, CloudError::Create { reason, .. } if &**reason == "NodeClassReadinessUnknown"));
    assert!(matches!(error("True", 7).await, CloudError::NodeClassNotReady(_)));
    assert_eq!(world.aws.count("CreateFleet"), 0);
    // The launch uses what the status names, and asks EC2 for nothing of it.
    world
        .patch_status(json!({
            "conditions": [condition("Ready", "True", 1)],
            "securityGroups": [{"id": "sg-9"}],
            "subnets": [{"id": "subnet-z", "zone": "us-east-1b"}],
        }))
        .await;
    launched(&world, &plain_claim("a")).await;
    for call in ["DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"] {
        assert_eq!(world.aws.count(call), 0, "{call}");
    }
    let account = world.aws.account();
    assert_eq!(account.instances[0].subnet_id, "subnet-z");
    assert!(account.instances[0].security_group_ids.contains("sg-9"));
}

// AWS-250, AWS-251
#[tokio::test(start_paused = true)]
async fn a_launch_that_cannot_be_prepared_says_why() {
    let world = ready_world(&["m5.large"]).await;
    let reason = async |status: serde_json::Value| {
        world.patch_status(status).await;
        match world.provider.create(&plain_claim("a")).await.unwrap_err() {
            CloudError::Create { reason, message } => (reason.to_string(), message.to_string()),
            other => (String::new(), other.to_string()),
        }
    };
    let (found, message) = reason(json!({"amis": []})).await;
    assert_eq!(found, "LaunchFailed");
    assert!(message.contains("no AMIs"), "{message}");
    let (found, _) = reason(json!({"subnets": []})).await;
    assert_eq!(found, "InstanceTypeResolutionFailed");
    let restored = ready_class(json!({}), json!({}));
    world
        .patch_status(serde_json::to_value(&restored.status).unwrap())
        .await;
    world.aws.fail("CreateLaunchTemplate", "UnauthorizedOperation", "no");
    let (found, _) = reason(json!({})).await;
    assert_eq!(found, "Unauthorized");
    world.aws.fail("CreateFleet", "RequestLimitExceeded", "slow down");
    let (found, _) = reason(json!({})).await;
    assert_eq!(found, "RequestLimitExceeded");
}

// AWS-257, AWS-365
#[tokio::test(start_paused = true)]
async fn a_mixed_claim_falls_back_from_spot_and_then_waits_without_calls() {
    let world = ready_world(&["m5.large"]).await;
    let mixed = claim("a", &[(TYPE, &["m5.large"]), (CAPACITY, &["spot", "on-demand"])]);
    let empty = |capacity_type: &str| {
        let mut account = world.aws.account();
        for zone in ["us-east-1a", "us-east-1b"] {
            let pool = (capacity_type.to_owned(), "m5.large".to_owned(), zone.to_owned());
            account.empty_pools.insert(pool);
        }
    };
    empty("spot");
    let error = world.provider.create(&mixed).await.unwrap_err();
    assert!(matches!(error, CloudError::InsufficientCapacity(_)), "{error}");
    let series = "karpenter_cloudprovider_instance_launch_failures_total{capacity_type=\"spot\",\
        reason=\"LaunchFailed\",zone=\"us-east-1a\",zone_id=\"use1-az1\"}";
    assert_eq!(world.metric(series), Some(1.0), "{}", world.metrics.encode());
    let second = launched(&world, &mixed).await;
    assert_eq!(second.labels[CAPACITY], "on-demand");
    empty("on-demand");
    assert!(world.provider.create(&mixed).await.is_err());
    world.aws.take_calls();
    let error = world.provider.create(&mixed).await.unwrap_err();
    assert!(matches!(error, CloudError::InsufficientCapacity(_)), "{error}");
    assert_eq!(world.aws.take_calls(), Vec::<String>::new());
    // After three minutes EC2 is asked again.
    tokio::time::sleep(Duration::from_secs(180)).await;
    world.aws.account().empty_pools.clear();
    assert_eq!(launched(&world, &mixed).await.labels[CAPACITY], "spot");
}

// AWS-388
#[tokio::test(start_paused = true)]
async fn a_missing_role_for_spot_ends_spot_launches_for_a_while() {
    let mut world = ready_world(&["m5.large"]).await;
    {
        let mut account = world.aws.account();
        account.pool_error = Some(ApiError::new(
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
            "no role",
        ));
        let pool = |zone: &str| ("spot".to_owned(), "m5.large".to_owned(), zone.to_owned());
        account.empty_pools.extend(["us-east-1a", "us-east-1b"].map(pool));
    }
    let mixed = claim("a", &[(TYPE, &["m5.large"]), (CAPACITY, &["spot", "on-demand"])]);
    assert!(world.provider.create(&mixed).await.is_err());
    let events = world.events();
    assert_eq!(events.len(), 1, "one event, though two offerings failed");
    assert_eq!(events[0].object.name, "a");
    assert!(events[0].message.contains("ServiceLinkedRoleCreationNotPermitted"));
    assert_eq!(launched(&world, &mixed).await.labels[CAPACITY], "on-demand");
}

// AWS-108
#[tokio::test(start_paused = true)]
async fn a_full_subnet_is_avoided() {
    let world = ready_world(&["m5.large"]).await;
    {
        let mut account = world.aws.account();
        account.pool_error = Some(ApiError::new("InsufficientFreeAddressesInSubnet", "full"));
        account
            .empty_pools
            .insert(("on-demand".to_owned(), "m5.large".to_owned(), "us-east-1a".to_owned()));
    }
    assert_eq!(launched(&world, &plain_claim("a")).await.labels[ZONE], "us-east-1b");
    world.aws.account().empty_pools.clear();
    assert_eq!(
        launched(&world, &plain_claim("b")).await.labels[ZONE],
        "us-east-1b",
        "its mark lasts three minutes"
    );
}

// AWS-259, AWS-431
#[tokio::test(start_paused = true)]
async fn an_instance_is_remembered_until_a_list_or_a_description_says_otherwise() {
    let world = ready_world(&["m5.large"]).await;
    let launched = launched(&world, &plain_claim("a")).await;
    world.aws.take_calls();
    let get = async || world.provider.get(&launched.provider_id).await;
    assert_eq!(get().await.unwrap().labels[TYPE], "m5.large");
    assert_eq!(world.aws.count("DescribeInstances"), 1);
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    get().await.unwrap();
    assert_eq!(world.aws.count("DescribeInstances"), 1, "it never expires");
    // Only a description without the cache sees that it is gone.
    let gone = world.aws.account().instances.remove(0);
    get().await.unwrap();
    let error = world.cloud.instances.get_fresh("i-00000001").await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(get().await.unwrap_err().is_not_found());
    // A terminated instance is none.
    world
        .aws
        .account()
        .instances
        .push(kerf_aws::instance::DescribedInstance {
            state: "terminated".to_owned(),
            ..gone.clone()
        });
    assert!(get().await.unwrap_err().is_not_found());
    // A list remembers and forgets.
    world.aws.account().instances = vec![gone];
    assert_eq!(world.provider.list().await.unwrap().len(), 1);
    world.aws.take_calls();
    get().await.unwrap();
    assert_eq!(world.aws.take_calls().len(), 0);
    world.aws.account().instances.clear();
    assert_eq!(world.provider.list().await.unwrap().len(), 0);
    assert!(get().await.unwrap_err().is_not_found());
    world.aws.fail("DescribeInstances", "InternalError", "");
    assert!(!get().await.unwrap_err().is_not_found(), "an error is not absence");
    assert!(world.provider.get("kwok://a").await.is_err());
}

// AWS-290
#[tokio::test(start_paused = true)]
async fn instances_of_unknown_classes_are_listed_with_less_detail() {
    let world = ready_world(&["m5.large"]).await;
    launched(&world, &plain_claim("a")).await;
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    api.delete("nodes", &DeleteParams::default()).await.unwrap();
    let all = world.provider.list().await.unwrap();
    assert_eq!(all.len(), 1);
    assert!(all[0].capacity.is_empty() && all[0].labels[ZONE] == "us-east-1a");
}

// AWS-290
#[tokio::test(start_paused = true)]
async fn an_error_of_a_call_is_no_unknown_type() {
    let world = ready_world(&["m5.large"]).await;
    let id = launched(&world, &plain_claim("a")).await.provider_id;
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let patch = Patch::Merge(json!({"spec": {"placementGroupSelector": {"name": "mine"}}}));
    api.patch("nodes", &PatchParams::default(), &patch).await.unwrap();
    world.aws.fail("DescribePlacementGroups", "InternalError", "not now");
    let error = world.provider.list().await.unwrap_err();
    assert!(error.to_string().contains("not now"), "{error}");
    let error = world.provider.get(&id).await.unwrap_err();
    assert!(
        error.to_string().contains("not now") && !error.is_not_found(),
        "{error}"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!world.provider.list().await.unwrap()[0].capacity.is_empty());
    assert!(!world.provider.get(&id).await.unwrap().capacity.is_empty());
    // A class whose types are not known leaves out their details.
    world.patch_status(json!({"subnets": []})).await;
    assert!(world.provider.list().await.unwrap()[0].capacity.is_empty());
    assert!(world.provider.get(&id).await.unwrap().capacity.is_empty());
}

// AWS-262, AWS-366, AWS-490
#[tokio::test(start_paused = true)]
async fn termination_takes_two_steps() {
    let world = ready_world(&["m5.large"]).await;
    let claim = plain_claim("a");
    let claim = after_launch(&claim, &launched(&world, &claim).await);
    world.aws.take_calls();
    world.aws.fail("TerminateInstances", "UnauthorizedOperation", "no");
    assert!(world.provider.delete(&claim).await.is_err());
    let series = "karpenter_cloudprovider_instance_termination_failures_total{zone=\"us-east-1a\",zone_id=\"use1-a\"}";
    assert_eq!(world.metric(series), Some(1.0));
    world.provider.delete(&claim).await.unwrap();
    assert_eq!(
        (
            world.aws.count("DescribeInstances"),
            world.aws.count("TerminateInstances")
        ),
        (2, 2)
    );
    // It shuts down: nothing more is sent.
    world.provider.delete(&claim).await.unwrap();
    assert_eq!(
        (
            world.aws.count("DescribeInstances"),
            world.aws.count("TerminateInstances")
        ),
        (3, 2)
    );
    world.aws.account().instances[0].state = "terminated".to_owned();
    assert!(world.provider.delete(&claim).await.unwrap_err().is_not_found());
}

// AWS-275
#[tokio::test(start_paused = true)]
async fn a_reservation_is_freed_when_its_instance_is_gone() {
    let world = ready_world(&["m5.large"]).await;
    let mut claim = plain_claim("a");
    claim = after_launch(&claim, &launched(&world, &claim).await);
    let labels = claim.metadata.labels.get_or_insert_default();
    labels.insert(
        "karpenter.k8s.aws/capacity-reservation-id".to_owned(),
        "cr-1".to_owned(),
    );
    world
        .cloud
        .reservations
        .counts()
        .report(&[fake_aws::reservation("cr-1", 0)], start());
    world.provider.delete(&claim).await.unwrap();
    assert_eq!(world.cloud.reservations.counts().available("cr-1"), 0);
    world.aws.account().instances.clear();
    assert!(world.provider.delete(&claim).await.is_err());
    assert_eq!(world.cloud.reservations.counts().available("cr-1"), 1);
}

// AWS-235, AWS-241, AWS-275
#[tokio::test(start_paused = true)]
async fn a_reservation_is_used_before_anything_else() {
    let world = world(&["m5.large"]).await;
    let reservation = json!({"availabilityZone": "us-east-1b", "id": "cr-1", "instanceMatchCriteria": "targeted",
        "instanceType": "m5.large", "ownerID": "123456789012", "reservationType": "default", "interruptible": false,
        "state": "active"});
    let class = ready_class(
        json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}),
        json!({"capacityReservations": [reservation]}),
    );
    let class = world.put_class(&class).await;
    world.aws.account().reservations = vec![DescribedReservation {
        zone: "us-east-1b".to_owned(),
        ..fake_aws::reservation("cr-1", 1)
    }];
    world.cloud.reservations.list(&class, world.clock.now()).await.unwrap();
    let any = |name: &str| claim(name, &[(TYPE, &["m5.large"]), (CAPACITY, &["reserved", "on-demand"])]);
    let first = launched(&world, &any("a")).await;
    assert_eq!(first.labels[CAPACITY], "reserved");
    assert_eq!(first.labels["karpenter.k8s.aws/capacity-reservation-id"], "cr-1");
    assert_eq!(first.labels[ZONE], "us-east-1b");
    assert_eq!(world.cloud.reservations.counts().available("cr-1"), 0);
    assert_eq!(launched(&world, &any("b")).await.labels[CAPACITY], "on-demand");
}

// AWS-254
#[tokio::test(start_paused = true)]
async fn full_reservations_of_one_zone_are_told_apart_by_type() {
    let world = world(&["m5.large", "c5.large"]).await;
    let all = [("cr-1", "m5.large"), ("cr-2", "c5.large")];
    let in_status = all.map(|(id, kind)| {
        json!({"availabilityZone": "us-east-1a", "id": id, "instanceMatchCriteria": "targeted", "instanceType": kind,
            "ownerID": "123456789012", "reservationType": "default", "interruptible": false, "state": "active"})
    });
    let class = ready_class(
        json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}, {"id": "cr-2"}]}),
        json!({"capacityReservations": in_status}),
    );
    let class = world.put_class(&class).await;
    world.aws.account().reservations = all
        .map(|(id, kind)| DescribedReservation {
            instance_type: kind.to_owned(),
            ..fake_aws::reservation(id, 5)
        })
        .into();
    world.cloud.reservations.list(&class, world.clock.now()).await.unwrap();
    let available = || ["cr-1", "cr-2"].map(|id| world.cloud.reservations.counts().available(id));
    assert_eq!(available(), [5, 5]);
    let full = |kind: &str| {
        let pools =
            ["reserved", "on-demand"].map(|bought| (bought.to_owned(), kind.to_owned(), "us-east-1a".to_owned()));
        world.aws.account().empty_pools = pools.into();
    };
    let reserved = |name: &str| claim(name, &[(TYPE, &["m5.large", "c5.large"]), (CAPACITY, &["reserved"])]);
    for (kind, after) in [("m5.large", [0, 4]), ("c5.large", [0, 0])] {
        full(kind);
        // The second time there is only the type that is full.
        let launched = world.provider.create(&reserved(kind)).await;
        assert_eq!(launched.is_ok(), kind == "m5.large");
        assert_eq!(available(), after);
    }
}

// AWS-263
#[tokio::test(start_paused = true)]
async fn tagging_an_instance_that_is_gone_says_so() {
    let world = ready_world(&["m5.large"]).await;
    launched(&world, &plain_claim("a")).await;
    let tags: Tags = [("Name".to_owned(), "node-1".to_owned())].into();
    world.cloud.instances.create_tags("i-00000001", &tags).await.unwrap();
    assert_eq!(world.aws.account().instances[0].tags["Name"], "node-1");
    let error = world.cloud.instances.create_tags("i-gone", &tags).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    world.aws.fail("CreateTags", "UnauthorizedOperation", "no");
    assert!(
        !world
            .cloud
            .instances
            .create_tags("i-00000001", &tags)
            .await
            .unwrap_err()
            .is_not_found()
    );
}

// AWS-331
#[tokio::test(start_paused = true)]
async fn ec2_is_left_alone_about_instances_in_a_shifted_zone() {
    let world = ready_world(&["m5.large"]).await;
    let pool = world.put_pool().await;
    let claim = plain_claim("a");
    let claim = after_launch(&claim, &launched(&world, &claim).await);
    world.provider.list().await.unwrap();
    let shift = |zone_id: &str| Shift {
        zone_id: zone_id.to_owned(),
        expires: start() + SignedDuration::from_hours(1),
        applied: true,
    };
    // The fake calls the zone of instances use1-a, and subnets are in use1-az1.
    world
        .cloud
        .market
        .shifts()
        .report(&[shift("use1-a"), shift("use1-az1")]);
    world.aws.take_calls();
    world.cloud.instances.get_fresh("i-00000001").await.unwrap();
    assert!(world.provider.delete(&claim).await.is_err());
    let tags: Tags = [("Name".to_owned(), "node-1".to_owned())].into();
    assert!(world.cloud.instances.create_tags("i-00000001", &tags).await.is_err());
    assert_eq!(world.aws.take_calls(), Vec::<String>::new());
    world.aws.account().instances.clear();
    world.provider.list().await.unwrap();
    assert!(
        world
            .provider
            .get(claim.status.as_ref().unwrap().provider_id.as_ref().unwrap())
            .await
            .is_ok()
    );
    // No new instances there.
    let types = world.provider.instance_types(&pool).await.unwrap();
    let zones: Vec<&str> = types.types[0]
        .offerings
        .iter()
        .filter(|offering| offering.available)
        .filter_map(|offering| offering.zone().map(|zone| world.cloud.interner.text(zone)))
        .collect();
    assert!(
        zones.iter().all(|zone| *zone == "us-east-1b") && !zones.is_empty(),
        "{zones:?}"
    );
}

// AWS-292, AWS-300
#[tokio::test(start_paused = true)]
async fn drift_needs_a_pool_a_class_and_an_instance() {
    let mut world = world(&["m5.large"]).await;
    let drift = async |world: &World, claim: &NodeClaim| world.provider.is_drifted(claim).await;
    let mut lone = plain_claim("a");
    lone.metadata.labels = None;
    assert_eq!(drift(&world, &lone).await.unwrap(), None);
    assert_eq!(
        drift(&world, &plain_claim("a")).await.unwrap(),
        None,
        "the pool is missing"
    );
    world.put_pool().await;
    assert_eq!(
        drift(&world, &plain_claim("a")).await.unwrap(),
        None,
        "the class is missing"
    );
    assert_eq!(world.events().len(), 1);
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let claim = plain_claim("a");
    let launched = launched(&world, &claim).await;
    let claim = after_launch(&claim, &launched);
    assert_eq!(drift(&world, &claim).await.unwrap(), None);
    let mut without = claim.clone();
    without.status.as_mut().unwrap().provider_id = None;
    assert!(drift(&world, &without).await.is_err());
    let mut gone = claim.clone();
    gone.status.as_mut().unwrap().provider_id = Some("aws:///us-east-1a/i-gone".to_owned());
    assert!(drift(&world, &gone).await.is_err());
}

// AWS-293, AWS-295, AWS-296, AWS-297, AWS-492
#[tokio::test(start_paused = true)]
async fn drift_follows_the_status_of_the_class() {
    let world = ready_world(&["m5.large"]).await;
    world.put_pool().await;
    let claim = plain_claim("a");
    let claim = after_launch(&claim, &launched(&world, &claim).await);
    let drift = async |status: serde_json::Value| {
        world.patch_status(status).await;
        let found = world.provider.is_drifted(&claim).await.unwrap();
        found.map(|reason| reason.0.to_string())
    };
    assert_eq!(drift(json!({})).await, None);
    let subnets = json!([{"id": "subnet-c", "zone": "us-east-1a"}]);
    assert_eq!(drift(json!({"subnets": subnets})).await.as_deref(), Some("SubnetDrift"));
    let groups = json!([{"id": "sg-2"}]);
    assert_eq!(
        drift(json!({"securityGroups": groups})).await.as_deref(),
        Some("SecurityGroupDrift")
    );
    let arch = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    let images = json!([{"id": "ami-new", "requirements": arch}]);
    assert_eq!(drift(json!({"amis": images})).await.as_deref(), Some("AMIDrift"));
    // The annotations of the claim are those of the class as it was.
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let annotations = json!({"metadata": {"annotations": {"karpenter.k8s.aws/ec2nodeclass-hash": "1",
        "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5"}}});
    api.patch("nodes", &PatchParams::default(), &Patch::Merge(annotations))
        .await
        .unwrap();
    assert_eq!(drift(json!({})).await.as_deref(), Some("NodeClassDrift"));
    for call in ["DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"] {
        assert_eq!(world.aws.count(call), 0, "{call}");
    }
}

// AWS-299
#[tokio::test(start_paused = true)]
async fn a_placement_group_that_cannot_be_looked_up_is_no_drift() {
    let world = world(&["m5.large"]).await;
    let group = kerf_aws::placement_group::PlacementGroup {
        id: "pg-1".to_owned(),
        name: "mine".to_owned(),
        strategy: kerf_aws::placement_group::Strategy::Cluster,
        partitions: 0,
    };
    world.aws.account().groups = vec![group];
    world
        .put_class(&ready_class(
            json!({"placementGroupSelector": {"name": "mine"}}),
            json!({}),
        ))
        .await;
    world.put_pool().await;
    let claim = plain_claim("a");
    let claim = after_launch(&claim, &launched(&world, &claim).await);
    assert_eq!(
        claim.metadata.labels.as_ref().unwrap()["karpenter.k8s.aws/placement-group-id"],
        "pg-1"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.aws.fail("DescribePlacementGroups", "InternalError", "");
    world.aws.account().groups[0].id = "pg-2".to_owned();
    assert_eq!(world.provider.is_drifted(&claim).await.unwrap(), None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let drift = world.provider.is_drifted(&claim).await.unwrap().unwrap();
    assert_eq!(&*drift.0, "PlacementGroupDrift");
}

// AWS-282
#[tokio::test(start_paused = true)]
async fn a_node_registers_once_its_partition_is_known() {
    let world = world(&["m5.large"]).await;
    world.aws.account().groups = vec![kerf_aws::placement_group::PlacementGroup {
        id: "pg-1".to_owned(),
        name: "mine".to_owned(),
        strategy: kerf_aws::placement_group::Strategy::Partition,
        partitions: 3,
    }];
    world
        .put_class(&ready_class(
            json!({"placementGroupSelector": {"id": "pg-1"}}),
            json!({}),
        ))
        .await;
    let hook = Arc::clone(&world.provider.registration_hooks()[0]);
    assert_eq!(hook.name(), "PlacementGroupRegistrationHook");
    assert_eq!(hook.register(&plain_claim("a")).await.unwrap(), HookOutcome::READY);
    let claim = plain_claim("a");
    let claim = after_launch(&claim, &launched(&world, &claim).await);
    assert_eq!(hook.register(&claim).await.unwrap(), HookOutcome::Pending(None));
    world.aws.account().instances[0].partition = 2;
    let HookOutcome::Ready { labels, .. } = hook.register(&claim).await.unwrap() else {
        panic!("the partition is known");
    };
    assert_eq!(labels["karpenter.k8s.aws/placement-group-partition"], "2");
    world.aws.fail("DescribeInstances", "InternalError", "");
    assert!(hook.register(&claim).await.is_err());
}

// AWS-266, AWS-367, AWS-368
#[tokio::test(start_paused = true)]
async fn a_thousand_launches_are_few_calls() {
    let world = ready_world(&["m5.large"]).await;
    let claims: Vec<NodeClaim> = (0..1000).map(|at| plain_claim(&format!("c{at}"))).collect();
    let all = join_all(claims.iter().map(|claim| world.provider.create(claim))).await;
    let mut ids: Vec<String> = all.into_iter().map(|one| one.unwrap().provider_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 1000);
    let fleets = world.aws.count("CreateFleet");
    assert!(fleets <= 4, "{fleets} calls");
    assert_eq!(world.aws.count("CreateLaunchTemplate"), 1);
    let count = |name: &str| world.metric(&format!("{name}_count{{batcher=\"create_fleet\"}}"));
    assert!(count("karpenter_cloudprovider_batcher_batch_size").is_some_and(|count| count >= 1.0));
    assert!(count("karpenter_cloudprovider_batcher_batch_time_seconds").is_some());
    let sum = world.metric("karpenter_cloudprovider_batcher_batch_size_sum{batcher=\"create_fleet\"}");
    assert_eq!(sum, Some(1000.0));
}

// AWS-246
#[tokio::test(start_paused = true)]
async fn options_of_the_class_reach_the_requests() {
    let world = world_with(&["m5.large"], &[("vm-memory-overhead-percent", "0.1")]).await;
    let spec = json!({"context": "fleet-context", "tags": {"team": "a"}, "detailedMonitoring": true});
    world.put_class(&ready_class(spec, json!({}))).await;
    launched(&world, &plain_claim("a")).await;
    let account = world.aws.account();
    assert_eq!(account.fleets[0].0.context.as_deref(), Some("fleet-context"));
    assert_eq!(account.instances[0].tags["team"], "a");
    assert_eq!(account.templates.values().next().unwrap().monitoring, Some(true));
}
