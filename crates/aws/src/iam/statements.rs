//! The statements of the policy: on which resources and conditions the actions of [`CALLS`] are allowed.

use super::calls::{CALLS, Need};
use crate::partition::Partition;
use crate::tags;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const COMMERCIAL_SUFFIX: &str = "amazonaws.com";

/// The cluster a policy is for.
#[derive(Clone, Debug)]
pub struct PolicyScope<'a> {
    /// One of [`PARTITIONS`](crate::partition::PARTITIONS) by name.
    pub partition: &'a str,
    /// Region.
    pub region: &'a str,
    /// Account: twelve digits.
    pub account: &'a str,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// Name of the role of the nodes, with its path if it has one.
    pub node_role: &'a str,
    /// Name of the interruption queue, if there is one.
    pub queue: Option<&'a str>,
}

/// A statement of the policy, in the order in which they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statement {
    /// What a launch only refers to.
    LaunchFrom,
    /// Launch templates of the cluster.
    LaunchWithOwnTemplates,
    /// What a launch creates, if it gets the tags of the cluster.
    CreationWithTags,
    /// The tags of what a launch creates.
    TagsAtCreation,
    /// Tags that an instance gets once its node is known.
    NameTags,
    /// The end of instances and launch templates of the cluster.
    Deletion,
    /// What EC2 answers about the region.
    RegionalReads,
    /// The ids of images.
    ImageParameters,
    /// On-demand prices.
    Prices,
    /// The list of instance profiles, which cannot be limited.
    ProfileList,
    /// Instance profiles.
    ProfileReads,
    /// The role of the nodes.
    NodeRole,
    /// New instance profiles.
    ProfileCreation,
    /// The tags of new instance profiles.
    ProfileTags,
    /// Changes of instance profiles of the cluster, and their end.
    ProfileChanges,
    /// The cluster.
    ClusterReads,
    /// The zones that traffic is shifted away from.
    ZonalShifts,
    /// The interruption queue.
    Queue,
}

/// A policy of its own: the whole does not fit into one managed policy, which may have 6,144 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyPart {
    /// Launches, tags and ends instances.
    NodeLifecycle,
    /// Reads.
    Discovery,
    /// Manages instance profiles.
    InstanceProfiles,
    /// Reads the cluster, zonal shifts and the queue.
    Cluster,
}

impl PolicyPart {
    /// All parts.
    pub const ALL: [Self; 4] = [
        Self::NodeLifecycle,
        Self::Discovery,
        Self::InstanceProfiles,
        Self::Cluster,
    ];

    /// Name, as part of the policy's.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeLifecycle => "NodeLifecycle",
            Self::Discovery => "Discovery",
            Self::InstanceProfiles => "InstanceProfiles",
            Self::Cluster => "Cluster",
        }
    }
}

impl Statement {
    /// All statements, in order.
    pub const ALL: [Self; 18] = [
        Self::LaunchFrom,
        Self::LaunchWithOwnTemplates,
        Self::CreationWithTags,
        Self::TagsAtCreation,
        Self::NameTags,
        Self::Deletion,
        Self::RegionalReads,
        Self::ImageParameters,
        Self::Prices,
        Self::ProfileList,
        Self::ProfileReads,
        Self::NodeRole,
        Self::ProfileCreation,
        Self::ProfileTags,
        Self::ProfileChanges,
        Self::ClusterReads,
        Self::ZonalShifts,
        Self::Queue,
    ];

    /// The policy the statement is in.
    pub fn part(self) -> PolicyPart {
        match self {
            Self::LaunchFrom
            | Self::LaunchWithOwnTemplates
            | Self::CreationWithTags
            | Self::TagsAtCreation
            | Self::NameTags
            | Self::Deletion => PolicyPart::NodeLifecycle,
            Self::RegionalReads | Self::ImageParameters | Self::Prices | Self::ProfileList | Self::ProfileReads => {
                PolicyPart::Discovery
            }
            Self::NodeRole | Self::ProfileCreation | Self::ProfileTags | Self::ProfileChanges => {
                PolicyPart::InstanceProfiles
            }
            Self::ClusterReads | Self::ZonalShifts | Self::Queue => PolicyPart::Cluster,
        }
    }

    /// The name of the statement in the policy.
    pub fn sid(self) -> &'static str {
        match self {
            Self::LaunchFrom => "AllowLaunchFrom",
            Self::LaunchWithOwnTemplates => "AllowLaunchWithOwnTemplates",
            Self::CreationWithTags => "AllowCreationWithTags",
            Self::TagsAtCreation => "AllowTagsAtCreation",
            Self::NameTags => "AllowNameTags",
            Self::Deletion => "AllowDeletion",
            Self::RegionalReads => "AllowRegionalReads",
            Self::ImageParameters => "AllowImageParameters",
            Self::Prices => "AllowPrices",
            Self::ProfileList => "AllowProfileList",
            Self::ProfileReads => "AllowProfileReads",
            Self::NodeRole => "AllowPassingTheNodeRole",
            Self::ProfileCreation => "AllowProfileCreation",
            Self::ProfileTags => "AllowProfileTags",
            Self::ProfileChanges => "AllowProfileChanges",
            Self::ClusterReads => "AllowClusterReads",
            Self::ZonalShifts => "AllowZonalShiftReads",
            Self::Queue => "AllowInterruptionQueue",
        }
    }

    /// The actions the statement allows, by name.
    pub fn actions(self) -> BTreeSet<&'static str> {
        let needs = CALLS.iter().flat_map(|call| call.needs);
        let own = needs.filter(|need: &&Need| need.statement == self);
        own.map(|need| need.action).collect()
    }
}

/// What a launch creates.
const CREATED: [&str; 6] = [
    "fleet/*",
    "instance/*",
    "launch-template/*",
    "network-interface/*",
    "spot-instances-request/*",
    "volume/*",
];

/// A condition operator and its keys with their values.
fn operator(name: &str, keys: impl IntoIterator<Item = (String, Value)>) -> (String, Value) {
    (name.to_owned(), Value::Object(keys.into_iter().collect()))
}

fn key(kind: &str, tag: &str) -> String {
    format!("aws:{kind}Tag/{tag}")
}

/// The condition that a tag is there, whatever its value.
fn any(kinds: &[&str], tag: &str) -> (String, Value) {
    operator("StringLike", kinds.iter().map(|kind| (key(kind, tag), json!("*"))))
}

impl PolicyScope<'_> {
    /// ARN of a resource of EC2 that belongs to an account, whichever it is: subnets may be shared.
    fn ec2(&self, resource: &str) -> Value {
        json!(format!("arn:{}:ec2:{}:*:{resource}", self.partition, self.region))
    }

    /// ARN of an image or a snapshot, which has no account.
    fn ec2_public(&self, resource: &str) -> Value {
        json!(format!("arn:{}:ec2:{}::{resource}", self.partition, self.region))
    }

    /// ARN of the cluster.
    pub fn cluster_arn(&self) -> String {
        let (partition, region, account) = (self.partition, self.region, self.account);
        format!("arn:{partition}:eks:{region}:{account}:cluster/{}", self.cluster)
    }

    /// ARN of a queue.
    pub fn queue_arn(&self, queue: &str) -> String {
        format!("arn:{}:sqs:{}:{}:{queue}", self.partition, self.region, self.account)
    }

    /// ARN of the role of the nodes.
    pub fn node_role_arn(&self) -> String {
        let role = self.node_role.trim_start_matches('/');
        format!("arn:{}:iam::{}:role/{role}", self.partition, self.account)
    }

    /// The principal that instances take their role as.
    pub fn ec2_principal(&self) -> String {
        let partition = Partition::named(self.partition);
        let suffix = partition.map_or(COMMERCIAL_SUFFIX, |partition| partition.dns_suffix);
        format!("ec2.{suffix}")
    }

    /// The names under which EC2 is passed a role: that of the partition, and the one that holds in all.
    fn passed_to(&self) -> Value {
        let (own, common) = (self.ec2_principal(), format!("ec2.{COMMERCIAL_SUFFIX}"));
        if own == common {
            json!(own)
        } else {
            json!([common, own])
        }
    }

    /// The key and value of the tag of resources that the cluster owns.
    fn owned(&self, kind: &str) -> (String, Value) {
        (key(kind, &tags::cluster_key(self.cluster)), json!(tags::OWNED))
    }

    fn cluster_name(&self, kind: &str) -> (String, Value) {
        (key(kind, tags::CLUSTER_NAME), json!(self.cluster))
    }

    fn region_tag(&self, kind: &str) -> (String, Value) {
        (key(kind, tags::REGION), json!(self.region))
    }

    fn created(&self) -> Value {
        CREATED.iter().map(|one| self.ec2(one)).collect()
    }

    fn resources(&self, statement: Statement) -> Value {
        let profiles = || {
            json!(format!(
                "arn:{}:iam::{}:instance-profile/*",
                self.partition, self.account
            ))
        };
        match statement {
            Statement::LaunchFrom => json!([
                self.ec2_public("image/*"),
                self.ec2_public("snapshot/*"),
                self.ec2("capacity-reservation/*"),
                self.ec2("placement-group/*"),
                self.ec2("security-group/*"),
                self.ec2("subnet/*"),
            ]),
            Statement::LaunchWithOwnTemplates => self.ec2("launch-template/*"),
            Statement::CreationWithTags | Statement::TagsAtCreation => self.created(),
            Statement::NameTags => self.ec2("instance/*"),
            Statement::Deletion => json!([self.ec2("instance/*"), self.ec2("launch-template/*")]),
            Statement::ImageParameters => {
                json!(format!(
                    "arn:{}:ssm:{}::parameter/aws/service/*",
                    self.partition, self.region
                ))
            }
            Statement::RegionalReads | Statement::Prices | Statement::ProfileList | Statement::ZonalShifts => {
                json!("*")
            }
            Statement::ProfileReads
            | Statement::ProfileCreation
            | Statement::ProfileTags
            | Statement::ProfileChanges => profiles(),
            Statement::NodeRole => json!(self.node_role_arn()),
            Statement::ClusterReads => json!(self.cluster_arn()),
            Statement::Queue => json!(self.queue.map(|queue| self.queue_arn(queue))),
        }
    }

    fn conditions(&self, statement: Statement) -> Vec<(String, Value)> {
        let equal = |keys: Vec<(String, Value)>| operator("StringEquals", keys);
        let (resource, request) = ("Resource", "Request");
        match statement {
            Statement::LaunchWithOwnTemplates | Statement::Deletion => {
                vec![equal(vec![self.owned(resource)]), any(&[resource], tags::NODE_POOL)]
            }
            Statement::CreationWithTags => vec![
                equal(vec![self.owned(request), self.cluster_name(request)]),
                any(&[request], tags::NODE_POOL),
            ],
            Statement::TagsAtCreation => {
                let creations = Statement::CreationWithTags.actions();
                let names: Vec<&str> = creations
                    .iter()
                    .filter_map(|action| action.strip_prefix("ec2:"))
                    .collect();
                let action = ("ec2:CreateAction".to_owned(), json!(names));
                vec![
                    equal(vec![self.owned(request), self.cluster_name(request), action]),
                    any(&[request], tags::NODE_POOL),
                ]
            }
            Statement::NameTags => {
                let keys = json!([tags::CLUSTER_NAME, tags::NODE_CLAIM, tags::NAME]);
                vec![
                    equal(vec![self.owned(resource)]),
                    any(&[resource], tags::NODE_POOL),
                    operator("StringEqualsIfExists", [self.cluster_name(request)]),
                    operator("ForAllValues:StringEquals", [("aws:TagKeys".to_owned(), keys)]),
                ]
            }
            Statement::RegionalReads => {
                vec![equal(vec![("aws:RequestedRegion".to_owned(), json!(self.region))])]
            }
            Statement::NodeRole => {
                let service = ("iam:PassedToService".to_owned(), self.passed_to());
                vec![equal(vec![service])]
            }
            Statement::ProfileCreation => vec![
                equal(vec![
                    self.owned(request),
                    self.cluster_name(request),
                    self.region_tag(request),
                ]),
                any(&[request], tags::NODE_CLASS),
            ],
            // Tags make a profile the cluster's: only what is the cluster's already, or is made with these tags, may get them.
            Statement::ProfileTags => vec![
                equal(vec![
                    self.owned(resource),
                    self.region_tag(resource),
                    self.owned(request),
                    self.cluster_name(request),
                    self.region_tag(request),
                ]),
                any(&[resource, request], tags::NODE_CLASS),
            ],
            Statement::ProfileChanges => vec![
                equal(vec![self.owned(resource), self.region_tag(resource)]),
                any(&[resource], tags::NODE_CLASS),
            ],
            Statement::ZonalShifts => {
                let cluster = (
                    "arc-zonal-shift:ResourceIdentifier".to_owned(),
                    json!(self.cluster_arn()),
                );
                vec![equal(vec![cluster])]
            }
            Statement::LaunchFrom
            | Statement::ImageParameters
            | Statement::Prices
            | Statement::ProfileList
            | Statement::ProfileReads
            | Statement::ClusterReads
            | Statement::Queue => Vec::new(),
        }
    }

    fn statement(&self, statement: Statement) -> Value {
        let mut all = Map::new();
        all.insert("Sid".to_owned(), json!(statement.sid()));
        all.insert("Effect".to_owned(), json!("Allow"));
        all.insert("Action".to_owned(), json!(statement.actions()));
        all.insert("Resource".to_owned(), self.resources(statement));
        let conditions = self.conditions(statement);
        if !conditions.is_empty() {
            all.insert("Condition".to_owned(), Value::Object(conditions.into_iter().collect()));
        }
        Value::Object(all)
    }

    fn document(&self, is_meant: impl Fn(Statement) -> bool) -> Value {
        let all = Statement::ALL.into_iter();
        let meant = all.filter(|one| is_meant(*one) && (*one != Statement::Queue || self.queue.is_some()));
        let statements: Vec<Value> = meant.map(|one| self.statement(one)).collect();
        json!({"Version": "2012-10-17", "Statement": statements})
    }

    /// The least policy of the controller's role, as one document.
    pub fn policy(&self) -> Value {
        self.document(|_| true)
    }

    /// One part of the policy.
    pub fn part(&self, part: PolicyPart) -> Value {
        self.document(|statement| statement.part() == part)
    }
}
