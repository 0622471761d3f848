//! Logs the preferences of pods that a plan does not meet (SCH-487).

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PreferredSchedulingTerm, TopologySpreadConstraint,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kerf_model::intern::Interner;
use kerf_model::plan::Plan;
use kerf_model::pod::{AffinityTerm, PodShape, SpreadConstraint};
use kerf_model::relaxation::Relaxation;
use kerf_model::requirement::{Operator, Requirement};
use kerf_model::selector::{LabelSelector as Selector, Match};
use serde::Serialize;

/// One debug line for each step of each pod, in the order they were taken.
pub(super) fn relaxed(plan: &Plan, interner: &Interner) {
    if plan.relaxed.is_empty() || !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    for one in &plan.relaxed {
        for step in one.steps.iter() {
            if let Some(reason) = reason(&one.pod.shape, *step, interner) {
                tracing::debug!(
                    Pod = %one.pod.key(),
                    reason,
                    "relaxing soft constraints for pod since it previously failed to schedule"
                );
            }
        }
    }
}

/// The preference that a step dropped, as the API writes it. Keys and values are those of the solver, normalised. `None` if the shape has no
/// such preference.
fn reason(shape: &PodShape, step: Relaxation, interner: &Interner) -> Option<String> {
    let (place, json) = match step {
        Relaxation::RequiredTerm(at) => (
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]=",
            json(&node_term(shape.required_terms.get(at)?, interner)),
        ),
        Relaxation::PreferredTerm(at) => {
            let (weight, term) = shape.preferred_terms.get(at)?;
            let term = PreferredSchedulingTerm {
                weight: *weight,
                preference: node_term(term, interner),
            };
            (
                "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]=",
                json(&term),
            )
        }
        Relaxation::PreferredAffinity(at) => (
            "affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]=",
            json(&weighted(shape.preferred_affinity.get(at)?, interner)),
        ),
        Relaxation::PreferredAntiAffinity(at) => (
            "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]=",
            json(&weighted(shape.preferred_anti_affinity.get(at)?, interner)),
        ),
        Relaxation::Spread(at) => (
            "topologySpreadConstraints = ",
            json(&spread(shape.spread.get(at)?, interner)),
        ),
        Relaxation::SoftTaints => return Some("adding: toleration for PreferNoSchedule taints".to_owned()),
    };
    Some(format!("removing: spec.{place}{json}"))
}

/// Objects of the API have no map without string keys and no number JSON lacks: they can always be written.
fn json(object: &impl Serialize) -> String {
    serde_json::to_string(object).unwrap_or_default()
}

fn node_term(term: &[Requirement], interner: &Interner) -> NodeSelectorTerm {
    let expressions = term.iter().flat_map(|requirement| expressions(requirement, interner));
    NodeSelectorTerm {
        match_expressions: Some(expressions.collect()),
        match_fields: None,
    }
}

/// A requirement in the operators pods have, whose bounds are exclusive.
fn expressions(requirement: &Requirement, interner: &Interner) -> Vec<NodeSelectorRequirement> {
    let mut values: Vec<String> = requirement
        .values
        .iter()
        .map(|value| interner.text(*value).to_owned())
        .collect();
    values.sort_unstable();
    let entry = |operator: Operator, values: Vec<String>| NodeSelectorRequirement {
        key: interner.text(requirement.key).to_owned(),
        operator: operator.as_str().to_owned(),
        values: Some(values).filter(|values| !values.is_empty()),
    };
    let above = requirement.gte.map(|bound| (Operator::Gt, bound.saturating_sub(1)));
    let below = requirement.lte.map(|bound| (Operator::Lt, bound.saturating_add(1)));
    let bounds = above.into_iter().chain(below);
    let mut entries: Vec<_> = bounds
        .map(|(operator, bound)| entry(operator, vec![bound.to_string()]))
        .collect();
    match (requirement.complement, values.is_empty()) {
        (true, true) if !entries.is_empty() => {}
        (true, true) => entries.push(entry(Operator::Exists, values)),
        (true, false) => entries.push(entry(Operator::NotIn, values)),
        (false, true) => entries.push(entry(Operator::DoesNotExist, values)),
        (false, false) => entries.push(entry(Operator::In, values)),
    }
    entries
}

fn weighted((weight, term): &(i32, AffinityTerm), interner: &Interner) -> WeightedPodAffinityTerm {
    WeightedPodAffinityTerm {
        weight: *weight,
        pod_affinity_term: PodAffinityTerm {
            topology_key: interner.text(term.key).to_owned(),
            label_selector: selector(&term.selector),
            namespaces: Some(term.namespaces.names.iter().map(ToString::to_string).collect())
                .filter(|names: &Vec<String>| !names.is_empty()),
            namespace_selector: term.namespaces.selector.as_ref().and_then(selector),
            ..PodAffinityTerm::default()
        },
    }
}

fn spread(constraint: &SpreadConstraint, interner: &Interner) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: i32::try_from(constraint.max_skew).unwrap_or(i32::MAX),
        topology_key: interner.text(constraint.key).to_owned(),
        when_unsatisfiable: if constraint.required {
            "DoNotSchedule"
        } else {
            "ScheduleAnyway"
        }
        .to_owned(),
        label_selector: selector(&constraint.selector),
        min_domains: constraint.min_domains.and_then(|least| i32::try_from(least).ok()),
        node_affinity_policy: (!constraint.honor_node_affinity).then(|| "Ignore".to_owned()),
        node_taints_policy: constraint.honor_taints.then(|| "Honor".to_owned()),
        match_label_keys: None,
    }
}

fn selector(selector: &Selector) -> Option<LabelSelector> {
    let Selector::All(conditions) = selector else {
        return None;
    };
    let mut written = LabelSelector::default();
    for condition in conditions {
        let (key, operator, values): (_, _, &[_]) = match condition {
            Match::In(key, values) => {
                if let [value] = &values[..] {
                    let labels = written.match_labels.get_or_insert_default();
                    labels.insert(key.to_string(), value.to_string());
                    continue;
                }
                (key, Operator::In, values)
            }
            Match::NotIn(key, values) => (key, Operator::NotIn, values),
            Match::Exists(key) => (key, Operator::Exists, &[]),
            Match::DoesNotExist(key) => (key, Operator::DoesNotExist, &[]),
        };
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        written
            .match_expressions
            .get_or_insert_default()
            .push(LabelSelectorRequirement {
                key: key.to_string(),
                operator: operator.as_str().to_owned(),
                values: Some(values).filter(|values| !values.is_empty()),
            });
    }
    Some(written)
}
