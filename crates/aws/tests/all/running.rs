//! The whole controller with the provider and its loops, on an AWS in memory and an embedded API server, in virtual time.

use crate::class_controllers::{complete_world, put_new};
use crate::iam::SCOPE;
use crate::policy::{Keys, allows, tag_keys};
use crate::world::{CAPACITY, TYPE, World, claim};
use k8s_openapi::api::core::v1::{Event, Node};
use kerf_api::{ConditionStatus, EC2NodeClass, NodeClaim};
use kerf_aws::controllers;
use kerf_aws::iam::CALLS;
use kerf_aws::placement_group::{PlacementGroup, Strategy};
use kerf_aws::provider::AwsProvider;
use kerf_aws::services::QueueMessage;
use kerf_controllers::{Manager, ManagerConfig};
use kerf_runtime::{CancellationToken, Seed};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

struct Running {
    world: World,
    shutdown: CancellationToken,
    manager: tokio::task::JoinHandle<Result<(), kerf_controllers::ManagerError>>,
}

/// Starts everything with the pool `default`; `flags` are the provider's options.
async fn running(flags: &[(&str, &str)]) -> Running {
    let world = complete_world(flags).await;
    {
        // The embedded API server is newer than what the other tests say of the cluster, and the version is read again.
        let mut account = world.aws.account();
        let known = account.parameters.clone().into_iter();
        account.parameters = known.map(|(name, id)| (name.replace("1.33", "1.36"), id)).collect();
        account.cluster.version = "1.36".to_owned();
    }
    let loops = controllers::start(&world.cloud, &world.metrics, Seed(7)).await.unwrap();
    let provider = Arc::new(AwsProvider::new(Arc::clone(&world.cloud)));
    let (client, clock) = (world.client.clone(), world.clock.clone());
    let manager = Manager::new(ManagerConfig {
        metrics: world.metrics.clone(),
        ..ManagerConfig::alone(client, provider, Arc::clone(&world.cloud.interner), clock)
    })
    .with_provider_loops(loops);
    let shutdown = CancellationToken::new();
    let manager = tokio::spawn(manager.run(shutdown.clone()));
    world.put_pool().await;
    Running {
        world,
        shutdown,
        manager,
    }
}

impl Running {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::ClusterResourceScope, DynamicType = ()>,
    {
        Api::all(self.world.client.clone())
    }

    /// Waits until `holds` returns true, at most `seconds`.
    async fn until(&self, what: &str, seconds: u64, holds: impl AsyncFn() -> bool) {
        let end = Instant::now() + Duration::from_secs(seconds);
        while !holds().await {
            assert!(!self.manager.is_finished(), "the controller ended");
            assert!(Instant::now() < end, "not within {seconds} s: {what}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn ready_class(&self) {
        put_new(&self.world, json!({})).await;
        self.class_is_ready().await;
    }

    async fn class_is_ready(&self) {
        self.class_has_ready(ConditionStatus::True).await;
    }

    /// Waits until the condition Ready of the class has a status.
    async fn class_has_ready(&self, status: ConditionStatus) {
        let classes = self.api::<EC2NodeClass>();
        self.until("Ready of the class", 30, async || {
            let class = classes.get("nodes").await.unwrap();
            let ready = class.status.conditions.iter().find(|one| one.type_ == "Ready");
            ready.is_some_and(|ready| ready.status == status)
        })
        .await;
    }

    /// Creates a claim for spot instances and waits for its launch; answers its provider id.
    async fn launch(&self, name: &str) -> String {
        let mut new = claim(name, &[(TYPE, &["m5.large"]), (CAPACITY, &["spot"])]);
        new.metadata.uid = None;
        self.api().create(&PostParams::default(), &new).await.unwrap();
        let claims = self.api::<NodeClaim>();
        self.until("the claim is launched", 30, async || {
            let status = claims.get(name).await.unwrap().status.unwrap_or_default();
            status.provider_id.is_some()
        })
        .await;
        claims.get(name).await.unwrap().status.unwrap().provider_id.unwrap()
    }

    /// Has the kubelet of an instance join, and waits until its claim is registered.
    async fn join(&self, claim: &str, provider_id: &str) {
        let unregistered = json!({"key": "karpenter.sh/unregistered", "effect": "NoExecute"});
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": format!("node-{claim}")},
            "spec": {"providerID": provider_id, "taints": [unregistered]},
        }))
        .unwrap();
        self.api().create(&PostParams::default(), &node).await.unwrap();
        let memory = json!({"cpu": "2", "memory": "7800Mi", "pods": "29"});
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""});
        let status = json!({"status": {"capacity": memory, "allocatable": memory, "conditions": [ready]}});
        let params = PatchParams::default();
        let name = format!("node-{claim}");
        self.api::<Node>()
            .patch_status(&name, &params, &Patch::Merge(status))
            .await
            .unwrap();
        let claims = self.api::<NodeClaim>();
        self.until("the node is registered", 60, async || {
            let status = claims.get(claim).await.unwrap().status.unwrap_or_default();
            status.node_name.is_some_and(|name| !name.is_empty())
        })
        .await;
    }

    fn state(&self, provider_id: &str) -> String {
        let account = self.world.aws.account();
        let id = provider_id.rsplit('/').next().unwrap();
        account.instances.iter().find(|one| one.id == id).unwrap().state.clone()
    }

    fn tag(&self, provider_id: &str, key: &str) -> Option<String> {
        let account = self.world.aws.account();
        let id = provider_id.rsplit('/').next().unwrap();
        let found = account.instances.iter().find(|one| one.id == id).unwrap();
        found.tags.get(key).cloned()
    }

    /// Puts a message about an instance into the queue.
    fn send(&self, detail_type: &str, source: &str, detail: Value) {
        let body = json!({"version": "0", "source": source, "detail-type": detail_type,
            "time": "2026-01-01T00:00:00Z", "detail": detail});
        self.world.aws.account().messages.push(QueueMessage {
            receipt: format!("receipt {detail_type} {detail}"),
            body: body.to_string(),
            sent: None,
        });
    }

    /// EC2 ends the instances that are shutting down.
    fn end_instances(&self) {
        let mut account = self.world.aws.account();
        account.instances.retain(|one| one.state != "shutting-down");
    }

    async fn is_gone(&self, claim: &str) -> bool {
        self.api::<NodeClaim>().get_opt(claim).await.unwrap().is_none()
    }

    /// Waits until EC2 ends the instance, at most `seconds`.
    async fn until_terminated(&self, provider_id: &str, seconds: u64) {
        self.until("the instance is terminated", seconds, async || {
            self.state(provider_id) == "shutting-down"
        })
        .await;
    }

    /// Waits until the claim is gone, at most `seconds`.
    async fn until_claim_gone(&self, claim: &str, seconds: u64) {
        self.until("the claim is gone", seconds, async || self.is_gone(claim).await)
            .await;
    }

    /// Waits until the class is gone, at most `seconds`.
    async fn until_class_gone(&self, seconds: u64) {
        let classes = self.api::<EC2NodeClass>();
        self.until("the class is gone", seconds, async || {
            classes.get_opt("nodes").await.unwrap().is_none()
        })
        .await;
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.manager.await.unwrap().unwrap();
    }
}

const QUEUE: &[(&str, &str)] = &[("interruption-queue", "prod-queue")];

// AWS-055, AWS-317, AWS-339, AWS-434
#[tokio::test(start_paused = true)]
async fn a_node_lives_from_its_class_to_its_interruption() {
    let running = running(QUEUE).await;
    running.ready_class().await;
    let id = running.launch("a").await;
    assert_eq!(running.state(&id), "running");
    running.join("a", &id).await;
    running
        .until("the instance is tagged", 60, async || {
            running.tag(&id, "Name").as_deref() == Some("node-a")
        })
        .await;
    let instance = id.rsplit('/').next().unwrap();
    let detail = json!({"instance-id": instance, "instance-action": "terminate"});
    running.send("EC2 Spot Instance Interruption Warning", "aws.ec2", detail);
    running.until_terminated(&id, 120).await;
    running.end_instances();
    running.until_claim_gone("a", 120).await;
    running
        .until("the message is deleted", 60, async || {
            running.world.aws.account().messages.is_empty()
        })
        .await;
    let counted =
        r#"karpenter_nodeclaims_disrupted_total{capacity_type="spot",nodepool="default",reason="spot_interrupted"}"#;
    assert_eq!(
        running.world.metric(counted),
        Some(1.0),
        "{}",
        running.world.metrics.encode()
    );
    // The last claim is gone: the class may go, with what belongs to it.
    let classes = running.api::<EC2NodeClass>();
    classes.delete("nodes", &DeleteParams::default()).await.unwrap();
    running.until_class_gone(60).await;
    assert!(running.world.aws.account().templates.is_empty());
    assert!(running.world.aws.account().profiles.is_empty());
    running.stop().await;
}

// AWS-055
#[tokio::test(start_paused = true)]
async fn a_deleted_class_ends_with_the_last_of_its_claims() {
    let running = running(QUEUE).await;
    running.ready_class().await;
    let id = running.launch("a").await;
    let classes = running.api::<EC2NodeClass>();
    classes.delete("nodes", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(
        classes.get_opt("nodes").await.unwrap().is_some(),
        "it waits for its claim"
    );
    let claims = running.api::<NodeClaim>();
    claims.delete("a", &DeleteParams::default()).await.unwrap();
    running.until_terminated(&id, 60).await;
    running.end_instances();
    running.until_claim_gone("a", 60).await;
    // Long before the ten minutes after which it would reconcile again.
    running.until_class_gone(30).await;
    running.stop().await;
}

// AWS-436
#[tokio::test(start_paused = true)]
async fn an_instance_that_nothing_owns_is_ended() {
    let running = running(&[]).await;
    running.ready_class().await;
    let id = running.launch("a").await;
    // A crash lost the claim's record of it.
    {
        let mut account = running.world.aws.account();
        let mut leaked = account.instances[0].clone();
        leaked.id = "i-leaked".to_owned();
        leaked
            .tags
            .insert("karpenter.sh/nodeclaim".to_owned(), "lost".to_owned());
        account.instances.push(leaked);
    }
    running
        .until("the leaked instance is terminated", 300, async || {
            running.state("aws:///us-east-1a/i-leaked") == "shutting-down"
        })
        .await;
    assert_eq!(running.state(&id), "running", "that of the claim stays");
    running.stop().await;
}

// AWS-379, AWS-380, AWS-381, AWS-382, AWS-383, AWS-384
#[tokio::test(start_paused = true)]
async fn messages_become_events_of_claim_and_node() {
    let running = running(QUEUE).await;
    running.ready_class().await;
    let spot = "EC2 Spot Instance Interruption Warning";
    let state = "EC2 Instance State-change Notification";
    type Case = (
        &'static str,
        &'static str,
        fn(&str) -> Value,
        &'static str,
        &'static str,
        bool,
    );
    let cases: [Case; 6] = [
        (
            spot,
            "aws.ec2",
            |id| json!({"instance-id": id, "instance-action": "terminate"}),
            "Warning",
            "SpotInterrupted",
            true,
        ),
        (
            "EC2 Instance Rebalance Recommendation",
            "aws.ec2",
            |id| json!({"instance-id": id}),
            "Normal",
            "SpotRebalanceRecommendation",
            false,
        ),
        (
            "EC2 Capacity Reservation Instance Interruption Warning",
            "aws.ec2",
            |id| json!({"instance-id": id, "instance-action": "terminate"}),
            "Warning",
            "CapacityReservationInstanceInterrupted",
            true,
        ),
        (
            state,
            "aws.ec2",
            |id| json!({"instance-id": id, "state": "stopping"}),
            "Warning",
            "InstanceStopping",
            true,
        ),
        (
            state,
            "aws.ec2",
            |id| json!({"instance-id": id, "state": "shutting-down"}),
            "Warning",
            "InstanceTerminating",
            true,
        ),
        (
            "AWS Health Event",
            "aws.health",
            |id| json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{"entityValue": id}]}),
            "Warning",
            "InstanceUnhealthy",
            true,
        ),
    ];
    for (index, (detail_type, source, detail, kind, reason, ends)) in cases.into_iter().enumerate() {
        let name = format!("c{index}");
        let id = running.launch(&name).await;
        running.join(&name, &id).await;
        running.send(detail_type, source, detail(id.rsplit('/').next().unwrap()));
        let events = Api::<Event>::all(running.world.client.clone());
        let of = async |object: &str, reason: &str| {
            let all = events.list(&Default::default()).await.unwrap().items;
            let found = all.into_iter().find(|one| {
                one.involved_object.name.as_deref() == Some(object) && one.reason.as_deref() == Some(reason)
            });
            found.and_then(|event| event.type_)
        };
        running
            .until(reason, 60, async || of(&name, reason).await.is_some())
            .await;
        let node = format!("node-{name}");
        running
            .until(reason, 5, async || of(&node, reason).await.is_some())
            .await;
        assert_eq!(of(&name, reason).await.as_deref(), Some(kind), "{reason}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let ended = of(&name, "TerminatingOnInterruption").await;
        assert_eq!(ended.as_deref(), ends.then_some("Warning"), "{reason}");
        let ended = of(&node, "TerminatingOnInterruption").await;
        assert_eq!(ended.as_deref(), ends.then_some("Warning"), "{reason}");
    }
    running.stop().await;
}

// AWS-377
#[tokio::test(start_paused = true)]
async fn conditions_and_the_end_of_a_class_are_metrics() {
    let running = running(&[]).await;
    running.ready_class().await;
    let value = |series: &str| running.world.metric(series);
    let ready = r#"name="nodes",namespace="",reason="Ready",status="True",type="Ready"}"#;
    let count = format!("operator_ec2nodeclass_status_condition_count{{{ready}");
    running
        .until("the condition is counted", 10, async || value(&count) == Some(1.0))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let lasts = value(&format!(
        "operator_ec2nodeclass_status_condition_current_status_seconds{{{ready}"
    ));
    assert!(lasts.is_some_and(|seconds| seconds >= 60.0), "{lasts:?}");
    // No subnet matches for a while.
    let classes = running.api::<EC2NodeClass>();
    let terms = classes.get("nodes").await.unwrap().spec.subnet_selector_terms;
    let subnets = running.world.aws.account().subnets.clone();
    for (terms, status) in [
        (json!([{"tags": {"team": "nobody"}}]), ConditionStatus::False),
        (serde_json::to_value(terms).unwrap(), ConditionStatus::True),
    ] {
        running.world.aws.account().subnets = match status {
            ConditionStatus::True => subnets.clone(),
            ConditionStatus::False | ConditionStatus::Unknown => Vec::new(),
        };
        let spec = Patch::Merge(json!({"spec": {"subnetSelectorTerms": terms}}));
        classes.patch("nodes", &PatchParams::default(), &spec).await.unwrap();
        running.class_has_ready(status).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let text = running.world.metrics.encode();
    let transitions =
        r#"operator_ec2nodeclass_status_condition_transitions_total{reason="Ready",status="True",type="Ready"}"#;
    // At first, and again.
    assert_eq!(value(transitions), Some(2.0), "{text}");
    for status in ["True", "False"] {
        let before = format!(
            r#"operator_ec2nodeclass_status_condition_transition_seconds_count{{status="{status}",type="Ready"}}"#
        );
        assert_eq!(value(&before), Some(1.0), "{text}");
    }
    // The deprecated families have group and kind as labels.
    let deprecated = text
        .lines()
        .find(|line| line.starts_with("operator_status_condition_count{") && line.contains(r#"kind="EC2NodeClass""#));
    assert!(
        deprecated.is_some_and(|line| line.contains(r#"group="karpenter.k8s.aws""#)),
        "{text}"
    );
    // A claim holds the class back, so that it is seen going.
    let id = running.launch("a").await;
    classes.delete("nodes", &DeleteParams::default()).await.unwrap();
    let going = r#"operator_ec2nodeclass_termination_current_time_seconds{name="nodes",namespace=""}"#;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let seconds = value(going);
    assert!(
        seconds.is_some_and(|seconds| (20.0..=31.0).contains(&seconds)),
        "{seconds:?}"
    );
    let claims = running.api::<NodeClaim>();
    claims.delete("a", &DeleteParams::default()).await.unwrap();
    running.until_terminated(&id, 60).await;
    running.end_instances();
    running.until_class_gone(150).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((value(going), value(&count)), (None, None));
    assert_eq!(
        value("operator_ec2nodeclass_termination_duration_seconds_count"),
        Some(1.0)
    );
    running.stop().await;
}

/// The account `SCOPE` is for.
fn arn(resource: &str) -> String {
    format!("arn:aws:ec2:us-east-1:123456789012:{resource}")
}

// AWS-415, AWS-416, AWS-417, AWS-419
#[tokio::test(start_paused = true)]
async fn the_policy_allows_a_whole_life_and_lists_no_call_without_use() {
    let flags = [QUEUE[0], ("enable-zonal-shift", "true"), ("eks-control-plane", "true")];
    let running = running(&flags).await;
    let policy = SCOPE.policy();
    let reservations = json!([{"tags": {"team": "a"}}]);
    let group = json!({"name": "group"});
    running.world.aws.account().groups = vec![placement_group()];
    put_new(
        &running.world,
        json!({"capacityReservationSelectorTerms": reservations, "placementGroupSelector": group}),
    )
    .await;
    running.class_is_ready().await;
    // The profile is made with the tags that its later changes need.
    {
        let account = running.world.aws.account();
        let (_, (_, profile, tags)) = account.profiles.iter().next().unwrap();
        let resource = format!("arn:aws:iam::123456789012:instance-profile/{}", profile.name);
        let mut made = tag_keys("Request", tags);
        made.extend(tag_keys("Resource", tags));
        for action in ["iam:CreateInstanceProfile", "iam:TagInstanceProfile"] {
            assert!(allows(&policy, action, &resource, &made), "{action} {tags:?}");
        }
        let later = tag_keys("Resource", tags);
        for action in ["iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile"] {
            assert!(allows(&policy, action, &resource, &later), "{action} {tags:?}");
            assert!(!allows(&policy, action, &resource, &Keys::new()), "{action}");
        }
        // Nobody may make the cluster's what is not.
        let mut foreign = tag_keys("Request", tags);
        foreign.extend(tag_keys("Resource", &Default::default()));
        assert!(!allows(&policy, "iam:TagInstanceProfile", &resource, &foreign));
    }
    let id = running.launch("a").await;
    {
        let account = running.world.aws.account();
        let (fleet, _) = &account.fleets[0];
        for one in &fleet.tags {
            let mut keys = tag_keys("Request", &one.tags);
            let resource = arn(&format!("{}/x", one.resource));
            for action in ["ec2:CreateFleet", "ec2:RunInstances"] {
                assert!(allows(&policy, action, &resource, &keys), "{action} {resource}");
                assert!(!allows(&policy, action, &resource, &Keys::new()), "{action} {resource}");
            }
            assert!(
                !allows(&policy, "ec2:CreateTags", &resource, &keys),
                "only as part of a creation"
            );
            keys.insert("ec2:CreateAction".to_owned(), vec!["CreateFleet".to_owned()]);
            assert!(allows(&policy, "ec2:CreateTags", &resource, &keys), "{resource}");
        }
        let template = &account.templates[&fleet.configs[0].template_name];
        let resource = arn("launch-template/lt-1");
        let keys = tag_keys("Request", &template.tags);
        assert!(allows(&policy, "ec2:CreateLaunchTemplate", &resource, &keys));
        let keys = tag_keys("Resource", &template.tags);
        for action in ["ec2:CreateFleet", "ec2:RunInstances", "ec2:DeleteLaunchTemplate"] {
            assert!(allows(&policy, action, &resource, &keys), "{action}");
        }
        let instance = account.instances.iter().find(|one| id.ends_with(&one.id)).unwrap();
        let keys = tag_keys("Resource", &instance.tags);
        assert!(allows(&policy, "ec2:TerminateInstances", &arn("instance/i-1"), &keys));
    }
    running.join("a", &id).await;
    running
        .until("the instance is tagged", 60, async || {
            running.tag(&id, "Name").is_some()
        })
        .await;
    let detail = json!({"instance-id": id.rsplit('/').next().unwrap(), "instance-action": "terminate"});
    running.send("EC2 Spot Instance Interruption Warning", "aws.ec2", detail);
    running.until_terminated(&id, 120).await;
    running.end_instances();
    running.until_claim_gone("a", 120).await;
    // Another role: the old profile loses its role and goes.
    let classes = running.api::<EC2NodeClass>();
    let spec = json!({"spec": {"role": "others"}});
    let params = PatchParams::default();
    classes.patch("nodes", &params, &Patch::Merge(spec)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    classes.delete("nodes", &DeleteParams::default()).await.unwrap();
    running.until_class_gone(60).await;
    let calls = running.world.aws.take_calls();
    let made: BTreeSet<&str> = calls.iter().filter_map(|call| call.split(' ').next()).collect();
    let listed: BTreeSet<&str> = CALLS.iter().map(|call| call.operation).collect();
    assert_eq!(made, listed);
    for call in calls.iter().filter(|call| call.starts_with("CreateTags ")) {
        let keys = call.split(' ').nth(2).unwrap().split(',').map(str::to_owned).collect();
        let owned = [
            ("kubernetes.io/cluster/prod", "owned"),
            ("karpenter.sh/nodepool", "default"),
        ];
        let mut context = tag_keys(
            "Resource",
            &owned.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        );
        context.insert("aws:TagKeys".to_owned(), keys);
        assert!(
            allows(&policy, "ec2:CreateTags", &arn("instance/i-1"), &context),
            "{call}"
        );
    }
    running.stop().await;
}

fn placement_group() -> PlacementGroup {
    PlacementGroup {
        id: "pg-1".to_owned(),
        name: "group".to_owned(),
        strategy: Strategy::Spread,
        partitions: 0,
    }
}
