//! What belongs to others in the account: instances, templates, profiles and a queue with names and tags much like those of the cluster.

use jiff::Timestamp;
use kerf_aws::launch::TargetCapacity;
use kerf_aws::tags::Tags;
use kerf_aws_sandbox::account::{
    Account, FleetRequest, Instance, LaunchData, LaunchTemplate, Override, Profile, Purchase, Queue, Strategy,
    TemplateReference,
};

/// What must stay as it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Strangers {
    instances: Vec<Instance>,
    templates: Vec<LaunchTemplate>,
    profiles: Vec<Profile>,
    /// How often messages of the other queue were received.
    received: u32,
}

/// Mark on all that belongs to strangers.
pub(super) const MARK: &str = "stranger";
/// A queue that gets the same events.
const QUEUE: &str = "kerf-other";

fn tags(pairs: &[(&str, &str)]) -> Tags {
    let all = pairs.iter().chain(&[(MARK, "yes")]);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Tags that are nearly those of the cluster.
fn similar() -> [Tags; 5] {
    [
        // Another cluster whose pools and classes have the same names.
        tags(&[
            ("kubernetes.io/cluster/other", "owned"),
            ("karpenter.sh/nodepool", "p0"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            ("eks:eks-cluster-name", "other"),
        ]),
        // One whose name begins with that of the cluster.
        tags(&[
            ("kubernetes.io/cluster/kerf2", "owned"),
            ("karpenter.sh/nodepool", "p1"),
            ("karpenter.k8s.aws/ec2nodeclass", "other"),
            ("eks:eks-cluster-name", "kerf2"),
        ]),
        // A managed node group of the cluster.
        tags(&[
            ("kubernetes.io/cluster/kerf", "owned"),
            ("eks:nodegroup-name", "system"),
        ]),
        // A machine that the cluster only uses.
        tags(&[
            ("kubernetes.io/cluster/kerf", "shared"),
            ("Name", "ip-10-0-0-1.ec2.internal"),
        ]),
        tags(&[("Name", "bastion")]),
    ]
}

/// Puts strangers into an account.
pub(super) fn settle(account: &mut Account, now: Timestamp) {
    let image = account.images.iter().find(|one| one.architecture == "x86_64");
    let image = image.unwrap().id.clone();
    for (at, tags) in similar().into_iter().enumerate() {
        let name = format!("karpenter.k8s.aws/{}", 4_000_000_000_u64 + at as u64);
        let data = LaunchData {
            image_id: Some(image.clone()),
            ..LaunchData::default()
        };
        account.create_template(&name, data, tags.clone(), now).unwrap();
        let template = TemplateReference {
            name,
            version: "$Latest".to_owned(),
        };
        let way = Override {
            instance_type: Some("m5.large".to_owned()),
            subnet_id: Some(account.subnets[0].id.clone()),
            ..Override::default()
        };
        let request = FleetRequest {
            client_token: None,
            configs: vec![(template, vec![way])],
            target: TargetCapacity::OnDemand,
            count: 1,
            strategy: Strategy::LowestPrice,
            tags,
            dry_run: false,
        };
        let fleet = account.create_fleet(&request, now).unwrap();
        assert!(fleet.items[0].outcome.is_ok(), "{fleet:?}");
    }
    for (name, path) in [
        ("kerf2_1", "/karpenter/us-east-1/kerf2/0000/"),
        ("kerf_2", "/karpenter/us-west-2/kerf/0000/"),
        ("kerf", "/"),
    ] {
        let tags = tags(&[("kubernetes.io/cluster/kerf2", "owned")]);
        account.create_profile(name, path, tags, now).unwrap();
        account.add_role(name, "KarpenterNodeRole-kerf").unwrap();
    }
    account.queues.insert(QUEUE.to_owned(), Queue::default());
}

/// The resources of other owners that exist now.
pub(super) fn look(account: &Account) -> Strangers {
    let is_stranger = |tags: &Tags| tags.contains_key(MARK);
    let instances = account.instances.values().filter(|one| is_stranger(&one.tags));
    // EC2 itself makes an instance one on demand when its reservation ends.
    let instances = instances.map(|one| Instance {
        purchase: Purchase::OnDemand,
        reservation_id: None,
        ..one.clone()
    });
    let templates = account.templates.values().filter(|one| is_stranger(&one.tags));
    let profiles = account.profiles.values().filter(|one| is_stranger(&one.tags));
    let received = account.queues[QUEUE].messages.iter().map(|message| message.received);
    Strangers {
        instances: instances.collect(),
        templates: templates.cloned().collect(),
        profiles: profiles.cloned().collect(),
        received: received.sum(),
    }
}
