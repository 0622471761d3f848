//! Writes the drift hash of classes, and takes claims over to a new version of it (AWS-052, AWS-053).

use crate::provider::AwsCloud;
use kerf_api::annotations::EC2_NODE_CLASS_HASH_VERSION;
use kerf_api::conditions::node_claim::DRIFTED;
use kerf_api::ec2_node_class::migrated_claim_annotations;
use kerf_api::status::Conditioned;
use kerf_runtime::client::{Lock, found, patch_object};
use kerf_runtime::{Outcome, ReconcileError};
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
                let mut after = claim.clone();
                after.metadata.annotations.get_or_insert_default().extend(migrated);
                if let Err(error) = patch_object(&self.cloud.claims(), &claim, &after, Lock::None).await {
                    let name = claim.metadata.name.as_deref();
                    errors.push(format!("NodeClaim {}: {error}", name.unwrap_or("without a name")));
                }
            }
            ReconcileError::of_all(&errors)?;
        }
        let mut after = class.clone();
        after
            .metadata
            .annotations
            .get_or_insert_default()
            .extend(current.to_map());
        patch_object(&api, &class, &after, Lock::None).await?;
        Ok(Outcome::Done)
    }
}
