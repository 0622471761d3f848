//! Reports of scheduling attempts: the PodScheduled condition and a counted event, worded like kube-scheduler's.

use super::nominations::nominated_node;
use super::scheduling_loop::NAME;
use crate::context::ActorContext;
use crate::object::{event, seconds, uid};
use crate::store::key_of;
use k8s_openapi::api::core::v1::{Event, Pod};
use kerf_check::filter::FilterReason;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The reasons of all nodes in kube-scheduler's format.
pub(super) fn message(nodes: usize, reasons: &[Vec<FilterReason>]) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for reason in reasons.iter().flatten() {
        *counts.entry(reason.to_string()).or_default() += 1;
    }
    format!(
        "0/{nodes} nodes are available: {}. preemption: {}",
        histogram(&counts),
        preemption(nodes, reasons)
    )
}

fn histogram(counts: &BTreeMap<String, usize>) -> String {
    let mut parts: Vec<String> = counts.iter().map(|(text, count)| format!("{count} {text}")).collect();
    parts.sort_unstable();
    parts.join(", ")
}

/// Whether preemption of pods could help.
fn preemption(nodes: usize, reasons: &[Vec<FilterReason>]) -> String {
    let helps = |reason: &FilterReason| {
        matches!(
            reason,
            FilterReason::Ports
                | FilterReason::TooManyPods
                | FilterReason::Insufficient(_)
                | FilterReason::VolumeCount
                | FilterReason::Spread
                | FilterReason::PodAntiAffinity
                | FilterReason::ExistingAntiAffinity
        )
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for of_node in reasons {
        let text = if of_node.iter().all(helps) {
            "No preemption victims found for incoming pod"
        } else {
            "Preemption is not helpful for scheduling"
        };
        *counts.entry(text.to_owned()).or_default() += 1;
    }
    format!("0/{nodes} nodes are available: {}.", histogram(&counts))
}

/// Events written so far, so that an equal report increases the count of the last event.
#[derive(Default)]
pub(super) struct Reports {
    /// By the pod's uid.
    last: BTreeMap<String, LastReport>,
}

/// The last event of a pod.
struct LastReport {
    message: String,
    event: String,
    count: i32,
    written: Instant,
}

/// Shortest time between two writes of the same report, close to the long-term rate of client-go's spam filter.
const REPEAT: Duration = Duration::from_secs(300);

/// Most pods whose last event is kept. A pod beyond them gets a new event for the same report.
const REMEMBERED: usize = 10_000;

impl Reports {
    /// Reports a pod that fits no node, and ends its nomination.
    pub(super) async fn unschedulable(
        &mut self,
        context: &ActorContext,
        pod: &Pod,
        message: &str,
    ) -> Result<(), kube::Error> {
        self.event(context, pod, "Warning", "FailedScheduling", message).await?;
        let known = pod
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default();
        let old = known
            .iter()
            .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
        let nominated = nominated_node(pod).is_some();
        if old.is_some_and(|old| old.message.as_deref() == Some(message)) && !nominated {
            return Ok(());
        }
        let since = old
            .and_then(|old| old.last_transition_time.clone())
            .unwrap_or_else(|| seconds(context.now()));
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": since,
        });
        let mut patch = json!({"status": {"conditions": [condition]}});
        if nominated {
            patch["status"]["nominatedNodeName"] = Value::Null;
        }
        let patched = context.patch_pod_status(&key_of(pod), patch).await;
        match patched {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other,
        }
    }

    /// Reports a pod that was bound.
    pub(super) async fn scheduled(&mut self, context: &ActorContext, pod: &Pod, node: &str) -> Result<(), kube::Error> {
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        let message = format!("Successfully assigned {name} to {node}");
        self.event(context, pod, "Normal", "Scheduled", &message).await?;
        self.last.remove(uid(pod));
        Ok(())
    }

    async fn event(
        &mut self,
        context: &ActorContext,
        pod: &Pod,
        kind: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), kube::Error> {
        let api: Api<Event> = Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
        if let Some(last) = self.last.get_mut(uid(pod)).filter(|last| last.message == message) {
            last.count += 1;
            if last.written.elapsed() < REPEAT {
                return Ok(());
            }
            last.written = Instant::now();
            let patch = json!({"count": last.count, "lastTimestamp": seconds(context.now())});
            match api
                .patch(&last.event, &PatchParams::default(), &Patch::Merge(patch))
                .await
            {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let event = event(pod, NAME, kind, reason, message, context.now());
        let name = event.name_any();
        match api.create(&PostParams::default(), &event).await {
            // The namespace is being deleted, or the same event was written before a restart.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => {}
            other => drop(other?),
        }
        if self.last.len() >= REMEMBERED {
            self.last.pop_first();
        }
        let last = LastReport {
            message: message.to_owned(),
            event: name,
            count: 1,
            written: Instant::now(),
        };
        self.last.insert(uid(pod).to_owned(), last);
        Ok(())
    }
}
