//! Look-ups of what a class selects: how often AWS is called, and how its answers are cached.

use crate::class::class;
use crate::fake_aws::{FakeAws, reservation};
use crate::world::condition;
use jiff::{SignedDuration, Timestamp};
use kerf_api::EC2NodeClass;
use kerf_api::ec2_node_class::NodeClassSecurityGroup;
use kerf_aws::ami::{Image, Selected, status_amis};
use kerf_aws::intervals::SELECTED;
use kerf_aws::lookup::{
    ImageError, ImageLookup, KnownGroup, ParameterStore, PlacementGroupLookup, ReservationLookup, SecurityGroupLookup,
    SubnetLookup,
};
use kerf_aws::placement_group::{PlacementGroup, Strategy};
use kerf_aws::reservation::DescribedReservation;
use kerf_aws::subnet::Subnet;
use kerf_runtime::Clock;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn account() -> Arc<FakeAws> {
    FakeAws::new(&Clock::simulated(start()), &[])
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn of_generation(generation: i64) -> EC2NodeClass {
    let mut class = class(
        json!({"subnetSelectorTerms": [{"id": "subnet-a"}, {"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}, {"name": "nodes"}]}),
    );
    class.metadata.generation = Some(generation);
    class
}

fn subnet(id: &str, free_addresses: i64) -> Subnet {
    Subnet {
        id: id.to_owned(),
        zone: "us-east-1a".to_owned(),
        zone_id: None,
        free_addresses,
    }
}

// AWS-103, AWS-422, AWS-423
#[tokio::test(start_paused = true)]
async fn subnets_and_security_groups_are_asked_for_once_a_minute_and_generation() {
    let aws = account();
    aws.account().subnets = vec![subnet("subnet-a", 5), subnet("subnet-b", 5)];
    let group = |id: &str| NodeClassSecurityGroup {
        id: id.to_owned(),
        name: None,
    };
    aws.account().security_groups = vec![group("sg-2"), group("sg-1")];
    let subnets = SubnetLookup::new(aws.clone(), SELECTED);
    let groups = SecurityGroupLookup::new(aws.clone());
    let first = of_generation(1);
    for _ in 0..2 {
        assert_eq!(subnets.list(&first).await.unwrap().len(), 2);
        let found = groups.list(&first).await.unwrap();
        assert_eq!(found, [group("sg-1"), group("sg-2")], "by id, each once");
    }
    assert_eq!(
        (aws.count("DescribeSubnets"), aws.count("DescribeSecurityGroups")),
        (2, 2)
    );
    pass(MINUTE - SECOND).await;
    subnets.list(&first).await.unwrap();
    groups.list(&first).await.unwrap();
    assert_eq!(aws.take_calls().len(), 4);
    // Another generation asks anew.
    subnets.list(&of_generation(2)).await.unwrap();
    assert_eq!(aws.take_calls().len(), 2);
    pass(SECOND).await;
    subnets.list(&first).await.unwrap();
    groups.list(&first).await.unwrap();
    assert_eq!(aws.take_calls().len(), 4);
    // The option raises the interval of subnets.
    let seldom = SubnetLookup::new(aws.clone(), 3 * MINUTE);
    seldom.list(&first).await.unwrap();
    pass(3 * MINUTE - SECOND).await;
    seldom.list(&first).await.unwrap();
    assert_eq!(aws.take_calls().len(), 2);
    // An error is no answer to keep.
    pass(MINUTE).await;
    aws.fail("DescribeSecurityGroups", "InternalError", "");
    assert!(groups.list(&first).await.is_err());
    assert!(groups.list(&first).await.is_ok());
}

fn image(id: &str, day: i64) -> Image {
    Image {
        id: id.to_owned(),
        name: Some(format!("image {id}")),
        architecture: "x86_64".to_owned(),
        created: Some(start() - SignedDuration::from_hours(24 * day)),
        deprecated_from: None,
    }
}

const AL2023: &str = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id";

// AWS-114, AWS-495
#[tokio::test(start_paused = true)]
async fn an_alias_needs_one_of_its_parameters() {
    let aws = account();
    let lookup = ImageLookup::new(aws.clone(), aws.clone(), SELECTED);
    let class = class(json!({}));
    // No parameter can be read, for whatever reason: the alias is named, the reason is not.
    aws.fail("GetParameter", "AccessDeniedException", "no policy allows it");
    let error = lookup.list(&class, "1.33", start()).await.unwrap_err();
    assert_eq!(error, ImageError::NothingForAlias("al2023@latest".to_owned()));
    assert!(error.to_string().contains("al2023@latest"), "{error}");
    assert_eq!(aws.count("DescribeImages"), 0);
    // One of five is enough, once a failed read is forgotten.
    pass(MINUTE).await;
    aws.account().parameters.insert(AL2023.to_owned(), "ami-1".to_owned());
    aws.account().images = vec![image("ami-1", 1), image("ami-other", 1)];
    let found = lookup.list(&class, "1.33", start()).await.unwrap();
    let ids: Vec<&str> = found.iter().map(|one| one.image.id.as_str()).collect();
    assert_eq!(ids, ["ami-1"]);
    // A version without the family is an error of its own.
    let al2 = crate::class::class(json!({"amiSelectorTerms": [{"alias": "al2@latest"}]}));
    let error = lookup.list(&al2, "1.33", start()).await.unwrap_err();
    assert!(matches!(error, ImageError::Unsupported(_)));
}

const NVIDIA: &str = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id";
const ALIAS_PARAMETERS: usize = 5;

fn ids(found: &[Selected]) -> Vec<&str> {
    found.iter().map(|one| one.image.id.as_str()).collect()
}

/// An account with an image for plain machines and one for those with GPUs.
fn account_with_variants() -> Arc<FakeAws> {
    let aws = account();
    aws.account().parameters.extend([
        (AL2023.to_owned(), "ami-1".to_owned()),
        (NVIDIA.to_owned(), "ami-2".to_owned()),
    ]);
    aws.account().images = vec![image("ami-1", 1), image("ami-2", 2)];
    aws
}

/// SSM answers the next questions for parameters of an alias with an error.
fn break_ssm(aws: &FakeAws) {
    for _ in 0..ALIAS_PARAMETERS {
        aws.fail("GetParameter", "ThrottlingException", "Rate exceeded");
    }
}

// AWS-114: an error is no reason for nodes of a variant to drift.
#[tokio::test(start_paused = true)]
async fn a_parameter_that_cannot_be_read_now_keeps_the_image_it_had() {
    let aws = account_with_variants();
    let lookup = ImageLookup::new(aws.clone(), aws.clone(), SELECTED);
    let class = class(json!({}));
    let before = lookup.list(&class, "1.33", start()).await.unwrap();
    assert_eq!(ids(&before), ["ami-1", "ami-2"]);
    // The values are a day old, and SSM throttles: for several minutes, too.
    pass(24 * 60 * MINUTE).await;
    for _ in 0..3 {
        break_ssm(&aws);
        assert_eq!(lookup.list(&class, "1.33", start()).await.unwrap(), before);
        pass(MINUTE).await;
    }
    // An answer counts again, and a parameter that is gone has no image.
    aws.account().parameters.remove(NVIDIA);
    assert_eq!(ids(&lookup.list(&class, "1.33", start()).await.unwrap()), ["ami-1"]);
    pass(MINUTE).await;
    aws.fail("GetParameter", "ThrottlingException", "Rate exceeded");
    assert_eq!(ids(&lookup.list(&class, "1.33", start()).await.unwrap()), ["ami-1"]);
}

// AWS-114
#[tokio::test(start_paused = true)]
async fn a_new_leader_keeps_the_images_of_a_status_while_ssm_answers_with_errors() {
    let aws = account_with_variants();
    let mut class = class(json!({}));
    let before = ImageLookup::new(aws.clone(), aws.clone(), SELECTED)
        .list(&class, "1.33", start())
        .await
        .unwrap();
    class.status.amis = status_amis(&before);
    let found = async |class: &EC2NodeClass| {
        let lookup = ImageLookup::new(aws.clone(), aws.clone(), SELECTED);
        break_ssm(&aws);
        let all = lookup.list(class, "1.33", start()).await;
        aws.clear_failures();
        all
    };
    let nothing = ImageError::NothingForAlias("al2023@latest".to_owned());
    assert_eq!(
        found(&class).await.unwrap_err(),
        nothing,
        "the status may be of another spec"
    );
    class.status.conditions = vec![serde_json::from_value(condition("AMIsReady", "True", 1)).unwrap()];
    assert_eq!(found(&class).await.unwrap(), before);
    class.metadata.generation = Some(2);
    assert_eq!(found(&class).await.unwrap_err(), nothing);
    // Nothing was found for the new spec yet.
    class.status.conditions = vec![serde_json::from_value(condition("AMIsReady", "Unknown", 2)).unwrap()];
    assert_eq!(found(&class).await.unwrap_err(), nothing);
}

// AWS-123
#[tokio::test(start_paused = true)]
async fn images_are_asked_for_once_a_minute_and_parameters_before_that() {
    let aws = account();
    aws.account().parameters.insert(AL2023.to_owned(), "ami-1".to_owned());
    aws.account().images = vec![image("ami-1", 1)];
    let lookup = ImageLookup::new(aws.clone(), aws.clone(), SELECTED);
    let class = class(json!({}));
    for _ in 0..2 {
        lookup.list(&class, "1.33", start()).await.unwrap();
    }
    assert_eq!((aws.count("GetParameter"), aws.count("DescribeImages")), (5, 1));
    pass(MINUTE).await;
    lookup.list(&class, "1.33", start()).await.unwrap();
    // Parameters that do not exist are asked for again after a minute.
    assert_eq!((aws.count("GetParameter"), aws.count("DescribeImages")), (5 + 4, 2));
    // What a caller does with its copy is its own business.
    let mut copy = lookup.list(&class, "1.33", start()).await.unwrap();
    copy.clear();
    assert_eq!(lookup.list(&class, "1.33", start()).await.unwrap().len(), 1);
}

// A class that is not ready is reconciled again after milliseconds; upstream asks SSM for every parameter each time.
#[tokio::test(start_paused = true)]
async fn a_class_that_fails_again_and_again_asks_for_each_parameter_once_a_minute() {
    let aws = account();
    let lookup = ImageLookup::new(aws.clone(), aws.clone(), SELECTED);
    let class = class(json!({}));
    for _ in 0..50 {
        lookup.list(&class, "1.33", start()).await.unwrap_err();
        pass(Duration::from_millis(100)).await;
    }
    assert_eq!(aws.count("GetParameter"), 5);
    // A user's parameter fails in the same way: with its own error, and one call.
    aws.take_calls();
    let store = ParameterStore::new(aws.clone());
    aws.fail("GetParameter", "AccessDeniedException", "no policy allows it");
    for _ in 0..2 {
        let error = store.of_user("/mine").await.unwrap_err();
        assert_eq!(error.code, "AccessDeniedException");
    }
    assert_eq!(aws.take_calls().len(), 1);
    aws.account().parameters.insert("/mine".to_owned(), "ami-1".to_owned());
    pass(MINUTE).await;
    assert_eq!(store.of_user("/mine").await.unwrap(), "ami-1");
}

// AWS-117
#[tokio::test(start_paused = true)]
async fn a_parameter_of_a_user_must_hold_an_image_id_if_it_exists() {
    let aws = account();
    let terms = json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"ssmParameter": "/mine"}, {"id": "ami-2"}]});
    let class = class(terms);
    aws.account().images = vec![image("ami-1", 1), image("ami-2", 2)];
    let ids = |found: Vec<Selected>| -> Vec<String> { found.into_iter().map(|one| one.image.id).collect() };
    let lookup = || ImageLookup::new(aws.clone(), aws.clone(), SELECTED);
    assert_eq!(ids(lookup().list(&class, "1.33", start()).await.unwrap()), ["ami-2"]);
    aws.account()
        .parameters
        .insert("/mine".to_owned(), "not an id".to_owned());
    assert_eq!(ids(lookup().list(&class, "1.33", start()).await.unwrap()), ["ami-2"]);
    aws.account().parameters.insert("/mine".to_owned(), "ami-1".to_owned());
    assert_eq!(ids(lookup().list(&class, "1.33", start()).await.unwrap()), ["ami-1"]);
    aws.fail("GetParameter", "AccessDeniedException", "");
    let error = lookup().list(&class, "1.33", start()).await.unwrap_err();
    assert!(matches!(error, ImageError::Call(_)), "{error}");
}

// AWS-124, AWS-429
#[tokio::test(start_paused = true)]
async fn parameters_of_aliases_are_kept_for_a_day_and_those_of_users_for_five_minutes() {
    let aws = account();
    aws.account().parameters.extend([
        ("/alias".to_owned(), "ami-1".to_owned()),
        ("/mine".to_owned(), "ami-2".to_owned()),
    ]);
    let store = ParameterStore::new(aws.clone());
    let ask = async || {
        store.of_alias("/alias", true).await.unwrap();
        store.of_user("/mine").await.unwrap();
        aws.take_calls().len()
    };
    assert_eq!(ask().await, 2);
    pass(5 * MINUTE - SECOND).await;
    assert_eq!(ask().await, 0);
    pass(SECOND).await;
    assert_eq!(ask().await, 1);
    pass(24 * 60 * MINUTE - 5 * MINUTE - SECOND).await;
    assert_eq!(store.of_alias("/alias", true).await.unwrap(), "ami-1");
    assert_eq!(aws.take_calls().len(), 0);
    pass(SECOND).await;
    assert_eq!(ask().await, 2);
    // Two callers at once make one call.
    store.forget(&["ami-1".to_owned()]);
    let (a, b) = tokio::join!(store.of_alias("/alias", true), store.of_alias("/alias", true));
    assert_eq!(
        (a.unwrap(), b.unwrap(), aws.take_calls().len()),
        ("ami-1".to_owned(), "ami-1".to_owned(), 1)
    );
}

// AWS-125
#[tokio::test(start_paused = true)]
async fn a_deprecated_image_of_a_moving_alias_is_looked_up_again() {
    let aws = account();
    let pinned = AL2023.replace("recommended", "amazon-eks-node-al2023-x86_64-standard-1.33-v20260101");
    aws.account().parameters.extend([
        (AL2023.to_owned(), "ami-1".to_owned()),
        (pinned.clone(), "ami-1".to_owned()),
    ]);
    aws.account().images = vec![image("ami-1", 9)];
    let lookup = ImageLookup::new(aws.clone(), aws.clone(), SELECTED);
    lookup.forget_deprecated(start()).await.unwrap();
    assert_eq!(aws.take_calls().len(), 0, "nothing is cached");
    let moving = class(json!({}));
    let fixed = class(json!({"amiSelectorTerms": [{"alias": "al2023@v20260101"}]}));
    lookup.list(&moving, "1.33", start()).await.unwrap();
    lookup.list(&fixed, "1.33", start()).await.unwrap();
    aws.account().images[0].deprecated_from = Some(start());
    lookup
        .forget_deprecated(start() - SignedDuration::from_secs(1))
        .await
        .unwrap();
    aws.take_calls();
    lookup.list(&moving, "1.33", start()).await.unwrap();
    assert!(!aws.take_calls().contains(&format!("GetParameter {AL2023}")));
    lookup.forget_deprecated(start()).await.unwrap();
    assert_eq!(aws.count("DescribeImages"), 1, "the cache of images is not asked");
    lookup.list(&moving, "1.33", start()).await.unwrap();
    lookup.list(&fixed, "1.33", start()).await.unwrap();
    let calls = aws.take_calls();
    assert!(calls.contains(&format!("GetParameter {AL2023}")));
    assert!(!calls.contains(&format!("GetParameter {pinned}")));
}

// AWS-272, AWS-273
#[tokio::test(start_paused = true)]
async fn reservations_are_asked_for_once_a_minute_and_counted() {
    let aws = account();
    let ends = |id: &str, minutes: i64| DescribedReservation {
        end: Some(start() + SignedDuration::from_mins(minutes)),
        ..reservation(id, 1)
    };
    aws.account().reservations = vec![reservation("cr-1", 3), ends("cr-2", 1)];
    let terms = json!({"capacityReservationSelectorTerms": [{"tags": {"a": "b"}}, {"id": "cr-1"}]});
    let (class, lookup) = (class(terms), ReservationLookup::new(aws.clone()));
    let ids = async |seconds: i64| -> Vec<String> {
        let now = start() + SignedDuration::from_secs(seconds);
        lookup
            .list(&class, now)
            .await
            .unwrap()
            .into_iter()
            .map(|one| one.id)
            .collect()
    };
    assert_eq!(ids(0).await, ["cr-1", "cr-2"]);
    assert_eq!(
        ids(60).await,
        ["cr-1"],
        "what has ended goes from remembered answers too"
    );
    assert_eq!(aws.take_calls().len(), 2);
    lookup.counts().launched("cr-1", start() + SignedDuration::from_secs(1));
    assert_eq!(lookup.counts().available("cr-1"), 2);
    pass(MINUTE).await;
    ids(61).await;
    assert_eq!(aws.take_calls().len(), 2);
    assert_eq!(lookup.counts().available("cr-1"), 3, "as EC2 says now");
    // An id that does not exist is no error; other errors are.
    pass(MINUTE).await;
    let now = start() + SignedDuration::from_secs(120);
    aws.fail("DescribeCapacityReservations", "InternalError", "");
    assert!(lookup.list(&class, now).await.is_err());
    let by_id = crate::class::class(json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}));
    aws.fail(
        "DescribeCapacityReservations",
        "InvalidCapacityReservationId.NotFound",
        "",
    );
    assert_eq!(lookup.list(&by_id, now).await.unwrap(), []);
}

// AWS-279
#[tokio::test(start_paused = true)]
async fn a_placement_group_is_asked_for_once_a_minute_and_kept_when_ec2_fails() {
    let aws = account();
    let group = PlacementGroup {
        id: "pg-1".to_owned(),
        name: "pg-like".to_owned(),
        strategy: Strategy::Cluster,
        partitions: 0,
    };
    aws.account().groups = vec![group.clone()];
    let lookup = PlacementGroupLookup::new(aws.clone());
    let without = class(json!({}));
    assert_eq!(
        (lookup.get(&without).await.unwrap(), lookup.known(&without)),
        (None, KnownGroup::None)
    );
    let class = class(json!({"placementGroupSelector": {"name": "pg-like"}}));
    assert_eq!(lookup.known(&class), KnownGroup::Unknown);
    for _ in 0..2 {
        assert_eq!(lookup.get(&class).await.unwrap(), Some(group.clone()));
    }
    assert_eq!(aws.take_calls(), ["DescribePlacementGroups pg-like"]);
    pass(MINUTE).await;
    aws.fail("DescribePlacementGroups", "InternalError", "");
    assert!(lookup.get(&class).await.is_err());
    assert_eq!(lookup.known(&class), KnownGroup::Group(group.clone()));
    // The error is cached for a minute, too.
    assert_eq!(lookup.resolve(&class).await.unwrap(), Some(group));
    assert!(lookup.get(&class).await.is_err());
    assert_eq!(aws.take_calls().len(), 1);
    // A group that is gone is gone at once.
    pass(MINUTE).await;
    aws.account().groups.clear();
    assert_eq!(lookup.get(&class).await.unwrap(), None);
    assert_eq!(lookup.known(&class), KnownGroup::None);
    aws.take_calls();
    lookup.get(&class).await.unwrap();
    assert_eq!(aws.take_calls().len(), 0, "that there is none is remembered too");
}

// AWS-279
#[tokio::test(start_paused = true)]
async fn a_placement_group_that_was_never_found_fails_for_a_minute_after_one_call() {
    let aws = account();
    let lookup = PlacementGroupLookup::new(aws.clone());
    let class = class(json!({"placementGroupSelector": {"name": "one"}}));
    aws.fail("DescribePlacementGroups", "UnauthorizedOperation", "no");
    for _ in 0..3 {
        assert!(lookup.resolve(&class).await.unwrap_err().is_unauthorized());
    }
    assert_eq!(lookup.known(&class), KnownGroup::Unknown);
    assert_eq!(aws.take_calls().len(), 1);
    pass(MINUTE).await;
    assert_eq!(lookup.resolve(&class).await.unwrap(), None);
    assert_eq!(aws.take_calls().len(), 1);
}
