//! Merging an applied configuration into an object, and removing fields from an object.

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::merge_schema::{MergeNode, Shape};

/// `live` with everything `applied` sets.
pub(super) fn merged(live: &Value, applied: &Value, node: MergeNode<'_>) -> Value {
    let shape = node.shape(applied);
    if shape != node.shape(live) {
        return applied.clone();
    }
    match (&shape, live, applied) {
        (Shape::Fields, Value::Object(live), Value::Object(applied)) => {
            let mut out = live.clone();
            for (name, value) in applied {
                let inner = match live.get(name) {
                    Some(current) => merged(current, value, node.field(name)),
                    None => value.clone(),
                };
                out.insert(name.clone(), inner);
            }
            Value::Object(out)
        }
        (Shape::Keyed(_) | Shape::Set, Value::Array(live), Value::Array(applied)) => {
            Value::Array(merged_lists(live, applied, node, &shape))
        }
        _ => applied.clone(),
    }
}

/// Merges two keyed lists or sets. Shared entries take the applied order; entries only the live list has stay before the
/// shared entry they stood before, and come before new entries at the same place.
fn merged_lists(live: &[Value], applied: &[Value], node: MergeNode<'_>, shape: &Shape) -> Vec<Value> {
    let name = |item: &Value| node.element(item, shape);
    let live: Vec<_> = live.iter().map(|item| (name(item), item)).collect();
    let applied: Vec<_> = applied.iter().map(|item| (name(item), item)).collect();
    let in_live = |element: &Option<String>| live.iter().find(|(n, _)| n == element).map(|(_, item)| *item);
    let mut out = Vec::with_capacity(live.len() + applied.len());
    let mut rest = live.iter().peekable();
    for at in 0..=applied.len() {
        let waiting = applied.get(at..).unwrap_or_default();
        let next_shared = waiting.iter().map(|(n, _)| n).find(|n| in_live(n).is_some());
        while let Some((element, item)) = rest.next_if(|(n, _)| Some(n) != next_shared) {
            if applied.iter().all(|(n, _)| n != element) {
                out.push((*item).clone());
            }
        }
        let Some((element, item)) = waiting.first() else { break };
        match in_live(element) {
            Some(current) => out.push(merged(current, item, node.item())),
            None => out.push((*item).clone()),
        }
    }
    out
}

/// Removes the members of `gone` from `value`, except where `kept` has something at or below them. A map or list that
/// loses its last entry goes with it.
pub(super) fn remove(value: &mut Value, node: MergeNode<'_>, gone: &FieldSet, kept: &FieldSet) {
    let nothing = FieldSet::default();
    let shape = node.shape(value);
    let verdict = |element: &str, inner: &mut Value, place: MergeNode<'_>| -> bool {
        let Some(entry) = gone.get(element) else { return true };
        match kept.get(element) {
            None if entry.member => false,
            keeping => {
                remove(inner, place, &entry.below, keeping.map_or(&nothing, |k| &k.below));
                keeping.is_some_and(|k| k.member) || entry.below.is_empty() || !is_hollow(inner)
            }
        }
    };
    match (&shape, value) {
        (Shape::Fields, Value::Object(map)) => {
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                let keep = map
                    .get_mut(&name)
                    .is_none_or(|inner| verdict(&format!("f:{name}"), inner, node.field(&name)));
                if !keep {
                    map.remove(&name);
                }
            }
        }
        (Shape::Keyed(_) | Shape::Set, Value::Array(items)) => {
            items.retain_mut(|item| match node.element(item, &shape) {
                Some(element) => verdict(&element, item, node.item()),
                None => true,
            });
        }
        _ => {}
    }
}

fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Refuses configurations with list entries that have equal keys.
pub(super) fn check_keys(value: &Value, node: MergeNode<'_>, path: &str) -> Result<(), String> {
    let shape = node.shape(value);
    match (&shape, value) {
        (Shape::Fields, Value::Object(map)) => check_fields(map, node, path),
        (Shape::Keyed(keys), Value::Array(items)) => {
            let mut seen = Vec::new();
            for (i, item) in items.iter().enumerate() {
                let Some(element) = node.element(item, &shape) else {
                    let key = keys.first().map_or("", String::as_str);
                    return Err(format!(
                        "{path}: element {i}: associative list with keys has an element that omits key field {key:?}"
                    ));
                };
                if seen.contains(&element) {
                    return Err(format!(
                        "{path}: duplicate entries for key [{}]",
                        element.trim_start_matches("k:")
                    ));
                }
                check_keys(item, node.item(), &format!("{path}[{i}]"))?;
                seen.push(element);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_fields(map: &Map<String, Value>, node: MergeNode<'_>, path: &str) -> Result<(), String> {
    map.iter()
        .try_for_each(|(name, inner)| check_keys(inner, node.field(name), &format!("{path}.{name}")))
}
