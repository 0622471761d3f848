//! Failures of connections, and permissions.

use crate::fixture::{World, account, pass, world, world_of};
use kerf_aws::launch::TargetCapacity;
use kerf_aws::sdk::{ConnectError, Connection};
use kerf_aws::services::InstanceQuery;
use kerf_aws_sandbox::account::Refusal;
use kerf_aws_sandbox::connect;
use kerf_aws_sandbox::faults::{AwsFaultPlan, AwsFaults};
use kerf_runtime::{Metrics, Seed};
use std::time::Duration;

async fn list(world: &World) -> Result<usize, kerf_aws::errors::ApiError> {
    world
        .services
        .ec2
        .instances(&InstanceQuery::default())
        .await
        .map(|found| found.len())
}

fn throttled() -> Refusal {
    Refusal::new("RequestLimitExceeded", "Request limit exceeded.").with_status(503)
}

#[tokio::test(start_paused = true)]
async fn throttled_calls_are_repeated_and_then_are_errors() {
    let world = world();
    world.faults.refuse("DescribeInstances", &throttled(), 2);
    assert_eq!(list(&world).await, Ok(0));
    world.faults.refuse("DescribeInstances", &throttled(), 3);
    assert!(list(&world).await.unwrap_err().is_rate_limited());
    assert_eq!(list(&world).await, Ok(0));
    // The account has buckets of its own.
    world.put_template("one", &world.data()).await;
    let request = world.fleet(TargetCapacity::OnDemand, &[("m5.large", "us-east-1a")]);
    for _ in 0..49 {
        world.services.ec2.create_fleet(&request, 1).await.unwrap();
    }
    let calls = world.calls("CreateFleet");
    assert!(calls.iter().all(|call| call.error.is_none()));
    // The SDK's pauses before its retries are random: now and then they are shorter than the bucket takes to gain a call.
    let _ = world.services.ec2.create_fleet(&request, 1).await;
    let calls = world.calls("CreateFleet");
    assert_eq!(calls[0].error.as_deref(), Some("RequestLimitExceeded"));
    assert!(calls.len() > 1, "the SDK repeats the call");
    pass(1).await;
    world.services.ec2.create_fleet(&request, 1).await.unwrap();
}

// AWS-378
#[tokio::test(start_paused = true)]
async fn calls_are_counted_and_timed_with_their_retries() {
    let world = world();
    world.faults.refuse("DescribeInstances", &throttled(), 2);
    assert_eq!(list(&world).await, Ok(0));
    assert!(world.services.ec2.delete_launch_template("none").await.is_err());
    let text = world.metrics.encode();
    for line in [
        r#"request_total{action="DescribeInstances",code="200",service="EC2"} 1"#,
        r#"request_total{action="DeleteLaunchTemplate",code="400",service="EC2"} 1"#,
        r#"request_attempt_total{action="DescribeInstances",code="503",service="EC2"} 2"#,
        r#"request_attempt_total{action="DescribeInstances",code="200",service="EC2"} 1"#,
        r#"request_retry_count_sum{action="DescribeInstances",code="200",service="EC2"} 2"#,
        r#"request_retry_count_bucket{action="DescribeInstances",code="200",service="EC2",le="1"} 0"#,
        r#"request_retry_count_sum{action="DeleteLaunchTemplate",code="400",service="EC2"} 0"#,
        r#"request_attempt_duration_seconds_count{action="DescribeInstances",code="503",service="EC2"} 2"#,
        r#"request_attempt_duration_seconds_sum{action="DescribeInstances",code="503",service="EC2"} 0"#,
        r#"request_duration_seconds_count{action="DescribeInstances",code="200",service="EC2"} 1"#,
        r#"request_duration_seconds_bucket{action="DescribeInstances",code="200",service="EC2",le="0.015"} 0"#,
    ] {
        assert!(text.contains(&format!("aws_sdk_go_{line}\n")), "{line}\n{text}");
    }
    // Pauses before retries count as time of the call, not of its attempts.
    let sum = r#"aws_sdk_go_request_duration_seconds_sum{action="DescribeInstances",code="200",service="EC2"} "#;
    let sum = text.lines().find_map(|line| line.strip_prefix(sum)).unwrap();
    assert!(sum.parse::<f64>().unwrap() > 0.01, "{sum}");
}

// AWS-378
#[tokio::test(start_paused = true)]
async fn calls_without_an_answer_have_code_0() {
    let world = world();
    world.faults.set(AwsFaultPlan {
        lost: 1.0,
        ..AwsFaultPlan::default()
    });
    assert!(list(&world).await.is_err());
    let text = world.metrics.encode();
    for line in [
        r#"request_total{action="DescribeInstances",code="0",service="EC2"} 1"#,
        r#"request_attempt_total{action="DescribeInstances",code="0",service="EC2"} 3"#,
    ] {
        assert!(text.contains(&format!("aws_sdk_go_{line}\n")), "{line}\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_connection_repeats_leaves_another_its_tries() {
    let worn = world();
    worn.faults.set(AwsFaultPlan {
        throttled: 1.0,
        ..AwsFaultPlan::default()
    });
    for _ in 0..60 {
        assert!(list(&worn).await.unwrap_err().is_rate_limited());
    }
    worn.faults.set(AwsFaultPlan::default());
    worn.faults.refuse("DescribeInstances", &throttled(), 1);
    assert!(
        list(&worn).await.is_err(),
        "the SDK repeats nothing after so many failures"
    );
    let fresh = world();
    fresh.faults.refuse("DescribeInstances", &throttled(), 2);
    assert_eq!(list(&fresh).await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_service_are_repeated_and_then_are_its_own() {
    let world = world();
    let internal = Refusal::new("InternalError", "An internal error has occurred").with_status(500);
    world.faults.refuse("DescribeInstances", &internal, 2);
    assert_eq!(list(&world).await, Ok(0));
    world.faults.refuse("DescribeInstances", &internal, 3);
    let error = list(&world).await.unwrap_err();
    assert!(error.server_fault && error.code == "InternalError", "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_has_a_code_of_its_own() {
    let world = world();
    world.faults.lose("DescribeInstances", 2);
    assert_eq!(list(&world).await, Ok(0));
    world.faults.lose("DescribeInstances", 3);
    let error = list(&world).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.server_fault), ("RequestError", false));
    assert!(error.message.contains("the connection broke"), "{error}");
}

// AWS-337
#[tokio::test(start_paused = true)]
async fn an_attempt_takes_four_minutes_at_most_and_says_who_calls() {
    let world = world();
    let slow = Duration::from_secs(239);
    world.faults.set(AwsFaultPlan {
        latency: Some((slow, slow)),
        ..AwsFaultPlan::default()
    });
    assert_eq!(list(&world).await, Ok(0));
    let agent = world.calls("DescribeInstances").remove(0).user_agent;
    assert!(
        agent.contains(&format!("karpenter.sh-{}", env!("CARGO_PKG_VERSION"))),
        "{agent}"
    );
    let too_slow = Duration::from_secs(241);
    world.faults.set(AwsFaultPlan {
        latency: Some((too_slow, too_slow)),
        ..AwsFaultPlan::default()
    });
    let begun = tokio::time::Instant::now();
    assert_eq!(list(&world).await.unwrap_err().code, "RequestTimeout");
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(3 * 240) && took < Duration::from_secs(3 * 241),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn permissions_are_checked_by_action() {
    let mut account = account();
    for action in [
        "ec2:DescribeInstances",
        "iam:GetInstanceProfile",
        "ssm:GetParameter",
        "sqs:GetQueueUrl",
        "eks:DescribeCluster",
        "pricing:GetProducts",
        "arc-zonal-shift:GetManagedResource",
    ] {
        account.denied.insert(action.to_owned());
    }
    let world = world_of(account);
    let services = &world.services;
    assert!(list(&world).await.unwrap_err().is_unauthorized());
    let others = [
        services.iam.instance_profile("x").await.map(drop),
        services.ssm.parameter("x").await.map(drop),
        services.sqs.queue_url("x").await.map(drop),
        services.eks.cluster("x").await.map(drop),
        services.price_list.products(&vec![]).await.map(drop),
        services.zonal_shift.shifts("x").await.map(drop),
    ];
    for other in others {
        let error = other.unwrap_err();
        assert!(error.code.starts_with("AccessDenied"), "{error}");
        assert!(error.message.contains("not authorized"), "{error}");
    }
    assert!(services.ec2.subnets(&vec![]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_of_strangers_are_refused() {
    let world = world();
    world
        .sandbox
        .with(|account, _| account.access_key = "AKIAOTHER".to_owned());
    assert_eq!(list(&world).await.unwrap_err().code, "AuthFailure");
    assert_eq!(
        world.services.iam.instance_profile("x").await.unwrap_err().code,
        "InvalidClientTokenId"
    );
    assert_eq!(
        world.services.ssm.parameter("x").await.unwrap_err().code,
        "UnrecognizedClientException"
    );
}

// AWS-333
#[tokio::test(start_paused = true)]
async fn the_check_at_start_tries_to_describe_instance_types() {
    let world = world();
    assert_eq!(world.connection.check().await, Ok(()));
    assert_eq!(world.connection.region, "us-east-1");
    let nowhere = aws_types::SdkConfig::builder().build();
    assert!(matches!(
        Connection::new(&nowhere, &Metrics::default()),
        Err(ConnectError::NoRegion)
    ));
    let call = world.calls("DescribeInstanceTypes").remove(0);
    assert_eq!(
        (call.error.as_deref(), call.parameters["DryRun"].as_str()),
        (Some("DryRunOperation"), "true")
    );
    world
        .sandbox
        .with(|account, _| account.denied.insert("ec2:DescribeInstanceTypes".to_owned()));
    let error = world.connection.check().await.unwrap_err();
    let ConnectError::Unusable { region, error: refused } = &error else {
        panic!("{error}");
    };
    assert!(region == "us-east-1" && refused.is_unauthorized());
    assert!(
        error
            .to_string()
            .contains("UnauthorizedOperation: the call is denied because no identity-based policy allows it"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn connections_of_one_account_see_the_same() {
    let world = world();
    world.put_template("one", &world.data()).await;
    let other = connect(&world.sandbox, &AwsFaults::new(Seed(2)), &world.metrics).unwrap();
    other.services.ec2.delete_launch_template("one").await.unwrap();
    let gone = world.services.ec2.delete_launch_template("one").await.unwrap_err();
    assert!(gone.is_not_found());
}
