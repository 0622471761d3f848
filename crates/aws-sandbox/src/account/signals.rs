//! Changes of instances that no call of Kerf causes, such as interruptions, and the EventBridge events about them.

use super::Account;
use super::capacity::Purchase;
use super::instances::{Instance, InstanceState, MaintenanceEvent, no_instance};
use super::refusal::Answer;
use super::reservations::Reservation;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How long before its end a spot instance is warned.
pub const RECLAIM_WARNING: SignedDuration = SignedDuration::from_secs(120);
/// How long before the end of a capacity block EC2 begins to end its instances.
const BLOCK_ENDS_EARLY: SignedDuration = SignedDuration::from_mins(30);

/// Something that happens to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// EC2 takes a spot instance back: it is warned now, and ends two minutes later.
    SpotReclaim,
    /// A reclaim became more likely.
    Rebalance,
    /// The interruptible reservation takes its instance back: it is warned now, and ends two minutes later.
    ReservationReclaim,
    /// EC2 schedules the retirement of the instance.
    Retirement,
    /// The maintenance of the instance has ended. EC2 still lists it.
    MaintenanceOver,
    /// The check of the instance fails from now on.
    InstanceImpaired,
    /// The check of the system below it fails from now on.
    SystemImpaired,
    /// Its checks pass again.
    Recovered,
    /// A user stops it.
    Stopped,
    /// A user terminates it.
    Terminated,
}

impl Account {
    /// Lets something happen to an instance.
    pub fn signal(&mut self, id: &str, signal: Signal, now: Timestamp) -> Answer<()> {
        self.advance(now);
        let one = self.instances.get_mut(id).ok_or_else(|| no_instance(id))?;
        let is_gone = matches!(one.state(now), InstanceState::ShuttingDown | InstanceState::Terminated);
        if is_gone {
            return Ok(());
        }
        match signal {
            Signal::SpotReclaim => {
                one.ends = Some(now + RECLAIM_WARNING);
                let detail = json!({"instance-id": id, "instance-action": "terminate"});
                self.publish("aws.ec2", "EC2 Spot Instance Interruption Warning", &detail, now);
            }
            Signal::Rebalance => {
                let detail = json!({"instance-id": id});
                self.publish("aws.ec2", "EC2 Instance Rebalance Recommendation", &detail, now);
            }
            Signal::ReservationReclaim => {
                one.ends = Some(now + RECLAIM_WARNING);
                let detail = json!({"instance-id": id, "instance-action": "terminate"});
                let kind = "EC2 Capacity Reservation Instance Interruption Warning";
                self.publish("aws.ec2", kind, &detail, now);
            }
            Signal::Retirement => {
                one.health.events.push(MaintenanceEvent {
                    code: "instance-retirement".to_owned(),
                    description: "The instance is running on degraded hardware".to_owned(),
                    not_before: now + SignedDuration::from_hours(24 * 14),
                });
                let detail = json!({
                    "service": "EC2", "eventTypeCategory": "scheduledChange",
                    "eventTypeCode": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
                    "affectedEntities": [{"entityValue": id}],
                });
                self.publish("aws.health", "AWS Health Event", &detail, now);
            }
            Signal::MaintenanceOver => {
                for event in &mut one.health.events {
                    event.description = format!("[Completed] {}", event.description);
                }
            }
            Signal::InstanceImpaired => one.health.instance_impaired_since = Some(now),
            Signal::SystemImpaired => one.health.system_impaired_since = Some(now),
            Signal::Recovered => {
                one.health.instance_impaired_since = None;
                one.health.system_impaired_since = None;
            }
            Signal::Stopped => one.stopped = Some(now),
            Signal::Terminated => one.ends = Some(now),
        }
        self.advance(now);
        Ok(())
    }

    /// Sends an event to every queue.
    fn publish(&mut self, source: &str, kind: &str, detail: &Value, now: Timestamp) {
        let id = self.ids.next("event");
        let event = json!({
            "version": "0", "id": id, "source": source, "detail-type": kind, "account": self.id, "region": self.region,
            "time": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "resources": [], "detail": detail,
        });
        self.changes += 1;
        let text = event.to_string();
        for queue in self.queues.values_mut() {
            queue.send(&text, now);
        }
    }

    /// Applies all changes that are due: instances change their state, and events are sent. Every call begins with it.
    pub fn advance(&mut self, now: Timestamp) {
        self.end_blocks(now);
        self.end_reservations(now);
        let due: Vec<(String, InstanceState)> = self
            .instances
            .values()
            .filter(|one| one.announced != Some(one.state(now)))
            .map(|one| (one.id.clone(), one.state(now)))
            .collect();
        for (id, state) in due {
            let Some(one) = self.instances.get_mut(&id) else {
                continue;
            };
            let before = one.announced.replace(state);
            // One that ended between two calls began to end before.
            if state == InstanceState::Terminated && before != Some(InstanceState::ShuttingDown) {
                self.publish_state(&id, InstanceState::ShuttingDown, now);
            }
            self.publish_state(&id, state, now);
        }
        self.forget_instances(now);
    }

    /// Ends the instances of capacity blocks whose time is nearly over.
    fn end_blocks(&mut self, now: Timestamp) {
        let ends = |one: &Reservation| Some((one.id.clone(), one.ends? - BLOCK_ENDS_EARLY));
        let blocks = self.reservations.iter().filter(|one| one.kind == "capacity-block");
        let over: Vec<(String, Timestamp)> = blocks.filter_map(ends).filter(|(_, end)| *end <= now).collect();
        for (block, end) in over {
            let in_block = |one: &&mut Instance| one.reservation_id.as_ref() == Some(&block) && one.ends.is_none();
            for one in self.instances.values_mut().filter(in_block) {
                one.ends = Some(end);
            }
        }
    }

    /// Instances of other reservations run on as instances on demand once the reservation has ended.
    fn end_reservations(&mut self, now: Timestamp) {
        let is_over =
            |one: &&Reservation| one.kind != "capacity-block" && !one.interruptible && one.state(now) == "expired";
        let over: BTreeSet<String> = self
            .reservations
            .iter()
            .filter(is_over)
            .map(|one| one.id.clone())
            .collect();
        let held = |one: &&mut Instance| one.reservation_id.as_ref().is_some_and(|id| over.contains(id));
        for one in self.instances.values_mut().filter(held) {
            one.reservation_id = None;
            one.purchase = Purchase::OnDemand;
        }
    }

    fn publish_state(&mut self, id: &str, state: InstanceState, now: Timestamp) {
        let detail = json!({"instance-id": id, "state": state.as_str()});
        self.publish("aws.ec2", "EC2 Instance State-change Notification", &detail, now);
    }

    /// When something happens next without a call.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let instances = self.instances.values().filter_map(|one| one.next_change(now));
        let queues = self.queues.values().filter_map(super::queues::Queue::next_visible);
        instances.chain(queues.filter(|moment| *moment > now)).min()
    }
}
