//! The services besides EC2.

use crate::fixture::{account, later, pass, start, tags, world, world_of};
use kerf_aws::pricing::{builtin_prices, on_demand_prices, price_queries};
use kerf_aws::services::{ClusterDescription, InstanceProfile};
use kerf_aws::tags::Tags;
use kerf_aws::zonal_shift::Shift;
use kerf_aws_sandbox::account::{EksCluster, Queue};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn parameters_have_values_or_are_not_found() {
    let mut account = account();
    account.parameters.insert("/own/image".to_owned(), "ami-1".to_owned());
    let world = world_of(account);
    assert_eq!(world.services.ssm.parameter("/own/image").await.unwrap(), "ami-1");
    let missing = world.services.ssm.parameter("/own/other").await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn instance_profiles_have_one_role_each() {
    let world = world();
    let iam = &world.services.iam;
    assert!(iam.instance_profile("one").await.unwrap_err().is_not_found());
    iam.create_instance_profile("one", "/karpenter/us-east-1/", &tags([("a", "b")]))
        .await
        .unwrap();
    let exists = iam.create_instance_profile("one", "/", &Tags::new()).await.unwrap_err();
    assert!(exists.is_already_exists());
    let profile = |role: Option<&str>| InstanceProfile {
        name: "one".to_owned(),
        role: role.map(str::to_owned),
    };
    assert_eq!(iam.instance_profile("one").await.unwrap(), profile(None));
    let no_role = iam.add_role("one", "other").await.unwrap_err();
    assert!(no_role.is_role_not_found() && no_role.is_not_found());
    let role = "KarpenterNodeRole-prod";
    iam.add_role("one", role).await.unwrap();
    assert_eq!(iam.instance_profile("one").await.unwrap(), profile(Some(role)));
    assert_eq!(iam.add_role("one", role).await.unwrap_err().code, "LimitExceeded");
    assert_eq!(
        iam.delete_instance_profile("one").await.unwrap_err().code,
        "DeleteConflict"
    );
    iam.remove_role("one", role).await.unwrap();
    iam.delete_instance_profile("one").await.unwrap();
    let gone = iam.delete_instance_profile("one").await.unwrap_err();
    assert!(gone.is_not_found() && !gone.is_role_not_found());
    assert_eq!(
        world.calls("CreateInstanceProfile")[0].parameters["Tags.member.1.Value"],
        "b"
    );
}

#[tokio::test(start_paused = true)]
async fn instance_profiles_are_listed_by_path_in_pages() {
    let world = world();
    let iam = &world.services.iam;
    for number in 0..120 {
        iam.create_instance_profile(&format!("p{number}"), "/karpenter/us-east-1/prod/", &Tags::new())
            .await
            .unwrap();
    }
    iam.create_instance_profile("other", "/karpenter/us-east-1/test/", &Tags::new())
        .await
        .unwrap();
    world.calls("");
    assert_eq!(
        iam.instance_profiles("/karpenter/us-east-1/prod/").await.unwrap().len(),
        120
    );
    assert_eq!(world.calls("ListInstanceProfiles").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_receive_waits_for_messages() {
    let mut account = account();
    account.queues.insert("events".to_owned(), Queue::default());
    let world = world_of(account);
    let sqs = &world.services.sqs;
    assert!(sqs.queue_url("other").await.unwrap_err().is_not_found());
    let url = sqs.queue_url("events").await.unwrap();
    let begun = tokio::time::Instant::now();
    assert!(sqs.receive(&url).await.unwrap().is_empty());
    assert_eq!(begun.elapsed(), Duration::from_secs(20));
    let sandbox = world.sandbox.clone();
    let send = async move {
        pass(7).await;
        sandbox.with(|account, now| account.queue("events").unwrap().send("{}", now));
    };
    let ((), messages) = tokio::join!(send, sqs.receive(&url));
    let message = messages.unwrap().remove(0);
    assert_eq!((message.body.as_str(), message.sent), ("{}", Some(later(27))));
    // It is hidden for 20 s, and received again unless it is deleted.
    let again = sqs.receive(&url).await.unwrap().remove(0);
    assert_eq!(begun.elapsed(), Duration::from_secs(47));
    sqs.delete(&url, &again.receipt).await.unwrap();
    assert!(sqs.receive(&url).await.unwrap().is_empty());
    let sent: serde_json::Value = serde_json::from_str(&world.calls("ReceiveMessage")[0].parameters["body"]).unwrap();
    assert_eq!(
        (&sent["MaxNumberOfMessages"], &sent["VisibilityTimeout"]),
        (&10.into(), &20.into())
    );
    world.sandbox.with(|account, _| account.queues.clear());
    assert!(sqs.receive(&url).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn at_most_ten_messages_come_at_once() {
    let mut account = account();
    let mut queue = Queue::default();
    (0..12).for_each(|number| queue.send(&number.to_string(), start()));
    account.queues.insert("events".to_owned(), queue);
    let world = world_of(account);
    let url = world.services.sqs.queue_url("events").await.unwrap();
    assert_eq!(world.services.sqs.receive(&url).await.unwrap().len(), 10);
    assert_eq!(world.services.sqs.receive(&url).await.unwrap().len(), 2);
}

fn cluster(shifts: Option<Vec<Shift>>) -> EksCluster {
    EksCluster {
        name: "prod".to_owned(),
        description: ClusterDescription {
            endpoint: "https://cluster".to_owned(),
            version: "1.33".to_owned(),
            arn: "arn:aws:eks:us-east-1:111122223333:cluster/prod".to_owned(),
            service_ipv4_cidr: Some("10.100.0.0/16".to_owned()),
            service_ipv6_cidr: None,
        },
        certificate: "Q0E=".to_owned(),
        shifts,
    }
}

#[tokio::test(start_paused = true)]
async fn eks_describes_its_cluster() {
    let mut account = account();
    account.clusters = vec![cluster(None)];
    let world = world_of(account);
    assert_eq!(
        world.services.eks.cluster("prod").await.unwrap(),
        cluster(None).description
    );
    assert_eq!(
        world.services.eks.cluster("other").await.unwrap_err().code,
        "ResourceNotFoundException"
    );
}

#[tokio::test(start_paused = true)]
async fn shifts_of_zones_are_those_of_the_cluster() {
    let shifts = vec![
        Shift {
            zone_id: "use1-az1".to_owned(),
            expires: later(3600),
            applied: true,
        },
        Shift {
            zone_id: "use1-az2".to_owned(),
            expires: later(60),
            applied: false,
        },
    ];
    let mut account = account();
    account.clusters = vec![cluster(Some(shifts.clone()))];
    let world = world_of(account);
    let arn = cluster(None).description.arn;
    assert_eq!(world.services.zonal_shift.shifts(&arn).await.unwrap(), shifts);
    world.sandbox.with(|account, _| account.clusters[0].shifts = None);
    assert_eq!(
        world.services.zonal_shift.shifts(&arn).await.unwrap_err().code,
        "ResourceNotFoundException"
    );
}

#[tokio::test(start_paused = true)]
async fn the_price_list_has_what_is_built_in() {
    let world = world();
    let [shared, metal] = price_queries("us-east-1");
    let shared = world.services.price_list.products(&shared).await.unwrap();
    let metal = world.services.price_list.products(&metal).await.unwrap();
    let prices = on_demand_prices([&shared, &metal], "us-east-1").unwrap();
    assert!(prices.len() > 700, "{}", prices.len());
    for (kind, price) in &prices {
        let known = builtin_prices("us-east-1", kind).unwrap();
        assert!((price.per_hour() - known.per_hour()).abs() < 1e-9, "{kind}");
    }
    let metal_price = prices.keys().any(|kind| kind.ends_with(".metal"));
    assert!(metal_price && world.calls("GetProducts").len() > 7);
}
