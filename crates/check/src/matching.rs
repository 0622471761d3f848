//! Whether labels, known or still open, satisfy what a pod asks of its node.

use kerf_model::intern::{Interner, Sym};
use kerf_model::pod::PodShape;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::taint::{Effect, Taint, Toleration};

/// Whether a label that is there with this value, or is not there, satisfies a node selector or affinity expression.
pub(crate) fn label_satisfies(wanted: &Requirement, value: Option<Sym>, interner: &Interner) -> bool {
    value.map_or_else(|| wanted.admits_absence(), |value| wanted.has(value, interner))
}

/// Whether labels satisfy the node selector and any one term of the required node affinity.
pub(crate) fn selects(shape: &PodShape, interner: &Interner, label: impl Fn(Sym) -> Option<Sym>) -> bool {
    let holds = |wanted: &Requirement| label_satisfies(wanted, label(wanted.key), interner);
    shape.node_selector.iter().all(holds)
        && (shape.required_terms.is_empty() || shape.required_terms.iter().any(|term| term.iter().all(holds)))
}

/// Whether everything a label may still become satisfies an expression; `None` is a label that will not be there.
pub(crate) fn all_satisfy(wanted: &Requirement, open: Option<&Requirement>, interner: &Interner) -> bool {
    let Some(open) = open else {
        return wanted.admits_absence();
    };
    if open.is_does_not_exist() {
        return wanted.admits_absence();
    }
    if !open.complement {
        return open.values.iter().all(|value| wanted.has(*value, interner));
    }
    wanted.complement
        && wanted.values.iter().all(|value| !open.has(*value, interner))
        && wanted.gte.is_none_or(|bound| open.gte.is_some_and(|own| own >= bound))
        && wanted.lte.is_none_or(|bound| open.lte.is_some_and(|own| own <= bound))
}

/// Whether what labels may still become satisfies every requirement of a set.
pub(crate) fn all_satisfy_set(
    wanted: &Requirements,
    interner: &Interner,
    open: impl Fn(Sym) -> Option<Requirement>,
) -> bool {
    wanted
        .iter()
        .all(|requirement| all_satisfy(requirement, open(requirement.key).as_ref(), interner))
}

/// The first taint that keeps a pod from being bound: `PreferNoSchedule` never does.
pub(crate) fn repelling<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| {
        let hard = matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute);
        hard && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

/// What a pod asks of its node, as text.
pub(crate) fn print_selection(shape: &PodShape, interner: &Interner) -> String {
    let terms = shape
        .required_terms
        .iter()
        .map(|term| term.iter().map(|r| r.print(interner)).collect::<Vec<_>>().join(", "));
    let mut parts: Vec<String> = terms.collect();
    if parts.len() > 1 {
        parts = vec![format!("any of ({})", parts.join("; "))];
    }
    if !shape.node_selector.is_empty() {
        parts.insert(0, shape.node_selector.print(interner));
    }
    parts.join(", ")
}
