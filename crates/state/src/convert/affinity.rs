//! Node affinity, pod affinity and topology spread.

use super::{Converter, selector};
use crate::lean::{LeanAffinityTerm, LeanLabelSelector, LeanNodeSelectorTerm, LeanPodSpec, LeanSpread};
use kerf_model::pod::{AffinityTerm, NamespaceScope, PodShape, SpreadConstraint};
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use std::sync::Arc;

impl Converter {
    /// Fills the shape's constraints on nodes and other pods.
    pub(super) fn constraints(
        &self,
        spec: &LeanPodSpec,
        namespace: &Arc<str>,
        labels: &LabelSet,
        shape: &mut PodShape,
    ) {
        let selected = spec.node_selector.iter().map(|(key, value)| {
            let key = self.label_key(key);
            Requirement::is(key, self.label_value(key, value))
        });
        shape.node_selector = Requirements::from_all(selected, &self.interner);
        shape.required_terms = self.required_terms(spec);
        shape.preferred_terms = spec
            .affinity
            .node_affinity
            .preferred
            .iter()
            .filter_map(|term| Some((term.weight, self.preference(&term.preference)?)))
            .collect();
        shape.spread = spec
            .topology_spread_constraints
            .iter()
            .map(|spread| self.spread(spread, labels))
            .collect();
        let term = |term| self.affinity_term(term, namespace, labels);
        let (near, far) = (&spec.affinity.pod_affinity, &spec.affinity.pod_anti_affinity);
        shape.affinity = near.required.iter().map(term).collect();
        shape.anti_affinity = far.required.iter().map(term).collect();
        shape.preferred_affinity = near
            .preferred
            .iter()
            .map(|p| (p.weight, term(&p.pod_affinity_term)))
            .collect();
        shape.preferred_anti_affinity = far
            .preferred
            .iter()
            .map(|p| (p.weight, term(&p.pod_affinity_term)))
            .collect();
    }

    /// The alternatives of required node affinity. Those without expressions are left out: Kubernetes lets them match no node, and those
    /// that pin a daemon's pod by field say nothing about labels (SCH-153).
    pub(crate) fn required_terms(&self, spec: &LeanPodSpec) -> Vec<Vec<Requirement>> {
        let required = spec.affinity.node_affinity.required.as_ref();
        let terms = required.map_or(&[][..], |selector| &selector.node_selector_terms);
        terms
            .iter()
            .filter(|term| !term.match_expressions.is_empty())
            .map(|term| self.node_term(term))
            .collect()
    }

    /// The expressions of a term. An illegible one admits no value; validation names it.
    pub(super) fn node_term(&self, term: &LeanNodeSelectorTerm) -> Vec<Requirement> {
        term.match_expressions
            .iter()
            .map(|e| {
                self.requirement(&e.key, &e.operator, &e.values)
                    .unwrap_or_else(|| Requirement::does_not_exist(self.label_key(&e.key)))
            })
            .collect()
    }

    /// A preference; one that cannot be read is none (SCH-020: relaxation would drop it).
    fn preference(&self, term: &LeanNodeSelectorTerm) -> Option<Vec<Requirement>> {
        term.match_expressions
            .iter()
            .map(|e| self.requirement(&e.key, &e.operator, &e.values))
            .collect()
    }

    fn spread(&self, spread: &LeanSpread, labels: &LabelSet) -> SpreadConstraint {
        SpreadConstraint {
            key: self.interner.intern(&spread.topology_key),
            max_skew: u32::try_from(spread.max_skew).unwrap_or(0).max(1),
            required: spread.when_unsatisfiable != "ScheduleAnyway",
            min_domains: spread
                .min_domains
                .and_then(|n| u32::try_from(n).ok())
                .filter(|n| *n > 0),
            selector: with_keys(spread.label_selector.as_ref(), labels, &spread.match_label_keys, &[]),
            honor_node_affinity: spread.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_taints: spread.node_taints_policy.as_deref() == Some("Honor"),
        }
    }

    fn affinity_term(&self, term: &LeanAffinityTerm, namespace: &Arc<str>, labels: &LabelSet) -> AffinityTerm {
        let mut names: Vec<Arc<str>> = term.namespaces.iter().map(|name| Arc::from(name.as_str())).collect();
        if names.is_empty() && term.namespace_selector.is_none() {
            names.push(Arc::clone(namespace));
        }
        names.sort();
        names.dedup();
        let everywhere = term.namespace_selector.as_ref();
        AffinityTerm {
            key: self.interner.intern(&term.topology_key),
            selector: with_keys(
                term.label_selector.as_ref(),
                labels,
                &term.match_label_keys,
                &term.mismatch_label_keys,
            ),
            namespaces: NamespaceScope {
                names,
                selector: everywhere.map(|s| selector::label_selector(Some(s))),
            },
        }
    }
}

/// A selector with the pod's own values of the match and mismatch label keys merged in (SCH-194). The API server has done so already for
/// affinity terms of pods it admitted; doing it again changes nothing, since conditions are a set (SCH-188).
fn with_keys(
    selector: Option<&LeanLabelSelector>,
    labels: &LabelSet,
    same: &[String],
    other: &[String],
) -> LabelSelector {
    let Some(mut conditions) = selector.and_then(selector::conditions) else {
        return LabelSelector::Nothing;
    };
    let own = |key: &String| Some((Arc::<str>::from(key.as_str()), [Arc::clone(labels.get(key)?)]));
    conditions.extend(
        same.iter()
            .filter_map(own)
            .map(|(key, value)| Match::any_of(key, value)),
    );
    conditions.extend(
        other
            .iter()
            .filter_map(own)
            .map(|(key, value)| Match::none_of(key, value)),
    );
    LabelSelector::all(conditions)
}
