//! What a pass of provisioning means for CapacityBuffers (section 25.3 of `docs/behaviour/scheduling.md`).

use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the virtual pods of one buffer went in a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferOutcome {
    /// On existing nodes.
    pub existing: usize,
    /// On nodes to launch.
    pub new: usize,
    /// Nowhere.
    pub failed: usize,
}

/// A finding about a buffer's room, as its condition `Provisioning` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferFinding {
    /// Whether all room exists.
    pub holds: bool,
    /// The reason of the condition, one word.
    pub reason: &'static str,
    /// The finding in words.
    pub message: String,
}

impl BufferOutcome {
    /// The outcomes of a plan by buffer, `namespace/name`.
    pub fn of(plan: &Plan) -> BTreeMap<Arc<str>, Self> {
        let mut all: BTreeMap<Arc<str>, Self> = BTreeMap::new();
        let mut count = |pod: &Pod, which: fn(&mut Self) -> &mut usize| {
            if let Some(buffer) = &pod.capacity_buffer {
                *which(all.entry(Arc::clone(buffer)).or_default()) += 1;
            }
        };
        for pod in plan.existing.iter().flat_map(|placement| &placement.pods) {
            count(pod, |outcome| &mut outcome.existing);
        }
        for pod in plan.launches.iter().flat_map(|launch| &launch.pods) {
            count(pod, |outcome| &mut outcome.new);
        }
        let refused = plan.unschedulable.iter().map(|one| &one.pod);
        for pod in refused.chain(plan.ignored.iter().map(|(pod, _)| pod)) {
            count(pod, |outcome| &mut outcome.failed);
        }
        all
    }

    /// How many virtual pods a plan places on each existing node, by name (SCH-394).
    pub fn by_node(plan: &Plan) -> BTreeMap<Arc<str>, u32> {
        let count = |pods: &[Arc<Pod>]| pods.iter().filter(|pod| pod.is_virtual()).count();
        let each = plan.existing.iter().filter_map(|placement| {
            let pods = u32::try_from(count(&placement.pods)).unwrap_or(u32::MAX);
            (pods > 0).then(|| (Arc::clone(&placement.node), pods))
        });
        each.collect()
    }
}

/// The finding about a buffer that asks for `replicas`, given the outcome of the last pass; `None` if the outcome is not enough to change
/// the last finding (SCH-392).
pub fn buffer_finding(is_ready: bool, replicas: Option<i32>, outcome: Option<&BufferOutcome>) -> Option<BufferFinding> {
    let finding = |holds, reason, message| Some(BufferFinding { holds, reason, message });
    if !is_ready {
        let message = "Buffer is not ReadyForProvisioning".to_owned();
        return finding(false, "NotReadyForProvisioning", message);
    }
    let replicas = usize::try_from(replicas.unwrap_or(0)).unwrap_or(0);
    if replicas == 0 {
        return finding(false, "BufferEmpty", "Buffer has zero desired replicas".to_owned());
    }
    let BufferOutcome { existing, new, failed } = *outcome?;
    if new > 0 || failed > 0 {
        let message = format!("{new}/{replicas} virtual pods required new capacity, {failed} failed");
        return finding(false, "RequiresNewCapacity", message);
    }
    if existing == replicas {
        let message = format!("All {replicas} virtual pods fit on existing capacity");
        return finding(true, "FitsExistingCapacity", message);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::plan::{Launch, Placement, Unschedulable};

    fn virtual_pod(buffer: &str) -> Arc<Pod> {
        Arc::new(Pod {
            capacity_buffer: Some(buffer.into()),
            ..Pod::new("default", buffer)
        })
    }

    fn launch(pods: Vec<Arc<Pod>>) -> Launch {
        Launch {
            pool: "web".into(),
            catalogue: Arc::default(),
            requirements: kerf_model::requirement::Requirements::default(),
            types: Vec::new(),
            pods,
            requests: kerf_model::resources::Resources::new(),
            min_values_relaxed: false,
            reservations: Vec::new(),
            cheapest: None,
        }
    }

    // SCH-394
    #[test]
    fn virtual_pods_are_counted_by_buffer_and_by_node() {
        let real = || Arc::new(Pod::new("default", "real"));
        let plan = Plan {
            existing: vec![
                Placement {
                    node: "a".into(),
                    pods: vec![virtual_pod("default/x"), real(), virtual_pod("default/y")],
                },
                Placement {
                    node: "b".into(),
                    pods: vec![real()],
                },
            ],
            launches: vec![launch(vec![virtual_pod("default/x"), real()])],
            unschedulable: vec![Unschedulable {
                pod: virtual_pod("default/y"),
                refusals: [].into(),
                deferred: false,
            }],
            ..Plan::default()
        };
        let outcome = |existing, new, failed| BufferOutcome { existing, new, failed };
        let expected = [
            ("default/x".into(), outcome(1, 1, 0)),
            ("default/y".into(), outcome(1, 0, 1)),
        ];
        assert_eq!(BufferOutcome::of(&plan), expected.into());
        assert_eq!(BufferOutcome::by_node(&plan), [("a".into(), 2)].into());
        // SCH-389: nothing else sees them.
        let real_only = plan.without_virtual_pods();
        assert!(BufferOutcome::of(&real_only).is_empty());
        assert_eq!(real_only.existing.len(), 2);
        assert_eq!(real_only.launches.len(), 1);
        assert_eq!(real_only.left_over(), 0);
    }

    // SCH-392, API-220
    #[test]
    fn the_first_finding_that_applies_is_shown() {
        let outcome = |existing, new, failed| BufferOutcome { existing, new, failed };
        let text = |is_ready, replicas, outcome: Option<BufferOutcome>| {
            let finding = buffer_finding(is_ready, replicas, outcome.as_ref())?;
            Some(format!("{} {}: {}", finding.holds, finding.reason, finding.message))
        };
        let cases = [
            (
                (false, Some(3), Some(outcome(3, 0, 0))),
                Some("false NotReadyForProvisioning: Buffer is not ReadyForProvisioning"),
            ),
            (
                (true, None, None),
                Some("false BufferEmpty: Buffer has zero desired replicas"),
            ),
            (
                (true, Some(0), None),
                Some("false BufferEmpty: Buffer has zero desired replicas"),
            ),
            ((true, Some(3), None), None),
            (
                (true, Some(3), Some(outcome(1, 2, 0))),
                Some("false RequiresNewCapacity: 2/3 virtual pods required new capacity, 0 failed"),
            ),
            (
                (true, Some(3), Some(outcome(2, 0, 1))),
                Some("false RequiresNewCapacity: 0/3 virtual pods required new capacity, 1 failed"),
            ),
            (
                (true, Some(3), Some(outcome(3, 0, 0))),
                Some("true FitsExistingCapacity: All 3 virtual pods fit on existing capacity"),
            ),
            // A pass that did not reach all of them.
            ((true, Some(3), Some(outcome(2, 0, 0))), None),
        ];
        for ((is_ready, replicas, outcome), expected) in cases {
            let found = text(is_ready, replicas, outcome);
            assert_eq!(found.as_deref(), expected, "{replicas:?} {outcome:?}");
        }
    }
}
