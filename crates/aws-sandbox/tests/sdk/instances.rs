//! Calls about instances: their life, tags and checks.

use crate::fixture::{World, later, pass, tags, world};
use kerf_aws::instance::{Instance, list_query};
use kerf_aws::interruption::{StatusCategory, parse, status_queries};
use kerf_aws::launch::TargetCapacity;
use kerf_aws::offering::CapacityType;
use kerf_aws::services::InstanceQuery;
use kerf_aws_sandbox::account::Signal;
use kerf_cloud::InterruptionKind;

async fn launch(world: &World, target: TargetCapacity) -> String {
    let request = world.fleet(target, &[("m5.large", "us-east-1a")]);
    let answer = world.services.ec2.create_fleet(&request, 1).await.unwrap();
    answer.instances[0].instance_id.clone()
}

async fn world_with_template() -> World {
    let world = world();
    world.put_template("one", &world.data()).await;
    world
}

fn by_id(id: &str) -> InstanceQuery {
    InstanceQuery {
        ids: vec![id.to_owned()],
        filters: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_lives_from_pending_to_forgotten() {
    let world = world_with_template().await;
    let ec2 = &world.services.ec2;
    let id = launch(&world, TargetCapacity::Spot).await;
    // It is not described at once.
    assert!(ec2.instances(&by_id(&id)).await.unwrap_err().is_not_found());
    pass(1).await;
    let one = ec2.instances(&by_id(&id)).await.unwrap().remove(0);
    assert_eq!((one.state.as_str(), one.launched), ("pending", later(0)));
    assert_eq!(
        (one.zone.as_str(), one.zone_id.as_deref()),
        ("us-east-1a", Some("use1-az1"))
    );
    assert_eq!(
        (one.instance_type.as_str(), one.image_id.as_str()),
        ("m5.large", &*world.image("x86_64"))
    );
    assert_eq!(
        (one.subnet_id.as_str(), one.tenancy.as_str()),
        ("subnet-us-east-1a", "default")
    );
    assert_eq!(
        (one.lifecycle.as_str(), one.interface_types.as_slice()),
        ("spot", &["interface".to_owned()][..])
    );
    assert_eq!(one.security_group_ids, ["sg-1".to_owned()].into());
    assert_eq!(one.tags, tags([("karpenter.sh/nodepool", "default")]));
    assert_eq!(Instance::new(one, true).capacity_type, CapacityType::Spot);
    pass(10).await;
    assert_eq!(ec2.instances(&by_id(&id)).await.unwrap()[0].state, "running");
    let ended = ec2.terminate_instances(std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(ended, [(id.clone(), "shutting-down".to_owned())]);
    pass(30).await;
    let gone = ec2.instances(&by_id(&id)).await.unwrap().remove(0);
    assert_eq!((gone.state.as_str(), gone.subnet_id.as_str()), ("terminated", ""));
    // A terminated one may be terminated again.
    assert_eq!(
        ec2.terminate_instances(std::slice::from_ref(&id)).await.unwrap()[0].1,
        "terminated"
    );
    pass(3600).await;
    assert!(ec2.instances(&by_id(&id)).await.unwrap_err().is_not_found());
    assert!(ec2.terminate_instances(&[id]).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn instances_are_listed_by_tags_and_state_in_pages() {
    let world = world_with_template().await;
    let ec2 = &world.services.ec2;
    let mut request = world.fleet(TargetCapacity::OnDemand, &[]);
    let pools = ["a", "b", "c", "d"].map(|zone| format!("us-east-1{zone}"));
    let pools: Vec<_> = pools.iter().map(|zone| ("m5.large", zone.as_str())).collect();
    let full = world.fleet(TargetCapacity::OnDemand, &pools);
    request.configs = full.configs;
    request.tags[0].tags = tags([
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("eks:eks-cluster-name", "prod"),
    ]);
    // More than the addresses of one subnet.
    let answer = ec2.create_fleet(&request, 1000).await.unwrap();
    assert_eq!(answer.instances.len(), 1000);
    assert_eq!(
        answer.instances.iter().filter(|one| one.zone == "us-east-1d").count(),
        250
    );
    let one_more = ec2.create_fleet(&request, 1).await.unwrap();
    assert!(one_more.errors.iter().all(|one| one.error.is_subnet_full()) && one_more.errors.len() == 4);
    pass(2).await;
    world.sandbox.with(|account, _| account.subnets[0].addresses = 300);
    ec2.create_fleet(&request, 50).await.unwrap();
    pass(2).await;
    world.calls("");
    let all = InstanceQuery {
        ids: Vec::new(),
        filters: list_query("prod"),
    };
    assert_eq!(ec2.instances(&all).await.unwrap().len(), 1050);
    assert_eq!(world.calls("DescribeInstances").len(), 2);
    let other = InstanceQuery {
        ids: Vec::new(),
        filters: list_query("other"),
    };
    assert!(ec2.instances(&other).await.unwrap().is_empty());
    // By ids there is no page size.
    let some: Vec<String> = answer
        .instances
        .iter()
        .take(500)
        .map(|one| one.instance_id.clone())
        .collect();
    assert_eq!(
        ec2.instances(&InstanceQuery {
            ids: some,
            filters: vec![]
        })
        .await
        .unwrap()
        .len(),
        500
    );
}

#[tokio::test(start_paused = true)]
async fn tags_are_put_onto_instances_that_are_seen() {
    let world = world_with_template().await;
    let ec2 = &world.services.ec2;
    let id = launch(&world, TargetCapacity::OnDemand).await;
    let name = tags([("Name", "prod/default-1"), ("odd", "<&>")]);
    assert!(ec2.create_tags(&id, &name).await.unwrap_err().is_not_found());
    pass(1).await;
    ec2.create_tags(&id, &name).await.unwrap();
    let found = ec2.instances(&by_id(&id)).await.unwrap().remove(0).tags;
    assert_eq!(
        (found["Name"].as_str(), found["odd"].as_str()),
        ("prod/default-1", "<&>")
    );
    assert_eq!(found["karpenter.sh/nodepool"], "default");
    let reserved = ec2.create_tags(&id, &tags([("aws:x", "y")])).await.unwrap_err();
    assert_eq!(reserved.code, "InvalidParameterValue");
}

#[tokio::test(start_paused = true)]
async fn failed_checks_and_maintenance_are_in_the_status() {
    let world = world_with_template().await;
    let (first, second) = (
        launch(&world, TargetCapacity::OnDemand).await,
        launch(&world, TargetCapacity::OnDemand).await,
    );
    pass(20).await;
    let found = async |query: usize| {
        world
            .services
            .ec2
            .instance_status(&status_queries()[query])
            .await
            .unwrap()
    };
    for query in 0..3 {
        assert!(found(query).await.is_empty());
    }
    world.sandbox.signal(&first, Signal::InstanceImpaired).unwrap();
    world.sandbox.signal(&second, Signal::SystemImpaired).unwrap();
    world.sandbox.signal(&second, Signal::Retirement).unwrap();
    let impaired = found(0).await;
    assert_eq!((impaired.len(), &impaired[0].instance_id), (1, &first));
    let detail = &impaired[0].details[0];
    assert_eq!(
        (detail.category, detail.failed, detail.impaired_since),
        (StatusCategory::Instance, true, Some(later(20)))
    );
    let system = impaired[0]
        .details
        .iter()
        .find(|one| one.category == StatusCategory::System)
        .unwrap();
    assert!(!system.failed);
    let system = found(1).await;
    assert_eq!((system.len(), &system[0].instance_id), (1, &second));
    let events = found(2).await;
    assert!(
        events.len() == 1
            && events[0]
                .details
                .iter()
                .any(|one| one.category == StatusCategory::Event)
    );
    world.sandbox.signal(&second, Signal::MaintenanceOver).unwrap();
    let events = found(2).await;
    assert_eq!(events.len(), 1, "EC2 goes on listing it");
    let mut details = events[0].details.iter();
    assert!(
        details.all(|one| one.category != StatusCategory::Event),
        "but it counts no more"
    );
    world.sandbox.signal(&first, Signal::Recovered).unwrap();
    assert!(found(0).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn signals_come_as_messages_that_the_provider_reads() {
    let world = world_with_template().await;
    let id = launch(&world, TargetCapacity::Spot).await;
    pass(20).await;
    world
        .sandbox
        .with(|account, _| account.queues.insert("events".to_owned(), Default::default()));
    for signal in [Signal::Rebalance, Signal::Retirement, Signal::SpotReclaim] {
        world.sandbox.signal(&id, signal).unwrap();
    }
    let url = world.services.sqs.queue_url("events").await.unwrap();
    let kinds = async || {
        let messages = world.services.sqs.receive(&url).await.unwrap();
        for message in &messages {
            world.services.sqs.delete(&url, &message.receipt).await.unwrap();
        }
        let parsed = messages.iter().map(|message| parse(&message.body).unwrap());
        let parsed: Vec<_> = parsed.collect();
        assert!(parsed.iter().all(|message| message.instance_ids == [id.as_str()]));
        parsed
            .into_iter()
            .map(|message| (message.kind.unwrap(), message.time.unwrap()))
            .collect::<Vec<_>>()
    };
    let warned = later(20);
    assert_eq!(
        kinds().await,
        [
            (InterruptionKind::RebalanceRecommendation, warned),
            (InterruptionKind::ScheduledChange, warned),
            (InterruptionKind::SpotReclaim, warned),
        ]
    );
    // Two minutes after the warning the instance ends by itself, and the queue gets a message about it.
    let mut ended = Vec::new();
    while ended.len() < 2 {
        ended.extend(kinds().await);
    }
    let terminated = InterruptionKind::InstanceTerminated;
    assert_eq!(ended, [(terminated, later(140)), (terminated, later(170))]);
    assert_eq!(
        world.services.ec2.instances(&by_id(&id)).await.unwrap()[0].state,
        "terminated"
    );
}
