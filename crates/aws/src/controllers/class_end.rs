//! The end of a class: it waits for its claims, then takes its templates and profiles along (AWS-068, AWS-098).

use super::validation::Validation;
use crate::node_class::waiting_message;
use crate::provider::AwsCloud;
use kerf_api::ec2_node_class::{EC2NodeClass, FINALIZER};
use kerf_runtime::client::{Lock, name_of, patch_object, unless_conflict};
use kerf_runtime::{Event, EventType, ObjectRef, Outcome, ReconcileError};
use std::sync::Arc;
use std::time::Duration;

/// The time after which a class that waits for claims is reconciled again; the end of a claim reconciles it earlier.
const WAIT: Duration = Duration::from_secs(600);

/// A class that has changed since it was read is read again at once (AWS-056).
pub(super) const AFTER_CONFLICT: Outcome = Outcome::RequeueAfter(Duration::ZERO);

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
        let finalizers = class.metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|one| one == FINALIZER) {
            return Ok(Outcome::Done);
        }
        let name = name_of(class)?;
        let claims = self.cloud.claims_of(name).await?;
        let names: Vec<&str> = claims
            .iter()
            .filter_map(|claim| claim.metadata.name.as_deref())
            .collect();
        if let Some(message) = waiting_message(&names) {
            if let Some(object) = ObjectRef::of(class) {
                self.cloud.recorder.publish(Event {
                    dedupe: vec![object.uid.clone()],
                    object,
                    kind: EventType::Normal,
                    reason: "WaitingOnNodeClaimTermination".into(),
                    message,
                    dedupe_timeout: None,
                });
            }
            return Ok(Outcome::RequeueAfter(WAIT));
        }
        if !self.cloud.options.isolated_vpc {
            self.cloud.profiles.delete_of_class(class).await?;
        }
        self.cloud.templates.delete_of_class(name).await?;
        self.cloud.metrics.user_data_bytes.remove(&[name]);
        self.validation.forget(name);
        let mut released = class.clone();
        let finalizers = released.metadata.finalizers.get_or_insert_default();
        finalizers.retain(|one| one != FINALIZER);
        let written = patch_object(&self.cloud.classes(), class, &released, Lock::Optimistic).await;
        Ok(unless_conflict(written)?.map_or(AFTER_CONFLICT, |_| Outcome::Done))
    }
}
