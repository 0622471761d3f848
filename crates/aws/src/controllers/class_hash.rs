//! Writes the drift hash of classes, and takes claims over to a new version of it (AWS-052, AWS-053).

use super::kube_objects::merge;
use crate::provider::AwsCloud;
use kerf_api::annotations::{EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION};
use kerf_api::conditions::node_claim::DRIFTED;
use kerf_api::ec2_node_class::migrated_claim_annotations;
use kerf_api::status::Conditioned;
use kerf_runtime::client::found;
use kerf_runtime::{Outcome, ReconcileError};
use serde_json::json;
use std::sync::Arc;

/// The controller `nodeclass.hash`.
pub struct ClassHash {
    cloud: Arc<AwsCloud>,
}

impl ClassHash {
    /// A controller of the classes of a cluster.
    pub const fn new(cloud: Arc<AwsCloud>) -> Self {
        Self { cloud }
    }

    /// Reconciles one class by name.
    pub async fn reconcile(&self, name: &str) -> Result<Outcome, ReconcileError> {
        let api = self.cloud.classes();
        let Some(class) = found(api.get(name).await)? else {
            return Ok(Outcome::Done);
        };
        let current = class.hash_annotations(&self.cloud.cluster.ca_bundle);
        let stored = class.metadata.annotations.clone().unwrap_or_default();
        if stored.get(EC2_NODE_CLASS_HASH_VERSION) != Some(&current.version) {
            let mut errors = Vec::new();
            for claim in self.cloud.claims_of(name).await? {
                let annotations = claim.metadata.annotations.clone().unwrap_or_default();
                let is_drifted = claim.condition(DRIFTED).is_some();
                let Some(migrated) = migrated_claim_annotations(&annotations, is_drifted, &current) else {
                    continue;
                };
                let claim = claim.metadata.name.unwrap_or_default();
                let patch = json!({"metadata": {"annotations": migrated}});
                if let Err(error) = merge(&self.cloud.claims(), &claim, patch).await {
                    errors.push(format!("NodeClaim {claim}: {error}"));
                }
            }
            if !errors.is_empty() {
                return Err(ReconcileError::message(errors.join("; ")));
            }
        }
        let is_current = stored.get(EC2_NODE_CLASS_HASH) == Some(&current.hash)
            && stored.get(EC2_NODE_CLASS_HASH_VERSION) == Some(&current.version);
        if !is_current {
            merge(&api, name, json!({"metadata": {"annotations": current.to_map()}})).await?;
        }
        Ok(Outcome::Done)
    }
}
