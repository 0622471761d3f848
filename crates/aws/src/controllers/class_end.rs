//! The end of a class: it waits for its claims, then takes its templates and profiles along (AWS-068, AWS-098).

use super::kube_objects::{Written, merge_locked};
use super::validation::Validation;
use crate::node_class::waiting_message;
use crate::provider::AwsCloud;
use kerf_api::ec2_node_class::{EC2NodeClass, FINALIZER};
use kerf_runtime::{Event, EventType, ObjectRef, Outcome, ReconcileError};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// The time after which a class that waits for claims is reconciled again; the end of a claim reconciles it earlier.
const WAIT: Duration = Duration::from_secs(600);

/// Ends classes.
pub struct ClassEnd {
    cloud: Arc<AwsCloud>,
    validation: Arc<Validation>,
}

impl ClassEnd {
    /// Ends classes of a cluster, and forgets their validation.
    pub const fn new(cloud: Arc<AwsCloud>, validation: Arc<Validation>) -> Self {
        Self { cloud, validation }
    }

    /// Brings a class that is being deleted closer to its end.
    pub async fn reconcile(&self, class: &EC2NodeClass) -> Result<Outcome, ReconcileError> {
        let finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|one| one == FINALIZER) {
            return Ok(Outcome::Done);
        }
        let claims = self.cloud.claims_of(class.name()).await?;
        let names: Vec<&str> = claims
            .iter()
            .filter_map(|claim| claim.metadata.name.as_deref())
            .collect();
        if let Some(message) = waiting_message(&names) {
            let object = ObjectRef::of(class);
            self.cloud.recorder.publish(Event {
                dedupe: vec![object.uid.clone()],
                object,
                kind: EventType::Normal,
                reason: "WaitingOnNodeClaimTermination".into(),
                message,
                dedupe_timeout: None,
            });
            return Ok(Outcome::RequeueAfter(WAIT));
        }
        if !self.cloud.options.isolated_vpc {
            self.cloud.profiles.delete_of_class(class).await?;
        }
        self.cloud.templates.delete_of_class(class.name()).await?;
        self.cloud.metrics.user_data_bytes.remove(&[class.name()]);
        self.validation.forget(class.name());
        let left: Vec<&String> = finalizers.iter().filter(|one| *one != FINALIZER).collect();
        let patch = json!({"metadata": {"finalizers": left}});
        match merge_locked(&self.cloud.classes(), class, patch, false).await? {
            Written::Done(_) => Ok(Outcome::Done),
            Written::Stale => Ok(Outcome::RequeueAfter(Duration::ZERO)),
        }
    }
}
