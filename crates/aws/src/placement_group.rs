//! Placement groups: look-up, strategy, partitions and labels (section 18 of `docs/behaviour/aws.md`).

use crate::labels::{PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION};
use crate::selector::Filter;
use kerf_api::ec2_node_class::PlacementGroupSelector;
use std::collections::BTreeMap;

/// How EC2 places the instances of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Strategy {
    /// Close together.
    Cluster,
    /// In partitions that share no hardware.
    Partition,
    /// Each on hardware of its own.
    Spread,
}

impl Strategy {
    /// EC2's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Partition => "partition",
            Self::Spread => "spread",
        }
    }
}

/// A placement group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementGroup {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// How instances are placed.
    pub strategy: Strategy,
    /// Number of partitions; zero for other strategies.
    pub partitions: u32,
}

impl PlacementGroup {
    /// The partitions by number, as label values; none for other strategies.
    pub fn partition_values(&self) -> impl Iterator<Item = String> + use<> {
        let count = match self.strategy {
            Strategy::Partition => self.partitions,
            Strategy::Cluster | Strategy::Spread => 0,
        };
        (1..=count).map(|number| number.to_string())
    }

    /// The labels of a claim launched into the group. A claim of a partition group that asked for no partition has an empty value, until
    /// its instance says where it is (AWS-281).
    pub fn claim_labels(&self, targeted: Option<u32>) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([(PLACEMENT_GROUP_ID.to_owned(), self.id.clone())]);
        if self.strategy == Strategy::Partition {
            let value = targeted.map(|number| number.to_string()).unwrap_or_default();
            labels.insert(PLACEMENT_GROUP_PARTITION.to_owned(), value);
        }
        labels
    }

    /// The partition to launch into when a claim asks for one of several: the one with the smallest number (AWS-280).
    pub fn targeted_partition<'a>(&self, allowed: impl IntoIterator<Item = &'a str>) -> Option<u32> {
        let numbers = allowed.into_iter().filter_map(|text| text.parse::<u32>().ok());
        let existing = numbers.filter(|number| (1..=self.partitions).contains(number));
        existing.min().filter(|_| self.strategy == Strategy::Partition)
    }
}

/// The call of DescribePlacementGroups that finds the group of a selector (AWS-279).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementGroupQuery {
    /// Ids.
    pub ids: Vec<String>,
    /// Names; a name that looks like an id is still a name.
    pub names: Vec<String>,
    /// Filters.
    pub filters: Vec<Filter>,
}

/// The query for a selector.
pub fn query(selector: &PlacementGroupSelector) -> PlacementGroupQuery {
    PlacementGroupQuery {
        ids: selector.id.iter().cloned().collect(),
        names: selector.name.iter().cloned().collect(),
        filters: vec![Filter::new("state", ["available"])],
    }
}

/// What a node must wait for before it may register (AWS-282).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionHook {
    /// Nothing: the labels are complete.
    Ready,
    /// The instance's partition is not known yet.
    Wait,
    /// The instance must be described.
    Describe,
    /// The partition to write into the label.
    Label(String),
}

/// Decides about a claim's partition label. `has_instance` says whether the claim has a provider id; `described` is the partition the
/// instance has, with `None` inside for one that does not say, if it was described.
pub fn partition_hook(
    labels: &BTreeMap<String, String>,
    has_instance: bool,
    described: Option<Option<u32>>,
) -> PartitionHook {
    let waits =
        labels.contains_key(PLACEMENT_GROUP_ID) && labels.get(PLACEMENT_GROUP_PARTITION).is_some_and(String::is_empty);
    match (waits, has_instance, described) {
        (false, _, _) => PartitionHook::Ready,
        (true, false, _) | (true, true, Some(None)) => PartitionHook::Wait,
        (true, true, None) => PartitionHook::Describe,
        (true, true, Some(Some(number))) => PartitionHook::Label(number.to_string()),
    }
}
