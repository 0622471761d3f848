//! The topology spread constraints that kube-scheduler gives to pods that declare none (`docs/scheduler-config.md`).

use super::Converter;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kerf_model::pod::SpreadConstraint;
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use std::sync::Arc;

/// The controllers whose selectors kube-scheduler reads.
const CONTROLLERS: [(&str, &str); 3] = [
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
];

impl Converter {
    /// The constraints of a pod without constraints of its own. Which pods they count is deduced from its labels, where kube-scheduler reads the
    /// selector of its controller: pods of one controller have the same labels.
    pub(super) fn default_constraints(&self, owners: &[OwnerReference], labels: &LabelSet) -> Vec<SpreadConstraint> {
        let given = &self.conventions.given.default_constraints;
        let mut conditions = labels.of_workload().peekable();
        if given.is_empty() || conditions.peek().is_none() || !owners.iter().any(counts_by_selector) {
            return Vec::new();
        }
        let is = |(key, value): (&str, &str)| Match::any_of(key, [Arc::from(value)]);
        let selector = LabelSelector::all(conditions.map(is));
        let of_pod = given.iter().map(|constraint| SpreadConstraint {
            key: self.interner.intern(&constraint.topology_key),
            max_skew: constraint.max_skew,
            required: constraint.required,
            min_domains: constraint.min_domains,
            selector: selector.clone(),
            honor_node_affinity: constraint.honor_node_affinity,
            honor_taints: constraint.honor_taints,
        });
        of_pod.collect()
    }
}

fn counts_by_selector(owner: &OwnerReference) -> bool {
    owner.controller == Some(true) && CONTROLLERS.contains(&(&owner.api_version, &owner.kind))
}
