//! Launch templates: when they are made, found, forgotten and deleted.

use crate::world::{CAPACITY, TYPE, claim, launched, plain_claim, ready_world};
use kerf_api::NodeClaim;
use kerf_cloud::{CloudError, CloudProvider};
use std::time::Duration;
use tokio::time::Instant;

// AWS-157, AWS-369
#[tokio::test(start_paused = true)]
async fn a_launch_template_is_made_once_and_found_again() {
    let world = ready_world(&["m5.large"]).await;
    let calls = async |name: &str| {
        launched(&world, &plain_claim(name)).await;
        let calls = world.aws.take_calls();
        calls
            .iter()
            .map(|call| call.split(' ').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        calls("a").await,
        ["DescribeLaunchTemplates", "CreateLaunchTemplate", "CreateFleet"]
    );
    let size = world
        .metric("karpenter_ec2nodeclasses_userdata_bytes{nodeclass=\"nodes\"}")
        .unwrap();
    assert!(size > 100.0, "{size}");
    // Each use keeps it for another minute.
    for name in ["b", "c", "d"] {
        tokio::time::sleep(Duration::from_secs(50)).await;
        world.cloud.templates.delete_unused().await;
        assert_eq!(calls(name).await, ["CreateFleet"]);
    }
    // Another process finds it by its name.
    let name = world.aws.account().templates.keys().next().cloned().unwrap();
    world.cloud.templates.forget([name.as_str()]);
    assert_eq!(calls("e").await, ["DescribeLaunchTemplates", "CreateFleet"]);
    // Errors other than that it does not exist are errors.
    world.cloud.templates.forget([name.as_str()]);
    world.aws.fail("DescribeLaunchTemplates", "InternalError", "");
    assert!(world.provider.create(&plain_claim("f")).await.is_err());
}

// AWS-158, AWS-491
#[tokio::test(start_paused = true)]
async fn templates_that_no_launch_needs_are_deleted_by_the_leader() {
    let world = ready_world(&["m5.large"]).await;
    launched(&world, &plain_claim("a")).await;
    let (own, data) = {
        let account = world.aws.account();
        let (name, data) = account.templates.iter().next().unwrap();
        (name.clone(), data.clone())
    };
    let foreign = {
        let mut foreign = data.clone();
        foreign
            .tags
            .insert("eks:eks-cluster-name".to_owned(), "other".to_owned());
        foreign
    };
    world
        .aws
        .account()
        .templates
        .extend([("orphan".to_owned(), data), ("foreign".to_owned(), foreign)]);
    let names = || world.aws.account().templates.keys().cloned().collect::<Vec<_>>();
    // A process that does not lead knows nothing of the orphan, and deletes nothing.
    world.cloud.templates.delete_unused().await;
    assert_eq!(names(), ["foreign", own.as_str(), "orphan"]);
    world.cloud.templates.take_over().await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    launched(&world, &plain_claim("b")).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    world.cloud.templates.delete_unused().await;
    assert_eq!(
        names(),
        ["foreign", own.as_str()],
        "the one in use stays, as do those of others"
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.aws.account().templates.remove(&own);
    world.cloud.templates.delete_unused().await;
    assert_eq!(names(), ["foreign"], "one that is gone already is no error");
}

// AWS-158
#[tokio::test(start_paused = true)]
async fn a_template_that_could_not_be_deleted_is_deleted_later() {
    let world = ready_world(&["m5.large"]).await;
    let templates = &world.cloud.templates;
    let pass = async |seconds: u64| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        world.aws.take_calls();
        templates.delete_unused().await;
        world.aws.count("DeleteLaunchTemplate")
    };
    launched(&world, &plain_claim("a")).await;
    world
        .aws
        .fail("DeleteLaunchTemplate", "UnauthorizedOperation", "not allowed");
    assert_eq!(pass(60).await, 1);
    assert_eq!(world.aws.account().templates.len(), 1);
    // Not at once: the permission may be missing for good.
    assert_eq!(pass(60).await, 0);
    assert_eq!(pass(240).await, 1);
    assert!(world.aws.account().templates.is_empty());
    assert_eq!(pass(600).await, 0);

    // A launch that needs it again keeps it.
    launched(&world, &plain_claim("b")).await;
    world
        .aws
        .fail("DeleteLaunchTemplate", "UnauthorizedOperation", "not allowed");
    assert_eq!(pass(60).await, 1);
    tokio::time::sleep(Duration::from_secs(270)).await;
    launched(&world, &plain_claim("c")).await;
    assert_eq!(pass(30).await, 0);
    assert_eq!(world.aws.account().templates.len(), 1);
    assert_eq!(pass(30).await, 1);
}

// AWS-159, AWS-491
#[tokio::test(start_paused = true)]
async fn a_template_that_is_gone_is_made_anew_once() {
    let world = ready_world(&["m5.large"]).await;
    launched(&world, &plain_claim("a")).await;
    world.aws.account().templates.clear();
    world.aws.take_calls();
    launched(&world, &plain_claim("b")).await;
    assert_eq!(
        (world.aws.count("CreateFleet"), world.aws.count("CreateLaunchTemplate")),
        (2, 1)
    );
    assert_eq!(world.aws.count("DeleteLaunchTemplate"), 0);
    world.aws.take_calls();
    for _ in 0..2 {
        world
            .aws
            .fail("CreateFleet", "InvalidLaunchTemplateName.NotFoundException", "gone");
    }
    let error = world.provider.create(&plain_claim("c")).await.unwrap_err();
    assert!(matches!(error, CloudError::Create { .. }), "{error}");
    assert_eq!(world.aws.count("CreateFleet"), 2, "there is one more attempt, not more");
}

// AWS-158, AWS-159
#[tokio::test(start_paused = true)]
async fn a_template_that_was_only_not_shown_yet_is_deleted_later() {
    let world = ready_world(&["m5.large"]).await;
    for _ in 0..2 {
        world
            .aws
            .fail("CreateFleet", "InvalidLaunchTemplateName.NotFoundException", "not yet");
    }
    // Both attempts fail, and no launch needs the template of this class again.
    world.provider.create(&plain_claim("a")).await.unwrap_err();
    assert_eq!(world.aws.account().templates.len(), 1);
    world.aws.take_calls();
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.cloud.templates.delete_unused().await;
    assert_eq!(world.aws.count("DeleteLaunchTemplate"), 0, "a launch may try again");
    tokio::time::sleep(Duration::from_secs(180)).await;
    world.cloud.templates.delete_unused().await;
    assert_eq!(world.aws.count("DeleteLaunchTemplate"), 1);
    assert!(world.aws.account().templates.is_empty());
}

// AWS-160
#[tokio::test(start_paused = true)]
async fn all_templates_of_a_class_are_deleted_with_it() {
    let world = ready_world(&["m5.large", "m6g.large"]).await;
    launched(&world, &plain_claim("a")).await;
    launched(
        &world,
        &claim("b", &[(TYPE, &["m6g.large"]), (CAPACITY, &["on-demand"])]),
    )
    .await;
    let other = {
        let mut account = world.aws.account();
        let mut data = account.templates.values().next().unwrap().clone();
        data.tags
            .insert("karpenter.k8s.aws/ec2nodeclass".to_owned(), "other".to_owned());
        account.templates.insert("other".to_owned(), data);
        account.templates.len()
    };
    assert_eq!(other, 3);
    world.aws.fail("DeleteLaunchTemplate", "InternalError", "not now");
    let error = world.cloud.templates.delete_of_class("nodes").await.unwrap_err();
    assert!(error.to_string().contains("1 of 2"), "{error}");
    assert_eq!(world.aws.account().templates.len(), 2, "the others were tried");
    world.cloud.templates.delete_of_class("nodes").await.unwrap();
    assert_eq!(world.aws.account().templates.keys().collect::<Vec<_>>(), ["other"]);
}

/// A claim with a label that its template carries.
fn of_team(name: &str, team: &str) -> NodeClaim {
    let mut claim = plain_claim(name);
    let labels = claim.metadata.labels.get_or_insert_default();
    labels.insert("team".to_owned(), team.to_owned());
    claim
}

// AWS-157, AWS-158
#[tokio::test(start_paused = true)]
async fn launches_go_on_while_unused_templates_are_deleted() {
    let world = ready_world(&["m5.large"]).await;
    let names = || world.aws.account().templates.keys().cloned().collect::<Vec<_>>();
    launched(&world, &of_team("a", "a")).await;
    let of_a = names();
    launched(&world, &of_team("b", "b")).await;
    let both = names();
    assert_eq!(both.len(), 2, "{both:?}");
    // Templates go in the order of their names.
    let (first, second) = if both[0] == of_a[0] { ("a", "b") } else { ("b", "a") };
    tokio::time::sleep(Duration::from_secs(61)).await;
    world.aws.account().template_deletion = Duration::from_secs(10);
    world.aws.take_calls();
    let launches = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        launched(&world, &of_team("c", "new")).await;
        launched(&world, &of_team("d", second)).await;
        let others = start.elapsed();
        launched(&world, &of_team("e", first)).await;
        (others, start.elapsed())
    };
    let ((), (others, same)) = tokio::join!(world.cloud.templates.delete_unused(), launches);
    assert!(others < Duration::from_secs(1), "{others:?}");
    assert!(
        same >= Duration::from_secs(9),
        "it waits for the end of its template: {same:?}"
    );
    assert_eq!(
        world.aws.count("DeleteLaunchTemplate"),
        1,
        "the second one is needed again"
    );
    assert_eq!(world.aws.count("CreateLaunchTemplate"), 2);
    assert_eq!(
        world.aws.count("CreateFleet"),
        3,
        "no launch met a template that is gone"
    );
    assert_eq!(names().len(), 3);
}

// AWS-157
#[tokio::test(start_paused = true)]
async fn a_template_that_ec2_does_not_show_yet_is_used() {
    let world = ready_world(&["m5.large"]).await;
    launched(&world, &plain_claim("a")).await;
    let name = world.aws.account().templates.keys().next().cloned().unwrap();
    world.cloud.templates.forget([name.as_str()]);
    world.aws.take_calls();
    world.aws.fail(
        "DescribeLaunchTemplates",
        "InvalidLaunchTemplateName.NotFoundException",
        "",
    );
    launched(&world, &plain_claim("b")).await;
    let calls = world.aws.take_calls();
    let calls: Vec<&str> = calls.iter().filter_map(|call| call.split(' ').next()).collect();
    assert_eq!(
        calls,
        ["DescribeLaunchTemplates", "CreateLaunchTemplate", "CreateFleet"]
    );
    // Other errors are errors.
    world.cloud.templates.forget([name.as_str()]);
    world.aws.account().templates.clear();
    world.aws.fail("CreateLaunchTemplate", "InternalError", "");
    assert!(world.provider.create(&plain_claim("c")).await.is_err());
}

// AWS-158
#[tokio::test(start_paused = true)]
async fn a_template_whose_creation_failed_without_an_answer_is_deleted_later() {
    for (code, may_be_done) in [
        ("InternalError", true),
        ("RequestLimitExceeded", true),
        ("RequestError", true),
        ("UnauthorizedOperation", false),
    ] {
        let world = ready_world(&["m5.large"]).await;
        world.aws.fail("CreateLaunchTemplate", code, "");
        assert!(world.provider.create(&plain_claim("a")).await.is_err());
        world.aws.take_calls();
        tokio::time::sleep(Duration::from_secs(4 * 60)).await;
        world.cloud.templates.delete_unused().await;
        assert_eq!(world.aws.count("DeleteLaunchTemplate"), 0, "{code}");
        tokio::time::sleep(Duration::from_secs(2 * 60)).await;
        world.cloud.templates.delete_unused().await;
        assert_eq!(
            world.aws.count("DeleteLaunchTemplate"),
            usize::from(may_be_done),
            "{code}"
        );
        world.cloud.templates.delete_unused().await;
        assert_eq!(
            world.aws.count("DeleteLaunchTemplate"),
            usize::from(may_be_done),
            "{code}"
        );
    }
}
