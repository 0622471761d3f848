//! The calls of the services besides EC2.

use super::CallResult;
use crate::pricing::PriceQuery;
use crate::tags::Tags;
use crate::zonal_shift::Shift;
use async_trait::async_trait;
use jiff::Timestamp;

/// Systems Manager.
#[async_trait]
pub trait Ssm: Send + Sync {
    /// GetParameter: the value of a parameter.
    async fn parameter(&self, name: &str) -> CallResult<String>;
}

/// An instance profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceProfile {
    /// Name.
    pub name: String,
    /// Name of its role, without path.
    pub role: Option<String>,
}

/// IAM, as far as instance profiles go.
#[async_trait]
pub trait Iam: Send + Sync {
    /// GetInstanceProfile.
    async fn instance_profile(&self, name: &str) -> CallResult<InstanceProfile>;

    /// CreateInstanceProfile with tags, under a path.
    async fn create_instance_profile(&self, name: &str, path: &str, tags: &Tags) -> CallResult<()>;

    /// AddRoleToInstanceProfile; the role is named without path.
    async fn add_role(&self, profile: &str, role: &str) -> CallResult<()>;

    /// RemoveRoleFromInstanceProfile.
    async fn remove_role(&self, profile: &str, role: &str) -> CallResult<()>;

    /// DeleteInstanceProfile.
    async fn delete_instance_profile(&self, name: &str) -> CallResult<()>;

    /// ListInstanceProfiles under a path: all pages.
    async fn instance_profiles(&self, path: &str) -> CallResult<Vec<InstanceProfile>>;
}

/// A message of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMessage {
    /// What deletes the message.
    pub receipt: String,
    /// Text.
    pub body: String,
    /// When it was put into the queue.
    pub sent: Option<Timestamp>,
}

/// SQS.
#[async_trait]
pub trait Sqs: Send + Sync {
    /// GetQueueUrl.
    async fn queue_url(&self, name: &str) -> CallResult<String>;

    /// ReceiveMessage: waits 20 s for at most 10 messages, which are hidden for 20 s (AWS-301).
    async fn receive(&self, queue_url: &str) -> CallResult<Vec<QueueMessage>>;

    /// DeleteMessage.
    async fn delete(&self, queue_url: &str, receipt: &str) -> CallResult<()>;
}

/// What EKS says of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDescription {
    /// URL of the API server.
    pub endpoint: String,
    /// Version, such as `1.33`.
    pub version: String,
    /// ARN.
    pub arn: String,
    /// IPv4 addresses of Services.
    pub service_ipv4_cidr: Option<String>,
    /// IPv6 addresses of Services.
    pub service_ipv6_cidr: Option<String>,
}

/// EKS.
#[async_trait]
pub trait Eks: Send + Sync {
    /// DescribeCluster.
    async fn cluster(&self, name: &str) -> CallResult<ClusterDescription>;
}

/// The Price List API.
#[async_trait]
pub trait PriceList: Send + Sync {
    /// GetProducts of the service `AmazonEC2`, in pages of 100: one JSON text for each product (AWS-222).
    async fn products(&self, query: &PriceQuery) -> CallResult<Vec<String>>;
}

/// ARC zonal shift.
#[async_trait]
pub trait ZonalShiftService: Send + Sync {
    /// GetManagedResource: the shifts of the zones of a cluster. A cluster that is not registered is an error (AWS-329).
    async fn shifts(&self, cluster_arn: &str) -> CallResult<Vec<Shift>>;
}
