//! Which preferences of pods a plan relaxes (section 17 of `docs/behaviour/scheduling.md`).

use crate::pod::Pod;
use std::sync::Arc;

/// A pod whose preferences were relaxed before it was placed or left without a place.
#[derive(Clone, PartialEq, Debug)]
pub struct Relaxed {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The relaxations in the order they were made (SCH-267). Equal pods share the list.
    pub steps: Arc<[Relaxation]>,
}

/// One step of relaxation (SCH-267). Positions are those in the lists of the pod's [shape](crate::pod::PodShape).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Relaxation {
    /// The required node-affinity term at this position was dropped in favour of the next one.
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
