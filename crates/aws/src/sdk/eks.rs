//! EKS on the SDK.

use super::errors::{NO_ANSWER, api_error};
use super::values::text;
use crate::errors::ApiError;
use crate::services::{CallResult, ClusterDescription, Eks};
use async_trait::async_trait;

pub(super) struct SdkEks(pub(super) aws_sdk_eks::Client);

fn cluster(from: &aws_sdk_eks::types::Cluster) -> ClusterDescription {
    let network = from.kubernetes_network_config();
    ClusterDescription {
        endpoint: text(from.endpoint()),
        version: text(from.version()),
        arn: text(from.arn()),
        service_ipv4_cidr: network.and_then(|one| one.service_ipv4_cidr()).map(str::to_owned),
        service_ipv6_cidr: network.and_then(|one| one.service_ipv6_cidr()).map(str::to_owned),
    }
}

#[async_trait]
impl Eks for SdkEks {
    async fn cluster(&self, name: &str) -> CallResult<ClusterDescription> {
        let answer = self.0.describe_cluster().name(name).send().await;
        let answer = answer.map_err(|error| api_error(&error))?;
        let found = answer.cluster().map(cluster);
        found.ok_or_else(|| ApiError::new(NO_ANSWER, "the answer has no cluster"))
    }
}
