//! Offerings that EC2 had no capacity for a short time ago (AWS-228 to AWS-232).

use crate::intervals::{UNAVAILABLE_OFFERINGS, UNAVAILABLE_OFFERINGS_MAX};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// How an instance is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CapacityType {
    /// At list price.
    OnDemand,
    /// Spare capacity.
    Spot,
    /// From a capacity reservation.
    Reserved,
}

impl CapacityType {
    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
        }
    }

    /// From a label value.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::OnDemand, Self::Spot, Self::Reserved]
            .into_iter()
            .find(|one| one.as_str() == text)
    }
}

/// The placement group, and in it the partition, that a failed launch was for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupScope {
    /// Id of the group.
    pub id: String,
    /// Partition, for launches into one.
    pub partition: Option<u32>,
}

/// What had no capacity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnavailableKey {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// How it was bought.
    pub capacity_type: CapacityType,
    /// The placement group, if the launch was into one.
    pub group: Option<GroupScope>,
}

/// How long an offering was last marked because a launch found no capacity.
#[derive(Clone, Copy, Debug)]
struct BackOff {
    length: Duration,
    until: Timestamp,
}

impl BackOff {
    /// When it is forgotten: an offering that launches do not find empty for as long as it was marked starts anew.
    fn forgotten(self) -> Timestamp {
        after(self.until, self.length)
    }
}

/// A time so much later.
fn after(time: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::ZERO);
    time.saturating_add(span).unwrap_or(time)
}

/// What had no capacity, each until a time. Nothing here removes expired entries but [`sweep`](Self::sweep): reading takes the time.
#[derive(Clone, Debug, Default)]
pub struct UnavailableOfferings {
    offerings: BTreeMap<UnavailableKey, Timestamp>,
    back_offs: BTreeMap<UnavailableKey, BackOff>,
    capacity_types: BTreeMap<CapacityType, Timestamp>,
    subnets: BTreeMap<String, Timestamp>,
    type_changes: BTreeMap<String, u64>,
    global_changes: u64,
}

impl UnavailableOfferings {
    fn until(now: Timestamp) -> Timestamp {
        after(now, UNAVAILABLE_OFFERINGS)
    }

    /// Marks one offering; marking it again extends the time (AWS-231).
    pub fn mark(&mut self, key: UnavailableKey, now: Timestamp) {
        self.mark_until(key, Self::until(now));
    }

    fn mark_until(&mut self, key: UnavailableKey, until: Timestamp) {
        *self.type_changes.entry(key.instance_type.clone()).or_default() += 1;
        let marked = self.offerings.entry(key).or_insert(until);
        *marked = (*marked).max(until);
    }

    /// Marks an offering that a launch found without capacity. A launch that finds it so again soon after the mark has expired doubles the
    /// time. Launches that were running when it was marked only extend it.
    pub fn mark_exhausted(&mut self, key: UnavailableKey, now: Timestamp) {
        let length = match self.back_offs.get(&key) {
            Some(known) if known.until > now => known.length,
            Some(known) if known.forgotten() > now => (known.length * 2).min(UNAVAILABLE_OFFERINGS_MAX),
            Some(_) | None => UNAVAILABLE_OFFERINGS,
        };
        let until = after(now, length);
        self.back_offs.insert(key.clone(), BackOff { length, until });
        self.mark_until(key, until);
    }

    /// Takes note of a launch: the offering has capacity again, and its next mark is as short as the first. Marks stay: other launches of
    /// the same moment may have found nothing.
    pub fn launched(&mut self, instance_type: &str, zone: &str, capacity_type: CapacityType) {
        self.back_offs.retain(|key, _| {
            key.instance_type != instance_type || key.zone != zone || key.capacity_type != capacity_type
        });
    }

    /// Marks all offerings of a capacity type.
    pub fn mark_capacity_type(&mut self, capacity_type: CapacityType, now: Timestamp) {
        self.global_changes += 1;
        self.capacity_types.insert(capacity_type, Self::until(now));
    }

    /// Marks a subnet, which has no free addresses.
    pub fn mark_subnet(&mut self, subnet: &str, now: Timestamp) {
        self.global_changes += 1;
        self.subnets.insert(subnet.to_owned(), Self::until(now));
    }

    /// Removes expired marks. Expiry changes sequence numbers as marking does, so that offerings are built anew.
    pub fn sweep(&mut self, now: Timestamp) {
        self.back_offs.retain(|_, known| known.forgotten() > now);
        let changes = &mut self.type_changes;
        self.offerings.retain(|key, until| {
            let stays = *until > now;
            if !stays {
                *changes.entry(key.instance_type.clone()).or_default() += 1;
            }
            stays
        });
        let before = self.capacity_types.len() + self.subnets.len();
        self.capacity_types.retain(|_, until| *until > now);
        self.subnets.retain(|_, until| *until > now);
        if self.capacity_types.len() + self.subnets.len() < before {
            self.global_changes += 1;
        }
    }

    /// Whether an offering is marked: itself, its capacity type, or all subnets of its zone. A zone without subnets is not unavailable for
    /// that reason. Marks without a placement group hold for every group; those of a group hold for it alone, and those of a partition for
    /// the partition alone (AWS-229, AWS-230, AWS-482).
    pub fn is_unavailable(
        &self,
        instance_type: &str,
        zone: &str,
        capacity_type: CapacityType,
        subnets: &[String],
        group: Option<&GroupScope>,
        now: Timestamp,
    ) -> bool {
        let holds = |until: Option<&Timestamp>| until.is_some_and(|until| *until > now);
        let marked = |group: Option<GroupScope>| {
            let key = UnavailableKey {
                instance_type: instance_type.to_owned(),
                zone: zone.to_owned(),
                capacity_type,
                group,
            };
            holds(self.offerings.get(&key))
        };
        let whole_group = || {
            group.is_some_and(|group| {
                marked(Some(GroupScope {
                    id: group.id.clone(),
                    partition: None,
                }))
            })
        };
        let own = || group.is_some_and(|group| group.partition.is_some() && marked(Some(group.clone())));
        let no_addresses = !subnets.is_empty() && subnets.iter().all(|subnet| holds(self.subnets.get(subnet)));
        holds(self.capacity_types.get(&capacity_type)) || no_addresses || marked(None) || whole_group() || own()
    }

    /// A number that changes whenever the availability of any offering may have changed.
    pub fn revision(&self) -> u64 {
        self.global_changes + self.type_changes.values().sum::<u64>()
    }

    /// A number that changes whenever the availability of a type's offerings may have changed.
    pub fn sequence(&self, instance_type: &str) -> u64 {
        self.global_changes + self.type_changes.get(instance_type).copied().unwrap_or(0)
    }
}
