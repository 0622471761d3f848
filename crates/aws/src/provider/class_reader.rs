//! Reads the classes that claims and pools name.

use super::aws_cloud::AwsCloud;
use kerf_api::{EC2NodeClass, NodeClaim, NodePool};
use kerf_cloud::CloudError;
use kerf_runtime::client::{ApiErrorKind, describe};
use kerf_runtime::{Event, EventType, ObjectRef};
use kube::Api;

/// Turns an error of the Kubernetes API into the provider's own.
pub(super) fn kube_error(doing: &str, error: &kube::Error) -> CloudError {
    let message = format!("{doing}, {}", describe(error)).into();
    let kind = ApiErrorKind::of(error);
    if matches!(kind, ApiErrorKind::TooManyRequests | ApiErrorKind::Retryable) {
        CloudError::Retryable { message, after: None }
    } else {
        CloudError::Other(message)
    }
}

impl AwsCloud {
    /// A class by name; `None` if it does not exist or is being deleted.
    pub(crate) async fn class(&self, name: &str) -> Result<Option<EC2NodeClass>, CloudError> {
        if name.is_empty() {
            return Ok(None);
        }
        let (api, key) = (Api::<EC2NodeClass>::all(self.client.clone()), name.to_owned());
        let class = self.classes.read(name, async move || api.get_opt(&key).await).await;
        let class = class.map_err(|error| kube_error("resolving nodeclass", &error))?;
        Ok(class.filter(|class| class.metadata.deletion_timestamp.is_none()))
    }

    /// A pool by name; `None` if it does not exist.
    pub(crate) async fn pool(&self, name: &str) -> Result<Option<NodePool>, CloudError> {
        let (api, key) = (Api::<NodePool>::all(self.client.clone()), name.to_owned());
        let pool = self.pools.read(name, async move || api.get_opt(&key).await).await;
        pool.map_err(|error| kube_error("getting a NodePool", &error))
    }

    fn publish_unresolved(&self, object: Option<ObjectRef>) {
        let Some(object) = object else { return };
        self.recorder.publish(Event {
            dedupe: vec![object.uid.clone()],
            object,
            kind: EventType::Warning,
            reason: "".into(),
            message: "Failed resolving NodeClass".to_owned(),
            dedupe_timeout: None,
        });
    }

    /// The class of a claim; publishes an event on the claim if there is none (AWS-284, AWS-387).
    pub(crate) async fn class_of_claim(&self, claim: &NodeClaim) -> Result<Option<EC2NodeClass>, CloudError> {
        let class = self.class(&claim.spec.node_class_ref.name).await?;
        if class.is_none() {
            self.publish_unresolved(ObjectRef::of(claim));
        }
        Ok(class)
    }

    /// The class of a pool; publishes an event on the pool if there is none (AWS-291, AWS-387).
    pub(crate) async fn class_of_pool(&self, pool: &NodePool) -> Result<Option<EC2NodeClass>, CloudError> {
        let class = self.class(&pool.spec.template.spec.node_class_ref.name).await?;
        if class.is_none() {
            self.publish_unresolved(ObjectRef::of(pool));
        }
        Ok(class)
    }
}
