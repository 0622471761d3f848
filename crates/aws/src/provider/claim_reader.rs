//! Reads the claims of the cluster.

use super::aws_cloud::AwsCloud;
use kerf_api::ec2_node_class::{GROUP, KIND};
use kerf_api::{EC2NodeClass, NodeClaim};
use kube::Api;
use kube::api::ListParams;

impl AwsCloud {
    pub(crate) fn classes(&self) -> Api<EC2NodeClass> {
        Api::all(self.client.clone())
    }

    pub(crate) fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    /// All claims whose class is an EC2NodeClass.
    pub(crate) async fn managed_claims(&self) -> Result<Vec<NodeClaim>, kube::Error> {
        self.managed_claims_of(&ListParams::default()).await
    }

    /// Those of them that a list with these parameters has.
    pub(crate) async fn managed_claims_of(&self, params: &ListParams) -> Result<Vec<NodeClaim>, kube::Error> {
        let claims = self.claims().list(params).await?.items;
        let is_managed = |claim: &NodeClaim| {
            let class = &claim.spec.node_class_ref;
            class.group == GROUP && class.kind == KIND
        };
        Ok(claims.into_iter().filter(is_managed).collect())
    }

    /// The claims that reference a class.
    pub(crate) async fn claims_of(&self, class: &str) -> Result<Vec<NodeClaim>, kube::Error> {
        let mut claims = self.managed_claims().await?;
        claims.retain(|claim| claim.spec.node_class_ref.name == class);
        Ok(claims)
    }
}
