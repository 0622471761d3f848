//! Offerings that EC2 had no capacity for a short time ago (AWS-228 to AWS-232).

use crate::intervals::UNAVAILABLE_OFFERINGS;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

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

/// What had no capacity, each until a time. Nothing here removes expired entries but [`sweep`](Self::sweep): reading takes the time.
#[derive(Clone, Debug, Default)]
pub struct UnavailableOfferings {
    offerings: BTreeMap<UnavailableKey, Timestamp>,
    capacity_types: BTreeMap<CapacityType, Timestamp>,
    subnets: BTreeMap<String, Timestamp>,
    type_changes: BTreeMap<String, u64>,
    global_changes: u64,
}

impl UnavailableOfferings {
    fn until(now: Timestamp) -> Timestamp {
        let span = SignedDuration::try_from(UNAVAILABLE_OFFERINGS).unwrap_or(SignedDuration::ZERO);
        now.saturating_add(span).unwrap_or(now)
    }

    /// Marks one offering; marking it again extends the time (AWS-231).
    pub fn mark(&mut self, key: UnavailableKey, now: Timestamp) {
        *self.type_changes.entry(key.instance_type.clone()).or_default() += 1;
        self.offerings.insert(key, Self::until(now));
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

    /// Removes what is over. Expiry changes sequence numbers as marking does, so that offerings are built anew.
    pub fn sweep(&mut self, now: Timestamp) {
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
