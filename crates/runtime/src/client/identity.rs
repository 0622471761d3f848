//! The name and the unique id of an object, or an error that says which of them it lacks.

use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::Error;

/// The name of an object. The API server gives every object one, so an answer without one is malformed: the error names the kind and the field.
pub fn name_of<K: Resource<DynamicType = ()>>(object: &K) -> Result<&str, kube::Error> {
    name_in::<K>(object.meta())
}

/// The unique id of an object, with an error like that of [`name_of`].
pub fn uid_of<K: Resource<DynamicType = ()>>(object: &K) -> Result<&str, kube::Error> {
    uid_in::<K>(object.meta())
}

/// The name in the metadata of an object of kind `K`.
pub(super) fn name_in<K: Resource<DynamicType = ()>>(meta: &ObjectMeta) -> Result<&str, kube::Error> {
    present::<K>("name", meta.name.as_deref())
}

/// The unique id in the metadata of an object of kind `K`.
pub(super) fn uid_in<K: Resource<DynamicType = ()>>(meta: &ObjectMeta) -> Result<&str, kube::Error> {
    present::<K>("uid", meta.uid.as_deref())
}

fn present<'a, K: Resource<DynamicType = ()>>(field: &str, value: Option<&'a str>) -> Result<&'a str, kube::Error> {
    let lacks = || kube::Error::SerdeError(Error::custom(format!("{} without metadata.{field}", K::kind(&()))));
    value.filter(|value| !value.is_empty()).ok_or_else(lacks)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{from_value, json};

    use super::super::{ApiErrorKind, describe};
    use super::*;

    #[test]
    fn the_error_names_the_kind_and_the_field() {
        let node = |metadata| from_value::<Node>(json!({"metadata": metadata})).expect("a node");
        let full = node(json!({"name": "a", "uid": "u"}));
        assert_eq!((name_of(&full).ok(), uid_of(&full).ok()), (Some("a"), Some("u")));
        for metadata in [json!({}), json!({"name": "", "uid": ""})] {
            let empty = node(metadata);
            for (found, field) in [(name_of(&empty), "name"), (uid_of(&empty), "uid")] {
                let error = found.expect_err("it has none");
                assert_eq!(ApiErrorKind::of(&error), ApiErrorKind::Malformed);
                let wanted = format!("Node without metadata.{field}");
                assert!(describe(&error).contains(&wanted), "{}", describe(&error));
            }
        }
    }
}
