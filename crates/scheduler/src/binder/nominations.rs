//! Pods that are nominated to the nodes they are planned onto. kube-scheduler tries that node first, and keeps its room from other pods of
//! at most the same priority.

use crate::compile::classes::ClassId;
use crate::compile::problem::Problem;
use crate::compile::queue::PodId;
use crate::compile::targets::{TargetId, Targets};
use crate::dense::amounts::{Amounts, fits, subtract};
use crate::search::updated_targets::UpdatedTargets;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_units::nominated_pods::NominatedPodsMax;
use rustc_hash::FxHashMap;

/// The pods of a plan that are nominated to the nodes they are planned onto (SCH-008 in `docs/deviations.md`): all that exist and wait, or none
/// if these are too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nominees {
    few: bool,
}

impl Nominees {
    /// The nominated pods of a plan where plans for at most `max` pods nominate.
    pub fn of(plan: &Plan, max: NominatedPodsMax) -> Self {
        let few = !max.is_none() && max.allows(plan.pods().filter(|pod| may_be_nominated(pod)).count());
        Self { few }
    }

    /// Whether no pod is nominated.
    pub(super) const fn are_none(self) -> bool {
        !self.few
    }

    /// Whether a pod of the plan is nominated.
    pub fn contain(self, pod: &Pod) -> bool {
        self.few && may_be_nominated(pod)
    }
}

/// Whether a pod exists and waits. The successors of pods that run elsewhere do not exist yet.
fn may_be_nominated(pod: &Pod) -> bool {
    pod.node_name.is_none() && !pod.is_virtual()
}

/// What the pods of one priority that are nominated to a target request together.
#[derive(Clone)]
struct KeptRoom {
    priority: i32,
    requests: Amounts,
}

/// The nominations of pods that are not bound. Each is written when its target becomes ready, and ends when the pod is tried: either it is bound,
/// or it does not fit and kube-scheduler ends the nomination.
#[derive(Clone, Default)]
pub(super) struct Nominations {
    targets: FxHashMap<PodId, TargetId>,
    pods: FxHashMap<TargetId, Vec<PodId>>,
    /// By ready target: the room that is kept, one entry for each priority.
    kept: FxHashMap<TargetId, Vec<KeptRoom>>,
}

impl Nominations {
    /// Pods with the targets they are planned onto.
    pub(super) fn new(planned: impl IntoIterator<Item = (PodId, TargetId)>) -> Self {
        let mut nominations = Self::default();
        for (pod, target) in planned {
            nominations.targets.insert(pod, target);
            nominations.pods.entry(target).or_default().push(pod);
        }
        nominations
    }

    /// Nominates the pods of a target that becomes ready.
    pub(super) fn write(&mut self, problem: &Problem<'_>, target: TargetId) {
        let planned = self.pods.remove(&target).unwrap_or_default();
        let mut kept: Vec<KeptRoom> = Vec::new();
        for pod in planned.iter().filter(|pod| self.targets.contains_key(pod)) {
            let Some(class) = problem.of_pod[*pod] else { continue };
            let (priority, requests) = (problem.pod(*pod).priority, &problem.class(class).requests);
            match kept.iter_mut().find(|room| room.priority == priority) {
                Some(room) => {
                    let sums = room.requests.iter_mut().zip(requests);
                    sums.for_each(|(sum, amount)| *sum = sum.saturating_add(*amount));
                }
                None => kept.push(KeptRoom {
                    priority,
                    requests: requests.clone(),
                }),
            }
        }
        if !kept.is_empty() {
            self.kept.insert(target, kept);
        }
    }

    /// Ends the nomination of a pod, and returns its target if that is ready.
    pub(super) fn end(&mut self, problem: &Problem<'_>, pod: PodId, class: ClassId) -> Option<TargetId> {
        let target = *self.targets.get(&pod)?;
        let kept = self.kept.get_mut(&target)?;
        self.targets.remove(&pod);
        let priority = problem.pod(pod).priority;
        let room = kept.iter_mut().find(|room| room.priority == priority)?;
        subtract(&mut room.requests, &problem.class(class).requests);
        Some(target)
    }

    /// Records that a pod was bound before its target became ready.
    pub(super) fn forget(&mut self, pod: PodId) {
        self.targets.remove(&pod);
    }

    /// Whether no room is kept anywhere.
    pub(super) fn keep_nothing(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether a pod of a priority with these requests fits a target beside the room that is kept for others.
    pub(super) fn leave_room(
        &self,
        targets: &Targets,
        updated: &UpdatedTargets,
        at: TargetId,
        priority: i32,
        requests: &Amounts,
    ) -> bool {
        let Some(kept) = self.kept.get(&at) else { return true };
        let mut free = Amounts::from_slice(updated.placeable(targets, at));
        let preceding = kept.iter().filter(|room| room.priority >= priority);
        preceding.for_each(|room| subtract(&mut free, &room.requests));
        fits(requests, &free)
    }
}
