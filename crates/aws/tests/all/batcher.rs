//! Batches of calls, in virtual time.

use crate::fake_aws::FakeAws;
use futures::future::join_all;
use jiff::Timestamp;
use kerf_aws::batch::{BatchWindow, CREATE_FLEET};
use kerf_aws::batcher::{Batcher, Batchers, WindowObserver};
use kerf_aws::errors::ApiError;
use kerf_aws::instance::{LIVE_STATES, list_query};
use kerf_aws::launch::{AllocationStrategy, FleetConfig, FleetOverride, FleetRequest, TargetCapacity};
use kerf_aws::launch::{FleetTagSpecification, TemplateData};
use kerf_aws::selector::Filter;
use kerf_aws::services::Ec2;
use kerf_model::price::Price;
use kerf_runtime::Clock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Closed windows: name, time open in milliseconds, items.
type Windows = Arc<Mutex<Vec<(&'static str, u128, usize)>>>;

fn observed() -> (WindowObserver, Windows) {
    let windows = Windows::default();
    let seen = Arc::clone(&windows);
    let observer: WindowObserver =
        Arc::new(move |name, open, items| seen.lock().unwrap().push((name, open.as_millis(), items)));
    (observer, windows)
}

const WINDOW: BatchWindow = BatchWindow {
    name: "test",
    idle: Duration::from_millis(100),
    max: Duration::from_secs(1),
    items: 5,
};

/// A batcher that answers each item with the number of items in its bucket.
fn counting(observer: WindowObserver) -> Arc<Batcher<u8, u32, usize>> {
    Batcher::new(WINDOW, observer, |_bucket, items: Vec<u32>| {
        Box::pin(async move { vec![items.len(); items.len()] })
    })
}

// AWS-265
#[tokio::test(start_paused = true)]
async fn a_window_closes_when_idle_old_or_full() {
    let (observer, windows) = observed();
    let batcher = counting(observer);
    // Idle: two buckets in one window.
    let answers = join_all([batcher.call(1, 0), batcher.call(1, 0), batcher.call(2, 0)]).await;
    assert_eq!(answers, [Ok(2), Ok(2), Ok(1)]);
    // Full.
    let answers = join_all((0..5).map(|_| batcher.call(1, 0))).await;
    assert_eq!(answers, [Ok(5), Ok(5), Ok(5), Ok(5), Ok(5)]);
    // Each call keeps the window open a little longer.
    let start = Instant::now();
    let calls = (0..4).map(|at| {
        let batcher = Arc::clone(&batcher);
        async move {
            tokio::time::sleep(Duration::from_millis(at * 90)).await;
            batcher.call(1, 0).await
        }
    });
    assert_eq!(join_all(calls).await, [Ok(4), Ok(4), Ok(4), Ok(4)]);
    assert_eq!(start.elapsed().as_millis(), 370);
    assert_eq!(
        *windows.lock().unwrap(),
        [("test", 100, 3), ("test", 0, 5), ("test", 370, 4)]
    );
}

// AWS-265
#[tokio::test(start_paused = true)]
async fn a_window_never_holds_more_than_its_limit() {
    for (calls, sizes) in [(6, vec![5, 1]), (16, vec![5, 5, 5, 1])] {
        let (observer, windows) = observed();
        let batcher = counting(observer);
        // One task makes all calls before another one runs.
        let answers = join_all((0..calls).map(|_| batcher.call(1, 0))).await;
        let sent: Vec<usize> = answers.into_iter().map(Result::unwrap).collect();
        let wanted: Vec<usize> = sizes.iter().flat_map(|size| vec![*size; *size]).collect();
        assert_eq!(sent, wanted);
        let closed: Vec<usize> = windows.lock().unwrap().iter().map(|(_, _, items)| *items).collect();
        assert_eq!(closed, sizes);
        // The window that opens next is not closed by what waited for a full one.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let start = Instant::now();
        assert_eq!(batcher.call(1, 0).await, Ok(1));
        assert_eq!(start.elapsed(), WINDOW.idle);
    }
}

// AWS-265, AWS-266, AWS-268, AWS-269
#[tokio::test(start_paused = true)]
async fn no_call_is_for_more_instances_than_the_limit_of_its_batcher() {
    let (aws, batchers, _) = world();
    let request = request("a");
    let shares = join_all((0..1001).map(|_| batchers.create_fleet(&request))).await;
    let ids: Vec<String> = shares
        .into_iter()
        .map(|share| share.unwrap().instance.unwrap().instance_id)
        .collect();
    assert_eq!(aws.take_calls(), ["CreateFleet 1000", "CreateFleet 1"]);
    let sizes = || -> Vec<usize> {
        let calls = aws.take_calls();
        calls.iter().map(|call| call.matches("i-").count()).collect()
    };
    let found = join_all(ids.iter().map(|id| batchers.describe(id, Vec::new()))).await;
    assert!(found.iter().all(|found| found.as_ref().unwrap().is_some()));
    assert_eq!(sizes(), [500, 500, 1]);
    let ended = join_all(ids.iter().map(|id| batchers.terminate(id))).await;
    assert!(ended.iter().all(Result::is_ok));
    assert_eq!(sizes(), [500, 500, 1]);
}

// AWS-270
#[tokio::test(start_paused = true)]
async fn a_caller_without_answer_gets_a_generic_error() {
    let (observer, _) = observed();
    let batcher: Arc<Batcher<(), u32, u32>> = Batcher::new(WINDOW, observer, |(), items: Vec<u32>| {
        Box::pin(async move { items[..1].to_vec() })
    });
    let answers = join_all([batcher.call((), 7), batcher.call((), 8)]).await;
    assert_eq!(answers[0], Ok(7));
    assert_eq!(answers[1].as_ref().unwrap_err().code, "NoAnswer");
}

fn request(context: &str) -> FleetRequest {
    FleetRequest {
        configs: vec![FleetConfig {
            template_name: "one".to_owned(),
            overrides: vec![FleetOverride {
                instance_type: "m5.large".to_owned(),
                zone: "us-east-1a".to_owned(),
                subnet_id: Some("subnet-a".to_owned()),
                image_id: "ami-1".to_owned(),
                priority: Price::ZERO,
            }],
        }],
        target: TargetCapacity::Spot,
        strategy: AllocationStrategy::PriceCapacityOptimized,
        tags: vec![FleetTagSpecification {
            resource: "instance",
            tags: BTreeMap::new(),
        }],
        context: Some(context.to_owned()),
    }
}

fn template() -> TemplateData {
    use kerf_aws::launch::{InterfaceRequest, MetadataRequest, PlacementRequest, Tenancy};
    TemplateData {
        block_devices: Vec::new(),
        nested_virtualization: None,
        instance_profile: None,
        monitoring: None,
        user_data: String::new(),
        image_id: "ami-1".to_owned(),
        metadata: MetadataRequest::default(),
        interfaces: vec![InterfaceRequest::default()],
        placement: PlacementRequest {
            tenancy: Tenancy::Default,
            group_id: None,
            partition: None,
        },
        enclaves: false,
        reservation: None,
        market: None,
        tagged_resources: Vec::new(),
        tags: BTreeMap::new(),
    }
}

fn world() -> (Arc<FakeAws>, Batchers, Windows) {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
    let aws = FakeAws::new(&clock, &[]);
    aws.account().templates.insert("one".to_owned(), template());
    let (observer, windows) = observed();
    let ec2: Arc<dyn Ec2> = aws.clone();
    let batchers = Batchers::new(&ec2, &observer);
    (aws, batchers, windows)
}

// AWS-266
#[tokio::test(start_paused = true)]
async fn equal_fleet_requests_are_one_call_for_many_instances() {
    let (aws, batchers, windows) = world();
    let (one, other) = (request("a"), request("b"));
    let calls = (0..7).map(|at| batchers.create_fleet(if at < 5 { &one } else { &other }));
    let mut ids: Vec<String> = join_all(calls)
        .await
        .into_iter()
        .map(|share| share.unwrap().instance.unwrap().instance_id)
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 7);
    let mut calls = aws.take_calls();
    calls.sort();
    assert_eq!(calls, ["CreateFleet 2", "CreateFleet 5"]);
    assert_eq!(*windows.lock().unwrap(), [(CREATE_FLEET.name, 35, 7)]);
    // An error of the call goes to every caller.
    aws.fail("CreateFleet", "RequestLimitExceeded", "slow down");
    let answers = join_all([batchers.create_fleet(&one), batchers.create_fleet(&one)]).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.as_ref().unwrap_err().is_rate_limited())
    );
}

// AWS-268, AWS-269 as docs/deviations.md has them
#[tokio::test(start_paused = true)]
async fn an_error_that_is_about_no_id_is_that_of_each() {
    let (aws, batchers, _) = world();
    let live = || vec![Filter::new("instance-state-name", LIVE_STATES)];
    let asked = ["i-1", "i-2", "i-3"];
    let describe = || join_all(asked.map(|id| batchers.describe(id, live())));
    let terminate = || join_all(asked.map(|id| batchers.terminate(id)));
    for (code, described, terminated) in [
        ("RequestLimitExceeded", 1, 1),
        ("RequestTimeout", 1, 1),
        ("InternalError", 1, 1),
        // The permission to terminate may depend on the tags of one of them.
        ("UnauthorizedOperation", 1, 4),
        ("InvalidInstanceID.Malformed", 4, 4),
    ] {
        aws.fail("DescribeInstances", code, "");
        aws.fail("TerminateInstances", code, "");
        assert!(describe().await.iter().all(Result::is_err), "{code}");
        assert_eq!(aws.take_calls().len(), described, "{code}");
        assert!(terminate().await.iter().all(Result::is_err), "{code}");
        assert_eq!(aws.take_calls().len(), terminated, "{code}");
    }
}

// AWS-268, AWS-269, AWS-270
#[tokio::test(start_paused = true)]
async fn ids_that_spoil_a_merged_call_are_asked_alone() {
    let (aws, batchers, windows) = world();
    let request = request("a");
    let shares = join_all((0..300).map(|_| batchers.create_fleet(&request))).await;
    let ids: Vec<String> = shares
        .into_iter()
        .map(|one| one.unwrap().instance.unwrap().instance_id)
        .collect();
    aws.take_calls();
    let live = || vec![Filter::new("instance-state-name", LIVE_STATES)];
    let found = join_all(ids.iter().map(|id| batchers.describe(id, live()))).await;
    assert!(
        found
            .iter()
            .zip(&ids)
            .all(|(found, id)| found.as_ref().unwrap().as_ref().unwrap().id == *id)
    );
    assert_eq!(aws.take_calls().len(), 1);
    // One unknown id fails the merged call: each gets its own answer. An id that is asked for twice is answered twice.
    let asked = [ids[0].as_str(), "i-gone", ids[0].as_str()];
    let found = join_all(asked.map(|id| batchers.describe(id, live()))).await;
    assert!(found[0].is_ok() && found[2] == found[0]);
    assert!(found[1].as_ref().unwrap_err().is_not_found());
    assert_eq!(aws.take_calls().len(), 3);
    // Other filters are another bucket.
    let both = [
        batchers.describe(&ids[0], live()),
        batchers.describe(&ids[0], list_query("prod")),
    ];
    let found = join_all(both).await;
    assert!(found[0].as_ref().unwrap().is_some());
    assert_eq!(found[1], Ok(None));
    assert_eq!(aws.take_calls().len(), 2);
    // Terminations.
    let asked = [ids[0].as_str(), "i-gone", ids[1].as_str()];
    let ended = join_all(asked.map(|id| batchers.terminate(id))).await;
    assert_eq!((&ended[0], &ended[2]), (&Ok(()), &Ok(())));
    assert!(ended[1].as_ref().is_err_and(ApiError::is_not_found));
    assert_eq!(aws.take_calls().len(), 4);
    assert_eq!(windows.lock().unwrap().len(), 5);
}
