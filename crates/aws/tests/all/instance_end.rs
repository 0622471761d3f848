//! Instances that EC2 ends right after their launch.

use crate::world::{World, after_launch, launched, plain_claim, ready_world};
use kerf_api::NodeClaim;
use kerf_aws::instance_end::StateReason;
use kerf_cloud::CloudProvider;

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
