//! Whether a node satisfies a pod spec's node selector, node affinity and tolerations, for the DaemonSet controller and taint eviction.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};
use kube::ResourceExt;

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = || number(values.first().map(String::as_str));
    let compare = |by: fn(&i64, &i64) -> bool| number(value).zip(bound()).is_some_and(|(own, bound)| by(&own, &bound));
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

/// Whether a term's field requirements (the node's name is the only field) hold.
pub(crate) fn fields_hold(term: &NodeSelectorTerm, node: &str) -> bool {
    let fields = term.match_fields.as_deref().unwrap_or_default();
    fields
        .iter()
        .all(|field| field.key == "metadata.name" && holds(field, Some(node)))
}

fn term_holds(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let labels = node.labels();
    // An empty term selects nothing.
    !(expressions.is_empty() && fields.is_empty())
        && expressions
            .iter()
            .all(|e| holds(e, labels.get(&e.key).map(String::as_str)))
        && fields_hold(term, &node.name_any())
}

/// The terms of required node affinity, `None` when the spec has none.
pub(crate) fn required_terms(spec: &PodSpec) -> Option<&[NodeSelectorTerm]> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(&required.node_selector_terms)
}

/// Whether node selector and required node affinity admit the node.
pub(crate) fn selects(spec: &PodSpec, node: &Node) -> bool {
    let labels = node.labels();
    let mut plain = spec.node_selector.iter().flatten();
    plain.all(|(key, value)| labels.get(key) == Some(value))
        && required_terms(spec).is_none_or(|terms| terms.iter().any(|term| term_holds(term, node)))
}

/// Whether a toleration covers a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    toleration
        .effect
        .as_deref()
        .is_none_or(|effect| effect.is_empty() || effect == taint.effect)
        && (key.is_empty() || key == taint.key)
        && (toleration.operator.as_deref() == Some("Exists") || (!key.is_empty() && value()))
}

/// Whether every taint of the given effects is tolerated.
pub(crate) fn admitted(tolerations: &[Toleration], node: &Node, effects: &[&str]) -> bool {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let mut hard = taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
    hard.all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}
