//! What an account needs for a controller: its role with policies and trust, the role of the nodes, the interruption queue
//! and the EventBridge rules that fill it.

use super::statements::{PolicyPart, PolicyScope};
use crate::interruption::EventType;
use crate::partition::{PARTITIONS, Partition};
use serde_json::{Value, json};

/// Most characters of all inline policies of a role, without white space, by the limits of IAM.
pub const CONTROLLER_POLICY_MAX: usize = 10_240;
/// Most characters of the name of a role.
const ROLE_NAME_MAX: usize = 64;
/// How long the queue keeps a message: a message about an instance is of no use once the instance is gone (AWS-420).
pub(super) const RETENTION_SECONDS: u32 = 300;
/// Policies of AWS that every node needs: to join, to configure pod networking, to pull images, and to be reached by Session Manager.
pub(super) const NODE_POLICIES: [&str; 4] = [
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
];

/// How the pods of the controller take the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// EKS Pod Identity.
    PodIdentity,
    /// IAM roles for service accounts; the URL of the cluster's OIDC issuer.
    ServiceAccountRole {
        /// `https://…`
        issuer: &'a str,
    },
}

/// Everything the templates are made from.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The cluster.
    pub scope: PolicyScope<'a>,
    /// How pods take the role.
    pub identity: Identity<'a>,
    /// Namespace of the controller.
    pub namespace: &'a str,
    /// ServiceAccount of the controller.
    pub service_account: &'a str,
    /// Whether the role of the nodes is created, too.
    pub creates_node_role: bool,
}

/// A value that names no such thing in AWS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} is not valid; {expected}")]
pub struct ScopeError {
    /// What the value is.
    pub what: &'static str,
    /// The value.
    pub value: String,
    /// The expected value.
    pub expected: String,
}

fn consists_of(text: &str, others: &str) -> bool {
    text.chars()
        .all(|one| one.is_ascii_alphanumeric() || others.contains(one))
}

impl PolicyScope<'_> {
    /// Everything that is wrong with the values. They become parts of ARNs, conditions and names, where a wildcard or a quote would mean
    /// something else.
    pub fn check(&self) -> Vec<ScopeError> {
        let queue = self.queue.unwrap_or("none");
        let cluster_starts = self.cluster.starts_with(|first: char| first.is_ascii_alphanumeric());
        let partitions = PARTITIONS.map(|partition| partition.name).join(", ");
        let partitions = format!("use one of {partitions}");
        let cases = [
            (
                "partition",
                self.partition,
                Partition::named(self.partition).is_some(),
                partitions.as_str(),
            ),
            (
                "region",
                self.region,
                self.region.contains('-') && consists_of(self.region, "-"),
                "use a name such as us-east-1",
            ),
            (
                "account",
                self.account,
                self.account.len() == 12 && self.account.bytes().all(|one| one.is_ascii_digit()),
                "use the twelve digits of the account",
            ),
            (
                "cluster name",
                self.cluster,
                cluster_starts && self.cluster.len() <= 100 && consists_of(self.cluster, "-_"),
                "use at most 100 letters, digits, dashes and underscores",
            ),
            (
                "node role",
                self.node_role,
                !self.node_role.ends_with('/')
                    && role_name(self.node_role).len() <= ROLE_NAME_MAX
                    && !self.node_role.is_empty()
                    && consists_of(self.node_role, "+=,.@_-/"),
                "use the name of a role, of at most 64 characters, with its path if it has one",
            ),
            (
                "queue",
                queue,
                !queue.is_empty() && queue.len() <= 80 && consists_of(queue, "-_"),
                "use at most 80 letters, digits, dashes and underscores",
            ),
        ];
        let wrong = cases.into_iter().filter(|(_, _, good, _)| !good);
        wrong
            .map(|(what, value, _, expected)| ScopeError {
                what,
                value: value.to_owned(),
                expected: expected.to_owned(),
            })
            .collect()
    }
}

/// The name of a role without its path.
pub(super) fn role_name(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

impl Setup<'_> {
    /// Everything that is wrong with the values.
    pub fn check(&self) -> Vec<ScopeError> {
        let mut wrong = self.scope.check();
        if let Identity::ServiceAccountRole { issuer } = self.identity {
            let host = issuer.strip_prefix("https://").unwrap_or_default();
            if host.is_empty() || host.ends_with('/') || !consists_of(host, ".-_/:") {
                wrong.push(ScopeError {
                    what: "OIDC issuer",
                    value: issuer.to_owned(),
                    expected: "use the URL that `aws eks describe-cluster` shows as identity.oidc.issuer".to_owned(),
                });
            }
        }
        wrong
    }

    /// Name of the role of the controller.
    pub fn role_name(&self) -> String {
        format!("KerfController-{}", self.scope.cluster)
            .chars()
            .take(ROLE_NAME_MAX)
            .collect()
    }

    /// Name of a part of the policy.
    pub(super) fn policy_name(&self, part: PolicyPart) -> String {
        format!("KerfController{}-{}", part.name(), self.scope.cluster)
    }

    /// The trust policy of the controller's role: only its ServiceAccount may assume it.
    pub fn trust(&self) -> Value {
        let scope = &self.scope;
        let statement = match self.identity {
            Identity::PodIdentity => json!({
                "Effect": "Allow",
                "Principal": {"Service": "pods.eks.amazonaws.com"},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Condition": {"StringEquals": {
                    "aws:RequestTag/eks-cluster-arn": scope.cluster_arn(),
                    "aws:RequestTag/kubernetes-namespace": self.namespace,
                    "aws:RequestTag/kubernetes-service-account": self.service_account,
                }},
            }),
            Identity::ServiceAccountRole { issuer } => {
                let host = issuer.trim_start_matches("https://");
                let subject = format!("system:serviceaccount:{}:{}", self.namespace, self.service_account);
                let keys = [
                    (format!("{host}:aud"), json!("sts.amazonaws.com")),
                    (format!("{host}:sub"), json!(subject)),
                ];
                json!({
                    "Effect": "Allow",
                    "Principal": {
                        "Federated": format!("arn:{}:iam::{}:oidc-provider/{host}", scope.partition, scope.account),
                    },
                    "Action": "sts:AssumeRoleWithWebIdentity",
                    "Condition": {"StringEquals": Value::Object(keys.into_iter().collect())},
                })
            }
        };
        json!({"Version": "2012-10-17", "Statement": [statement]})
    }

    /// Instances may take the role of the nodes.
    pub(super) fn node_trust(&self) -> Value {
        json!({
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Principal": {"Service": self.scope.ec2_principal()},
                "Action": "sts:AssumeRole",
            }],
        })
    }

    /// ARNs of the policies of AWS that nodes need.
    pub(super) fn node_policies(&self) -> Vec<String> {
        let partition = self.scope.partition;
        NODE_POLICIES
            .iter()
            .map(|name| format!("arn:{partition}:iam::aws:policy/{name}"))
            .collect()
    }

    /// Who may send to the queue: EventBridge, for the rules of this account, and only over TLS.
    pub fn queue_policy(&self, queue: &str) -> Value {
        let arn = self.scope.queue_arn(queue);
        json!({
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Sid": "AllowEvents",
                    "Effect": "Allow",
                    "Principal": {"Service": "events.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": arn,
                    "Condition": {"StringEquals": {"aws:SourceAccount": self.scope.account}},
                },
                {
                    "Sid": "DenyWithoutTls",
                    "Effect": "Deny",
                    "Principal": "*",
                    "Action": "sqs:*",
                    "Resource": arn,
                    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                },
            ],
        })
    }
}

/// The pattern of the events of a type.
pub(super) fn event_pattern(event: &EventType) -> Value {
    json!({"source": [event.source], "detail-type": [event.detail_type]})
}
