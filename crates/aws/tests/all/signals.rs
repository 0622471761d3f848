//! Signals about instances: the queue and polled status, in virtual time.

use crate::world::{CAPACITY, TYPE};
use crate::world::{World, after_launch, claim, plain_claim, ready_class, world_with};
use jiff::SignedDuration;
use kerf_api::NodeClaim;
use kerf_aws::interruption::{StatusCategory, StatusDetail};
use kerf_aws::services::{InstanceStatus, QueueMessage};
use kerf_cloud::{CloudProvider, Interruption, InterruptionKind};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// A world with a queue and a claim whose instance runs.
async fn world(flags: &[(&str, &str)]) -> (World, NodeClaim) {
    let world = world_with(&["m5.large"], flags).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let claim = put(&world, &claim("a", &[(TYPE, &["m5.large"]), (CAPACITY, &["spot"])])).await;
    world.aws.take_calls();
    (world, claim)
}

/// Launches a claim and writes it into the cluster.
async fn put(world: &World, claim: &NodeClaim) -> NodeClaim {
    let launched = world.provider.create(claim).await.unwrap();
    let claim = after_launch(claim, &launched);
    let api = Api::<NodeClaim>::all(world.client.clone());
    let mut new = claim.clone();
    new.metadata.uid = None;
    api.create(&PostParams::default(), &new).await.unwrap();
    let status = Patch::Merge(json!({"status": {"providerID": launched.provider_id}}));
    api.patch_status(
        claim.metadata.name.as_deref().unwrap(),
        &PatchParams::default(),
        &status,
    )
    .await
    .unwrap()
}

fn spot_warning(id: &str) -> Value {
    json!({"version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
        "time": "2026-01-01T00:00:00Z", "detail": {"instance-id": id, "instance-action": "terminate"}})
}

fn message(receipt: &str, body: &str) -> QueueMessage {
    QueueMessage {
        receipt: receipt.to_owned(),
        body: body.to_owned(),
        sent: None,
    }
}

const QUEUE: &[(&str, &str)] = &[("interruption-queue", "prod-queue")];

// AWS-301, AWS-302, AWS-439
#[tokio::test(start_paused = true)]
async fn the_queue_is_found_and_read_with_long_polling() {
    let (world, _) = world(QUEUE).await;
    world.aws.fail("GetQueueUrl", "QueueDoesNotExist", "not yet");
    let error = async || world.provider.interruptions().await.unwrap_err().to_string();
    let missing = error().await;
    assert!(
        missing.contains("QueueDoesNotExist") && missing.contains("--interruption-queue"),
        "{missing}"
    );
    world.aws.fail("ReceiveMessage", "AccessDenied", "no");
    let denied = error().await;
    assert!(
        denied.contains("AccessDenied") && denied.contains("kerf manifests --iam"),
        "{denied}"
    );
    assert_eq!(
        world.aws.take_calls(),
        ["GetQueueUrl prod-queue", "GetQueueUrl prod-queue", "ReceiveMessage"]
    );
    let start = Instant::now();
    let received = tokio::time::timeout(Duration::from_secs(50), world.provider.interruptions()).await;
    assert!(received.is_err());
    assert_eq!(start.elapsed(), Duration::from_secs(50));
    assert_eq!(world.aws.take_calls(), ["ReceiveMessage"; 3], "each waits for 20 s");
}

// AWS-301
#[tokio::test(start_paused = true)]
async fn without_a_queue_nothing_is_asked_of_sqs() {
    let (world, _) = world(&[]).await;
    let received = tokio::time::timeout(Duration::from_secs(3600), world.provider.interruptions()).await;
    assert!(received.is_err());
    assert_eq!(world.aws.count("GetQueueUrl") + world.aws.count("ReceiveMessage"), 0);
}

// AWS-304, AWS-315, AWS-370, AWS-371, AWS-372
#[tokio::test(start_paused = true)]
async fn a_message_is_deleted_once_it_was_acted_upon() {
    let (world, claim) = world(QUEUE).await;
    world.aws.account().messages = vec![message("r-1", &spot_warning("i-00000001").to_string())];
    let signals = world.provider.interruptions().await.unwrap();
    assert_eq!(signals.len(), 1);
    assert_eq!(signals[0].kind, InterruptionKind::SpotReclaim);
    assert_eq!(
        Some(&signals[0].provider_ids[0]),
        claim.status.as_ref().unwrap().provider_id.as_ref()
    );
    assert_eq!(
        world.aws.account().messages.len(),
        1,
        "a handler that fails leaves it for another delivery"
    );
    assert_eq!(world.provider.interruptions().await.unwrap(), signals);
    let label = "karpenter_interruption_received_messages_total{message_type=\"spot_interrupted\"}";
    assert_eq!(world.metric(label), Some(2.0));
    world.provider.acknowledge(&signals[0]).await.unwrap();
    assert_eq!(world.aws.account().messages.len(), 0);
    assert_eq!(world.metric("karpenter_interruption_deleted_messages_total"), Some(1.0));
    assert_eq!(
        world.metric("karpenter_interruption_message_queue_duration_seconds_count"),
        Some(1.0)
    );
}

// AWS-303, AWS-315, AWS-319, AWS-501
#[tokio::test(start_paused = true)]
async fn messages_for_nobody_are_deleted_at_once() {
    let (world, _) = world(QUEUE).await;
    world.aws.account().messages = vec![
        message("r-1", &spot_warning("i-stranger").to_string()),
        message("r-2", "no JSON"),
        message("r-3", ""),
        message("r-4", &spot_warning("i-00000001").to_string()),
    ];
    let signals = world.provider.interruptions().await.unwrap();
    let receipts: Vec<&str> = signals.iter().map(|signal| signal.receipt.as_str()).collect();
    assert_eq!(receipts, ["r-4"]);
    let left: Vec<String> = world
        .aws
        .account()
        .messages
        .iter()
        .map(|one| one.receipt.clone())
        .collect();
    assert_eq!(left, ["r-4"]);
    let label = "karpenter_interruption_received_messages_total{message_type=\"no_op\"}";
    assert_eq!(world.metric(label), Some(1.0), "a text that cannot be read has no kind");
    let handled = world.metric("karpenter_interruption_message_queue_duration_seconds_count");
    assert_eq!(handled, Some(1.0), "messages without time are not measured");
}

// AWS-316
#[tokio::test(start_paused = true)]
async fn an_offering_that_was_taken_back_is_avoided() {
    let (world, claim) = world(&[]).await;
    let now = world.clock.now();
    let is_marked = |zone: &str| {
        let unavailable = world.cloud.market.unavailable();
        unavailable.is_unavailable("m5.large", zone, kerf_aws::offering::CapacityType::Spot, &[], None, now)
    };
    let mut incomplete = plain_claim("b");
    incomplete.metadata.labels = Some([(TYPE.to_owned(), "m5.large".to_owned())].into());
    world
        .provider
        .note_interruption(&incomplete, InterruptionKind::SpotReclaim, now);
    world
        .provider
        .note_interruption(&claim, InterruptionKind::RebalanceRecommendation, now);
    assert!(!is_marked("us-east-1a"));
    world
        .provider
        .note_interruption(&claim, InterruptionKind::SpotReclaim, now);
    assert!(is_marked("us-east-1a") && !is_marked("us-east-1b"));
    let reservation = kerf_aws::reservation::DescribedReservation {
        id: "cr-1".to_owned(),
        zone: "us-east-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        owner_id: String::new(),
        instance_match_criteria: "open".to_owned(),
        reservation_type: String::new(),
        interruptible: None,
        end: None,
        available: 5,
    };
    world.cloud.reservations.counts().report(&[reservation], now);
    let mut reserved = plain_claim("c");
    reserved.metadata.labels = Some(
        [(
            "karpenter.k8s.aws/capacity-reservation-id".to_owned(),
            "cr-1".to_owned(),
        )]
        .into(),
    );
    world
        .provider
        .note_interruption(&reserved, InterruptionKind::ReservationReclaim, now);
    assert_eq!(world.cloud.reservations.counts().available("cr-1"), 0);
}

fn impaired(world: &World, id: &str, category: StatusCategory, seconds: i64) -> InstanceStatus {
    InstanceStatus {
        instance_id: id.to_owned(),
        details: vec![StatusDetail {
            category,
            failed: true,
            impaired_since: Some(world.clock.now() - SignedDuration::from_secs(seconds)),
        }],
    }
}

// AWS-312, AWS-320, AWS-323, AWS-373, AWS-437
#[tokio::test(start_paused = true)]
async fn impaired_instances_of_the_cluster_are_found_within_a_minute() {
    let (world, claim) = world(&[]).await;
    let statuses = ["i-00000001", "i-stranger"].map(|id| impaired(&world, id, StatusCategory::Instance, 300));
    world.aws.account().status = statuses.into();
    let start = Instant::now();
    let signals = world.provider.interruptions().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    assert_eq!(world.aws.count("DescribeInstanceStatus"), 3);
    let provider_id = claim.status.as_ref().unwrap().provider_id.clone().unwrap();
    let wanted = Interruption {
        kind: InterruptionKind::InstanceUnhealthy,
        provider_ids: vec![provider_id],
        sent: None,
        receipt: String::new(),
    };
    assert_eq!(signals, [wanted]);
    world.provider.acknowledge(&signals[0]).await.unwrap();
    let series = "karpenter_interruption_instance_status_unhealthy_total{category=\"InstanceStatus\"}";
    assert_eq!(world.metric(series), Some(1.0), "strangers do not count");
    // It counts once as long as it lasts, and again after a recovery.
    world.provider.interruptions().await.unwrap();
    assert_eq!(world.metric(series), Some(1.0));
    let sick = std::mem::take(&mut world.aws.account().status);
    let received = tokio::time::timeout(Duration::from_secs(61), world.provider.interruptions()).await;
    assert!(received.is_err());
    world.aws.account().status = sick;
    world.provider.interruptions().await.unwrap();
    assert_eq!(world.metric(series), Some(2.0));
}

// AWS-323
#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_unhealthy_instances_and_does_nothing_else() {
    let (world, _) = world(&[("instance-status-dry-run", "true")]).await;
    let sick = impaired(&world, "i-00000001", StatusCategory::System, 300);
    world.aws.account().status = vec![sick];
    let received = tokio::time::timeout(Duration::from_secs(600), world.provider.interruptions()).await;
    assert!(received.is_err(), "{received:?}");
    let series = "karpenter_interruption_instance_status_unhealthy_total{category=\"SystemStatus\"}";
    assert_eq!(world.metric(series), Some(1.0));
}

// AWS-303
#[tokio::test(start_paused = true)]
async fn a_warning_does_not_wait_for_another_message_that_cannot_be_deleted() {
    let (world, _) = world(QUEUE).await;
    let stranger = spot_warning("i-stranger").to_string();
    world.aws.account().messages = vec![
        message("r-1", &stranger),
        message("r-2", &spot_warning("i-00000001").to_string()),
    ];
    world.aws.fail("DeleteMessage", "InternalError", "not now");
    let signals = world.provider.interruptions().await.unwrap();
    assert_eq!(signals.len(), 1);
    assert_eq!(signals[0].receipt, "r-2");
    world.aws.account().messages = vec![message("r-1", &stranger)];
    world.aws.fail("DeleteMessage", "InternalError", "not now");
    assert!(world.provider.interruptions().await.is_err());
}

// AWS-322 as docs/deviations.md has it
#[tokio::test(start_paused = true)]
async fn a_poll_that_is_denied_is_tried_every_quarter_of_an_hour() {
    let (world, _) = world(&[]).await;
    for _ in 0..2 {
        world.aws.fail("DescribeInstanceStatus", "UnauthorizedOperation", "no");
    }
    let sick = impaired(&world, "i-00000001", StatusCategory::Instance, 300);
    world.aws.account().status = vec![sick];
    let began = tokio::time::Instant::now();
    let received = tokio::time::timeout(Duration::from_secs(30 * 60), world.provider.interruptions()).await;
    assert!(received.is_err());
    assert_eq!(world.aws.count("DescribeInstanceStatus"), 2, "after 1 and 16 minutes");
    let signals = world.provider.interruptions().await.unwrap();
    assert_eq!(
        (signals.len(), began.elapsed().as_secs()),
        (1, 31 * 60),
        "it is allowed by now"
    );
    world.aws.account().status.clear();
    let again = tokio::time::timeout(Duration::from_secs(61), world.provider.interruptions()).await;
    assert!(again.is_err());
    assert_eq!(
        world.aws.count("DescribeInstanceStatus"),
        2 + 2 * 3,
        "every minute again"
    );
}
