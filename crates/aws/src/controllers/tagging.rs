//! Gives instances the tags that were not known at launch (AWS-326 to AWS-328).

use crate::annotations::{CLUSTER_NAME_TAGGED, INSTANCE_TAGGED};
use crate::provider::AwsCloud;
use crate::provider_id::instance_id;
use crate::tags::missing_name_tags;
use kerf_api::NodeClaim;
use kerf_api::annotations::TRUE;
use kerf_runtime::client::{Lock, found, patch_object};
use kerf_runtime::{Outcome, ReconcileError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// At most one CreateTags in this time: EC2 limits it (AWS-327).
const PAUSE: Duration = Duration::from_secs(1);

/// The controller `nodeclaim.tagging`.
pub struct Tagging {
    cloud: Arc<AwsCloud>,
    /// From when on the next call may be made.
    next: Mutex<Option<Instant>>,
}

/// Whether a claim waits for its tags (AWS-326).
pub(super) fn needs_tags(claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let has = |key: &str| {
        annotations
            .and_then(|all| all.get(key))
            .is_some_and(|value| value == TRUE)
    };
    let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref());
    let class = &claim.spec.node_class_ref;
    class.group == kerf_api::ec2_node_class::GROUP
        && claim.metadata.deletion_timestamp.is_none()
        && node.is_some_and(|node| !node.is_empty())
        && !(has(INSTANCE_TAGGED) && has(CLUSTER_NAME_TAGGED))
}

impl Tagging {
    /// Tags the instances of a cluster.
    pub fn new(cloud: Arc<AwsCloud>) -> Self {
        Self {
            cloud,
            next: Mutex::new(None),
        }
    }

    /// Reconciles one claim by name.
    pub async fn reconcile(&self, name: &str) -> Result<Outcome, ReconcileError> {
        let api = self.cloud.claims();
        let Some(claim) = found(api.get(name).await)?.filter(needs_tags) else {
            return Ok(Outcome::Done);
        };
        let status = claim.status.as_ref();
        let Some(node) = status.and_then(|status| status.node_name.as_deref()) else {
            return Ok(Outcome::Done);
        };
        let provider_id = status
            .and_then(|status| status.provider_id.as_deref())
            .unwrap_or_default();
        let id = match instance_id(provider_id) {
            Ok(id) => id,
            Err(error) => {
                // It will not become one.
                tracing::error!(NodeClaim = name, error = %error, "failed tagging an instance");
                return Ok(Outcome::Done);
            }
        };
        match self.tag(id, node, name).await {
            Err(error) if error.is_not_found() => return Ok(Outcome::Done),
            answer => answer?,
        }
        let mut tagged = claim.clone();
        let annotations = tagged.metadata.annotations.get_or_insert_default();
        annotations.extend([INSTANCE_TAGGED, CLUSTER_NAME_TAGGED].map(|key| (key.to_owned(), TRUE.to_owned())));
        patch_object(&api, &claim, &tagged, Lock::None).await?;
        Ok(Outcome::Done)
    }

    async fn tag(&self, id: &str, node: &str, claim: &str) -> Result<(), kerf_cloud::CloudError> {
        let instance = self.cloud.instances.get_fresh(id).await?;
        let missing = missing_name_tags(&instance.described.tags, node, claim, &self.cloud.cluster.name);
        if missing.is_empty() {
            return Ok(());
        }
        let mut next = self.next.lock().await;
        if let Some(next) = *next {
            tokio::time::sleep_until(next).await;
        }
        *next = Some(Instant::now() + PAUSE);
        drop(next);
        self.cloud.instances.create_tags(id, &missing).await
    }
}
