//! Texts of violations.

use kerf_model::intern::Interner;
use kerf_model::pod::PodShape;
use kerf_model::resources::Resources;

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

/// An amount of a resource with the resource's name.
pub(crate) fn print_amount(name: &str, amount: i64, interner: &Interner) -> String {
    let known = interner.get(name);
    known.map_or_else(
        || format!("{amount} {name}"),
        |id| format!("{} {name}", Resources::print(id, amount)),
    )
}
