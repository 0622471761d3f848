//! What goes wrong with the account: calls, capacity, permissions, images, addresses and the queue. Each trouble ends after a while.

use super::scenario::{LIFE, Step, TYPES};
use super::strangers::MARK;
use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::AmiFamily;
use kerf_aws_sandbox::account::{Account, CallKind, Limit, PoolRule, Purchase, Throttle};
use kerf_aws_sandbox::faults::{AwsFaultPlan, AwsFaults};
use kerf_chaos::Dice;
use kerf_sandbox::faults::FaultPlan;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Something that goes wrong from now on.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    Calls(AwsFaultPlan),
    /// Faults of calls of the Kubernetes API.
    Kube(FaultPlan),
    LoseAnswers(&'static str, usize),
    LoseRequests(&'static str, usize),
    Capacity(Vec<PoolRule>),
    Buckets(u32),
    Delays(u64, u64),
    Deny(Vec<&'static str>),
    Queue {
        delay: u64,
        twice: bool,
    },
    Message(&'static str),
    Parameters {
        exist: bool,
    },
    Release(u64),
    Deprecate,
    /// A reservation ends before its time.
    Cancel(usize),
    Addresses {
        subnet: usize,
        exist: bool,
    },
}

/// Actions that a role may lack for a while.
const DENIABLE: [&str; 24] = [
    "ec2:CreateFleet",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateTags",
    "ec2:DeleteLaunchTemplate",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceStatus",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribePlacementGroups",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
    "ec2:RunInstances",
    "ec2:TerminateInstances",
    "iam:AddRoleToInstanceProfile",
    "iam:CreateInstanceProfile",
    "iam:DeleteInstanceProfile",
    "iam:GetInstanceProfile",
    "iam:PassRole",
    "sqs:DeleteMessage",
    "sqs:ReceiveMessage",
    "ssm:GetParameter",
];

/// Actions that a role may lack, too, in some worlds.
const ALSO_DENIABLE: [&str; 8] = [
    "arc-zonal-shift:GetManagedResource",
    "ec2:DescribeInstanceTypeOfferings",
    "eks:DescribeCluster",
    "iam:ListInstanceProfiles",
    "iam:RemoveRoleFromInstanceProfile",
    "iam:TagInstanceProfile",
    "pricing:GetProducts",
    "sqs:GetQueueUrl",
];

/// Texts in the queue that are no valid messages.
const MESSAGES: [&str; 5] = [
    "no json",
    "{}",
    r#"{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning"}"#,
    "STRANGER",
    "UNKNOWN",
];

/// Draws a trouble that begins at a time, and its end.
pub(super) fn trouble(dice: &Dice, from: Duration, steps: &mut Vec<(Duration, Step)>) {
    let until = from + dice.seconds(20, 1200);
    let mut spell = |begin: Trouble, end: Trouble, until: Duration| {
        steps.push((from, Step::Trouble(begin)));
        steps.push((until, Step::Trouble(end)));
    };
    match dice.below(13) {
        0 | 1 => spell(
            Trouble::Calls(plan(dice)),
            Trouble::Calls(AwsFaultPlan::default()),
            until,
        ),
        2 => spell(
            Trouble::Kube(kube_plan(dice)),
            Trouble::Kube(FaultPlan::default()),
            until,
        ),
        3 => {
            let action = dice.one(&[
                "CreateFleet",
                "CreateFleet",
                "CreateFleet",
                "CreateLaunchTemplate",
                "TerminateInstances",
            ]);
            let times = usize::try_from(dice.between(1, 4)).unwrap();
            let lose = if dice.chance(70) {
                Trouble::LoseAnswers
            } else {
                Trouble::LoseRequests
            };
            steps.push((from, Step::Trouble(lose(action, times))));
        }
        4 | 5 => {
            let until = if dice.chance(30) {
                from + Duration::from_secs(3600)
            } else {
                until
            };
            spell(Trouble::Capacity(rules(dice)), Trouble::Capacity(Vec::new()), until);
        }
        6 => spell(Trouble::Buckets(dice.one(&[1, 3])), Trouble::Buckets(0), until),
        7 => spell(
            Trouble::Delays(dice.one(&[5, 20, 60]), dice.one(&[0, 5, 30])),
            Trouble::Delays(1, 0),
            until,
        ),
        8 => {
            let denied = (0..dice.between(1, 3)).map(|_| dice.one(&DENIABLE)).collect();
            spell(Trouble::Deny(denied), Trouble::Deny(Vec::new()), until);
        }
        9 => {
            let queue = Trouble::Queue {
                delay: dice.one(&[0, 30, 180]),
                twice: dice.chance(60),
            };
            let usual = Trouble::Queue { delay: 0, twice: false };
            spell(queue, usual, until);
            for _ in 0..dice.between(1, 4) {
                steps.push((
                    from + dice.seconds(0, 300),
                    Step::Trouble(Trouble::Message(dice.one(&MESSAGES))),
                ));
            }
        }
        10 => spell(
            Trouble::Parameters { exist: false },
            Trouble::Parameters { exist: true },
            until,
        ),
        11 => {
            let first = if dice.chance(50) {
                Trouble::Deprecate
            } else {
                Trouble::Release(dice.below(1000))
            };
            steps.push((from, Step::Trouble(first)));
            if dice.chance(50) {
                steps.push((until, Step::Trouble(Trouble::Release(dice.below(1000)))));
            }
        }
        _ => {
            let subnet = usize::try_from(dice.below(4)).unwrap();
            spell(
                Trouble::Addresses { subnet, exist: false },
                Trouble::Addresses { subnet, exist: true },
                until,
            );
        }
    }
}

/// Adds a spell in which the role lacks more permissions to some worlds.
pub(super) fn deny_more(seed: u64, steps: &mut Vec<(Duration, Step)>) {
    let dice = Dice::new(seed, "denials");
    if !dice.chance(30) {
        return;
    }
    let from = dice.seconds(0, LIFE.as_secs() - 300);
    let mut denied: Vec<&str> = (0..dice.between(1, 3)).map(|_| dice.one(&ALSO_DENIABLE)).collect();
    if dice.chance(30) {
        denied.push(dice.one(&DENIABLE));
    }
    steps.push((from, Step::Trouble(Trouble::Deny(denied))));
    let until = from + dice.seconds(20, 1200);
    steps.push((until, Step::Trouble(Trouble::Deny(Vec::new()))));
    steps.sort_by_key(|(at, _)| *at);
}

fn plan(dice: &Dice) -> AwsFaultPlan {
    let latency = dice.chance(40).then(|| {
        let least = dice.between(10, 500);
        (
            Duration::from_millis(least),
            Duration::from_millis(least + dice.between(1, 5000)),
        )
    });
    AwsFaultPlan {
        latency,
        throttled: dice.rate(0.5),
        internal: dice.rate(0.4),
        lost: dice.rate(0.4),
        answer_lost: dice.rate(0.4),
    }
}

fn kube_plan(dice: &Dice) -> FaultPlan {
    FaultPlan {
        conflict: dice.rate(0.2),
        too_many: dice.rate(0.2),
        internal: dice.rate(0.2),
        lost: dice.rate(0.2),
        answer_lost: dice.rate(0.2),
        watch_cut: dice.rate(0.5),
        watch_life: dice.seconds(5, 60),
        ..FaultPlan::default()
    }
}

fn rules(dice: &Dice) -> Vec<PoolRule> {
    let purchase = |dice: &Dice| dice.one(&[Purchase::Spot, Purchase::OnDemand]);
    match dice.below(4) {
        // Nothing anywhere.
        0 => vec![PoolRule::empty()],
        1 => vec![PoolRule::empty().bought(purchase(dice))],
        2 => vec![PoolRule::empty().in_zone(dice.one(&["us-east-1a", "us-east-1b"]))],
        _ => (0..dice.between(1, 6))
            .map(|_| {
                let rule = PoolRule::empty().of_type(dice.one(&TYPES)).bought(purchase(dice));
                let rule = rule.with_capacity(u32::try_from(dice.below(2)).unwrap());
                match dice.below(4) {
                    0 => rule.with_code("UnfulfillableCapacity"),
                    1 => rule.with_code("Unsupported"),
                    2 => rule.with_code("MaxSpotInstanceCountExceeded").bought(Purchase::Spot),
                    _ => rule,
                }
            })
            .collect(),
    }
}

/// What the account had before things went wrong.
#[derive(Debug, Default)]
pub(super) struct Kept {
    parameters: BTreeMap<String, String>,
    every_release_of: Option<String>,
}

impl Trouble {
    /// What ends all troubles.
    pub(super) fn none() -> Vec<Self> {
        let mut all = vec![
            Self::Calls(AwsFaultPlan::default()),
            Self::Kube(FaultPlan::default()),
            Self::Capacity(Vec::new()),
            Self::Buckets(0),
            Self::Delays(1, 0),
            Self::Deny(Vec::new()),
            Self::Queue { delay: 0, twice: false },
            Self::Parameters { exist: true },
        ];
        all.extend((0..4).map(|subnet| Self::Addresses { subnet, exist: true }));
        all
    }

    /// Lets it happen to an account and the ways to it.
    pub(super) fn befall(&self, account: &mut Account, faults: &[AwsFaults], kept: &mut Kept, now: Timestamp) {
        match self {
            Self::Calls(plan) => faults.iter().for_each(|one| one.set(plan.clone())),
            // Of the way to the other API.
            Self::Kube(_) => {}
            Self::LoseAnswers(action, times) => faults.iter().for_each(|one| one.lose_answers(action, *times)),
            Self::LoseRequests(action, times) => faults.iter().for_each(|one| one.lose(action, *times)),
            Self::Capacity(rules) => account.pools.rules.clone_from(rules),
            Self::Buckets(0) => account.throttle = Throttle::realistic(),
            Self::Buckets(burst) => {
                for kind in [
                    CallKind::Describe,
                    CallKind::Mutate,
                    CallKind::RunInstances,
                    CallKind::TerminateInstances,
                    CallKind::CreateTags,
                ] {
                    let limit = Limit {
                        per_second: 1,
                        burst: *burst,
                    };
                    account.throttle.limits.insert(kind, limit);
                }
            }
            Self::Delays(instance, template) => {
                account.delays.instance = SignedDuration::from_secs(i64::try_from(*instance).unwrap());
                account.delays.template = SignedDuration::from_secs(i64::try_from(*template).unwrap());
            }
            Self::Deny(actions) => account.denied = actions.iter().map(|one| (*one).to_owned()).collect(),
            Self::Queue { delay, twice } => {
                let queue = account.queue("kerf").unwrap();
                queue.delay = SignedDuration::from_secs(i64::try_from(*delay).unwrap());
                queue.twice = *twice;
            }
            Self::Message(text) => {
                let body = match *text {
                    "UNKNOWN" => reclaim_of("i-0123456789abcdef0"),
                    "STRANGER" => {
                        let stranger = account.instances.values().find(|one| one.tags.contains_key(MARK));
                        reclaim_of(&stranger.unwrap().id.clone())
                    }
                    text => text.to_owned(),
                };
                account.queue("kerf").unwrap().send(&body, now);
            }
            Self::Parameters { exist: false } => {
                let parameters = std::mem::take(&mut account.parameters);
                kept.parameters.extend(parameters);
                kept.every_release_of = account.every_release_of.take().or(kept.every_release_of.take());
            }
            Self::Parameters { exist: true } => {
                for (name, value) in std::mem::take(&mut kept.parameters) {
                    account.parameters.entry(name).or_insert(value);
                }
                account.every_release_of = kept.every_release_of.take().or(account.every_release_of.take());
            }
            Self::Release(number) => {
                let version = account.clusters[0].description.version.clone();
                let day = 20_260_201 + number % 28;
                account.publish_images(AmiFamily::Al2023, &version, &format!("v{day}"), now);
                account.publish_images(AmiFamily::Bottlerocket, &version, &format!("1.{}.0", 51 + number), now);
            }
            Self::Deprecate => {
                for image in &mut account.images {
                    image.deprecated_from = Some(now);
                }
            }
            Self::Cancel(at) => account.reservations[*at].ends = Some(now),
            Self::Addresses { subnet, exist } => {
                account.subnets[*subnet].addresses = if *exist { 8187 } else { 0 };
            }
        }
    }
}

fn reclaim_of(id: &str) -> String {
    json!({
        "version": "0", "id": "7d5d", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
        "account": "111122223333", "region": "us-east-1", "time": "2026-01-01T00:10:00Z", "resources": [],
        "detail": {"instance-id": id, "instance-action": "terminate"},
    })
    .to_string()
}
