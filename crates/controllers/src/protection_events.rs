//! Events about do-not-disrupt annotations of pods.

use jiff::Timestamp;
use kerf_disruption::Protection;
use kerf_model::pod::Pod;
use kerf_runtime::{Event, EventType};

use crate::deadline::rfc3339;
use crate::pod_reference::pod_ref;

/// The event about a pod's do-not-disrupt annotation: that it is invalid, or until when it protects (DIS-053, DIS-055).
pub(crate) fn protection_event(pod: &Pod, now: Timestamp) -> Option<Event> {
    let (kind, reason, message, value) = match kerf_disruption::protection(pod, now) {
        Protection::None | Protection::Open => return None,
        Protection::Invalid(text) => {
            let why = format!("{text:?} is neither \"true\" nor a positive duration");
            let message = format!("Invalid karpenter.sh/do-not-disrupt annotation: {why}, ignoring annotation");
            (EventType::Warning, "InvalidDoNotDisruptAnnotation", message, Some(why))
        }
        Protection::Until(end) => {
            let end = rfc3339(end);
            let message = format!("The karpenter.sh/do-not-disrupt grace period will elapse at {end}");
            (EventType::Normal, "DoNotDisruptUntil", message, Some(end))
        }
        Protection::Elapsed => {
            let message = "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable".to_owned();
            (EventType::Normal, "DoNotDisruptGracePeriodElapsed", message, None)
        }
    };
    Some(Event {
        kind,
        dedupe: std::iter::once(pod.uid.to_string()).chain(value).collect(),
        object: pod_ref(&pod.namespace, &pod.name, &pod.uid),
        reason: reason.into(),
        message,
        dedupe_timeout: None,
    })
}
