//! Instance profiles: what is made and deleted in IAM, and when.

use crate::class::class_with_status;
use crate::fake_aws::FakeAws;
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use kerf_aws::profiles::Profiles;
use kerf_runtime::{Clock, Seed};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

fn account() -> (Arc<FakeAws>, Profiles) {
    let aws = FakeAws::new(&Clock::simulated(Timestamp::UNIX_EPOCH), &[]);
    let profiles = Profiles::new(aws.clone(), "prod", "us-east-1", Seed(1).rng());
    (aws, profiles)
}

fn class(spec: Value, profile: Option<&str>) -> EC2NodeClass {
    class_with_status(spec, json!({"instanceProfile": profile}))
}

fn names(aws: &FakeAws) -> Vec<String> {
    aws.account().profiles.keys().cloned().collect()
}

const NONE: BTreeSet<&str> = BTreeSet::new();

// AWS-086, AWS-099
#[tokio::test(start_paused = true)]
async fn a_profile_of_the_user_is_only_used() {
    let (aws, profiles) = account();
    let given = class(json!({"role": null, "instanceProfile": "mine"}), Some("prod_1"));
    assert_eq!(profiles.ensure(&given).await.unwrap(), "mine");
    assert_eq!(aws.take_calls(), Vec::<String>::new());
    // The end of the class leaves it alone, though managed profiles are looked for.
    aws.account().profiles.insert(
        "mine".to_owned(),
        (
            "/".to_owned(),
            kerf_aws::services::InstanceProfile::default(),
            BTreeMap::new(),
        ),
    );
    profiles.delete_of_class(&given).await.unwrap();
    assert_eq!(names(&aws), ["mine"]);
    assert_eq!(aws.count("ListInstanceProfiles") + aws.count("GetInstanceProfile"), 2);
    assert_eq!(aws.count("DeleteInstanceProfile"), 0);
}

// AWS-087, AWS-088, AWS-093
#[tokio::test(start_paused = true)]
async fn a_role_gets_a_profile_and_another_role_another_one() {
    let (aws, profiles) = account();
    let first = profiles
        .ensure(&class(json!({"role": "path/nodes"}), None))
        .await
        .unwrap();
    {
        let account = aws.account();
        let (path, profile, tags) = &account.profiles[&first];
        assert_eq!(path, "/karpenter/us-east-1/prod/uid-1/");
        assert_eq!(profile.role.as_deref(), Some("nodes"), "without path");
        assert_eq!(tags["karpenter.k8s.aws/ec2nodeclass"], "nodes");
        assert_eq!(tags["topology.kubernetes.io/region"], "us-east-1");
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    aws.take_calls();
    let same = class(json!({"role": "path/nodes"}), Some(&first));
    assert_eq!(profiles.ensure(&same).await.unwrap(), first);
    assert_eq!(
        aws.take_calls(),
        Vec::<String>::new(),
        "it is known for a quarter of an hour"
    );
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(profiles.ensure(&same).await.unwrap(), first);
    assert_eq!(aws.take_calls(), ["GetInstanceProfile"]);
    // Another role: a new profile, and the old one keeps its own.
    let other = profiles
        .ensure(&class(json!({"role": "others"}), Some(&first)))
        .await
        .unwrap();
    assert_ne!(other, first);
    assert_eq!(aws.account().profiles[&first].1.role.as_deref(), Some("nodes"));
    // An error that is no absence makes nothing.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    aws.fail("GetInstanceProfile", "ServiceFailure", "");
    assert!(profiles.ensure(&same).await.is_err());
    assert_eq!(names(&aws).len(), 2);
}

// AWS-089, AWS-101
#[tokio::test(start_paused = true)]
async fn a_lost_status_write_makes_no_second_profile() {
    let (aws, profiles) = account();
    let lost = class(json!({}), None);
    let first = profiles.ensure(&lost).await.unwrap();
    assert_eq!(profiles.ensure(&lost).await.unwrap(), first);
    assert_eq!(names(&aws).len(), 1);
    // Another class with the same role has its own; so has another role.
    let mut other = lost.clone();
    other.metadata.uid = Some("uid-2".to_owned());
    assert_ne!(profiles.ensure(&other).await.unwrap(), first);
    assert_ne!(
        profiles.ensure(&class(json!({"role": "others"}), None)).await.unwrap(),
        first
    );
    assert_eq!(names(&aws).len(), 3);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(
        profiles.ensure(&lost).await.unwrap(),
        first,
        "the memory lasts a minute"
    );
}

// AWS-091
#[tokio::test(start_paused = true)]
async fn a_profile_without_role_is_deleted_again() {
    let (aws, profiles) = account();
    aws.fail("AddRoleToInstanceProfile", "AccessDenied", "no");
    let error = profiles.ensure(&class(json!({}), None)).await.unwrap_err();
    assert_eq!(error.code, "AccessDenied");
    assert_eq!(names(&aws), Vec::<String>::new());
    // If that fails too, the first error counts.
    aws.fail("AddRoleToInstanceProfile", "AccessDenied", "no");
    aws.fail("DeleteInstanceProfile", "ServiceFailure", "");
    assert_eq!(
        profiles.ensure(&class(json!({}), None)).await.unwrap_err().code,
        "AccessDenied"
    );
}

// AWS-094
#[tokio::test(start_paused = true)]
async fn a_role_that_does_not_exist_is_remembered_for_a_minute() {
    let (aws, profiles) = account();
    aws.fail(
        "AddRoleToInstanceProfile",
        "NoSuchEntity",
        "The role with name nodes cannot be found.",
    );
    let lost = class(json!({}), None);
    assert!(profiles.ensure(&lost).await.is_err());
    aws.take_calls();
    assert!(profiles.ensure(&lost).await.is_err());
    assert_eq!(aws.take_calls(), Vec::<String>::new());
    assert!(profiles.ensure(&class(json!({"role": "others"}), None)).await.is_ok());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(profiles.ensure(&lost).await.is_ok());
}

// AWS-095
#[tokio::test(start_paused = true)]
async fn making_a_profile_again_does_not_prolong_what_is_known_of_it() {
    let (aws, profiles) = account();
    let tags = BTreeMap::new();
    profiles.create("prod_1", "/karpenter/", &tags, "nodes").await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    profiles.create("prod_1", "/karpenter/", &tags, "nodes").await.unwrap();
    assert_eq!(
        (
            aws.count("CreateInstanceProfile"),
            aws.count("AddRoleToInstanceProfile")
        ),
        (1, 1)
    );
    aws.take_calls();
    let known = class(json!({}), Some("prod_1"));
    profiles.ensure(&known).await.unwrap();
    assert_eq!(aws.take_calls().len(), 0);
    tokio::time::sleep(Duration::from_secs(300)).await;
    profiles.ensure(&known).await.unwrap();
    assert_eq!(aws.take_calls(), ["GetInstanceProfile"]);
    // A wrong role is taken off first.
    profiles.create("prod_1", "/karpenter/", &tags, "others").await.unwrap();
    let calls = aws.take_calls();
    assert_eq!(
        calls[1..],
        ["RemoveRoleFromInstanceProfile nodes", "AddRoleToInstanceProfile others"]
    );
}

// AWS-096
#[tokio::test(start_paused = true)]
async fn a_profile_is_deleted_after_its_role_was_taken_off() {
    let (aws, profiles) = account();
    profiles.delete("prod_gone").await.unwrap();
    assert_eq!(aws.take_calls(), ["GetInstanceProfile"]);
    profiles
        .create("prod_1", "/karpenter/us-east-1/prod/uid-1/", &BTreeMap::new(), "nodes")
        .await
        .unwrap();
    aws.take_calls();
    profiles.delete("prod_1").await.unwrap();
    let wanted = [
        "GetInstanceProfile",
        "RemoveRoleFromInstanceProfile nodes",
        "DeleteInstanceProfile prod_1",
    ];
    assert_eq!(aws.take_calls(), wanted);
    // Nothing is known of it any more.
    let known = class(json!({}), Some("prod_1"));
    assert_ne!(profiles.ensure(&known).await.unwrap(), "prod_1");
    aws.fail("RemoveRoleFromInstanceProfile", "ServiceFailure", "");
    let made = names(&aws).remove(0);
    assert!(profiles.delete(&made).await.is_err());
}

// AWS-097
#[tokio::test(start_paused = true)]
async fn the_end_of_a_class_is_that_of_its_profiles() {
    let (aws, profiles) = account();
    let tags = BTreeMap::new();
    for (name, path) in [
        ("prod_a", "/karpenter/us-east-1/prod/uid-1/"),
        ("prod_b", "/karpenter/us-east-1/prod/uid-1/"),
        ("prod_other", "/karpenter/us-east-1/prod/uid-2/"),
    ] {
        profiles.create(name, path, &tags, "nodes").await.unwrap();
    }
    let legacy = kerf_aws::instance_profile::legacy_name("prod", "us-east-1", "nodes").unwrap();
    profiles.create(&legacy, "/", &tags, "nodes").await.unwrap();
    profiles.delete_of_class(&class(json!({}), None)).await.unwrap();
    assert_eq!(names(&aws), ["prod_other"]);
}

// AWS-090, AWS-100, AWS-428
#[tokio::test(start_paused = true)]
async fn garbage_collection_spares_what_is_in_use_or_new() {
    let (aws, profiles) = account();
    let fresh = profiles.ensure(&class(json!({}), Some("prod_old"))).await.unwrap();
    let tags = BTreeMap::new();
    for name in ["prod_old", "prod_status", "prod_claim", "prod_garbage"] {
        profiles
            .create(name, "/karpenter/us-east-1/prod/uid-1/", &tags, "nodes")
            .await
            .unwrap();
    }
    profiles
        .create("foreign", "/karpenter/us-east-1/other/uid-1/", &tags, "nodes")
        .await
        .unwrap();
    let (status, claims) = (BTreeSet::from(["prod_status"]), BTreeSet::from(["prod_claim"]));
    profiles.collect_garbage(&status, &claims).await.unwrap();
    let mut left = vec![
        "foreign".to_owned(),
        fresh.clone(),
        "prod_claim".into(),
        "prod_old".into(),
        "prod_status".into(),
    ];
    left.sort();
    assert_eq!(names(&aws), left, "what was replaced is spared too");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    profiles.collect_garbage(&NONE, &claims).await.unwrap();
    assert_eq!(names(&aws), ["foreign", "prod_claim"]);
    aws.fail("RemoveRoleFromInstanceProfile", "ServiceFailure", "");
    assert!(profiles.collect_garbage(&NONE, &NONE).await.is_err());
}
