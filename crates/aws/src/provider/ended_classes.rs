//! Classes with which nothing is launched, because EC2 ended the instances that were launched with them.

use super::aws_cloud::AwsCloud;
use crate::annotations::DISCOVERED_MEMORY;
use crate::cache::Cache;
use crate::instance_end::EndsInARow;
use crate::intervals::VALIDATION;
use async_trait::async_trait;
use kerf_api::ec2_node_class::GROUP;
use kerf_api::hash::primitive;
use kerf_api::{EC2NodeClass, NodeClaim};
use kerf_cloud::{CloudError, HookOutcome, RegistrationHook};
use std::sync::Arc;

/// What an instance was launched for.
#[derive(Clone, Debug)]
pub(crate) struct LaunchedFor {
    /// Name of the claim.
    pub(crate) claim: String,
    /// The class as it was then.
    pub(super) class: Option<ClassVersion>,
}

impl LaunchedFor {
    /// A launch for a claim with a class.
    pub(super) fn new(claim: &str, class: &EC2NodeClass) -> Self {
        Self {
            claim: claim.to_owned(),
            class: ClassVersion::of(class),
        }
    }
}

/// A class as users wrote it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ClassVersion {
    uid: String,
    generation: i64,
    /// Hash of what users annotate it with: an annotation more is another try, as with dry runs (AWS-072).
    annotations: u64,
}

impl ClassVersion {
    fn of(class: &EC2NodeClass) -> Option<Self> {
        let own = format!("{GROUP}/");
        let is_of_user = |key: &&String| *key != DISCOVERED_MEMORY && !key.starts_with(&own);
        let annotations = class.metadata.annotations.iter().flatten();
        let of_users: Vec<_> = annotations.filter(|(key, _)| is_of_user(key)).collect();
        Some(Self {
            uid: class.metadata.uid.clone()?,
            generation: class.metadata.generation?,
            annotations: primitive(format!("{of_users:?}").as_bytes()),
        })
    }
}

/// Classes whose instances ended right after their launch, since the last of their nodes registered. An entry expires like the result of a
/// dry run: a key may be enabled without a change of the class.
#[derive(Debug)]
pub(crate) struct EndedClasses(Cache<ClassVersion, EndsInARow>);

impl EndedClasses {
    pub(super) const fn new() -> Self {
        Self(Cache::new(VALIDATION))
    }

    pub(super) fn note(&self, class: ClassVersion, explained: &str) {
        let before = self.0.get(&class);
        self.0.insert(class, EndsInARow::after(before, explained));
    }

    /// Why every launch with the class as it is would end at once, if that is so.
    pub(crate) fn reason(&self, class: &EC2NodeClass) -> Option<String> {
        self.0.get(&ClassVersion::of(class)?)?.refusal(VALIDATION)
    }
}

/// Sees nodes register: an instance that runs shows that launches with its class do not end at once.
pub(super) struct StartedInstances(pub(super) Arc<AwsCloud>);

#[async_trait]
impl RegistrationHook for StartedInstances {
    fn name(&self) -> &'static str {
        "StartedInstances"
    }

    async fn register(&self, claim: &NodeClaim) -> Result<HookOutcome, CloudError> {
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let id = provider_id.and_then(|id| crate::provider_id::instance_id(id).ok());
        let launched = id.and_then(|id| self.0.launched_for.get(id));
        if let Some(class) = launched.and_then(|launched| launched.class) {
            self.0.ended_classes.0.remove(&class);
        }
        Ok(HookOutcome::READY)
    }
}
