//! The records of shadow mode: one JSON object a line.

use jiff::Timestamp;
use kerf_model::instance_type::Offering;
use kerf_model::intern::{Interner, sym};
use kerf_model::node::Node;
use kerf_model::plan::Launch;
use kerf_model::price::Price;
use serde::{Deserialize, Serialize};

/// A decision of Kerf, or what the other autoscaler did. Prices are in dollars per hour.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ShadowRecord {
    /// The process began to observe.
    Start {
        /// When.
        time: Timestamp,
        /// Kerf's version.
        version: String,
    },
    /// A scale-up has ended: the machines of both for the same pods, from the same cluster.
    ScaleUp {
        /// When it ended.
        time: Timestamp,
        /// When the first pod began to wait.
        began: Timestamp,
        /// How many pods the plan is about.
        pods: usize,
        /// What Kerf would have launched.
        kerf: Vec<Machine>,
        /// How many of the pods Kerf found no place for.
        kerf_left_over: usize,
        /// What the other autoscaler launched.
        other: Vec<Machine>,
        /// How many pods waited at the end.
        other_left_over: usize,
        /// Whether machines were deleted meanwhile, so that some of the other's may be replacements.
        disturbed: bool,
    },
    /// Kerf would have disrupted these nodes.
    Command {
        /// When.
        time: Timestamp,
        /// A number that no other command of the process has.
        id: u64,
        /// `Empty`, `Underutilized` or `Drifted`.
        reason: String,
        /// The nodes that would go.
        nodes: Vec<Machine>,
        /// What would replace them.
        replacements: Vec<Machine>,
        /// The savings in dollars per hour.
        savings_per_hour: f64,
    },
    /// A command is no longer right: the other autoscaler carried it out, or the cluster changed.
    CommandEnded {
        /// When.
        time: Timestamp,
        /// The command.
        id: u64,
    },
    /// The other autoscaler, or a user, deleted a NodeClaim.
    Ended {
        /// When this was seen.
        time: Timestamp,
        /// The reason of its condition `DisruptionReason`; none for NodeClaims that were deleted for another reason.
        reason: Option<String>,
        /// The machine.
        machine: Machine,
    },
    /// What the cluster costs from now on.
    Cost {
        /// Since when.
        time: Timestamp,
        /// The nodes with NodeClaims.
        nodes: usize,
        /// Their price, as far as it is known.
        price_per_hour: f64,
    },
}

impl ShadowRecord {
    /// When it was written.
    pub const fn time(&self) -> Timestamp {
        match self {
            Self::Start { time, .. }
            | Self::ScaleUp { time, .. }
            | Self::Command { time, .. }
            | Self::CommandEnded { time, .. }
            | Self::Ended { time, .. }
            | Self::Cost { time, .. } => *time,
        }
    }
}

/// A machine, running or planned.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The NodeClaim; none for planned machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The NodePool.
    pub pool: String,
    /// The instance type; for planned machines the cheapest of those the NodeClaim would allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// The zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `spot`, `on-demand` or `reserved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// The price per hour, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
}

impl Machine {
    /// A machine of the cluster.
    pub(super) fn of_node(node: &Node, interner: &Interner) -> Self {
        let label = |key| node.label(key).map(|value| interner.text(value).to_owned());
        Self {
            claim: node.claim_name.as_deref().map(str::to_owned),
            pool: label(sym::NODEPOOL).unwrap_or_default(),
            instance_type: label(sym::INSTANCE_TYPE),
            zone: label(sym::ZONE),
            capacity_type: label(sym::CAPACITY_TYPE),
            price_per_hour: node.price.map(Price::per_hour),
        }
    }

    /// A machine of a plan.
    pub(super) fn of_launch(launch: &Launch, interner: &Interner) -> Self {
        let text = |value| interner.text(value).to_owned();
        let cheapest = launch.cheapest.and_then(|(of_type, offering)| {
            let of_type = launch.catalogue.types.get(of_type as usize)?;
            Some((of_type, of_type.offerings.get(offering as usize)?))
        });
        Self {
            claim: None,
            pool: launch.pool.to_string(),
            instance_type: cheapest.map(|(of_type, _)| text(of_type.name)),
            zone: cheapest.and_then(|(_, offering)| Offering::zone(offering)).map(text),
            capacity_type: cheapest.and_then(|(_, offering)| offering.capacity_type()).map(text),
            price_per_hour: launch.price().map(Price::per_hour),
        }
    }
}
