//! CreateFleet and RunInstances.

use crate::fixture::{World, account, pass, tags, world, world_of};
use kerf_aws::instance::Instance;
use kerf_aws::launch::{
    AllocationStrategy, FleetTagSpecification, InterfaceRequest, MarketType, ReservationPreference, TargetCapacity,
};
use kerf_aws::offering::CapacityType;
use kerf_aws::placement_group::Strategy;
use kerf_aws::services::{FleetAnswer, FleetDryRun, InstanceQuery, InstancesDryRun};
use kerf_aws::tags::Tags;
use kerf_aws_sandbox::account::{Account, PlacementGroup, PoolRule, Purchase, Reservation};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";

async fn ready(account: Account) -> World {
    let world = world_of(account);
    world.put_template("one", &world.data()).await;
    world
}

async fn fleet(world: &World, target: TargetCapacity, pools: &[(&str, &str)], count: u32) -> FleetAnswer {
    world
        .services
        .ec2
        .create_fleet(&world.fleet(target, pools), count)
        .await
        .unwrap()
}

fn launched(answer: &FleetAnswer) -> Vec<(&str, &str)> {
    answer
        .instances
        .iter()
        .map(|one| (one.instance_type.as_str(), one.zone.as_str()))
        .collect()
}

fn failed(answer: &FleetAnswer) -> Vec<(&str, &str, &str)> {
    let each = answer.errors.iter();
    each.map(|one| (one.error.code.as_str(), one.instance_type.as_str(), one.zone.as_str()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_cheapest_type_with_room_is_launched_on_demand() {
    let world = ready(account()).await;
    let pools = [("m5.xlarge", A), ("m5.large", B), ("m5.2xlarge", A)];
    let answer = fleet(&world, TargetCapacity::OnDemand, &pools, 2).await;
    assert_eq!(launched(&answer), [("m5.large", B), ("m5.large", B)]);
    assert!(answer.errors.is_empty());
    let one = &answer.instances[0];
    assert_eq!(
        (one.subnet_id.as_deref(), one.image_id.as_str()),
        (Some("subnet-us-east-1b"), &*world.image("x86_64"))
    );
    let sent = &world.calls("CreateFleet")[0].parameters;
    assert_eq!(sent["Type"], "instant");
    assert_eq!(sent["TargetCapacitySpecification.TotalTargetCapacity"], "2");
    assert_eq!(
        sent["TargetCapacitySpecification.DefaultTargetCapacityType"],
        "on-demand"
    );
    assert_eq!(sent["OnDemandOptions.AllocationStrategy"], "lowest-price");
    assert_eq!(
        sent["LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version"],
        "$Latest"
    );
    assert_eq!(sent["LaunchTemplateConfigs.1.Overrides.3.Priority"], "3.0");
    assert!(!sent.contains_key("SpotOptions.AllocationStrategy") && !sent.contains_key("Context"));
    assert_eq!(sent["TagSpecification.3.ResourceType"], "fleet");
}

#[tokio::test(start_paused = true)]
async fn pools_without_room_are_errors_beside_the_instances() {
    let mut account = account();
    account.pools.rules = vec![
        PoolRule::empty().of_type("m5.large").bought(Purchase::OnDemand),
        PoolRule::empty().of_type("m5.xlarge").with_capacity(1),
        PoolRule::empty()
            .of_type("m5.2xlarge")
            .with_code("UnfulfillableCapacity"),
    ];
    let world = ready(account).await;
    let pools = [("m5.large", A), ("m5.xlarge", A), ("m5.2xlarge", A), ("m5.4xlarge", B)];
    let answer = fleet(&world, TargetCapacity::OnDemand, &pools, 3).await;
    assert_eq!(
        launched(&answer),
        [("m5.xlarge", A), ("m5.4xlarge", B), ("m5.4xlarge", B)]
    );
    assert_eq!(
        failed(&answer),
        [
            ("InsufficientInstanceCapacity", "m5.large", A),
            ("UnfulfillableCapacity", "m5.2xlarge", A)
        ]
    );
    assert!(
        answer
            .errors
            .iter()
            .all(|one| one.error.is_unfulfillable() && one.subnet_id.is_some())
    );
    // The rule is about on-demand capacity alone.
    let spot = fleet(&world, TargetCapacity::Spot, &[("m5.large", A)], 1).await;
    assert_eq!(launched(&spot), [("m5.large", A)]);
    world
        .sandbox
        .with(|account, _| account.pools.rules = vec![PoolRule::empty()]);
    let none = fleet(&world, TargetCapacity::OnDemand, &pools, 1).await;
    assert_eq!((none.instances.len(), none.errors.len()), (0, 4));
}

#[tokio::test(start_paused = true)]
async fn priorities_decide_where_the_strategy_says_so() {
    let world = ready(account()).await;
    let pools = [("m5.xlarge", A), ("m5.large", B)];
    for (target, strategy, sent) in [
        (TargetCapacity::OnDemand, AllocationStrategy::Prioritized, "prioritized"),
        (
            TargetCapacity::Spot,
            AllocationStrategy::CapacityOptimizedPrioritized,
            "capacity-optimized-prioritized",
        ),
    ] {
        let mut request = world.fleet(target, &pools);
        request.strategy = strategy;
        request.context = Some("ctx".to_owned());
        let answer = world.services.ec2.create_fleet(&request, 1).await.unwrap();
        if target == TargetCapacity::OnDemand {
            assert_eq!(launched(&answer), [("m5.xlarge", A)]);
        }
        assert_eq!(answer.instances.len(), 1);
        let call = world.calls("CreateFleet").remove(0).parameters;
        let options = if target == TargetCapacity::Spot {
            "SpotOptions"
        } else {
            "OnDemandOptions"
        };
        assert_eq!(call[&format!("{options}.AllocationStrategy")], sent);
        assert_eq!(call["Context"], "ctx");
    }
}

#[tokio::test(start_paused = true)]
async fn spot_prefers_pools_with_spare_capacity_then_low_prices() {
    let world = ready(account()).await;
    let kinds = [
        "m5.large",
        "m5a.large",
        "m6i.large",
        "m6a.large",
        "c5.large",
        "r5.large",
    ];
    let pools: Vec<_> = kinds.iter().flat_map(|kind| [(*kind, A), (*kind, B)]).collect();
    let answer = fleet(&world, TargetCapacity::Spot, &pools, 1).await;
    let chosen = launched(&answer)[0];
    // Taking the chosen pool away gives another one that is not cheaper among those with spare capacity, or has none.
    let price = |pool: (&str, &str)| {
        world
            .sandbox
            .with(|account, _| account.spot_price(pool.0, pool.1))
            .unwrap()
    };
    let cheapest = pools.iter().map(|pool| price(*pool)).min().unwrap();
    world.sandbox.with(|account, _| {
        account
            .spot_prices
            .insert((chosen.0.to_owned(), chosen.1.to_owned()), cheapest);
    });
    assert_eq!(
        launched(&fleet(&world, TargetCapacity::Spot, &pools, 1).await),
        [chosen]
    );
    assert_eq!(
        world.calls("CreateFleet")[0].parameters["SpotOptions.AllocationStrategy"],
        "price-capacity-optimized"
    );
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_gone_fails_the_whole_call() {
    let world = world();
    let request = world.fleet(TargetCapacity::OnDemand, &[("m5.large", A)]);
    let error = world.services.ec2.create_fleet(&request, 1).await.unwrap_err();
    assert!(error.is_launch_template_not_found(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_launches_nothing_twice() {
    let world = ready(account()).await;
    world.faults.lose_answers("CreateFleet", 1);
    let answer = fleet(&world, TargetCapacity::OnDemand, &[("m5.large", A)], 1).await;
    let ids = world
        .sandbox
        .with(|account, _| account.instances.keys().cloned().collect::<Vec<_>>());
    assert_eq!(ids, [answer.instances[0].instance_id.clone()]);
    assert_eq!(world.calls("CreateFleet").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_ec2_refuses_is_an_error_of_the_override() {
    let mut account = account();
    account.not_offered.insert(("m5.large".to_owned(), A.to_owned()));
    let world = ready(account).await;
    let mut request = world.fleet(
        TargetCapacity::OnDemand,
        &[
            ("m5.large", A),
            ("m6g.large", A),
            ("m5.large", B),
            ("m5.xlarge", B),
            ("m5.2xlarge", B),
        ],
    );
    request.configs[0].overrides[2].subnet_id = Some("subnet-9".to_owned());
    request.configs[0].overrides[3].image_id = "ami-9".to_owned();
    request.configs[0].overrides[4].instance_type = "m99.large".to_owned();
    let answer = world.services.ec2.create_fleet(&request, 1).await.unwrap();
    let mut codes: Vec<_> = failed(&answer).iter().map(|(code, ..)| *code).collect();
    codes.sort_unstable();
    assert_eq!(
        codes,
        [
            "InvalidAMIID.NotFound",
            "InvalidParameterValue",
            "InvalidParameterValue",
            "InvalidSubnetID.NotFound",
            "Unsupported"
        ]
    );
    let mut data = world.data();
    data.interfaces[0].security_group_ids = vec!["sg-2".to_owned()];
    world.sandbox.with(|account, _| account.templates.clear());
    world.put_template("one", &data).await;
    let answer = fleet(&world, TargetCapacity::OnDemand, &[("m5.large", B)], 1).await;
    assert_eq!(failed(&answer), [("InvalidParameter", "m5.large", B)]);
}

#[tokio::test(start_paused = true)]
async fn reservations_fill_up_and_blocks_need_their_market() {
    let mut account = account();
    let reservation = |id: &str, kind: &str, interruptible| Reservation {
        id: id.to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: account.zones[0].clone(),
        owner_id: account.id.clone(),
        match_criteria: "targeted".to_owned(),
        kind: kind.to_owned(),
        interruptible,
        total: 1,
        ends: None,
        tags: Tags::new(),
    };
    account.reservations = vec![
        reservation("cr-1", "default", false),
        reservation("cr-2", "capacity-block", false),
        reservation("cr-3", "default", true),
    ];
    let world = world_of(account);
    for (id, market, target, lifecycle, kind) in [
        ("cr-1", None, TargetCapacity::OnDemand, "", "default"),
        (
            "cr-2",
            Some(MarketType::CapacityBlock),
            TargetCapacity::CapacityBlock,
            "capacity-block",
            "capacity-block",
        ),
        (
            "cr-3",
            Some(MarketType::InterruptibleReservation),
            TargetCapacity::ReservedCapacity,
            "interruptible-capacity-reservation",
            "default",
        ),
    ] {
        let mut data = world.data();
        data.reservation = Some(ReservationPreference::Only(id.to_owned()));
        data.market = market;
        world.put_template("one", &data).await;
        let answer = fleet(&world, target, &[("m5.large", A)], 2).await;
        assert_eq!(launched(&answer), [("m5.large", A)], "{id}");
        let again = fleet(&world, target, &[("m5.large", A)], 1).await;
        assert_eq!(failed(&again), [("ReservationCapacityExceeded", "m5.large", A)]);
        pass(1).await;
        let query = InstanceQuery {
            ids: vec![answer.instances[0].instance_id.clone()],
            filters: vec![],
        };
        let one = world.services.ec2.instances(&query).await.unwrap().remove(0);
        assert_eq!(
            (one.reservation_id.as_deref(), one.lifecycle.as_str()),
            (Some(id), lifecycle)
        );
        let one = Instance::new(one, true);
        assert_eq!(one.capacity_type, CapacityType::Reserved);
        let reservation = one.reservation.unwrap();
        assert_eq!(
            (reservation.reservation_type, reservation.interruptible),
            (kind, id == "cr-3")
        );
        world.services.ec2.delete_launch_template("one").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn instances_run_on_demand_once_their_reservation_has_ended() {
    let mut account = account();
    let zone = account.zones[0].clone();
    account.reservations = vec![Reservation {
        id: "cr-1".to_owned(),
        instance_type: "m5.large".to_owned(),
        zone,
        owner_id: account.id.clone(),
        match_criteria: "targeted".to_owned(),
        kind: "default".to_owned(),
        interruptible: false,
        total: 1,
        ends: None,
        tags: Tags::new(),
    }];
    let world = world_of(account);
    let mut data = world.data();
    data.reservation = Some(ReservationPreference::Only("cr-1".to_owned()));
    world.put_template("one", &data).await;
    let answer = fleet(&world, TargetCapacity::OnDemand, &[("m5.large", A)], 1).await;
    assert_eq!(launched(&answer), [("m5.large", A)]);
    pass(1).await;
    let described = async || {
        let query = InstanceQuery {
            ids: vec![answer.instances[0].instance_id.clone()],
            filters: vec![],
        };
        Instance::new(world.services.ec2.instances(&query).await.unwrap().remove(0), true)
    };
    assert_eq!(described().await.capacity_type, CapacityType::Reserved);
    world
        .sandbox
        .with(|account, now| account.reservations[0].ends = Some(now));
    let after = described().await;
    assert_eq!((after.capacity_type, after.reservation), (CapacityType::OnDemand, None));
}

#[tokio::test(start_paused = true)]
async fn placement_groups_give_partitions_and_have_limits() {
    let mut account = account();
    let group = |id: &str, strategy, partitions| PlacementGroup {
        id: id.to_owned(),
        name: id.to_owned(),
        strategy,
        partitions,
        state: "available".to_owned(),
        tags: Tags::new(),
    };
    account.placement_groups = vec![
        group("pg-1", Strategy::Partition, 3),
        group("pg-2", Strategy::Spread, 0),
    ];
    let world = world_of(account);
    let mut data = world.data();
    data.placement.group_id = Some("pg-1".to_owned());
    world.put_template("one", &data).await;
    fleet(&world, TargetCapacity::OnDemand, &[("m5.large", A)], 3).await;
    pass(1).await;
    let all = world.services.ec2.instances(&InstanceQuery::default()).await.unwrap();
    let mut partitions: Vec<u32> = all.iter().map(|one| one.partition).collect();
    partitions.sort_unstable();
    assert_eq!(partitions, [1, 2, 3]);
    data.placement.group_id = Some("pg-2".to_owned());
    world.services.ec2.delete_launch_template("one").await.unwrap();
    world.put_template("one", &data).await;
    for _ in 0..7 {
        assert_eq!(
            fleet(&world, TargetCapacity::OnDemand, &[("m5.large", A)], 1)
                .await
                .instances
                .len(),
            1
        );
    }
    let full = fleet(&world, TargetCapacity::OnDemand, &[("m5.large", A)], 1).await;
    assert!(full.errors[0].error.is_spread_limit(), "{full:?}");
    assert_eq!(
        fleet(&world, TargetCapacity::OnDemand, &[("m5.large", B)], 1)
            .await
            .instances
            .len(),
        1
    );
}

fn run_tags() -> Vec<FleetTagSpecification> {
    ["instance", "volume", "network-interface"]
        .map(|resource| FleetTagSpecification {
            resource,
            tags: tags([("a", "b")]),
        })
        .into()
}

fn dry_fleet() -> FleetDryRun {
    FleetDryRun {
        template_name: "one".to_owned(),
        instance_type: "m5.large".to_owned(),
        subnet_ids: vec!["subnet-us-east-1a".to_owned(), "subnet-us-east-1b".to_owned()],
        tags: run_tags(),
    }
}

fn dry_run() -> InstancesDryRun {
    InstancesDryRun {
        template_name: "one".to_owned(),
        instance_type: "m5.large".to_owned(),
        interfaces: vec![InterfaceRequest {
            security_group_ids: vec!["sg-1".to_owned()],
            ..InterfaceRequest::default()
        }],
        subnet_id: "subnet-us-east-1a".to_owned(),
        tags: run_tags(),
    }
}

#[tokio::test(start_paused = true)]
async fn dry_runs_launch_nothing_and_say_what_would_happen() {
    let world = ready(account()).await;
    let ec2 = &world.services.ec2;
    assert!(ec2.dry_run_fleet(&dry_fleet()).await.unwrap_err().is_dry_run_success());
    assert!(
        ec2.dry_run_instances(&dry_run())
            .await
            .unwrap_err()
            .is_dry_run_success()
    );
    let sent = world.calls("RunInstances").remove(0).parameters;
    assert_eq!(
        (
            sent["DryRun"].as_str(),
            sent["MinCount"].as_str(),
            sent["MaxCount"].as_str()
        ),
        ("true", "1", "1")
    );
    assert_eq!(sent["NetworkInterface.1.SubnetId"], "subnet-us-east-1a");
    assert_eq!(sent["NetworkInterface.1.SecurityGroupId.1"], "sg-1");
    assert!(world.sandbox.with(|account, _| account.instances.is_empty()));
    let mut wrong = dry_run();
    wrong.subnet_id = "subnet-9".to_owned();
    assert_eq!(
        ec2.dry_run_instances(&wrong).await.unwrap_err().code,
        "InvalidSubnetID.NotFound"
    );
    for action in ["ec2:CreateFleet", "ec2:RunInstances"] {
        world
            .sandbox
            .with(|account, _| account.denied.insert(action.to_owned()));
    }
    assert!(ec2.dry_run_fleet(&dry_fleet()).await.unwrap_err().is_unauthorized());
    assert!(ec2.dry_run_instances(&dry_run()).await.unwrap_err().is_unauthorized());
}

#[tokio::test(start_paused = true)]
async fn dry_runs_are_not_repeated() {
    let world = ready(account()).await;
    let internal = kerf_aws_sandbox::account::Refusal::new("InternalError", "no").with_status(500);
    world.faults.refuse("CreateFleet", &internal, 1);
    let error = world.services.ec2.dry_run_fleet(&dry_fleet()).await.unwrap_err();
    assert!(error.server_fault && error.code == "InternalError", "{error:?}");
    assert!(
        world
            .services
            .ec2
            .dry_run_fleet(&dry_fleet())
            .await
            .unwrap_err()
            .is_dry_run_success()
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_profile_is_not_seen_at_once() {
    let world = world();
    let iam = &world.services.iam;
    iam.create_instance_profile("prod_1", "/karpenter/", &Tags::new())
        .await
        .unwrap();
    let mut data = world.data();
    data.instance_profile = Some("prod_1".to_owned());
    world.put_template("one", &data).await;
    let try_it = async || world.services.ec2.dry_run_fleet(&dry_fleet()).await.unwrap_err();
    assert!(try_it().await.is_profile_not_visible());
    pass(5).await;
    assert!(try_it().await.message.contains("no associated IAM Roles"));
    iam.add_role("prod_1", "KarpenterNodeRole-prod").await.unwrap();
    assert!(try_it().await.is_dry_run_success());
}
