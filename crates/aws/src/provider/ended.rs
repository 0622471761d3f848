//! Says why EC2 ended an instance right after its launch.

use super::aws_cloud::AwsCloud;
use crate::instance::Instance;
use crate::instance_end::{ENDED_AT_LAUNCH, StateReason};
use kerf_api::NodeClaim;
use kerf_runtime::{Event, EventType, ObjectRef};

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
        tracing::error!(
            NodeClaim = claim.metadata.name,
            EC2NodeClass = class,
            instance = id,
            error = explained,
            "EC2 ended an instance right after its launch"
        );
        let Some(object) = ObjectRef::of(claim) else { return };
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
