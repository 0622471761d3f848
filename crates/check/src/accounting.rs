//! Every pod handed in is accounted for exactly once.

use crate::violation::{CheckOptions, Rule, Violation};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything wrong with `plan`, which answers how `pods` are placed in the cluster of `snapshot`; empty for a good plan.
pub fn verify(snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan, options: &CheckOptions) -> Vec<Violation> {
    let _ = (snapshot, options);
    let mut found = Vec::new();
    accounting(pods, plan, &mut found);
    found
}

fn accounting(pods: &[Arc<Pod>], plan: &Plan, found: &mut Vec<Violation>) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let placed = plan.launches.iter().flat_map(|launch| &launch.pods);
    let existing = plan.existing.iter().flat_map(|placement| &placement.pods);
    let left = plan.unschedulable.iter().map(|entry| &entry.pod);
    let ignored = plan.ignored.iter().map(|(pod, _)| pod);
    for pod in placed
        .chain(existing)
        .chain(left)
        .chain(ignored)
        .chain(&plan.unattempted)
    {
        *seen.entry(pod.key()).or_default() += 1;
    }
    let mut violation = |key: &str, rule| {
        found.push(Violation {
            pod: Some(key.into()),
            node: None,
            rule,
        })
    };
    for pod in pods {
        match seen.remove(&pod.key()) {
            None => violation(&pod.key(), Rule::Missing),
            Some(1) => {}
            Some(_) => violation(&pod.key(), Rule::Duplicate),
        }
    }
    for key in seen.keys() {
        violation(key, Rule::Unknown);
    }
}
