//! The IAM permissions the provider needs (section 31 of `docs/behaviour/aws.md`).

use crate::tags;
use serde_json::{Value, json};

/// The cluster a policy is for.
#[derive(Clone, Debug)]
pub struct PolicyScope<'a> {
    /// `aws`, `aws-cn` or `aws-us-gov`.
    pub partition: &'a str,
    /// Region.
    pub region: &'a str,
    /// Account.
    pub account: &'a str,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// ARN of the role of the nodes.
    pub node_role_arn: &'a str,
    /// ARN of the interruption queue, if there is one.
    pub queue_arn: Option<&'a str>,
}

/// Resources a launch only refers to.
const LAUNCH_FROM: [&str; 6] = [
    "image/*",
    "snapshot/*",
    "security-group/*",
    "subnet/*",
    "capacity-reservation/*",
    "placement-group/*",
];
/// Resources a launch creates.
const LAUNCHED: [&str; 6] = [
    "fleet/*",
    "instance/*",
    "volume/*",
    "network-interface/*",
    "launch-template/*",
    "spot-instances-request/*",
];
/// Calls that read, in one region.
const READ: [&str; 11] = [
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstances",
    "ec2:DescribeInstanceStatus",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribePlacementGroups",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
];

/// Joins parts that are made at run time, since a policy's keys hold the names of tags.
fn object(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(entries.into_iter().collect())
}

impl PolicyScope<'_> {
    fn ec2(&self, resource: &str) -> String {
        format!("arn:{}:ec2:{}:*:{resource}", self.partition, self.region)
    }

    fn resources(&self, resources: &[&str]) -> Vec<String> {
        resources.iter().map(|resource| self.ec2(resource)).collect()
    }

    /// The conditions that a resource, or a request for one, carries the tags of the cluster, and one more condition.
    fn owned(&self, kind: &str, more: Option<(String, Value)>) -> Value {
        let tags = [
            (
                format!("aws:{kind}Tag/{}", tags::cluster_key(self.cluster)),
                json!(tags::OWNED),
            ),
            (format!("aws:{kind}Tag/{}", tags::CLUSTER_NAME), json!(self.cluster)),
        ];
        object(tags.into_iter().chain(more))
    }

    fn any(&self, kind: &str, tag: &str) -> Value {
        object([(format!("aws:{kind}Tag/{tag}"), json!("*"))])
    }

    fn launches(&self) -> [Value; 3] {
        [
            json!({
                "Sid": "AllowLaunchFrom",
                "Effect": "Allow",
                "Action": ["ec2:RunInstances", "ec2:CreateFleet"],
                "Resource": self.resources(&LAUNCH_FROM),
            }),
            json!({
                "Sid": "AllowLaunchWithOwnTemplates",
                "Effect": "Allow",
                "Action": ["ec2:RunInstances", "ec2:CreateFleet"],
                "Resource": self.resources(&["launch-template/*"]),
                "Condition": {
                    "StringEquals": object([(
                        format!("aws:ResourceTag/{}", tags::cluster_key(self.cluster)),
                        json!(tags::OWNED),
                    )]),
                    "StringLike": self.any("Resource", tags::NODE_POOL),
                },
            }),
            json!({
                "Sid": "AllowCreationWithTags",
                "Effect": "Allow",
                "Action": ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
                "Resource": self.resources(&LAUNCHED),
                "Condition": {
                    "StringEquals": self.owned("Request", None),
                    "StringLike": self.any("Request", tags::NODE_POOL),
                },
            }),
        ]
    }

    fn tagging_and_deletion(&self) -> [Value; 3] {
        let actions = json!(["RunInstances", "CreateFleet", "CreateLaunchTemplate"]);
        let at_creation = self.owned("Request", Some(("ec2:CreateAction".to_owned(), actions)));
        let own = object([(
            format!("aws:ResourceTag/{}", tags::cluster_key(self.cluster)),
            json!(tags::OWNED),
        )]);
        [
            json!({
                "Sid": "AllowTagsAtCreation",
                "Effect": "Allow",
                "Action": "ec2:CreateTags",
                "Resource": self.resources(&LAUNCHED),
                "Condition": {"StringEquals": at_creation, "StringLike": self.any("Request", tags::NODE_POOL)},
            }),
            json!({
                "Sid": "AllowNameTags",
                "Effect": "Allow",
                "Action": "ec2:CreateTags",
                "Resource": self.ec2("instance/*"),
                "Condition": {
                    "StringEquals": own,
                    "StringLike": self.any("Resource", tags::NODE_POOL),
                    "ForAllValues:StringEquals": {
                        "aws:TagKeys": [tags::CLUSTER_NAME, tags::NODE_CLAIM, tags::NAME],
                    },
                },
            }),
            json!({
                "Sid": "AllowDeletion",
                "Effect": "Allow",
                "Action": ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
                "Resource": self.resources(&["instance/*", "launch-template/*"]),
                "Condition": {"StringEquals": own, "StringLike": self.any("Resource", tags::NODE_POOL)},
            }),
        ]
    }

    fn reads(&self) -> [Value; 4] {
        [
            json!({
                "Sid": "AllowReads",
                "Effect": "Allow",
                "Action": READ,
                "Resource": "*",
                "Condition": {"StringEquals": {"aws:RequestedRegion": self.region}},
            }),
            json!({
                "Sid": "AllowImageParameters",
                "Effect": "Allow",
                "Action": "ssm:GetParameter",
                "Resource": format!("arn:{}:ssm:{}::parameter/aws/service/*", self.partition, self.region),
            }),
            json!({
                "Sid": "AllowPricesAndProfileReads",
                "Effect": "Allow",
                "Action": ["pricing:GetProducts", "iam:ListInstanceProfiles", "iam:GetInstanceProfile"],
                "Resource": "*",
            }),
            json!({
                "Sid": "AllowClusterReads",
                "Effect": "Allow",
                "Action": ["eks:DescribeCluster", "arc-zonal-shift:GetManagedResource"],
                "Resource": format!("arn:{}:eks:{}:{}:cluster/{}", self.partition, self.region, self.account, self.cluster),
            }),
        ]
    }

    fn profiles(&self) -> [Value; 3] {
        let service = if self.partition == "aws-cn" {
            "ec2.amazonaws.com.cn"
        } else {
            "ec2.amazonaws.com"
        };
        let scoped = |kind: &str| {
            let region = (format!("aws:{kind}Tag/{}", tags::REGION), json!(self.region));
            self.owned(kind, Some(region))
        };
        let profiles = format!("arn:{}:iam::{}:instance-profile/*", self.partition, self.account);
        [
            json!({
                "Sid": "AllowPassingTheNodeRole",
                "Effect": "Allow",
                "Action": "iam:PassRole",
                "Resource": self.node_role_arn,
                "Condition": {"StringEquals": {"iam:PassedToService": service}},
            }),
            json!({
                "Sid": "AllowProfileCreation",
                "Effect": "Allow",
                "Action": ["iam:CreateInstanceProfile", "iam:TagInstanceProfile"],
                "Resource": profiles,
                "Condition": {
                    "StringEquals": scoped("Request"),
                    "StringLike": self.any("Request", tags::NODE_CLASS),
                },
            }),
            json!({
                "Sid": "AllowProfileChanges",
                "Effect": "Allow",
                "Action": [
                    "iam:AddRoleToInstanceProfile",
                    "iam:RemoveRoleFromInstanceProfile",
                    "iam:DeleteInstanceProfile",
                ],
                "Resource": profiles,
                "Condition": {
                    "StringEquals": scoped("Resource"),
                    "StringLike": self.any("Resource", tags::NODE_CLASS),
                },
            }),
        ]
    }

    /// The least policy of the controller's role.
    pub fn policy(&self) -> Value {
        let queue = self.queue_arn.map(|arn| {
            json!({
                "Sid": "AllowInterruptionQueue",
                "Effect": "Allow",
                "Action": ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
                "Resource": arn,
            })
        });
        let statements: Vec<Value> = self
            .launches()
            .into_iter()
            .chain(self.tagging_and_deletion())
            .chain(self.reads())
            .chain(self.profiles())
            .chain(queue)
            .collect();
        json!({"Version": "2012-10-17", "Statement": statements})
    }
}
