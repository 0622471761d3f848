//! Worlds that are broken on purpose: each invariant has to notice it.

use super::invariants::{Sight, id_of, remains, unfinished};
use super::notebook::Notebook;
use super::places::unsettled;
use super::reserved::reservation;
use super::scenario::Scenario;
use super::strangers::MARK;
use super::users::all;
use super::world::{World, in_virtual_time};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{EC2NodeClass, NodeClaim, NodePool};
use kerf_aws::labels::RESERVATION_ID;
use kerf_aws::tags::{NODE_CLAIM, NODE_CLASS, NODE_POOL, Tags, cluster_key};
use kerf_aws_sandbox::account::{Account, Call, Instance, LaunchData};
use kerf_aws_sandbox::connect;
use kerf_aws_sandbox::faults::AwsFaults;
use kerf_chaos::{ClusterObject, Instances, LEASE, Observation, create, delete, merge};
use kerf_runtime::metrics::LabelNames;
use kerf_runtime::{Clock, Metrics, Seed};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const SEED: u64 = 1;

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// A life without events, of three pods that share no machine.
fn calm() -> Scenario {
    let labels = json!({"app": "w0"});
    let apart = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}});
    let pod = json!({
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "700m", "memory": "256Mi"}}}],
    });
    let deployment = json!({
        "metadata": {"name": "w0"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    Scenario {
        processes: 1,
        deployments: vec![deployment],
        pdbs: Vec::new(),
        steps: Vec::new(),
        rests: false,
        ..Scenario::of(SEED)
    }
}

/// A world in which all is well, and its claims. Its controllers are gone, so that nothing repairs what is broken.
async fn abandoned() -> (World, Vec<NodeClaim>) {
    let mut world = World::begin(&calm(), false).await;
    world.pass(minutes(10)).await;
    world.abandon().await;
    world.pass(minutes(1)).await;
    assert_eq!(world.complaints(), [""; 0]);
    assert_eq!(unfinished(&world.sight().await), [""; 0]);
    let claims: Vec<NodeClaim> = all(&world.client()).await;
    assert_eq!(claims.len(), 3);
    (world, claims)
}

fn has(found: &[String], part: &str) -> bool {
    found.iter().any(|one| one.contains(part))
}

async fn expect(world: &mut World, within: Duration, part: &str) {
    assert!(!has(&world.complaints(), part), "{part}: {:#?}", world.complaints());
    world.pass(within).await;
    expect_now(world, part);
}

/// Something must have been noticed already.
fn expect_now(world: &World, part: &str) {
    assert!(has(&world.complaints(), part), "{part}: {:#?}", world.complaints());
}

fn own_tags(class: &str) -> Tags {
    let pairs = [
        (cluster_key("kerf"), "owned"),
        (NODE_POOL.to_owned(), "p0"),
        (NODE_CLASS.to_owned(), class),
    ];
    pairs.into_iter().map(|(key, value)| (key, value.to_owned())).collect()
}

/// Puts another instance like the one of a claim into the account, and gives back its id.
fn add_instance(account: &mut Account, like: &NodeClaim, change: impl FnOnce(&mut Instance)) -> String {
    let id = format!("i-0000000000000{:04x}", account.instances.len());
    let mut instance = account.instances[id_of(like).unwrap()].clone();
    instance.id.clone_from(&id);
    instance.address = format!("10.9.9.{}", account.instances.len());
    change(&mut instance);
    account.instances.insert(id.clone(), instance);
    id
}

async fn set_status<K: ClusterObject>(world: &World, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let api = Api::<K>::all(world.client());
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

#[test]
fn what_must_hold_at_all_times_is_noticed() {
    in_virtual_time(SEED, async {
        let (mut world, claims) = abandoned().await;
        let names: Vec<String> = claims.iter().map(ResourceExt::name_any).collect();

        world.aws.with(|account, _| {
            let mut all = account.instances.values_mut();
            let stranger = all.find(|one| one.tags.contains_key(MARK)).unwrap();
            stranger
                .tags
                .insert("karpenter.sh/nodeclaim".to_owned(), "p0-abcde".to_owned());
        });
        expect(&mut world, minutes(1), "what belongs to strangers was touched").await;

        let nameless = |one: &mut Instance| drop(one.tags.remove(NODE_CLAIM));
        let id = world.aws.with(|account, _| add_instance(account, &claims[0], nameless));
        expect(&mut world, minutes(6), &format!("{id} has no claim")).await;

        world.aws.with(|account, _| add_instance(account, &claims[0], |_| {}));
        expect(&mut world, minutes(1), &format!("are both of Some(\"{}\")", names[0])).await;

        world
            .aws
            .signal(
                id_of(&claims[1]).unwrap(),
                kerf_aws_sandbox::account::Signal::Terminated,
            )
            .unwrap();
        expect(&mut world, minutes(11), &format!("{} has lost its instance", names[1])).await;

        delete::<NodeClaim>(&Api::all(world.client()), &names[2]).await;
        expect(&mut world, minutes(16), &format!("{} does not end", names[2])).await;

        let other = claims[0].status.as_ref().unwrap().provider_id.clone();
        set_status::<NodeClaim>(&world, &names[1], json!({"providerID": other})).await;
        expect(&mut world, minutes(1), "have the same instance").await;
        assert!(has(&world.complaints(), &format!("{} had ", names[1])));
    });
}

fn change(world: &World, claim: &NodeClaim, change: impl FnOnce(&mut Instance)) {
    world
        .aws
        .with(|account, _| change(account.instances.get_mut(id_of(claim).unwrap()).unwrap()));
}

#[test]
fn instances_in_the_wrong_place_are_noticed() {
    in_virtual_time(SEED, async {
        let (mut world, claims) = abandoned().await;
        let id = id_of(&claims[0]).unwrap();
        let block = "cr-00000000000000001";
        world.aws.with(|account, now| {
            let ends = Some(now + SignedDuration::from_mins(41));
            account.reservations = vec![reservation(block, "capacity-block", account.zones[0].clone(), ends)];
        });
        change(&world, &claims[0], |one| one.reservation_id = Some(block.to_owned()));
        let unasked = format!("{id} takes room in {block}, which it did not ask for");
        expect(&mut world, minutes(1), &unasked).await;

        let only = |one: &mut Instance| one.reservation_preference = Some("capacity-reservations-only".to_owned());
        change(&world, &claims[0], only);
        expect(&mut world, minutes(8), &format!("{id} stays in a block that ends")).await;

        let late = world
            .aws
            .with(|account, now| add_instance(account, &claims[0], |one| one.launched = now));
        expect(
            &mut world,
            minutes(1),
            &format!("{late} was launched into a block that ends"),
        )
        .await;

        let found = unsettled(&world.sight().await);
        assert!(
            has(&found, &format!("{id} is in {block}, which its class does not select")),
            "{found:#?}"
        );
        let unlabelled = format!("{RESERVATION_ID} is None");
        for object in ["claim", "node"] {
            let is_about = |one: &&String| one.starts_with(object) && one.contains(&unlabelled);
            assert_eq!(found.iter().filter(is_about).count(), 1, "{found:#?}");
        }
        change(&world, &claims[1], |one| one.placement_group = Some("pg-1".to_owned()));
        let found = unsettled(&world.sight().await);
        let group = format!("{} is in placement group Some(\"pg-1\")", id_of(&claims[1]).unwrap());
        assert!(has(&found, &group), "{found:#?}");
    });
}

// AWS-276: Kerf learns when a block ends from classes that select it.
#[test]
fn an_instance_in_a_block_that_its_class_no_longer_selects_may_stay_as_long_as_it_drifts() {
    for reason in ["CapacityReservationDrift", "NodeClassDrift"] {
        in_virtual_time(SEED, async {
            let (mut world, claims) = abandoned().await;
            let block = "cr-00000000000000001";
            world.aws.with(|account, now| {
                let ends = Some(now + SignedDuration::from_mins(41));
                account.reservations = vec![reservation(block, "capacity-block", account.zones[0].clone(), ends)];
            });
            change(&world, &claims[0], |one| {
                one.reservation_id = Some(block.to_owned());
                one.reservation_preference = Some("capacity-reservations-only".to_owned());
            });
            let drifted = json!([{"type": "Drifted", "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            set_status::<NodeClaim>(&world, &claims[0].name_any(), json!({"conditions": drifted})).await;
            world.pass(minutes(15)).await;
            let stays = format!("{} stays in a block that ends", id_of(&claims[0]).unwrap());
            assert_eq!(has(&world.complaints(), &stays), reason == "NodeClassDrift", "{reason}");
        });
    }
}

#[test]
fn what_is_not_finished_is_noticed() {
    in_virtual_time(SEED, async {
        let (mut world, claims) = abandoned().await;
        let names: Vec<String> = claims.iter().map(ResourceExt::name_any).collect();
        let client = world.client();
        world.aws.with(|account, now| {
            let data = LaunchData::default();
            let tags = own_tags("gone");
            account.create_template("karpenter.k8s.aws/1", data, tags, now).unwrap();
            let path = "/karpenter/us-east-1/kerf/0000/";
            account
                .create_profile("kerf_gone", path, own_tags("gone"), now)
                .unwrap();
        });
        world.pass(minutes(4)).await;
        let expect = async |part: &str, of: fn(&Sight) -> Vec<String>| {
            let found = of(&world.sight().await);
            assert!(has(&found, part), "{part}: {found:#?}");
        };
        expect("template karpenter.k8s.aws/1 of class gone is left", unfinished).await;
        expect(
            "profile kerf_gone of /karpenter/us-east-1/kerf/0000/ is left",
            unfinished,
        )
        .await;
        expect("template karpenter.k8s.aws/1 is not used and stays", remains).await;
        expect("profile kerf_gone is not used and stays", remains).await;

        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "stray"}, "spec": {"providerID": "aws:///us-east-1a/i-0123456789abcdef0"},
        }))
        .unwrap();
        Api::all(client.clone())
            .create(&PostParams::default(), &node)
            .await
            .unwrap();
        expect("nodes {", unfinished).await;

        world.aws.with(|account, _| {
            let one = account.instances.get_mut(id_of(&claims[0]).unwrap()).unwrap();
            one.tags.insert(NODE_CLAIM.to_owned(), "p0-other".to_owned());
        });
        expect("is named Some(\"p0-other\")", unfinished).await;

        world.aws.with(|account, _| add_instance(account, &claims[0], |_| {}));
        expect("instances {", unfinished).await;

        delete::<NodeClaim>(&Api::all(client.clone()), &names[1]).await;
        expect(&format!("{} ends", names[1]), unfinished).await;

        set_status::<EC2NodeClass>(&world, "default", json!({"conditions": []})).await;
        expect("class default is not ready", unfinished).await;
        delete::<EC2NodeClass>(&Api::all(client), "other").await;
        expect("class other ends", unfinished).await;
    });
}

#[test]
fn pods_that_do_not_run_in_the_end_are_noticed() {
    in_virtual_time(SEED, async {
        let (mut world, _) = abandoned().await;
        world.scale(0, 5).await;
        let violations = world.end(&calm()).await.violations;
        assert!(
            has(&violations, "in the end: 3 pods run and 2 do not, 5 are wanted"),
            "{violations:#?}"
        );
    });
}

#[test]
fn a_process_that_ends_by_itself_is_noticed() {
    in_virtual_time(SEED, async {
        let mut world = World::begin(&calm(), false).await;
        world.pass(minutes(5)).await;
        world.break_down();
        expect(&mut world, minutes(1), "a process ended by itself").await;
    });
}

#[test]
fn calls_that_are_forbidden_or_too_many_are_noticed() {
    let call = |action: &str| Call {
        at: Timestamp::UNIX_EPOCH,
        client: String::new(),
        service: "ec2",
        action: action.to_owned(),
        user_agent: String::new(),
        error: None,
        parameters: BTreeMap::new(),
    };
    let note = |action: &str, count: usize| {
        let observation = Observation::new(Clock::simulated(Timestamp::UNIX_EPOCH), false, Instances::AreReported);
        let mut notebook = Notebook::new(false, observation);
        notebook.note(0.0, vec![call(action); count]);
        notebook.violations
    };
    assert_eq!(
        note("RebootInstances", 1),
        ["0 s: a call that no permission is asked for: ec2:RebootInstances"]
    );
    assert_eq!(note("DescribeInstances", 600), [""; 0]);
    assert_eq!(
        note("DescribeInstances", 601),
        ["0 s: a storm of ec2:DescribeInstances"]
    );
    assert_eq!(note("CreateFleet", 150), [""; 0]);
    assert_eq!(note("CreateFleet", 151), ["0 s: a storm of launches"]);
}

/// The pod on a claim's machine.
async fn pod_of(client: &Client, claim: &NodeClaim) -> Pod {
    let node = claim.status.as_ref().unwrap().node_name.as_deref();
    let pods: Vec<Pod> = all(client).await;
    let is_there = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.as_deref() == node;
    pods.into_iter().find(is_there).unwrap()
}

/// Another claim like this one.
fn twin(claim: &NodeClaim) -> Value {
    let mut twin = serde_json::to_value(claim).unwrap();
    twin["metadata"] = json!({"name": "twin", "labels": claim.labels()});
    twin.as_object_mut().unwrap().remove("status");
    twin
}

// That each of these rules notices what breaks it is shown beside it in `kerf-chaos`, case by case. Here each is broken once on the embedded
// account: what the rules look at reaches them.
#[test]
fn what_the_controllers_must_not_do_is_noticed() {
    in_virtual_time(SEED, async {
        let (mut world, claims) = abandoned().await;
        let client = world.client();
        let kerf = world.client_of(99);
        assert_eq!(world.unfinished(), [""; 0]);

        create::<NodeClaim>(&Api::all(kerf.clone()), &twin(&claims[0])).await;
        expect_now(&world, "twin is asked for although 0 pods fit");

        let metrics = Metrics::new(LabelNames::default());
        let faults = AwsFaults::new(Seed(SEED)).of_client("99");
        let services = connect(&world.aws, &faults, &metrics).unwrap().services;
        let pods = Api::<Pod>::default_namespaced(client.clone());
        let first = pod_of(&client, &claims[0]).await.name_any();
        let ended = [id_of(&claims[0]).unwrap().to_owned()];
        services.ec2.terminate_instances(&ended).await.unwrap();
        let under = format!("is told to end under default/{first}");
        expect_now(&world, &under);

        let second = pod_of(&client, &claims[1]).await.name_any();
        let protect = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
        merge::<Pod>(&pods, &second, &protect).await;
        delete::<Pod>(&Api::default_namespaced(kerf.clone()), &second).await;
        let protected = format!("default/{second} was told to go although Some(\"true\")");
        expect_now(&world, &protected);

        let third = pod_of(&client, &claims[2]).await.name_any();
        let selector = json!({"matchLabels": {"app": "w0"}});
        let budget = json!({"metadata": {"name": "w0"}, "spec": {"maxUnavailable": 0, "selector": selector}});
        create::<PodDisruptionBudget>(&Api::default_namespaced(client.clone()), &budget).await;
        world.pass(Duration::from_secs(10)).await;
        delete::<Pod>(&Api::default_namespaced(kerf.clone()), &third).await;
        let past = format!("default/{third} was deleted past its budget");
        expect_now(&world, &past);

        let pool = claims[1].labels()[NODE_POOL].clone();
        let one = json!({"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}});
        merge::<NodePool>(&Api::all(client.clone()), &pool, &one).await;
        let marked = json!({"status": {"conditions": [{
            "type": "DisruptionReason", "status": "True", "reason": "Drifted", "message": "",
            "lastTransitionTime": "2026-01-01T00:10:00Z",
        }]}});
        for claim in &claims[1..] {
            let api = Api::<NodeClaim>::all(kerf.clone());
            let patch = Patch::Merge(&marked);
            api.patch_status(&claim.name_any(), &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
        let exceeded = format!("2 claims of {pool} are disrupted, 1 may be (Drifted)");
        expect_now(&world, &exceeded);

        let lease = json!({"metadata": {"name": LEASE}, "spec": {"holderIdentity": "1"}});
        create::<Lease>(&Api::default_namespaced(client.clone()), &lease).await;
        let edition = json!({"metadata": {"annotations": {"edition": "2"}}});
        merge::<EC2NodeClass>(&Api::all(client.clone()), "default", &edition).await;
        assert!(!has(&world.complaints(), "while 1 leads"));
        let edition = json!({"metadata": {"annotations": {"edition": "3"}}});
        merge::<EC2NodeClass>(&Api::all(kerf), "default", &edition).await;
        expect_now(&world, "life 99 writes while 1 leads");
        services.ec2.instance_type_zones().await.unwrap();
        assert!(!has(&world.complaints(), "life 99 calls"));
        services
            .ec2
            .delete_launch_template("karpenter.k8s.aws/1")
            .await
            .unwrap_err();
        assert!(!has(&world.complaints(), "life 99 calls"));
        let ended = [id_of(&claims[1]).unwrap().to_owned()];
        services.ec2.terminate_instances(&ended).await.unwrap();
        expect_now(&world, "life 99 calls ec2:TerminateInstances while 1 leads");

        delete::<NodeClaim>(&Api::all(client), &claims[1].name_any()).await;
        world.pass(minutes(2)).await;
        let unfinished = world.unfinished();
        for part in [
            format!(
                "claim {:?} has no instance",
                claims[0].status.as_ref().unwrap().provider_id.as_ref().unwrap()
            ),
            format!("{} is deleted and still there", claims[1].name_any()),
            "does not run".to_owned(),
        ] {
            assert!(has(&unfinished, &part), "{part}: {unfinished:#?}");
        }
    });
}
