//! Garbage collection of instances and profiles that nothing in the cluster owns (AWS-100, AWS-325).

use crate::annotations::INSTANCE_PROFILE;
use crate::intervals::instance_gc_period;
use crate::orphans::orphans;
use crate::provider::AwsCloud;
use crate::provider_id::provider_id;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kerf_cloud::CloudError;
use kerf_runtime::ReconcileError;
use kerf_runtime::client::delete_exactly;
use kube::Api;
use kube::api::{ListParams, ObjectMeta};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Instances that are terminated at once.
const AT_ONCE: usize = 100;

/// The controller `instance.garbagecollection`.
pub struct InstanceGarbage {
    cloud: Arc<AwsCloud>,
    passes: AtomicU32,
}

impl InstanceGarbage {
    /// Collects the garbage of a cluster.
    pub const fn new(cloud: Arc<AwsCloud>) -> Self {
        Self {
            cloud,
            passes: AtomicU32::new(0),
        }
    }

    /// Removes instances that no claim owns, and their Nodes. Returns the time until the next round.
    pub async fn reconcile(&self) -> Result<Duration, ReconcileError> {
        // Instances first: a claim that is made meanwhile is listed then.
        let instances = self.cloud.instances.list().await?;
        let claims = self.cloud.managed_claims().await?;
        let launched_for = |id: &str| self.cloud.launched_for.get(id).map(|launched| launched.claim);
        let now = self.cloud.clock.now();
        let orphans = orphans(&instances, &claims, launched_for, &self.cloud.cluster.name, now);
        let places = instances
            .iter()
            .filter(|one| orphans.contains(&one.described.id.as_str()));
        let places: Vec<(String, String)> = places
            .map(|one| {
                (
                    one.described.id.clone(),
                    provider_id(&one.described.zone, &one.described.id),
                )
            })
            .collect();
        if !places.is_empty() {
            let nodes = Api::<Node>::all(self.cloud.client.clone());
            let known = nodes.list(&ListParams::default()).await?.items;
            let removals = places.into_iter().map(|(id, place)| {
                let of_instance = |node: &&Node| {
                    let spec = node.spec.as_ref();
                    spec.and_then(|spec| spec.provider_id.as_deref()) == Some(place.as_str())
                };
                let node = known.iter().find(of_instance).map(|node| node.metadata.clone());
                self.remove(id, node, nodes.clone())
            });
            let done: Vec<Result<(), ReconcileError>> = futures::stream::iter(removals)
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            done.into_iter().collect::<Result<(), _>>()?;
        }
        let passes = self.passes.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        Ok(instance_gc_period(passes))
    }

    async fn remove(&self, id: String, node: Option<ObjectMeta>, nodes: Api<Node>) -> Result<(), ReconcileError> {
        match self.cloud.instances.delete(&id).await {
            Ok(()) => tracing::info!(instance = id, "garbage collected an instance without NodeClaim"),
            Err(CloudError::NodeClaimNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(node) = node {
            delete_exactly(&nodes, &node).await?;
        }
        Ok(())
    }
}

/// Deletes instance profiles that nothing uses: the controller `instanceprofile.garbagecollection`.
pub async fn collect_profiles(cloud: &AwsCloud) -> Result<(), ReconcileError> {
    let classes = cloud.classes().list(&ListParams::default()).await?.items;
    let claims = cloud.managed_claims().await?;
    let in_status = classes
        .iter()
        .filter_map(|class| class.status.instance_profile.as_deref());
    let on_claims = claims.iter().filter_map(|claim| {
        let annotations = claim.metadata.annotations.as_ref()?;
        annotations.get(INSTANCE_PROFILE).map(String::as_str)
    });
    cloud
        .profiles
        .collect_garbage(&in_status.collect(), &on_claims.collect())
        .await?;
    Ok(())
}
