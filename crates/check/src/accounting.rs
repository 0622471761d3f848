//! Every pod handed in is accounted for exactly once, and only sound pods are placed.

use crate::violation::{Rule, Violations};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn check(pods: &[Arc<Pod>], plan: &Plan, found: &mut Violations) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let placed = || {
        let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
        launched.chain(plan.existing.iter().flat_map(|placement| &placement.pods))
    };
    let left = plan.unschedulable.iter().map(|entry| &entry.pod);
    let ignored = plan.ignored.iter().map(|(pod, _)| pod);
    for pod in placed().chain(left).chain(ignored).chain(&plan.unattempted) {
        *seen.entry(pod.key()).or_default() += 1;
    }
    for pod in pods {
        match seen.remove(&pod.key()) {
            None => found.add_for_pod(&pod.key(), Rule::Missing),
            Some(1) => {}
            Some(_) => found.add_for_pod(&pod.key(), Rule::Duplicate),
        }
    }
    for key in seen.keys() {
        found.add_for_pod(key, Rule::Unknown);
    }
    for pod in placed() {
        if let Some(fault) = pod.faults.first() {
            let fault = fault.to_string();
            found.add_for_pod(&pod.key(), Rule::FaultyPlaced { fault });
        }
    }
    for (pod, faults) in &plan.ignored {
        if faults.is_empty() {
            found.add_for_pod(&pod.key(), Rule::IgnoredWithoutFault);
        }
    }
}
