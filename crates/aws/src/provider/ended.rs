//! Instances that EC2 ended right after their launch: says why on the claim, and stops launches with a class that causes it.

use super::aws_cloud::AwsCloud;
use crate::annotations::DISCOVERED_MEMORY;
use crate::cache::Cache;
use crate::instance::Instance;
use crate::instance_end::StateReason;
use crate::intervals::VALIDATION;
use async_trait::async_trait;
use kerf_api::ec2_node_class::GROUP;
use kerf_api::hash::primitive;
use kerf_api::{EC2NodeClass, NodeClaim};
use kerf_cloud::{CloudError, HookOutcome, RegistrationHook};
use kerf_runtime::{Event, EventType, ObjectRef};
use std::sync::Arc;

/// The reason of the event and of conditions.
pub(crate) const ENDED_AT_LAUNCH: &str = "InstanceEndedAtLaunch";
/// Ends in a row after which nothing is launched with a class: one may be a coincidence.
const ENDS_MAX: u32 = 2;

/// What an instance was launched for.
#[derive(Clone, Debug)]
pub(crate) struct LaunchedFor {
    /// Name of the claim.
    pub(crate) claim: String,
    /// The class as it was then.
    class: Option<ClassVersion>,
}

/// UID and generation of a class, and a hash of what users annotate it with: an annotation more is another try, as with dry runs (AWS-072).
type ClassVersion = (String, i64, u64);

fn version(class: &EC2NodeClass) -> Option<ClassVersion> {
    let own = format!("{GROUP}/");
    let is_of_user = |key: &&String| *key != DISCOVERED_MEMORY && !key.starts_with(&own);
    let annotations = class.metadata.annotations.iter().flatten();
    let of_users: Vec<_> = annotations.filter(|(key, _)| is_of_user(key)).collect();
    let hash = primitive(format!("{of_users:?}").as_bytes());
    Some((class.metadata.uid.clone()?, class.metadata.generation?, hash))
}

impl LaunchedFor {
    /// A launch for a claim with a class.
    pub(super) fn new(claim: &str, class: &EC2NodeClass) -> Self {
        Self {
            claim: claim.to_owned(),
            class: version(class),
        }
    }
}

/// Classes whose instances ended right after their launch, since the last of their nodes registered. An entry expires like the result of a
/// dry run: a key may be enabled without a change of the class.
#[derive(Debug)]
pub(crate) struct EndedClasses(Cache<ClassVersion, (u32, String)>);

impl EndedClasses {
    pub(super) const fn new() -> Self {
        Self(Cache::new(VALIDATION))
    }

    fn note(&self, class: ClassVersion, explained: &str) {
        let before = self.0.get(&class).map_or(0, |(count, _)| count);
        self.0.insert(class, (before.saturating_add(1), explained.to_owned()));
    }

    /// Why every launch with the class as it is would end at once, if that is so.
    pub(crate) fn reason(&self, class: &EC2NodeClass) -> Option<String> {
        let (count, explained) = self.0.get(&version(class)?)?;
        let minutes = VALIDATION.as_secs() / 60;
        (count >= ENDS_MAX).then(|| {
            format!(
                "EC2 ended instances right after their launch: {explained}. Nothing is launched until the class changes, or for {minutes} minutes"
            )
        })
    }

    fn forget(&self, class: &ClassVersion) {
        self.0.remove(class);
    }
}

impl AwsCloud {
    /// Publishes and logs, once for each instance, why it ended, if the class or its account is to blame: the next launch would end in the
    /// same way.
    pub(crate) fn report_end(&self, claim: &NodeClaim, instance: &Instance) {
        let described = &instance.described;
        let Some(reason) = described.state_reason.as_ref().filter(|_| instance.is_terminating()) else {
            return;
        };
        let Some(explained) = reason.explain() else {
            return;
        };
        if self.reported_ends.get(&described.id).is_some() {
            return;
        }
        self.reported_ends.insert(described.id.clone(), ());
        self.count_end(&described.id, reason, &explained);
        let (id, class) = (&described.id, &claim.spec.node_class_ref.name);
        let object = ObjectRef::of(claim);
        tracing::error!(
            NodeClaim = object.name,
            EC2NodeClass = class,
            instance = id,
            error = explained,
            "EC2 ended an instance right after its launch"
        );
        self.recorder.publish(Event {
            dedupe: vec![object.uid.clone()],
            object,
            kind: EventType::Warning,
            reason: ENDED_AT_LAUNCH.into(),
            message: format!("EC2 ended instance {id} of EC2NodeClass {class}: {explained}"),
            dedupe_timeout: None,
        });
    }

    /// Counts an end against the class that the instance was launched with. That of an earlier process is not known.
    fn count_end(&self, id: &str, reason: &StateReason, explained: &str) {
        let launched = self.launched_for.get(id).filter(|_| reason.is_of_class());
        if let Some(class) = launched.and_then(|launched| launched.class) {
            self.ended_classes.note(class, explained);
        }
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
            self.0.ended_classes.forget(&class);
        }
        Ok(HookOutcome::READY)
    }
}
