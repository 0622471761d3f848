//! Why a candidate stays; its `Display` is the text of the event (DIS-116 to DIS-119, DIS-129 to DIS-146, DIS-241).

use crate::balance::Score;
use crate::simulation::SimulationError;
use crate::text::capitalized;
use jiff::Timestamp;
use kerf_model::price::Price;
use std::sync::Arc;

/// A candidate that stays.
#[derive(Clone, PartialEq, Debug)]
pub struct UnconsolidatableNode {
    /// Its index in the snapshot.
    pub index: usize,
    /// The reason.
    pub why: Unconsolidatable,
}

/// Why a method leaves a candidate alone.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Unconsolidatable {
    /// The pool holds a fixed number of nodes (DIS-115).
    #[error("NodePool \"{0}\" is static")]
    Static(Arc<str>),
    /// The label names an instance type its pool does not have (DIS-116).
    #[error("Instance Type \"{0}\" not found")]
    TypeUnknown(Arc<str>),
    /// A label without which the node has no price (DIS-116, DIS-117).
    #[error("Node does not have label \"{0}\"")]
    NoLabel(&'static str),
    /// The pool's `consolidateAfter` is `Never` (DIS-117, DIS-150).
    #[error("NodePool \"{0}\" has consolidation disabled")]
    ConsolidationDisabled(Arc<str>),
    /// The room of CapacityBuffers was planned on it, so it is not deleted as an empty node (SCH-394).
    #[error("Node \"{0}\" has buffer pods")]
    HasBufferPods(Arc<str>),
    /// It is empty, so the emptiness method deletes it (DIS-118).
    #[error("node is empty")]
    LeftToEmptiness,
    /// The pool's policy is `WhenEmpty` (DIS-118).
    #[error("NodePool \"{0}\" has consolidation policy WhenEmpty, but node is not empty")]
    NotEmpty(Arc<str>),
    /// The NodeClaim is not consolidatable yet; the time at which it will be, if known (DIS-119).
    #[error("node is within its NodePool's consolidateAfter")]
    Unsettled(Option<Timestamp>),
    /// Its command would save less than moving its pods must save (deviation at DIS-134).
    #[error("removing it saves ${savings} per hour; moving its pods must save ${required}")]
    SavesTooLittle {
        /// What the command saves per hour.
        savings: Price,
        /// What it must save per hour.
        required: Price,
    },
    /// Pods like its own were moved onto such nodes before and needed a new node again, so the next such move must save more (deviation at
    /// DIS-119).
    #[error(
        "pods like its own were moved before and needed a new node again; until {until} moving them again must save more than ${required} per hour, not ${savings}"
    )]
    MoveUndone {
        /// What the command saves per hour.
        savings: Price,
        /// What it must save more than, per hour.
        required: Price,
        /// When the higher requirement ends.
        until: Timestamp,
    },
    /// The pool's budgets allow no more (DIS-158, DIS-178).
    #[error("NodePool \"{0}\" has no disruption budget left")]
    Budget(Arc<str>),
    /// A budget of the pool is invalid, so no node of the pool may be disrupted (DIS-079).
    #[error(
        "NodePool \"{pool}\" has an invalid disruption budget, so none of its nodes is disrupted: {field}: {fault}"
    )]
    InvalidBudget {
        /// The pool.
        pool: Arc<str>,
        /// Where the budget is in the NodePool.
        field: String,
        /// What is wrong with it.
        fault: Arc<str>,
    },
    /// Its command (DIS-193), or even its deletion without a replacement (DIS-205), saves too little for what it disrupts.
    #[error("{0}")]
    Unbalanced(Box<Score>),
    /// No simulation is possible (DIS-094, DIS-095).
    #[error("{0}")]
    NoSimulation(#[from] SimulationError),
    /// Some of its pods would have no node; the message of DIS-103.
    #[error("{0}")]
    Unplaceable(String),
    /// Its pods need more than one new node (DIS-131).
    #[error("can't remove without creating {0} candidates")]
    NeedsSeveral(usize),
    /// No cheaper machine can replace it (DIS-138).
    #[error("can't replace with a cheaper node")]
    NotCheaper,
    /// The cheaper types are too few for the pool's `minValues`; the keys as text (DIS-137).
    #[error("filtering by price: minValues requirement is not met for label(s) (label(s)=[{0}])")]
    MinValues(String),
    /// The feature gate is off (DIS-143).
    #[error("SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")]
    SpotToSpotDisabled,
    /// Too few cheaper instance types to replace a spot node by a spot node (DIS-146).
    #[error(
        "SpotToSpotConsolidation requires {required} cheaper instance type options than the current candidate to consolidate, got {found}"
    )]
    SpotToSpotChoice {
        /// How many types are required.
        required: usize,
        /// How many there are.
        found: usize,
    },
    /// Its last replacement found no capacity or did not become ready (deviation at DIS-247).
    #[error("its replacement failed; drift tries it again after {0}")]
    ReplacementFailed(Timestamp),
    /// The plan checker rejected the plan.
    #[error("the plan was refused: {0}")]
    Refused(String),
}

impl Unconsolidatable {
    /// The event's message.
    pub fn message(&self) -> String {
        capitalized(self.to_string())
    }

    /// Whether Node and NodeClaim get an event (DIS-115, DIS-118, DIS-119, DIS-213).
    pub const fn is_event(&self) -> bool {
        match self {
            Self::Static(_)
            | Self::LeftToEmptiness
            | Self::Unsettled(_)
            | Self::Budget(_)
            | Self::InvalidBudget { .. }
            | Self::Unbalanced(_)
            | Self::NoSimulation(_)
            | Self::ReplacementFailed(_)
            | Self::Refused(_) => false,
            Self::TypeUnknown(_)
            | Self::NoLabel(_)
            | Self::ConsolidationDisabled(_)
            | Self::HasBufferPods(_)
            | Self::NotEmpty(_)
            | Self::SavesTooLittle { .. }
            | Self::MoveUndone { .. }
            | Self::Unplaceable(_)
            | Self::NeedsSeveral(_)
            | Self::NotCheaper
            | Self::MinValues(_)
            | Self::SpotToSpotDisabled
            | Self::SpotToSpotChoice { .. } => true,
        }
    }

    /// A stable name for reports and scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Static(_) => "Static",
            Self::TypeUnknown(_) => "TypeUnknown",
            Self::NoLabel(_) => "NoLabel",
            Self::ConsolidationDisabled(_) => "ConsolidationDisabled",
            Self::HasBufferPods(_) => "HasBufferPods",
            Self::LeftToEmptiness => "LeftToEmptiness",
            Self::NotEmpty(_) => "NotEmpty",
            Self::Unsettled(_) => "Unsettled",
            Self::SavesTooLittle { .. } => "SavesTooLittle",
            Self::MoveUndone { .. } => "MoveUndone",
            Self::Budget(_) => "Budget",
            Self::InvalidBudget { .. } => "InvalidBudget",
            Self::Unbalanced(_) => "Unbalanced",
            Self::NoSimulation(_) => "NoSimulation",
            Self::Unplaceable(_) => "Unplaceable",
            Self::NeedsSeveral(_) => "NeedsSeveral",
            Self::NotCheaper => "NotCheaper",
            Self::MinValues(_) => "MinValues",
            Self::SpotToSpotDisabled => "SpotToSpotDisabled",
            Self::SpotToSpotChoice { .. } => "SpotToSpotChoice",
            Self::ReplacementFailed(_) => "ReplacementFailed",
            Self::Refused(_) => "Refused",
        }
    }
}
