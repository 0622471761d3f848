//! The result of a strategy.

use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::dense::ids::IdVec;
use crate::search::assignment::Assignment;
use kerf_model::pod::Pod;

/// The strategies; `strategy/README.md` describes them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Strategy {
    /// The greedy of section 16 of `docs/behaviour/scheduling.md`.
    Greedy,
    /// Nodes opened by the fillings with the highest value per dollar.
    Patterns,
    /// Pods placed where they fill the slack of a claim best.
    BestFit,
    /// The greedy, where a claim grows only as long as its pods are worth its price.
    BoundedGrowth,
    /// The greedy, where the price breaks ties between domains.
    GreedyByPrice,
    /// As many pods as possible where limits or capacity run out.
    MaxPods,
    /// For each group of pools that share no pods, the outcome that is best there.
    Combination,
    /// The best of the others, improved by packing a few nodes at a time anew.
    Repacking,
    /// All new nodes of a pool of one size.
    EqualNodes,
    /// Pods where kube-scheduler is forecast to bind them.
    Rebinding,
}

impl Strategy {
    /// All strategies, in the order in which the earlier of equal outcomes wins.
    pub const ALL: [Self; 10] = [
        Self::Greedy,
        Self::Patterns,
        Self::BestFit,
        Self::BoundedGrowth,
        Self::GreedyByPrice,
        Self::MaxPods,
        Self::Combination,
        Self::Repacking,
        Self::EqualNodes,
        Self::Rebinding,
    ];

    /// The name used in `strategy/README.md`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::Patterns => "patterns",
            Self::BestFit => "best fit",
            Self::BoundedGrowth => "bounded growth",
            Self::GreedyByPrice => "greedy by price",
            Self::MaxPods => "max pods",
            Self::Combination => "combination",
            Self::Repacking => "repacking",
            Self::EqualNodes => "equal nodes",
            Self::Rebinding => "rebinding",
        }
    }
}

/// The result of a strategy.
#[derive(Clone, Debug)]
pub(crate) struct Outcome<'w, 'a> {
    pub(crate) assignment: Assignment<'w, 'a>,
    /// The strategy that computed it.
    pub(crate) strategy: Strategy,
    /// The strategy whose outcome this one improves: set by repacking and rebinding.
    pub(crate) improves: Option<Strategy>,
    /// Whether limit retry placed more pods.
    pub(crate) limit_retried: bool,
    /// Pods without a place, and whether only reservations prevented it.
    pub(crate) failed: Vec<(PodId, bool)>,
    /// Pods that were not tried before the deadline.
    pub(crate) unattempted: Vec<PodId>,
}

impl Outcome<'_, '_> {
    /// The strategy that computed the outcome before repacking and rebinding improved it.
    pub(crate) fn started_by(&self) -> Strategy {
        self.improves.unwrap_or(self.strategy)
    }
}

/// Returns whether the deadline has passed.
pub(crate) type Stop<'x> = &'x (dyn Fn() -> bool + Sync);

/// By pod: whether it failed.
pub(super) fn left_over(problem: &Problem<'_>, failed: &[(PodId, bool)]) -> IdVec<Pod, bool> {
    let mut left = IdVec::filled(false, problem.pods.len());
    for (pod, _) in failed {
        left[*pod] = true;
    }
    left
}
