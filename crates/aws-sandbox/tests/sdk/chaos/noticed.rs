//! Worlds that are broken on purpose: each invariant has to notice it.

use super::invariants::{Sight, id_of, remains, unfinished};
use super::notebook::Notebook;
use super::places::unsettled;
use super::reserved::reservation;
use super::scenario::Scenario;
use super::strangers::MARK;
use super::users::{all, delete};
use super::world::{World, in_virtual_time};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kerf_api::{EC2NodeClass, NodeClaim};
use kerf_aws::labels::RESERVATION_ID;
use kerf_aws::tags::{NODE_CLAIM, NODE_CLASS, NODE_POOL, Tags, cluster_key};
use kerf_aws_sandbox::account::{Account, Call, Instance, LaunchData};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
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
    assert!(!has(world.complaints(), part), "{part}: {:#?}", world.complaints());
    world.pass(within).await;
    assert!(has(world.complaints(), part), "{part}: {:#?}", world.complaints());
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

async fn set_status<K>(world: &World, name: &str, status: Value)
where
    K: super::users::Kind + kube::Resource<Scope = kube::core::ClusterResourceScope, DynamicType = ()>,
{
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
        assert!(has(world.complaints(), &format!("{} had ", names[1])));
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
        let mut notebook = Notebook::new(false);
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
    assert_eq!(note("CreateFleet", 151), ["0 s: a storm of ec2:CreateFleet"]);
}
