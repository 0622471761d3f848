//! Signals about instances: messages of the interruption queue, and instance status that is polled (section 21 of `docs/behaviour/aws.md`).

use super::aws_cloud::AwsCloud;
use crate::error_advice::explain;
use crate::errors::ApiError;
use crate::interruption::{StatusCategory, StatusDetail, UnhealthyCounts, finding, parse, status_queries};
use crate::intervals::{DENIED_POLL_PERIOD, MINUTE_PERIOD};
use crate::labels::RESERVATION_ID;
use crate::offering::{CapacityType, UnavailableKey};
use crate::provider_id::instance_id;
use crate::services::QueueMessage;
use jiff::Timestamp;
use kerf_api::{NodeClaim, labels};
use kerf_cloud::{CloudError, Interruption, InterruptionKind};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Receives signals.
pub(super) struct Signals {
    cloud: Arc<AwsCloud>,
    state: Mutex<SignalState>,
}

#[derive(Default)]
struct SignalState {
    queue_url: Option<String>,
    next_poll: Option<Instant>,
    /// Whether the last poll was refused for want of a permission (AWS-322).
    is_poll_denied: bool,
    unhealthy: UnhealthyCounts,
}

/// Provider ids by instance id.
type ProviderIds = BTreeMap<String, String>;

impl Signals {
    /// Signals about the instances of a cluster.
    pub(super) fn new(cloud: Arc<AwsCloud>) -> Self {
        Self {
            cloud,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SignalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for signals. The queue is read all the time, status is polled every minute (AWS-439).
    pub(super) async fn receive(&self) -> Result<Vec<Interruption>, CloudError> {
        loop {
            let now = Instant::now();
            let due = *self.state().next_poll.get_or_insert(now + MINUTE_PERIOD);
            if due <= now {
                self.state().next_poll = Some(now + MINUTE_PERIOD);
                let polled = self.poll().await?;
                if !polled.is_empty() {
                    return Ok(polled);
                }
            } else if self.cloud.options.interruption_queue.is_empty() {
                tokio::time::sleep_until(due).await;
            } else {
                // A receive waits for 20 s, so that a poll is late by no more than that.
                let received = self.read_queue().await?;
                if !received.is_empty() {
                    return Ok(received);
                }
            }
        }
    }

    /// The URL of the queue; asked for until there is an answer (AWS-301).
    async fn queue_url(&self) -> Result<String, ApiError> {
        if let Some(known) = self.state().queue_url.clone() {
            return Ok(known);
        }
        let url = self
            .cloud
            .services
            .sqs
            .queue_url(&self.cloud.options.interruption_queue)
            .await?;
        self.state().queue_url = Some(url.clone());
        Ok(url)
    }

    async fn read_queue(&self) -> Result<Vec<Interruption>, CloudError> {
        let failed =
            |error: ApiError| CloudError::other(format!("receiving interruption messages, {}", explain(&error)));
        let url = self.queue_url().await.map_err(failed)?;
        let messages = self.cloud.services.sqs.receive(&url).await.map_err(failed)?;
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let owned = self.owned().await?;
        let (mut signals, mut needless) = (Vec::new(), Vec::new());
        for message in messages {
            match self.signal(&message, &owned) {
                Some(signal) => signals.push(signal),
                // It concerns no claim of this cluster, or can never be read.
                None => needless.push(message.receipt),
            }
        }
        let deletions = needless.iter().map(|receipt| self.delete(receipt));
        for deleted in futures::future::join_all(deletions).await {
            if let Err(error) = deleted {
                if signals.is_empty() {
                    return Err(failed(error));
                }
                // The other messages do not wait for their next delivery because of it.
                tracing::error!(error = explain(&error), "failed deleting an interruption message");
            }
        }
        Ok(signals)
    }

    /// The signal of a message; `None` for one that is to be deleted.
    fn signal(&self, message: &QueueMessage, owned: &ProviderIds) -> Option<Interruption> {
        let parsed = match parse(&message.body) {
            Ok(parsed) => parsed,
            Err(error) => {
                tracing::error!(error = %error, "failed parsing an interruption message");
                return None;
            }
        };
        self.cloud.metrics.received_messages.inc(&[parsed.label()]);
        let provider_ids: Vec<String> = parsed
            .instance_ids
            .iter()
            .filter_map(|id| owned.get(id).cloned())
            .collect();
        match parsed.kind {
            Some(kind) if !provider_ids.is_empty() => Some(Interruption {
                kind,
                provider_ids,
                sent: parsed.time,
                receipt: message.receipt.clone(),
            }),
            _ => {
                self.observe_latency(parsed.time);
                None
            }
        }
    }

    async fn delete(&self, receipt: &str) -> Result<(), ApiError> {
        let url = self.queue_url().await?;
        self.cloud.services.sqs.delete(&url, receipt).await?;
        self.cloud.metrics.deleted_messages.inc(&[]);
        Ok(())
    }

    fn observe_latency(&self, sent: Option<Timestamp>) {
        if let Some(sent) = sent {
            let age = self.cloud.clock.now().duration_since(sent);
            self.cloud.metrics.message_duration.observe(&[], age.as_secs_f64());
        }
    }

    /// Deletes the message of a signal that was acted upon. A polled signal has none.
    pub(super) async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        if handled.receipt.is_empty() {
            return Ok(());
        }
        let deleted = self.delete(&handled.receipt).await;
        deleted.map_err(|error| CloudError::other(format!("deleting an interruption message, {}", explain(&error))))?;
        self.observe_latency(handled.sent);
        Ok(())
    }

    /// The instances of claims (AWS-315, AWS-339).
    async fn owned(&self) -> Result<ProviderIds, CloudError> {
        let claims = self.cloud.managed_claims().await;
        let claims = claims.map_err(|error| super::class_reader::kube_error("listing NodeClaims", &error))?;
        let place = |claim: NodeClaim| {
            let provider_id = claim.status?.provider_id?;
            let id = instance_id(&provider_id).ok()?.to_owned();
            Some((id, provider_id))
        };
        Ok(claims.into_iter().filter_map(place).collect())
    }

    /// Puts off the next poll after one that was refused, and logs the first refusal.
    fn note_denied(&self, error: &ApiError) {
        let mut state = self.state();
        state.next_poll = Some(Instant::now() + DENIED_POLL_PERIOD);
        if !std::mem::replace(&mut state.is_poll_denied, true) {
            tracing::error!(
                error = explain(error),
                "instance status is polled only every 15 minutes: ec2:DescribeInstanceStatus is denied"
            );
        }
    }

    /// Asks EC2 which instances are impaired or have maintenance events (AWS-320 to AWS-323).
    async fn poll(&self) -> Result<Vec<Interruption>, CloudError> {
        let mut details: BTreeMap<String, Vec<StatusDetail>> = BTreeMap::new();
        for query in status_queries() {
            match self.cloud.services.ec2.instance_status(&query).await {
                Ok(found) => {
                    for status in found {
                        details.entry(status.instance_id).or_insert(status.details);
                    }
                }
                Err(error) if error.is_unauthorized() => {
                    self.note_denied(&error);
                    return Ok(Vec::new());
                }
                Err(error) => {
                    return Err(CloudError::other(format!(
                        "describing instance status, {}",
                        explain(&error)
                    )));
                }
            }
        }
        if std::mem::take(&mut self.state().is_poll_denied) {
            tracing::info!("instance status is polled again: ec2:DescribeInstanceStatus is allowed");
        }
        let now = self.cloud.clock.now();
        let found: Vec<_> = details
            .iter()
            .filter_map(|(id, details)| Some((id, finding(details, now)?)))
            .collect();
        if found.is_empty() {
            self.state().unhealthy.observe([]);
            return Ok(Vec::new());
        }
        let owned = self.owned().await?;
        let ours: Vec<_> = found.iter().filter(|(id, _)| owned.contains_key(*id)).collect();
        let pairs = ours.iter().flat_map(|(id, finding)| {
            let each = finding.categories.iter();
            each.map(move |category| (id.as_str(), *category))
        });
        let new = self.state().unhealthy.observe(pairs.collect::<Vec<_>>());
        for label in new.into_iter().filter_map(StatusCategory::label) {
            self.cloud.metrics.unhealthy.inc(&[label]);
        }
        if self.cloud.options.instance_status_dry_run {
            return Ok(Vec::new());
        }
        let signals = ours.iter().map(|(id, finding)| Interruption {
            kind: finding.kind,
            provider_ids: owned.get(*id).cloned().into_iter().collect(),
            sent: None,
            receipt: String::new(),
        });
        Ok(signals.collect())
    }

    /// Avoids the offering of an instance that EC2 takes back (AWS-316).
    pub(super) fn note(&self, claim: &NodeClaim, kind: InterruptionKind, now: Timestamp) {
        let label = |key: &str| {
            let value = claim.metadata.labels.as_ref()?.get(key)?;
            Some(value.clone()).filter(|value| !value.is_empty())
        };
        match kind {
            InterruptionKind::SpotReclaim => {
                if let (Some(zone), Some(instance_type)) = (label(labels::ZONE), label(labels::INSTANCE_TYPE)) {
                    let key = UnavailableKey {
                        instance_type,
                        zone,
                        capacity_type: CapacityType::Spot,
                        group: None,
                    };
                    self.cloud.market.unavailable().mark(key, now);
                }
            }
            InterruptionKind::ReservationReclaim => {
                if let Some(id) = label(RESERVATION_ID) {
                    self.cloud.reservations.counts().exhausted(&id);
                }
            }
            InterruptionKind::RebalanceRecommendation
            | InterruptionKind::ScheduledChange
            | InterruptionKind::InstanceStopped
            | InterruptionKind::InstanceTerminated
            | InterruptionKind::InstanceUnhealthy
            | InterruptionKind::SystemUnhealthy
            | InterruptionKind::StatusEvent => {}
        }
    }
}
