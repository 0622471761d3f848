//! Objects decoded one by one, so that one that cannot be decoded does not fail its list or watch.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object, or the identity of one that cannot be decoded.
///
/// Unlike [`kube::core::DeserializeGuard`] it reads the object from its text and not from a tree, which a watch of a large cluster spends
/// most of its time on. For that it has to be JSON, and in a watch event follow the event's type, as API servers write it.
#[derive(Clone, Debug)]
pub struct Readable<K>(pub Result<K, Unreadable>);

/// An object that cannot be read. Each of its fields is read on its own, so that one of a wrong type hides no other.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unreadable {
    /// Which object it is and at which version. The other fields are empty, and those of these that cannot be read.
    pub metadata: ObjectMeta,
    /// `spec.nodeName`, of pods the node it is bound to; empty if there is none, `None` if that cannot be read.
    pub node_name: Option<String>,
    /// `status.phase`; `None` if there is none or it cannot be read.
    pub phase: Option<String>,
    /// The field and what is wrong with it.
    pub error: String,
}

impl Unreadable {
    /// The readable fields of an object.
    fn of(object: &Value, error: String) -> Self {
        let phase = object.pointer("/status/phase").and_then(Value::as_str);
        Self {
            metadata: identity_in(object),
            node_name: node_name(object).map(str::to_owned),
            phase: phase.map(str::to_owned),
            error,
        }
    }
}

/// `spec.nodeName` of an object, empty if there is none; `None` if that cannot be read.
pub fn node_name(object: &Value) -> Option<&str> {
    match object.get("spec")?.as_object()?.get("nodeName") {
        None | Some(Value::Null) => Some(""),
        Some(name) => name.as_str(),
    }
}

#[derive(Deserialize)]
struct Partial {
    metadata: Identity,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl From<Identity> for ObjectMeta {
    fn from(of: Identity) -> Self {
        // An empty text says no more than none.
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        Self {
            name: text(of.name),
            namespace: text(of.namespace),
            uid: text(of.uid),
            resource_version: text(of.resource_version),
            ..Self::default()
        }
    }
}

/// Name, namespace, unique id and version of an object. Those that cannot be read are absent.
pub(crate) fn identity(text: &str) -> ObjectMeta {
    // Nearly all objects are read so, which takes no tree.
    match serde_json::from_str::<Partial>(text) {
        Ok(object) => object.metadata.into(),
        Err(_) => identity_in(&tree(text)),
    }
}

fn identity_in(object: &Value) -> ObjectMeta {
    let field = |name: &str| object.get("metadata")?.get(name)?.as_str().map(str::to_owned);
    let identity = Identity {
        name: field("name"),
        namespace: field("namespace"),
        uid: field("uid"),
        resource_version: field("resourceVersion"),
    };
    identity.into()
}

/// The JSON value of a text, null if it is none.
fn tree(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

impl<K: DeserializeOwned + Resource> Readable<K> {
    /// Reads the JSON text of an object, without `managedFields`: most of an object's memory, and read by nobody. An object without a name or
    /// unique id is unreadable: an API server gives every object both.
    pub(crate) fn of(text: &str) -> Self {
        let unreadable = |error| Unreadable::of(&tree(text), error);
        let mut object: K = match serde_json::from_str(text) {
            Ok(object) => object,
            Err(_) => return Self(Err(unreadable(problem::<K>(text)))),
        };
        object.meta_mut().managed_fields = None;
        Self(match missing(object.meta()) {
            None => Ok(object),
            Some(field) => Err(unreadable(format!("{field}: is missing"))),
        })
    }
}

/// The field of an object's identity that is missing.
fn missing(meta: &ObjectMeta) -> Option<&'static str> {
    let is_empty = |field: &Option<String>| field.as_ref().is_none_or(String::is_empty);
    let fields = [("metadata.name", &meta.name), ("metadata.uid", &meta.uid)];
    fields
        .into_iter()
        .find(|(_, value)| is_empty(value))
        .map(|(field, _)| field)
}

impl<'de, K: DeserializeOwned + Resource> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::of(text.get()))
    }
}

/// The field that cannot be decoded and why. The object is read once more as a tree, because positions in a text its owner never saw mean
/// nothing to them.
fn problem<K: DeserializeOwned>(text: &str) -> String {
    let tree: Value = match serde_json::from_str(text) {
        Ok(tree) => tree,
        Err(error) => return error.to_string(),
    };
    match serde_path_to_error::deserialize::<_, K>(tree) {
        Err(error) if error.path().iter().len() > 0 => format!("{}: {}", error.path(), error.inner()),
        Err(error) => error.inner().to_string(),
        Ok(_) => "its text cannot be read".to_owned(),
    }
}

impl<K: Resource> Resource for Readable<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0
            .as_mut()
            .map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    #[test]
    fn managed_fields_are_not_kept() {
        let text = r#"{"metadata": {"name": "a", "uid": "u", "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {}}}]}}"#;
        let read = Readable::<ConfigMap>::of(text).0.expect("readable");
        assert_eq!(
            (read.metadata.name.as_deref(), read.metadata.managed_fields),
            (Some("a"), None)
        );
    }

    #[test]
    fn an_unreadable_object_of_a_list_is_known_by_its_name() {
        let text = r#"{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [
            {"metadata": {"name": "good", "namespace": "a", "uid": "g"}, "data": {"key": "value"}},
            {"metadata": {"name": "bad", "namespace": "a", "uid": "u", "resourceVersion": "7"}, "data": "text"}
        ]}"#;
        let list: ObjectList<Readable<ConfigMap>> = serde_json::from_str(text).expect("a list");
        let [good, bad] = &*list.items else {
            panic!("two objects")
        };
        assert_eq!(
            good.0.as_ref().expect("readable").metadata.name.as_deref(),
            Some("good")
        );
        let unreadable = bad.0.as_ref().expect_err("it cannot be read");
        assert!(
            unreadable
                .to_string()
                .starts_with("data: invalid type: string \"text\", expected "),
            "{unreadable}"
        );
        assert_eq!(bad.meta().name.as_deref(), Some("bad"));
        assert_eq!(bad.meta().resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn an_object_without_name_or_unique_id_is_unreadable() {
        for (metadata, error) in [
            (r#"{"uid": "u"}"#, Some("metadata.name: is missing")),
            (r#"{"name": "", "uid": "u"}"#, Some("metadata.name: is missing")),
            (r#"{"name": "a"}"#, Some("metadata.uid: is missing")),
            (r#"{"name": "a", "uid": "u"}"#, None),
        ] {
            let read = Readable::<ConfigMap>::of(&format!(r#"{{"metadata": {metadata}}}"#));
            let found = read.0.err().map(|unreadable| unreadable.error);
            assert_eq!(found.as_deref(), error, "{metadata}");
        }
    }

    #[test]
    fn a_field_of_a_wrong_type_hides_no_other() {
        let read = |text: &str| {
            let unreadable = Readable::<ConfigMap>::of(text).0.expect_err("it cannot be read");
            let ObjectMeta {
                name, namespace, uid, ..
            } = unreadable.metadata;
            let fields = [name, namespace, uid, unreadable.node_name, unreadable.phase];
            fields.map(|field| field.unwrap_or_else(|| "-".to_owned()))
        };
        let whole = r#"{"metadata": {"name": "a", "namespace": "n", "uid": "u"}, "data": 7,
            "spec": {"nodeName": "one"}, "status": {"phase": "Running"}}"#;
        assert_eq!(read(whole), ["a", "n", "u", "one", "Running"]);
        for (written, instead, expected) in [
            (r#""name": "a""#, r#""name": 7"#, ["-", "n", "u", "one", "Running"]),
            (
                r#""namespace": "n""#,
                r#""namespace": 7"#,
                ["a", "-", "u", "one", "Running"],
            ),
            (
                r#""namespace": "n""#,
                r#""namespace": """#,
                ["a", "-", "u", "one", "Running"],
            ),
            (r#""uid": "u""#, r#""uid": null"#, ["a", "n", "-", "one", "Running"]),
            (
                r#""nodeName": "one""#,
                r#""nodeName": 7"#,
                ["a", "n", "u", "-", "Running"],
            ),
            (
                r#""nodeName": "one""#,
                r#""nodeName": null"#,
                ["a", "n", "u", "", "Running"],
            ),
            (r#""nodeName": "one""#, "", ["a", "n", "u", "", "Running"]),
            (r#"{"nodeName": "one"}"#, "7", ["a", "n", "u", "-", "Running"]),
            (r#""phase": "Running""#, r#""phase": 7"#, ["a", "n", "u", "one", "-"]),
            (r#"{"phase": "Running"}"#, "7", ["a", "n", "u", "one", "-"]),
            (
                r#"{"name": "a", "namespace": "n", "uid": "u"}"#,
                "7",
                ["-", "-", "-", "one", "Running"],
            ),
        ] {
            let text = whole.replace(written, instead);
            assert_ne!(text, whole);
            assert_eq!(read(&text), expected, "{text}");
            let name = identity(&text).name;
            assert_eq!(name.as_deref().unwrap_or("-"), expected[0], "{text}");
        }
        assert_eq!(read("[]"), ["-"; 5]);
    }

    #[test]
    fn an_unreadable_object_does_not_end_a_watch() {
        let text = r#"{"type":"MODIFIED","object":{"metadata":{"name":"bad","resourceVersion":"7"},"data":"text"}}"#;
        let event: WatchEvent<Readable<ConfigMap>> = serde_json::from_str(text).expect("an event");
        assert!(matches!(event, WatchEvent::Modified(Readable(Err(_)))));
    }
}
