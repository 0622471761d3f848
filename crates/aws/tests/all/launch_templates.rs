//! Launch templates: when they are made, found, forgotten and deleted.

use crate::world::{CAPACITY, TYPE, claim, launched, plain_claim, ready_world};
use kerf_cloud::{CloudError, CloudProvider};
use std::time::Duration;

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
    // A process that only stands by knows nothing of the orphan, and deletes nothing.
    world.cloud.templates.delete_unused().await;
    assert_eq!(names(), ["foreign", own.as_str(), "orphan"]);
    world.cloud.templates.take_over().await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    launched(&world, &plain_claim("b")).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    // A failure is logged; the template is forgotten.
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
