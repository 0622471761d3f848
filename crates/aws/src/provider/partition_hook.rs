//! Waits with the registration of a node until the partition of its placement group is known (AWS-282).

use super::aws_cloud::AwsCloud;
use crate::labels::PLACEMENT_GROUP_PARTITION;
use crate::placement_group::{PartitionHook, partition_hook};
use crate::provider_id::instance_id;
use async_trait::async_trait;
use kerf_api::NodeClaim;
use kerf_cloud::{CloudError, HookOutcome, RegistrationHook};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The hook.
pub struct PlacementGroupRegistrationHook {
    cloud: Arc<AwsCloud>,
}

impl PlacementGroupRegistrationHook {
    /// A hook that describes instances with `cloud`.
    pub const fn new(cloud: Arc<AwsCloud>) -> Self {
        Self { cloud }
    }
}

#[async_trait]
impl RegistrationHook for PlacementGroupRegistrationHook {
    fn name(&self) -> &'static str {
        "PlacementGroupRegistrationHook"
    }

    async fn register(&self, claim: &NodeClaim) -> Result<HookOutcome, CloudError> {
        let labels = claim.metadata.labels.clone().unwrap_or_default();
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let mut step = partition_hook(&labels, provider_id.is_some(), None);
        if let (PartitionHook::Describe, Some(provider_id)) = (&step, provider_id) {
            let id = instance_id(provider_id).map_err(|error| CloudError::other(error.to_string()))?;
            let partition = self.cloud.instances.get_fresh(id).await?.partition;
            step = partition_hook(&labels, true, Some(partition));
        }
        Ok(match step {
            PartitionHook::Ready => HookOutcome::READY,
            PartitionHook::Wait | PartitionHook::Describe => HookOutcome::Pending(None),
            PartitionHook::Label(value) => HookOutcome::Ready {
                labels: BTreeMap::from([(PLACEMENT_GROUP_PARTITION.to_owned(), value)]),
                annotations: BTreeMap::new(),
            },
        })
    }
}
