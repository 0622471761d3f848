//! Instances that EC2 ends right after their launch.

use crate::class_controllers::{complete_world, put_new};
use crate::world::{World, after_launch, launched, plain_claim, ready_world};
use kerf_api::{Condition, EC2NodeClass, NodeClaim};
use kerf_aws::controllers::NodeClassController;
use kerf_aws::instance_end::StateReason;
use kerf_cloud::{CloudError, CloudProvider};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

fn reason(code: &str, message: &str) -> StateReason {
    StateReason {
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

const KEY_FIELD: &str = "kmsKeyID in spec.blockDeviceMappings";

#[test]
fn ends_that_a_class_or_its_account_caused_are_explained() {
    for (code, message, said) in [
        (
            "Client.InvalidKMSKey.InvalidState",
            "The KMS key provided is in an incorrect state",
            KEY_FIELD,
        ),
        (
            "Client.InternalError",
            "Client.InternalError: Client error on launch",
            KEY_FIELD,
        ),
        (
            "Client.InvalidSnapshot.NotFound",
            "The snapshot does not exist",
            "snapshotID",
        ),
        (
            "Client.VolumeLimitExceeded",
            "Volume limit exceeded",
            "quota of EBS volumes",
        ),
        (
            "Server.InternalError",
            "Server.InternalError: Internal error on launch",
            "internal error",
        ),
    ] {
        let explained = reason(code, message).explain().unwrap();
        assert!(explained.starts_with(code) && explained.contains(said), "{explained}");
        assert_eq!(explained.matches(code).count(), 1, "{explained}");
        let is_of_class = !code.starts_with("Server.") && code != "Client.VolumeLimitExceeded";
        assert_eq!(reason(code, message).is_of_class(), is_of_class, "{code}");
    }
    for code in [
        "Client.UserInitiatedShutdown",
        "Client.InstanceInitiatedShutdown",
        "Server.SpotInstanceTermination",
        "Server.ScheduledStop",
        "",
    ] {
        assert_eq!(reason(code, "").explain(), None, "{code}");
    }
}

/// A claim whose instance is in this state for this reason.
async fn ended(state: &str, why: StateReason) -> (World, NodeClaim) {
    let world = ready_world(&["m5.large"]).await;
    let claim = plain_claim("a");
    let claim = after_launch(&claim, &launched(&world, &claim).await);
    {
        let mut account = world.aws.account();
        state.clone_into(&mut account.instances[0].state);
        account.instances[0].state_reason = Some(why);
    }
    world.aws.take_calls();
    (world, claim)
}

#[tokio::test(start_paused = true)]
async fn a_claim_says_once_why_its_machine_ended() {
    let why = reason("Client.InternalError", "Client.InternalError: Client error on launch");
    let (mut world, claim) = ended("shutting-down", why).await;
    // The instance is on its way out, then gone: the claim is asked about several times.
    for _ in 0..2 {
        world.provider.delete(&claim).await.unwrap();
    }
    world.aws.account().instances[0].state = "terminated".to_owned();
    assert!(world.provider.delete(&claim).await.unwrap_err().is_not_found());
    assert_eq!(
        (
            world.aws.count("DescribeInstances"),
            world.aws.count("TerminateInstances")
        ),
        (3, 0)
    );
    let events = world.events();
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (event.object.name.as_str(), &*event.reason),
        ("a", "InstanceEndedAtLaunch")
    );
    for part in ["i-00000001", "EC2NodeClass nodes", "Client.InternalError", KEY_FIELD] {
        assert!(event.message.contains(part), "{part}: {}", event.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_ended_before_anybody_looked_is_explained_too() {
    let why = reason("Client.InvalidKMSKey.InvalidState", "The KMS key is disabled");
    let (mut world, claim) = ended("terminated", why).await;
    assert!(world.provider.delete(&claim).await.unwrap_err().is_not_found());
    assert_eq!(world.events().len(), 1);
}

// AWS-262
#[tokio::test(start_paused = true)]
async fn a_termination_needs_no_explanation() {
    let (mut world, claim) = ended("shutting-down", reason("Client.UserInitiatedShutdown", "")).await;
    world.provider.delete(&claim).await.unwrap();
    world.aws.account().instances[0].state = "running".to_owned();
    world.provider.delete(&claim).await.unwrap();
    assert_eq!(world.events().len(), 0);
}

/// Launches an instance that ends at once for this reason, and lets its claim be deleted.
async fn ends_at_launch(world: &World, name: &str, why: &StateReason) {
    let claim = plain_claim(name);
    let claim = after_launch(&claim, &launched(world, &claim).await);
    {
        let mut account = world.aws.account();
        let one = account.instances.last_mut().unwrap();
        "terminated".clone_into(&mut one.state);
        one.state_reason = Some(why.clone());
    }
    assert!(world.provider.delete(&claim).await.unwrap_err().is_not_found());
}

/// A class that is ready, and its controller.
async fn class_world() -> (World, NodeClassController) {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    controller.reconcile("nodes").await.unwrap();
    (world, controller)
}

/// The condition about validation after a pass of the controller.
async fn validated(world: &World, controller: &NodeClassController) -> Condition {
    controller.reconcile("nodes").await.unwrap();
    let class: EC2NodeClass = Api::all(world.client.clone()).get("nodes").await.unwrap();
    let found = |kind: &str| {
        class
            .status
            .conditions
            .iter()
            .find(|one| one.type_ == kind)
            .unwrap()
            .clone()
    };
    let validation = found("ValidationSucceeded");
    assert_eq!(found("Ready").is_true(), validation.is_true());
    validation
}

fn disabled_key() -> StateReason {
    reason("Client.InvalidKMSKey.InvalidState", "The KMS key is disabled")
}

// AWS-262
#[tokio::test(start_paused = true)]
async fn a_class_whose_instances_end_at_once_launches_nothing_until_it_changes() {
    let (world, controller) = class_world().await;
    ends_at_launch(&world, "a", &disabled_key()).await;
    assert!(
        validated(&world, &controller).await.is_true(),
        "one may be a coincidence"
    );
    ends_at_launch(&world, "b", &disabled_key()).await;
    // A claim that is tried before the condition says so waits.
    let error = world.provider.create(&plain_claim("c")).await.unwrap_err();
    assert!(
        matches!(&error, CloudError::Create { reason, .. } if &**reason == "InstanceEndedAtLaunch"),
        "{error}"
    );
    let condition = validated(&world, &controller).await;
    assert_eq!(
        (condition.is_false(), condition.reason()),
        (true, "InstanceEndedAtLaunch")
    );
    for part in [
        "Client.InvalidKMSKey.InvalidState: The KMS key is disabled",
        KEY_FIELD,
        "30 minutes",
    ] {
        assert!(condition.message().contains(part), "{part}: {}", condition.message());
    }
    let error = world.provider.create(&plain_claim("c")).await.unwrap_err();
    assert!(matches!(error, CloudError::NodeClassNotReady(_)), "{error}");
    assert_eq!(world.aws.account().instances.len(), 2);
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let memory = json!({"metadata": {"annotations": {"kerf.sh/discovered-memory": "v1"}}});
    let again = json!({"metadata": {"annotations": {"try": "again"}}});
    let mended = json!({"spec": {"blockDeviceMappings": [{"deviceName": "/dev/xvda"}]}});
    for (change, counts) in [(memory, false), (again, true), (mended, true)] {
        for nth in 0..2 * u32::from(validated(&world, &controller).await.is_true()) {
            ends_at_launch(&world, &format!("again-{nth}"), &disabled_key()).await;
        }
        let patch = Patch::Merge(&change);
        api.patch("nodes", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(validated(&world, &controller).await.is_true(), counts, "{change}");
    }
    launched(&world, &plain_claim("c")).await;
}

// AWS-262
#[tokio::test(start_paused = true)]
async fn a_key_that_was_enabled_meanwhile_is_found_after_half_an_hour() {
    let (world, controller) = class_world().await;
    for name in ["a", "b"] {
        ends_at_launch(&world, name, &disabled_key()).await;
    }
    tokio::time::sleep(Duration::from_secs(29 * 60)).await;
    assert!(validated(&world, &controller).await.is_false());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(validated(&world, &controller).await.is_true());
    launched(&world, &plain_claim("c")).await;
}

// AWS-262
#[tokio::test(start_paused = true)]
async fn instances_that_start_or_end_for_other_reasons_refuse_no_class() {
    let (world, controller) = class_world().await;
    for (name, code) in [("a", "Client.VolumeLimitExceeded"), ("b", "Server.InternalError")] {
        for nth in 0..3 {
            ends_at_launch(&world, &format!("{name}{nth}"), &reason(code, "")).await;
        }
    }
    assert!(validated(&world, &controller).await.is_true());
    for name in ["c", "d", "e"] {
        ends_at_launch(&world, name, &disabled_key()).await;
        let started = plain_claim(&format!("{name}-started"));
        let started = after_launch(&started, &launched(&world, &started).await);
        for hook in world.provider.registration_hooks() {
            hook.register(&started).await.unwrap();
        }
    }
    assert!(validated(&world, &controller).await.is_true());
}
