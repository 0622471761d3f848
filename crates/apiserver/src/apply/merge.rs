//! Merging an applied configuration into an object, and taking fields out of one.

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

/// Merges two keyed lists or sets. The applied order wins; entries only the live list has keep their place before the
/// shared entry they stood before.
fn merged_lists(live: &[Value], applied: &[Value], node: MergeNode<'_>, shape: &Shape) -> Vec<Value> {
    let name = |item: &Value| node.element(item, shape);
    let live_names: Vec<_> = live.iter().map(name).collect();
    let applied_names: Vec<_> = applied.iter().map(name).collect();
    let mut out = Vec::with_capacity(live.len() + applied.len());
    let mut rest = live.iter().zip(&live_names).peekable();
    for (item, element) in applied.iter().zip(&applied_names) {
        let current = live
            .iter()
            .zip(&live_names)
            .find(|(_, n)| *n == element)
            .map(|(value, _)| value);
        if current.is_some() {
            while let Some((value, n)) = rest.next_if(|(_, n)| *n != element) {
                if !applied_names.contains(n) {
                    out.push(value.clone());
                }
            }
            rest.next_if(|(_, n)| *n == element);
        }
        out.push(current.map_or_else(|| item.clone(), |current| merged(current, item, node.item())));
    }
    out.extend(
        rest.filter(|(_, n)| !applied_names.contains(n))
            .map(|(value, _)| value.clone()),
    );
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

/// Refuses configurations with list entries that cannot be told apart.
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
