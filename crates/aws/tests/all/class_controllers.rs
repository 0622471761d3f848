//! The controllers of classes and of what they own, on an AWS in memory.

use crate::class::class_with_status;
use crate::world::{CAPACITY, TYPE, World, after_launch, claim, plain_claim, ready_class, world, world_with};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kerf_api::ec2_node_class::NodeClassSecurityGroup;
use kerf_api::{ConditionStatus, EC2NodeClass, NodeClaim};
use kerf_aws::ami::Image;
use kerf_aws::controllers::{
    ClassHash, InstanceGarbage, NodeClassController, Tagging, collect_profiles, correct_capacity_types,
    expire_reservations,
};
use kerf_cloud::CloudProvider;
use kerf_runtime::Outcome;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A world with everything that the class selects.
pub(crate) async fn complete_world(flags: &[(&str, &str)]) -> World {
    let world = world_with(&["m5.large", "m6g.large"], flags).await;
    {
        let mut account = world.aws.account();
        account.security_groups = vec![NodeClassSecurityGroup {
            id: "sg-1".to_owned(),
            name: Some("nodes".to_owned()),
        }];
        let image = |id: &str, architecture: &str| Image {
            id: id.to_owned(),
            name: Some(id.to_owned()),
            architecture: architecture.to_owned(),
            created: None,
            deprecated_from: None,
        };
        account.images = vec![image("ami-amd", "x86_64"), image("ami-arm", "arm64")];
        for (arch, id) in [("x86_64", "ami-amd"), ("arm64", "ami-arm")] {
            let path = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023";
            account
                .parameters
                .insert(format!("{path}/{arch}/standard/recommended/image_id"), id.to_owned());
        }
    }
    world
}

/// Writes a class that nothing is known of yet.
pub(crate) async fn put_new(world: &World, spec: Value) -> EC2NodeClass {
    let class = class_with_status(spec, json!({}));
    let new = EC2NodeClass::new("nodes", class.spec);
    Api::all(world.client.clone())
        .create(&PostParams::default(), &new)
        .await
        .unwrap()
}

async fn get(world: &World) -> EC2NodeClass {
    Api::all(world.client.clone()).get("nodes").await.unwrap()
}

/// Status and reason of a condition.
fn condition(class: &EC2NodeClass, kind: &str) -> (ConditionStatus, String) {
    let found = class.status.conditions.iter().find(|condition| condition.type_ == kind);
    let found = found.unwrap();
    (found.status, found.reason().to_owned())
}

const NO: ConditionStatus = ConditionStatus::False;
const YES: ConditionStatus = ConditionStatus::True;

// AWS-030, AWS-056, AWS-057, AWS-065, AWS-066, AWS-440
#[tokio::test(start_paused = true)]
async fn a_class_becomes_ready_in_one_pass() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    let outcome = controller.reconcile("nodes").await.unwrap();
    assert_eq!(
        outcome,
        Outcome::RequeueAfter(Duration::from_secs(60)),
        "subnets want it"
    );
    let class = get(&world).await;
    assert_eq!(
        class.metadata.finalizers.as_deref(),
        Some(&["karpenter.k8s.aws/termination".to_owned()][..])
    );
    let kinds: Vec<&str> = class.status.conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(kinds.len(), 8, "{kinds:?}");
    for kind in kinds {
        assert_eq!(condition(&class, kind).0, YES, "{kind}: {:?}", class.status.conditions);
    }
    let written = serde_json::to_value(&class.status).unwrap();
    assert_eq!(
        written["subnets"][0],
        json!({"id": "subnet-a", "zone": "us-east-1a", "zoneID": "use1-az1"})
    );
    assert_eq!(written["securityGroups"], json!([{"id": "sg-1", "name": "nodes"}]));
    assert_eq!(written["amis"].as_array().unwrap().len(), 2);
    let profile = class.status.instance_profile.clone().unwrap();
    assert!(world.aws.account().profiles.contains_key(&profile));
    // Nothing changes, so nothing is written.
    let version = class.metadata.resource_version.clone();
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(get(&world).await.metadata.resource_version, version);
    // And a claim can be launched with it.
    world.provider.create(&plain_claim("a")).await.unwrap();
    assert_eq!(controller.reconcile("gone").await.unwrap(), Outcome::Done);
}

// AWS-056, AWS-060, AWS-061, AWS-065
#[tokio::test(start_paused = true)]
async fn one_failing_topic_does_not_keep_others_from_being_found() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    world.aws.account().subnets.clear();
    world.aws.fail("DescribeSecurityGroups", "InternalError", "not now");
    world.aws.fail("CreateInstanceProfile", "AccessDenied", "no");
    let controller = NodeClassController::new(&world.cloud);
    let error = controller.reconcile("nodes").await.unwrap_err().to_string();
    assert!(
        error.contains("SecurityGroupsReady") && error.contains("InstanceProfileReady"),
        "{error}"
    );
    let class = get(&world).await;
    assert_eq!(condition(&class, "AMIsReady").0, YES);
    assert_eq!(condition(&class, "SubnetsReady"), (NO, "SubnetsNotFound".to_owned()));
    // Errors leave their conditions untouched.
    assert_eq!(condition(&class, "SecurityGroupsReady").0, ConditionStatus::Unknown);
    assert_eq!(condition(&class, "InstanceProfileReady").0, ConditionStatus::Unknown);
    assert_eq!(
        condition(&class, "ValidationSucceeded"),
        (NO, "DependenciesNotReady".to_owned())
    );
    assert_eq!(condition(&class, "Ready").0, NO);
}

// AWS-059
#[tokio::test(start_paused = true)]
async fn an_alias_that_the_version_lacks_is_terminal() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({"amiSelectorTerms": [{"alias": "al2@latest"}]})).await;
    let error = NodeClassController::new(&world.cloud)
        .reconcile("nodes")
        .await
        .unwrap_err();
    assert!(error.is_terminal(), "{error}");
    assert_eq!(
        condition(&get(&world).await, "AMIsReady"),
        (NO, "UnsupportedAlias".to_owned())
    );
}

// AWS-069
#[tokio::test(start_paused = true)]
async fn only_al2023_asks_for_the_addresses_of_services() {
    let world = complete_world(&[]).await;
    put_new(
        &world,
        json!({"amiFamily": "Bottlerocket", "amiSelectorTerms": [{"id": "ami-amd"}]}),
    )
    .await;
    let controller = NodeClassController::new(&world.cloud);
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(world.aws.count("DescribeCluster"), 0);
    assert_eq!(condition(&get(&world).await, "ValidationSucceeded").0, YES);
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    world.aws.fail("DescribeCluster", "InternalError", "a fault of AWS");
    assert_eq!(controller.reconcile("nodes").await.unwrap(), Outcome::Requeue);
    assert_eq!(
        condition(&get(&world).await, "ValidationSucceeded").0,
        ConditionStatus::Unknown
    );
    world.aws.fail("DescribeCluster", "AccessDeniedException", "no");
    assert!(controller.reconcile("nodes").await.is_err());
    let failed = (NO, "ClusterCIDRResolutionFailed".to_owned());
    assert_eq!(condition(&get(&world).await, "ValidationSucceeded"), failed);
    let class = get(&world).await;
    let said = class
        .status
        .conditions
        .iter()
        .find(|one| one.type_ == "ValidationSucceeded")
        .unwrap();
    let parts = ["the cluster CIDR: AccessDeniedException: no; ", "kerf manifests --iam"];
    assert!(
        parts.iter().all(|part| said.message().contains(part)),
        "{}",
        said.message()
    );
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(condition(&get(&world).await, "ValidationSucceeded").0, YES);
    assert_eq!(world.aws.count("DescribeCluster"), 3);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(world.aws.count("DescribeCluster"), 3, "it is asked for once");
}

// AWS-073
#[tokio::test(start_paused = true)]
async fn without_dry_runs_validation_succeeds_at_once() {
    let world = complete_world(&[("disable-dry-run", "true")]).await;
    put_new(&world, json!({})).await;
    NodeClassController::new(&world.cloud).reconcile("nodes").await.unwrap();
    assert_eq!(condition(&get(&world).await, "ValidationSucceeded").0, YES);
    assert_eq!(world.aws.account().dry_runs, Vec::<String>::new());
    assert_eq!(world.aws.count("CreateLaunchTemplate"), 0);
}

// AWS-074, AWS-075, AWS-076, AWS-493
#[tokio::test(start_paused = true)]
async fn a_dry_run_makes_a_template_and_tries_fleet_and_instance() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    world.put_pool().await;
    let controller = NodeClassController::new(&world.cloud);
    controller.reconcile("nodes").await.unwrap();
    let tried = ["m5.large subnet-a,subnet-b", "m5.large subnet-a"];
    assert_eq!(
        world.aws.account().dry_runs,
        tried,
        "every subnet in one fleet; instances until one succeeds"
    );
    assert_eq!(world.aws.count("CreateLaunchTemplate"), 1);
    // The result is kept: the next passes try nothing.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(600 - 1)).await;
        controller.reconcile("nodes").await.unwrap();
    }
    assert_eq!(world.aws.account().dry_runs.len(), 2);
    assert_eq!(world.aws.count("CreateLaunchTemplate"), 1);
}

// AWS-072, AWS-081, AWS-427
#[tokio::test(start_paused = true)]
async fn results_of_validation_are_kept_for_half_an_hour() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    world.aws.fail("CreateFleet", "UnauthorizedOperation", "no policy");
    controller.reconcile("nodes").await.unwrap();
    let failed = (NO, "CreateFleetAuthCheckFailed".to_owned());
    assert_eq!(condition(&get(&world).await, "ValidationSucceeded"), failed);
    world.aws.take_calls();
    // A failure is kept as well, and applied again.
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(condition(&get(&world).await, "ValidationSucceeded"), failed);
    assert_eq!(world.aws.count("CreateFleet"), 0);
    // An annotation more forces another try.
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let annotated = Patch::Merge(json!({"metadata": {"annotations": {"try": "again"}}}));
    api.patch("nodes", &PatchParams::default(), &annotated).await.unwrap();
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(world.aws.count("CreateFleet"), 1);
    assert_eq!(condition(&get(&world).await, "ValidationSucceeded").0, YES);
    tokio::time::sleep(Duration::from_secs(30 * 60)).await;
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(world.aws.count("CreateFleet"), 2);
}

// AWS-072
#[tokio::test(start_paused = true)]
async fn the_order_of_subnets_forces_no_validation() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(world.aws.count("CreateFleet"), 1);
    let first = get(&world).await.status.subnets;
    world.aws.account().subnets[1].free_addresses = 5000;
    tokio::time::sleep(Duration::from_secs(120)).await;
    controller.reconcile("nodes").await.unwrap();
    let swapped: Vec<_> = first.iter().rev().cloned().collect();
    assert_eq!(get(&world).await.status.subnets, swapped);
    assert_eq!(world.aws.count("CreateFleet"), 1);
}

// AWS-492
#[tokio::test(start_paused = true)]
async fn a_class_is_not_ready_with_what_was_found_for_an_earlier_generation() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(condition(&get(&world).await, "Ready").0, YES);
    world.aws.fail("DescribeSecurityGroups", "UnauthorizedOperation", "");
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let other = json!({"spec": {"securityGroupSelectorTerms": [{"tags": {"team": "other"}}]}});
    api.patch("nodes", &PatchParams::default(), &Patch::Merge(other))
        .await
        .unwrap();
    // The failed call is an error of the pass.
    let _ = controller.reconcile("nodes").await;
    let class = get(&world).await;
    assert_ne!(condition(&class, "Ready").0, YES);
    let unknown = (ConditionStatus::Unknown, "UnauthorizedOperation".to_owned());
    assert_eq!(
        condition(&class, "SecurityGroupsReady"),
        unknown,
        "the cause is not only in the log"
    );
    let said = class
        .status
        .conditions
        .iter()
        .find(|one| one.type_ == "SecurityGroupsReady")
        .unwrap();
    assert!(said.message().contains("kerf manifests --iam"), "{}", said.message());
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(condition(&get(&world).await, "Ready").0, YES);
}

// AWS-077
#[tokio::test(start_paused = true)]
async fn a_throttled_validation_is_tried_again_after_a_back_off() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    world.aws.fail("CreateFleet", "RequestLimitExceeded", "slow down");
    let controller = NodeClassController::new(&world.cloud);
    assert_eq!(controller.reconcile("nodes").await.unwrap(), Outcome::Requeue);
    assert_eq!(
        condition(&get(&world).await, "ValidationSucceeded").0,
        ConditionStatus::Unknown
    );
    controller.reconcile("nodes").await.unwrap();
    assert_eq!(condition(&get(&world).await, "ValidationSucceeded").0, YES);
}

// AWS-064
#[tokio::test(start_paused = true)]
async fn a_placement_group_must_exist() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({"placementGroupSelector": {"name": "mine"}})).await;
    let controller = NodeClassController::new(&world.cloud);
    controller.reconcile("nodes").await.unwrap();
    let missing = (NO, "PlacementGroupNotFound".to_owned());
    assert_eq!(condition(&get(&world).await, "PlacementGroupReady"), missing);
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.aws.fail("DescribePlacementGroups", "InternalError", "");
    assert!(controller.reconcile("nodes").await.is_err());
    let failed = (NO, "PlacementGroupResolutionFailed".to_owned());
    assert_eq!(condition(&get(&world).await, "PlacementGroupReady"), failed);
}

/// Writes a claim of the class, with its provider id and node name.
pub(crate) async fn put_claim(world: &World, claim: &NodeClaim) -> NodeClaim {
    let api = Api::<NodeClaim>::all(world.client.clone());
    let mut new = claim.clone();
    new.metadata.uid = None;
    let created = api.create(&PostParams::default(), &new).await.unwrap();
    let Some(status) = &claim.status else { return created };
    let status = Patch::Merge(json!({"status": status}));
    let name = claim.metadata.name.as_deref().unwrap();
    api.patch_status(name, &PatchParams::default(), &status).await.unwrap()
}

// AWS-068, AWS-097, AWS-160, AWS-385
#[tokio::test(start_paused = true)]
async fn a_class_goes_after_its_claims_and_with_its_templates_and_profiles() {
    let mut world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    controller.reconcile("nodes").await.unwrap();
    put_claim(&world, &plain_claim("a")).await;
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    api.delete("nodes", &DeleteParams::default()).await.unwrap();
    let waits = Outcome::RequeueAfter(Duration::from_secs(600));
    assert_eq!(controller.reconcile("nodes").await.unwrap(), waits);
    let events = world.events();
    assert_eq!(events[0].reason, "WaitingOnNodeClaimTermination");
    assert!(events[0].message.ends_with("for a"), "{}", events[0].message);
    assert_eq!(world.aws.account().templates.len(), 1);
    let claims = Api::<NodeClaim>::all(world.client.clone());
    claims.delete("a", &DeleteParams::default()).await.unwrap();
    world.aws.fail("DeleteLaunchTemplate", "InternalError", "not now");
    assert!(
        controller.reconcile("nodes").await.is_err(),
        "a template that stays keeps the class"
    );
    assert!(api.get_opt("nodes").await.unwrap().is_some());
    assert_eq!(controller.reconcile("nodes").await.unwrap(), Outcome::Done);
    assert!(api.get_opt("nodes").await.unwrap().is_none());
    let account = world.aws.account();
    assert!(account.templates.is_empty() && account.profiles.is_empty());
}

// AWS-098
#[tokio::test(start_paused = true)]
async fn in_an_isolated_vpc_profiles_are_left_behind() {
    let world = complete_world(&[("isolated-vpc", "true")]).await;
    put_new(&world, json!({})).await;
    let controller = NodeClassController::new(&world.cloud);
    controller.reconcile("nodes").await.unwrap();
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    api.delete("nodes", &DeleteParams::default()).await.unwrap();
    world.aws.take_calls();
    controller.reconcile("nodes").await.unwrap();
    assert!(api.get_opt("nodes").await.unwrap().is_none());
    let calls = world.aws.take_calls();
    assert!(calls.iter().all(|call| !call.contains("InstanceProfile")), "{calls:?}");
}

// AWS-052, AWS-053, AWS-054
#[tokio::test(start_paused = true)]
async fn hashes_are_written_and_claims_are_taken_over() {
    let world = complete_world(&[]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let hash = ClassHash::new(Arc::clone(&world.cloud));
    hash.reconcile("nodes").await.unwrap();
    let written = get(&world).await.metadata.annotations.unwrap();
    assert_eq!(written["karpenter.k8s.aws/ec2nodeclass-hash-version"], "v5");
    // A new claim has the hash of the class as it was read then.
    let claim = plain_claim("a");
    let launched = world.provider.create(&claim).await.unwrap();
    let key = "karpenter.k8s.aws/ec2nodeclass-hash";
    assert_eq!(launched.annotations[key], written[key]);
    // An older version: claims that are not drifted get hash and version, drifted ones the version alone.
    let old = json!({"karpenter.k8s.aws/ec2nodeclass-hash": "7", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4"});
    let with = |name: &str, drifted: bool| {
        let mut claim = plain_claim(name);
        claim.metadata.annotations = serde_json::from_value(old.clone()).unwrap();
        if drifted {
            let condition = crate::world::condition("Drifted", "True", 1);
            claim.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
        }
        claim
    };
    put_claim(&world, &with("plain", false)).await;
    put_claim(&world, &with("drifted", true)).await;
    let api = Api::<EC2NodeClass>::all(world.client.clone());
    let aged = Patch::Merge(json!({"metadata": {"annotations": old}}));
    api.patch("nodes", &PatchParams::default(), &aged).await.unwrap();
    hash.reconcile("nodes").await.unwrap();
    let claims = Api::<NodeClaim>::all(world.client.clone());
    let hash_of = async |name: &str| claims.get(name).await.unwrap().metadata.annotations.unwrap();
    assert_eq!(hash_of("plain").await[key], written[key]);
    assert_eq!(hash_of("drifted").await[key], "7");
    assert_eq!(
        hash_of("drifted").await["karpenter.k8s.aws/ec2nodeclass-hash-version"],
        "v5"
    );
    assert_eq!(get(&world).await.metadata.annotations.unwrap()[key], written[key]);
}

async fn put_node(world: &World, name: &str, provider_id: &str, labels: Value) {
    let node: Node = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels}, "spec": {"providerID": provider_id}}))
    .unwrap();
    Api::all(world.client.clone())
        .create(&PostParams::default(), &node)
        .await
        .unwrap();
}

// AWS-325, AWS-436
#[tokio::test(start_paused = true)]
async fn instances_without_claim_are_removed_with_their_nodes() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let garbage = InstanceGarbage::new(Arc::clone(&world.cloud));
    for name in ["kept", "orphan"] {
        let claim = plain_claim(name);
        let launched = world.provider.create(&claim).await.unwrap();
        put_node(&world, name, &launched.provider_id, json!({})).await;
        if name == "kept" {
            put_claim(&world, &after_launch(&claim, &launched)).await;
        }
    }
    let foreign = {
        let mut account = world.aws.account();
        let mut foreign = account.instances[1].clone();
        foreign.id = "i-foreign".to_owned();
        foreign.tags.remove("karpenter.sh/nodepool");
        account.instances.push(foreign.clone());
        foreign.id
    };
    assert_eq!(garbage.reconcile().await.unwrap(), Duration::from_secs(10));
    assert_eq!(world.aws.count("TerminateInstances"), 0, "it is too young");
    tokio::time::sleep(Duration::from_secs(31)).await;
    garbage.reconcile().await.unwrap();
    let calls = world.aws.take_calls();
    let terminations: Vec<&String> = calls
        .iter()
        .filter(|call| call.starts_with("TerminateInstances"))
        .collect();
    assert_eq!(terminations, ["TerminateInstances i-00000002"]);
    let nodes = Api::<Node>::all(world.client.clone());
    assert!(nodes.get_opt("kept").await.unwrap().is_some());
    assert!(nodes.get_opt("orphan").await.unwrap().is_none());
    assert!(
        world
            .aws
            .account()
            .instances
            .iter()
            .any(|one| one.id == foreign && one.state == "running")
    );
    for _ in 2..19 {
        assert_eq!(garbage.reconcile().await.unwrap(), Duration::from_secs(10));
    }
    assert_eq!(garbage.reconcile().await.unwrap(), Duration::from_secs(120));
}

// AWS-325
#[tokio::test(start_paused = true)]
async fn an_instance_is_kept_while_its_claim_waits_for_the_provider_id() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let garbage = InstanceGarbage::new(Arc::clone(&world.cloud));
    for name in ["stays", "goes"] {
        put_claim(&world, &plain_claim(name)).await;
        world.provider.create(&plain_claim(name)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    garbage.reconcile().await.unwrap();
    assert_eq!(world.aws.count("TerminateInstances"), 0);
    let claims = Api::<NodeClaim>::all(world.client.clone());
    claims.delete("goes", &DeleteParams::default()).await.unwrap();
    garbage.reconcile().await.unwrap();
    let terminations = || {
        let mut calls = world.aws.take_calls();
        calls.retain(|call| call.starts_with("TerminateInstances"));
        calls
    };
    assert_eq!(terminations(), ["TerminateInstances i-00000002"]);
    // The claim got another instance: this one is of no use.
    let other = world.provider.create(&plain_claim("stays")).await.unwrap();
    claims.delete("stays", &DeleteParams::default()).await.unwrap();
    put_claim(&world, &after_launch(&plain_claim("stays"), &other)).await;
    garbage.reconcile().await.unwrap();
    assert_eq!(terminations(), ["TerminateInstances i-00000001"]);
    // An hour is long enough for any API server.
    put_claim(&world, &plain_claim("late")).await;
    world.provider.create(&plain_claim("late")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3599)).await;
    garbage.reconcile().await.unwrap();
    assert_eq!(terminations(), [""; 0]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    garbage.reconcile().await.unwrap();
    assert_eq!(terminations(), ["TerminateInstances i-00000004"]);
}

// AWS-326, AWS-327, AWS-328
#[tokio::test(start_paused = true)]
async fn instances_get_their_names_once_their_node_is_known() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let tagging = Tagging::new(Arc::clone(&world.cloud));
    let claims = Api::<NodeClaim>::all(world.client.clone());
    for name in ["a", "b"] {
        let claim = plain_claim(name);
        let launched = world.provider.create(&claim).await.unwrap();
        put_claim(&world, &after_launch(&claim, &launched)).await;
    }
    let named = Patch::Merge(json!({"status": {"nodeName": "node-1"}}));
    tagging.reconcile("a").await.unwrap();
    assert_eq!(world.aws.count("CreateTags"), 0, "the node is not known");
    for name in ["a", "b"] {
        claims
            .patch_status(name, &PatchParams::default(), &named)
            .await
            .unwrap();
    }
    let start = tokio::time::Instant::now();
    tagging.reconcile("a").await.unwrap();
    tagging.reconcile("b").await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1), "one call a second");
    let tags = world.aws.account().instances[0].tags.clone();
    assert_eq!(
        (tags["Name"].as_str(), tags["karpenter.sh/nodeclaim"].as_str()),
        ("node-1", "a")
    );
    assert!(
        world
            .aws
            .take_calls()
            .contains(&"CreateTags i-00000001 Name,karpenter.sh/nodeclaim".to_owned())
    );
    let annotations = claims.get("a").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations["karpenter.k8s.aws/tagged"], "true");
    assert_eq!(
        annotations["compatibility.karpenter.k8s.aws/cluster-name-tagged"],
        "true"
    );
    // Done is done, and what has all tags needs no call.
    tagging.reconcile("a").await.unwrap();
    let undone = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.k8s.aws/tagged": null}}}));
    claims.patch("a", &PatchParams::default(), &undone).await.unwrap();
    tagging.reconcile("a").await.unwrap();
    assert_eq!(world.aws.count("CreateTags"), 0);
    // Nothing can be tagged: no error, no annotation.
    assert_eq!(tagging.reconcile("gone").await.unwrap(), Outcome::Done);
    for (name, id) in [("malformed", "no-provider-id"), ("missing", "aws:///us-east-1a/i-gone")] {
        let mut claim = plain_claim(name);
        claim.status = serde_json::from_value(json!({"providerID": id, "nodeName": "node-2"})).unwrap();
        put_claim(&world, &claim).await;
        assert_eq!(tagging.reconcile(name).await.unwrap(), Outcome::Done);
        assert_eq!(claims.get(name).await.unwrap().metadata.annotations, None);
    }
}

// AWS-100
#[tokio::test(start_paused = true)]
async fn profiles_that_nothing_names_are_collected() {
    let world = complete_world(&[]).await;
    put_new(&world, json!({})).await;
    NodeClassController::new(&world.cloud).reconcile("nodes").await.unwrap();
    let used = get(&world).await.status.instance_profile.unwrap();
    for name in ["prod_claim", "prod_garbage"] {
        let path = "/karpenter/us-east-1/prod/uid-9/";
        world
            .cloud
            .profiles
            .create(name, path, &Default::default(), "nodes")
            .await
            .unwrap();
    }
    let mut claim = plain_claim("a");
    let key = "karpenter.k8s.aws/instance-profile-name".to_owned();
    claim.metadata.annotations = Some([(key, "prod_claim".to_owned())].into());
    put_claim(&world, &claim).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    collect_profiles(&world.cloud).await.unwrap();
    let mut wanted = ["prod_claim".to_owned(), used];
    wanted.sort();
    assert_eq!(world.aws.account().profiles.keys().cloned().collect::<Vec<_>>(), wanted);
}

/// The labels of a claim in a reservation.
pub(crate) fn reserved(name: &str, reservation: &str) -> NodeClaim {
    let mut claim = claim(name, &[(TYPE, &["m5.large"]), (CAPACITY, &["on-demand"])]);
    let labels = claim.metadata.labels.get_or_insert_default();
    for (key, value) in [
        (CAPACITY, "reserved"),
        ("karpenter.k8s.aws/capacity-reservation-id", reservation),
        ("karpenter.k8s.aws/capacity-reservation-type", "default"),
        ("karpenter.k8s.aws/capacity-reservation-interruptible", "false"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    claim
}

// AWS-276
#[tokio::test(start_paused = true)]
async fn claims_of_a_block_that_ends_are_deleted() {
    let world = world(&["m5.large"]).await;
    let reservation = |id: &str, state: &str| {
        json!({"availabilityZone": "us-east-1a", "id": id, "instanceMatchCriteria": "targeted", "instanceType": "m5.large",
            "ownerID": "123456789012", "reservationType": "capacity-block", "interruptible": false, "state": state})
    };
    let reservations = json!([reservation("cr-1", "expiring"), reservation("cr-2", "active")]);
    world
        .put_class(&ready_class(json!({}), json!({"capacityReservations": reservations})))
        .await;
    put_claim(&world, &reserved("ends", "cr-1")).await;
    put_claim(&world, &reserved("stays", "cr-2")).await;
    put_claim(&world, &plain_claim("other")).await;
    expire_reservations(&world.cloud).await.unwrap();
    let claims = Api::<NodeClaim>::all(world.client.clone());
    assert!(claims.get_opt("ends").await.unwrap().is_none());
    assert!(claims.get_opt("stays").await.unwrap().is_some());
    assert!(claims.get_opt("other").await.unwrap().is_some());
}

// AWS-277, AWS-278
#[tokio::test(start_paused = true)]
async fn a_claim_whose_reservation_ended_is_on_demand() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let launched = world.provider.create(&plain_claim("a")).await.unwrap();
    let mut claim = reserved("a", "cr-1");
    claim.status = serde_json::from_value(json!({"providerID": launched.provider_id})).unwrap();
    let labels = claim.metadata.labels.clone().unwrap();
    put_claim(&world, &claim).await;
    let mut registered = labels.clone();
    registered.insert("karpenter.sh/registered".to_owned(), "true".to_owned());
    put_node(&world, "registered", &launched.provider_id, json!(registered)).await;
    put_node(&world, "unregistered", &launched.provider_id, json!(labels)).await;
    assert!(!correct_capacity_types(&world.cloud).await.unwrap());
    let nodes = Api::<Node>::all(world.client.clone());
    let claims = Api::<NodeClaim>::all(world.client.clone());
    let corrected = claims.get("a").await.unwrap().metadata.labels.unwrap();
    assert_eq!(corrected[CAPACITY], "on-demand");
    assert!(
        corrected.keys().all(|key| !key.contains("capacity-reservation")),
        "{corrected:?}"
    );
    let corrected = nodes.get("registered").await.unwrap().metadata.labels.unwrap();
    assert_eq!(corrected[CAPACITY], "on-demand");
    assert!(
        corrected.keys().all(|key| !key.contains("capacity-reservation")),
        "{corrected:?}"
    );
    let untouched = nodes.get("unregistered").await.unwrap().metadata.labels.unwrap();
    assert_eq!(untouched[CAPACITY], "reserved");
}

// AWS-277
#[tokio::test(start_paused = true)]
async fn instances_are_not_described_while_nothing_is_reserved() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    let launched = world.provider.create(&plain_claim("a")).await.unwrap();
    let mut claim = plain_claim("a");
    claim.status = serde_json::from_value(json!({"providerID": launched.provider_id})).unwrap();
    put_claim(&world, &claim).await;
    let labels = json!({CAPACITY: "on-demand", "karpenter.sh/registered": "true"});
    put_node(&world, "registered", &launched.provider_id, labels).await;
    world.aws.take_calls();
    assert!(!correct_capacity_types(&world.cloud).await.unwrap());
    assert_eq!(world.aws.count("DescribeInstances"), 0);
}

// AWS-277
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_corrected_does_not_keep_others_from_it() {
    let world = world(&["m5.large"]).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    for name in ["a", "b"] {
        let launched = world.provider.create(&plain_claim(name)).await.unwrap();
        let mut claim = reserved(name, "cr-1");
        claim.status = serde_json::from_value(json!({"providerID": launched.provider_id})).unwrap();
        let mut labels = claim.metadata.labels.clone().unwrap();
        put_claim(&world, &claim).await;
        labels.insert("karpenter.sh/registered".to_owned(), "true".to_owned());
        put_node(&world, name, &launched.provider_id, json!(labels)).await;
    }
    let definitions = Api::<CustomResourceDefinition>::all(world.client.clone());
    let definition = definitions.get("nodeclaims.karpenter.sh").await.unwrap();
    let mut changed = serde_json::to_value(&definition).unwrap();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
        json!([{"rule": "self.metadata.name != 'a'", "message": "refused"}]);
    let changed = serde_json::from_value(changed).unwrap();
    let params = PostParams::default();
    definitions
        .replace("nodeclaims.karpenter.sh", &params, &changed)
        .await
        .unwrap();
    let error = correct_capacity_types(&world.cloud).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    let claims = Api::<NodeClaim>::all(world.client.clone());
    let nodes = Api::<Node>::all(world.client.clone());
    let claim = async |name: &str| claims.get(name).await.unwrap().metadata.labels.unwrap()[CAPACITY].clone();
    let node = async |name: &str| nodes.get(name).await.unwrap().metadata.labels.unwrap()[CAPACITY].clone();
    assert_eq!([claim("a").await, claim("b").await], ["reserved", "on-demand"]);
    assert_eq!([node("a").await, node("b").await], ["on-demand", "on-demand"]);
}
