//! Strategic merge patch: a merge patch that merges some lists of built-in kinds by key.
//!
//! Directives: `$patch` (replace, delete, merge) on objects and list entries, `$deleteFromPrimitiveList/<field>`,
//! `$setElementOrder/<field>` and `$retainKeys`. Which list merges by which key is the table in [`crate::schema::builtin`].

use serde_json::{Map, Value};

use super::formats::PatchError;
use crate::schema::builtin::{self, FieldDef, TypeDef, TypeRef};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// `target` with the strategic merge patch applied.
pub(super) fn merge(target: Value, patch: &Value, ty: &'static TypeDef) -> Result<Value, PatchError> {
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return Err(bad("a strategic merge patch must be a JSON object"));
    };
    merge_objects(target, patch, Some(ty)).map(Value::Object)
}

fn bad(message: &str) -> PatchError {
    PatchError::BadRequest(message.to_owned())
}

/// Merges a patch into an object, or replaces or empties the object if the patch has such a directive.
fn merge_objects(
    mut target: Map<String, Value>,
    patch: &Map<String, Value>,
    ty: Option<&'static TypeDef>,
) -> Result<Map<String, Value>, PatchError> {
    match patch.get(PATCH).map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => return Ok(without_directive(patch)),
        Some(Some("delete")) => return Ok(Map::new()),
        Some(other) => return Err(bad(&format!("unknown patch type: {}", other.unwrap_or("not a string")))),
    }
    retain_keys(&mut target, patch)?;
    for (key, list) in patch {
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            delete_scalars(&mut target, field, list)?;
        }
    }
    for (key, value) in patch {
        if key == PATCH || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(ELEMENT_ORDER) {
            continue;
        }
        merge_field(&mut target, key, value, ty.and_then(|t| t.field(key)))?;
    }
    for (key, order) in patch {
        if let Some(field) = key.strip_prefix(ELEMENT_ORDER) {
            let merge_key = ty.and_then(|t| t.field(field)).and_then(|f| f.patch_merge_key);
            reorder(&mut target, field, order, merge_key)?;
        }
    }
    Ok(target)
}

fn without_directive(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(k, _)| *k != PATCH)
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// `$retainKeys` lists every key that is kept. A patched key that is not listed is an error.
fn retain_keys(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(retain) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let Some(retain) = retain.as_array() else {
        return Err(bad("invalid patch format of retainKeys: it must be a list"));
    };
    let keeps = |key: &str| retain.iter().any(|r| r.as_str() == Some(key));
    if let Some(key) = patch
        .iter()
        .find(|(k, v)| !k.starts_with('$') && !v.is_null() && !keeps(k))
        .map(|(k, _)| k)
    {
        return Err(bad(&format!(
            "invalid patch format of retainKeys: {key} is patched but not retained"
        )));
    }
    target.retain(|key, _| keeps(key));
    Ok(())
}

fn delete_scalars(target: &mut Map<String, Value>, field: &str, remove: &Value) -> Result<(), PatchError> {
    let Some(remove) = remove.as_array() else {
        return Err(bad(
            "invalid patch format of primitive list: $deleteFromPrimitiveList must be a list",
        ));
    };
    if let Some(Value::Array(items)) = target.get_mut(field) {
        items.retain(|item| !remove.contains(item));
    }
    Ok(())
}

/// Merges one field of a patch: null removes it, objects and lists are merged by their types, other values replace it.
fn merge_field(
    target: &mut Map<String, Value>,
    key: &str,
    patch: &Value,
    field: Option<&'static FieldDef>,
) -> Result<(), PatchError> {
    let merged = match patch {
        Value::Null => {
            target.remove(key);
            return Ok(());
        }
        Value::Object(entries) => {
            let current = match target.remove(key) {
                Some(Value::Object(current)) => current,
                _ => Map::new(),
            };
            Value::Object(merge_typed(current, entries, field.map(|f| &f.ty))?)
        }
        Value::Array(entries) => {
            let current = match target.remove(key) {
                Some(Value::Array(current)) => current,
                _ => Vec::new(),
            };
            Value::Array(merge_lists(current, entries, field)?)
        }
        scalar => scalar.clone(),
    };
    target.insert(key.to_owned(), merged);
    Ok(())
}

/// Merges two objects of a type reference: a struct of the table, or a map whose values may be structs.
fn merge_typed(
    mut current: Map<String, Value>,
    patch: &Map<String, Value>,
    ty: Option<&'static TypeRef>,
) -> Result<Map<String, Value>, PatchError> {
    match ty {
        Some(TypeRef::Named(name)) => merge_objects(current, patch, builtin::type_named(name)),
        Some(TypeRef::Map(item)) if !patch.contains_key(PATCH) => {
            for (key, value) in patch {
                match value {
                    Value::Null => {
                        current.remove(key);
                    }
                    Value::Object(entries) => {
                        let inner = match current.remove(key) {
                            Some(Value::Object(inner)) => inner,
                            _ => Map::new(),
                        };
                        current.insert(key.clone(), Value::Object(merge_typed(inner, entries, Some(&**item))?));
                    }
                    other => {
                        current.insert(key.clone(), other.clone());
                    }
                }
            }
            Ok(current)
        }
        _ => merge_objects(current, patch, None),
    }
}

/// Merges a list by the merge key of its field. A list without merge key is a set, one that is not merged is replaced.
fn merge_lists(
    current: Vec<Value>,
    patch: &[Value],
    field: Option<&'static FieldDef>,
) -> Result<Vec<Value>, PatchError> {
    let Some(field) = field.filter(|f| f.patch_merge) else {
        return Ok(patch.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect());
    };
    let Some(merge_key) = field.patch_merge_key else {
        let mut merged = current;
        for item in patch {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return Ok(merged);
    };
    let item_type = match &field.ty {
        TypeRef::List(item) => Some(&**item),
        _ => None,
    };
    merge_keyed(current, patch, merge_key, item_type)
}

/// Merges the entries of a list with a merge key; obeys the directives `replace` and `delete`.
fn merge_keyed(
    mut merged: Vec<Value>,
    patch: &[Value],
    merge_key: &str,
    item_type: Option<&'static TypeRef>,
) -> Result<Vec<Value>, PatchError> {
    if patch
        .iter()
        .any(|item| item.get(PATCH).and_then(Value::as_str) == Some("replace"))
    {
        return Ok(patch.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect());
    }
    for item in patch {
        let Value::Object(entries) = item else {
            return Err(bad(&format!(
                "an entry of a list merged by {merge_key} must be an object"
            )));
        };
        let Some(key) = entries.get(merge_key) else {
            return Err(bad(&format!(
                "map: {item} does not contain declared merge key: {merge_key}"
            )));
        };
        if entries.get(PATCH).and_then(Value::as_str) == Some("delete") {
            merged.retain(|other| other.get(merge_key) != Some(key));
            continue;
        }
        let found = merged.iter().position(|other| other.get(merge_key) == Some(key));
        match found.and_then(|at| merged.get_mut(at)) {
            Some(slot) => {
                let current = match slot.take() {
                    Value::Object(current) => current,
                    _ => Map::new(),
                };
                *slot = Value::Object(merge_typed(current, entries, item_type)?);
            }
            None => merged.push(Value::Object(merge_typed(Map::new(), entries, item_type)?)),
        }
    }
    Ok(merged)
}

/// Puts a merged list into the order the client asked for. Entries the client does not know keep their place relative to
/// the entries they stood beside.
fn reorder(
    target: &mut Map<String, Value>,
    field: &str,
    order: &Value,
    merge_key: Option<&str>,
) -> Result<(), PatchError> {
    let Some(order) = order.as_array() else {
        return Err(bad("invalid patch format of setElementOrder list: it must be a list"));
    };
    let Some(Value::Array(items)) = target.get_mut(field) else {
        return Ok(());
    };
    let identity = |value: &Value| merge_key.map_or_else(|| Some(value.clone()), |key| value.get(key).cloned());
    let wanted: Vec<Option<Value>> = order.iter().map(identity).collect();
    let rank = |item: &Value| {
        let id = identity(item);
        wanted.iter().position(|w| *w == id)
    };
    let numbered: Vec<(usize, Value)> = std::mem::take(items).into_iter().enumerate().collect();
    let (mut known, unknown): (Vec<_>, Vec<_>) = numbered.into_iter().partition(|(_, item)| rank(item).is_some());
    known.sort_by_key(|(_, item)| rank(item));
    let (mut known, mut unknown) = (known.into_iter().peekable(), unknown.into_iter().peekable());
    loop {
        let next = match (known.peek(), unknown.peek()) {
            (Some((left, _)), Some((right, _))) if left < right => known.next(),
            (_, Some(_)) => unknown.next(),
            (Some(_), None) => known.next(),
            (None, None) => break,
        };
        items.extend(next.map(|(_, item)| item));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "the tables read better with literals")]
    fn patched(kind: &str, target: Value, patch: Value) -> Value {
        let group = if kind == "Deployment" { "apps" } else { "" };
        let ty = builtin::kind_type(group, "v1", kind).expect("kind of the table");
        merge(target, &patch, ty).expect("the patch applies")
    }

    #[test]
    fn lists_merge_by_key_and_others_are_replaced() {
        let pod = json!({"spec": {
            "containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"}],
            "tolerations": [{"key": "old"}],
        }});
        let patch = json!({"spec": {
            "containers": [{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}, {"name": "c", "image": "3"}],
            "tolerations": [{"key": "new"}],
        }});
        assert_eq!(
            patched("Pod", pod, patch),
            json!({"spec": {
                "containers": [
                    {"name": "a", "image": "2", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                    {"name": "b", "image": "1"},
                    {"name": "c", "image": "3"},
                ],
                "tolerations": [{"key": "new"}],
            }})
        );
    }

    #[test]
    fn conditions_of_a_node_merge_by_type() {
        let node = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "False"}]}});
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let merged = patched("Node", node, patch);
        assert_eq!(
            merged["status"]["conditions"][0],
            json!({"type": "Ready", "status": "True"})
        );
        assert_eq!(merged["status"]["conditions"][1]["type"], "DiskPressure");
    }

    #[test]
    fn directives_delete_and_replace() {
        let deployment = json!({"spec": {"template": {"spec": {
            "containers": [{"name": "a"}, {"name": "b"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "nodeSelector": {"a": "1"},
        }}}});
        let patch = json!({"spec": {"template": {"spec": {
            "containers": [{"name": "b", "$patch": "delete"}],
            "volumes": [{"name": "v", "configMap": {"name": "c"}, "$retainKeys": ["name", "configMap"]}],
            "nodeSelector": {"$patch": "replace", "b": "2"},
        }}}});
        assert_eq!(
            patched("Deployment", deployment, patch)["spec"]["template"]["spec"],
            json!({
                "containers": [{"name": "a"}],
                "volumes": [{"name": "v", "configMap": {"name": "c"}}],
                "nodeSelector": {"b": "2"},
            })
        );
        let replaced = patched(
            "Pod",
            json!({"spec": {"containers": [{"name": "a"}]}}),
            json!({"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}),
        );
        assert_eq!(replaced["spec"]["containers"], json!([{"name": "z"}]));
        let emptied = patched(
            "Pod",
            json!({"spec": {"affinity": {"x": 1}}}),
            json!({"spec": {"affinity": {"$patch": "delete"}}}),
        );
        assert_eq!(emptied["spec"]["affinity"], json!({}));
    }

    #[test]
    fn finalizers_are_a_set() {
        let node = json!({"metadata": {"finalizers": ["a", "b"]}});
        let added = patched("Node", node.clone(), json!({"metadata": {"finalizers": ["b", "c"]}}));
        assert_eq!(added["metadata"]["finalizers"], json!(["a", "b", "c"]));
        let removed = patched(
            "Node",
            node,
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
        );
        assert_eq!(removed["metadata"]["finalizers"], json!(["b"]));
    }

    #[test]
    fn the_asked_order_holds_and_strangers_keep_their_neighbours() {
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "injected"}, {"name": "b"}]}});
        let patch = json!({"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
            "containers": [{"name": "c"}],
        }});
        let names: Vec<Value> = patched("Pod", pod, patch)["spec"]["containers"]
            .as_array()
            .expect("list")
            .iter()
            .map(|c| c["name"].clone())
            .collect();
        assert_eq!(names, ["injected", "c", "b", "a"]);
    }

    #[test]
    fn entries_without_their_key_and_unknown_directives_are_refused() {
        let ty = builtin::kind_type("", "v1", "Pod").expect("pods");
        let missing = merge(json!({}), &json!({"spec": {"containers": [{"image": "x"}]}}), ty).expect_err("no name");
        assert!(
            missing
                .to_string()
                .contains("does not contain declared merge key: name"),
            "{missing}"
        );
        let unknown = merge(json!({}), &json!({"spec": {"$patch": "explode"}}), ty).expect_err("no such directive");
        assert_eq!(unknown.status(), 400);
    }

    #[test]
    fn taints_of_a_node_are_replaced_as_a_whole() {
        let node = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
        let merged = patched(
            "Node",
            node,
            json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}),
        );
        assert_eq!(merged["spec"]["taints"], json!([{"key": "b", "effect": "NoExecute"}]));
    }
}
