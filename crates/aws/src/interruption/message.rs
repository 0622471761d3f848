//! Messages of the interruption queue: EventBridge events as JSON (AWS-303 to AWS-311).

use jiff::Timestamp;
use kerf_cloud::InterruptionKind;
use serde::Deserialize;

/// A type of events that an EventBridge rule sends to the queue (AWS-420).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Name, as part of the rule's.
    pub name: &'static str,
    /// Source.
    pub source: &'static str,
    /// Detail type.
    pub detail_type: &'static str,
}

const fn of_ec2(name: &'static str, detail_type: &'static str) -> EventType {
    EventType {
        name,
        source: EC2,
        detail_type,
    }
}

const EC2: &str = "aws.ec2";
const HEALTH: EventType = EventType {
    name: "ScheduledChange",
    source: "aws.health",
    detail_type: "AWS Health Event",
};
const SPOT: EventType = of_ec2("SpotInterruption", "EC2 Spot Instance Interruption Warning");
const REBALANCE: EventType = of_ec2("Rebalance", "EC2 Instance Rebalance Recommendation");
const STATE_CHANGE: EventType = of_ec2("InstanceStateChange", "EC2 Instance State-change Notification");
const RESERVATION: EventType = of_ec2(
    "CapacityReservationInterruption",
    "EC2 Capacity Reservation Instance Interruption Warning",
);

/// All types of events that mean something to the provider.
pub const EVENT_TYPES: [EventType; 5] = [HEALTH, SPOT, REBALANCE, STATE_CHANGE, RESERVATION];

/// What a message of the queue says. A message about nothing that concerns nodes has no kind: it is deleted like any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What happens to the instances; `None` for a message without meaning here.
    pub kind: Option<InterruptionKind>,
    /// Ids of the instances.
    pub instance_ids: Vec<String>,
    /// When the event happened, where the message says so.
    pub time: Option<Timestamp>,
}

impl Message {
    /// The label of the message in metrics (AWS-370).
    pub fn label(&self) -> &'static str {
        self.kind.map_or("no_op", InterruptionKind::label)
    }
}

/// A message that is no event. It is deleted, since it will not become one (AWS-501).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is no EventBridge event: {0}")]
pub struct MessageError(String);

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    version: String,
    #[serde(default)]
    source: String,
    #[serde(default, rename = "detail-type")]
    detail_type: String,
    #[serde(default)]
    time: Option<String>,
    #[serde(default)]
    detail: serde_json::Value,
}

#[derive(Deserialize)]
struct InstanceDetail {
    #[serde(default, rename = "instance-id")]
    instance_id: String,
    #[serde(default)]
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HealthDetail {
    #[serde(default)]
    service: String,
    #[serde(default)]
    event_type_category: String,
    #[serde(default)]
    affected_entities: Vec<AffectedEntity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffectedEntity {
    #[serde(default)]
    entity_value: String,
}

/// Reads the body of a message.
pub fn parse(body: &str) -> Result<Message, MessageError> {
    let nothing = |time| Message {
        kind: None,
        instance_ids: Vec::new(),
        time,
    };
    if body.is_empty() {
        return Ok(nothing(None));
    }
    let wrong = |error: serde_json::Error| MessageError(error.to_string());
    // By way of a map: a list would be read as an event without fields.
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(body).map_err(wrong)?;
    let event: Event = serde_json::from_value(fields.into()).map_err(wrong)?;
    let time = event.time.as_deref().and_then(|time| time.parse().ok());
    if event.version != "0" {
        return Ok(nothing(time));
    }
    let place = (event.source.as_str(), event.detail_type.as_str());
    let Some(event_type) = EVENT_TYPES.iter().find(|one| place == (one.source, one.detail_type)) else {
        return Ok(nothing(time));
    };
    if *event_type == HEALTH {
        let detail: HealthDetail = serde_json::from_value(event.detail).map_err(wrong)?;
        if detail.service != "EC2" || detail.event_type_category != "scheduledChange" {
            return Ok(nothing(time));
        }
        let instances = detail.affected_entities.into_iter().map(|entity| entity.entity_value);
        return Ok(Message {
            kind: Some(InterruptionKind::ScheduledChange),
            instance_ids: instances.collect(),
            time,
        });
    }
    let detail = || serde_json::from_value::<InstanceDetail>(event.detail.clone()).map_err(wrong);
    let kind = match *event_type {
        SPOT => InterruptionKind::SpotReclaim,
        REBALANCE => InterruptionKind::RebalanceRecommendation,
        RESERVATION => InterruptionKind::ReservationReclaim,
        STATE_CHANGE => match detail()?.state.to_lowercase().as_str() {
            "stopping" | "stopped" => InterruptionKind::InstanceStopped,
            "shutting-down" | "terminated" => InterruptionKind::InstanceTerminated,
            _ => return Ok(nothing(time)),
        },
        _ => return Ok(nothing(time)),
    };
    Ok(Message {
        kind: Some(kind),
        instance_ids: vec![detail()?.instance_id],
        time,
    })
}
