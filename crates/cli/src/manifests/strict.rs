//! Refuses manifests with unknown fields, as `kubectl apply` does: a misspelt `resources` would plan pods without requests.

use super::error::InputError;
use super::object::{Object, Objects};
use super::unread::{because, unread};
use kerf_apiserver::{Admission, UnknownField};
use kerf_units::nearest_name::nearest;
use serde_json::Value;

/// Takes out every object with unknown fields and reports each of them.
///
/// Objects with a `resourceVersion` come from an API server, which has dropped what it does not know. Their unknown fields belong to a newer
/// API and are ignored.
pub(crate) fn refuse_unknown_fields(found: &mut Objects, admission: &Admission) {
    let Objects {
        objects,
        errors,
        unread: left_out,
        ..
    } = found;
    objects.retain(|object| {
        if is_stored(&object.value) {
            return true;
        }
        let unknown = admission.unknown_fields(&object.value);
        if unknown.is_empty() {
            return true;
        }
        let problems: Vec<InputError> = unknown.iter().map(|field| refusal(object, field)).collect();
        left_out.extend(unread(&object.kind, &object.value).map(|one| because(one, &problems)));
        errors.extend(problems);
        false
    });
}

fn is_stored(object: &Value) -> bool {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.is_some_and(|version| !version.is_empty())
}

fn refusal(object: &Object, field: &UnknownField) -> InputError {
    let name = field.path.rsplit('.').next().unwrap_or_default();
    let meant = nearest(name, field.known.iter().map(String::as_str));
    let remedy = match meant {
        Some(meant) => format!("did you mean \"{meant}\"? --validate=false ignores unknown fields"),
        None => "remove it; --validate=false ignores unknown fields".to_owned(),
    };
    object.error(&field.path, "unknown field").remedy(remedy)
}
