//! Says on a claim why EC2 ended its instance right after the launch.

use super::aws_cloud::AwsCloud;
use crate::instance::Instance;
use crate::instance_end::StateReason;
use kerf_api::NodeClaim;
use kerf_runtime::{Event, EventType, ObjectRef};

impl AwsCloud {
    /// Publishes and logs, once for each instance, why it ended, if the class or its account is to blame: the next launch would end in the
    /// same way.
    pub(crate) fn report_end(&self, claim: &NodeClaim, instance: &Instance) {
        let described = &instance.described;
        let reason = described.state_reason.as_ref().filter(|_| instance.is_terminating());
        let Some(explained) = reason.and_then(StateReason::explain) else {
            return;
        };
        if self.reported_ends.get(&described.id).is_some() {
            return;
        }
        self.reported_ends.insert(described.id.clone(), ());
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
            reason: "InstanceEndedAtLaunch".into(),
            message: format!("EC2 ended instance {id} of EC2NodeClass {class}: {explained}"),
            dedupe_timeout: None,
        });
    }
}
