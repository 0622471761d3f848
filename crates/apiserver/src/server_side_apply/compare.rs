//! Which fields an object has, and which differ between two.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field_set::{Entry, FieldSet};
use super::merge_schema::{MergeNode, Shape};

/// What changed between two objects.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// Fields that are new or have another value.
    pub(super) changed: FieldSet,
    /// Fields that are gone.
    pub(super) removed: FieldSet,
}

/// The fields a configuration sets: its leaves, its list entries and the keys of its maps.
pub(super) fn applied_fields(value: &Value, node: MergeNode<'_>) -> FieldSet {
    entry_of(value, node, false).below
}

/// Every field of an object, parents included.
pub(super) fn everything(value: &Value, node: MergeNode<'_>) -> FieldSet {
    entry_of(value, node, true).below
}

fn entry_of(value: &Value, node: MergeNode<'_>, parents: bool) -> Entry {
    let shape = node.shape(value);
    let mut below = FieldSet::default();
    for (element, inner, place, declared) in children(value, node, &shape) {
        let mut entry = entry_of(inner, place, parents);
        entry.member |= parents || !declared || is_bare(inner);
        below.put(element, entry);
    }
    Entry {
        member: shape == Shape::Leaf || below.is_empty(),
        below,
    }
}

fn is_bare(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// The children of a value: path element, value, place, and whether the schema declares the field by name.
fn children<'v, 'n>(
    value: &'v Value,
    node: MergeNode<'n>,
    shape: &Shape,
) -> Vec<(String, &'v Value, MergeNode<'n>, bool)> {
    match (shape, value) {
        (Shape::Fields, Value::Object(map)) => map
            .iter()
            .map(|(name, inner)| (format!("f:{name}"), inner, node.field(name), node.declares(name)))
            .collect(),
        (Shape::Keyed(_) | Shape::Set, Value::Array(items)) => items
            .iter()
            .filter_map(|item| Some((node.element(item, shape)?, item, node.item(), false)))
            .collect(),
        _ => Vec::new(),
    }
}

/// The difference between two versions of an object.
pub(super) fn compare(old: &Value, new: &Value, node: MergeNode<'_>) -> Difference {
    let (changed, removed) = compare_entries(old, new, node);
    Difference {
        changed: changed.below,
        removed: removed.below,
    }
}

fn compare_entries(old: &Value, new: &Value, node: MergeNode<'_>) -> (Entry, Entry) {
    let (mut changed, mut removed) = (Entry::default(), Entry::default());
    if old == new {
        return (changed, removed);
    }
    let (old_shape, new_shape) = (node.shape(old), node.shape(new));
    if old_shape != new_shape || new_shape == Shape::Leaf {
        changed = entry_of(new, node, true);
        changed.member = true;
        return (changed, removed);
    }
    let before: BTreeMap<String, _> = children(old, node, &old_shape)
        .into_iter()
        .map(|(e, v, place, _)| (e, (v, place)))
        .collect();
    let after: BTreeMap<String, _> = children(new, node, &new_shape)
        .into_iter()
        .map(|(e, v, place, _)| (e, (v, place)))
        .collect();
    for (element, (value, place)) in &before {
        if !after.contains_key(element) {
            let mut entry = entry_of(value, *place, true);
            entry.member = true;
            removed.below.put(element.clone(), entry);
        }
    }
    for (element, (value, place)) in after {
        match before.get(&element) {
            Some((was, _)) => {
                let (c, r) = compare_entries(was, value, place);
                changed.below.put(element.clone(), c);
                removed.below.put(element, r);
            }
            None => {
                let mut entry = entry_of(value, place, true);
                entry.member = true;
                changed.below.put(element, entry);
            }
        }
    }
    (changed, removed)
}
