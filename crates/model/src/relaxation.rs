//! What of a pod's preferences a plan gives up (section 17 of the scheduling contract).

use crate::pod::Pod;
use std::sync::Arc;

/// A pod that a plan places, or leaves over, only after it gave up preferences of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Relaxed {
    /// The pod.
    pub pod: Arc<Pod>,
    /// What was given up, in the order it was (SCH-267). Equal pods share it.
    pub steps: Arc<[Relaxation]>,
}

/// One step of relaxation (SCH-267). Positions are those in the lists of the pod's [shape](crate::pod::PodShape).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relaxation {
    /// The required node-affinity term at this position gave way to the next.
    RequiredTerm(usize),
    /// The preferred node-affinity term at this position was dropped.
    PreferredTerm(usize),
    /// The preferred pod affinity at this position was dropped.
    PreferredAffinity(usize),
    /// The preferred pod anti-affinity at this position was dropped.
    PreferredAntiAffinity(usize),
    /// The spread constraint at this position, a `ScheduleAnyway` one, was dropped.
    Spread(usize),
    /// `PreferNoSchedule` taints are tolerated.
    SoftTaints,
}
