//! Finds the fields of a written object that its kind does not have, with the fields that are there instead.

use serde_json::{Map, Value};

use super::offline::Admission;
use crate::json;
use crate::schema::SchemaNode;
use crate::schema::builtin::{self, TypeDef, TypeRef};

/// A field that the object's kind does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownField {
    /// Its path, such as `spec.containers[0].resource`.
    pub path: String,
    /// The names that are known at this place, sorted.
    pub known: Vec<String>,
}

impl Admission {
    /// The unknown fields of an object, without those of its status. Kinds that are not known have none.
    pub fn unknown_fields(&self, object: &Value) -> Vec<UnknownField> {
        let mut found = Vec::new();
        let text = |field: &str| json::text(object, &[field]).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let Some(resource) = self.resource(api_version, kind) else {
            return found;
        };
        let Some(map) = object.as_object() else {
            return found;
        };
        if let Some(ty) = builtin::kind_type(&resource.group, &resource.version, &resource.kind) {
            of_type(map, ty, "", &mut found);
        } else if let Some(version) = resource
            .crd
            .as_ref()
            .and_then(|crd| crd.compiled.as_ref()?.version(&resource.version))
        {
            of_schema(object, &version.schema, true, "", &mut found);
            if let (Some(ty), Some(Value::Object(meta))) =
                (builtin::type_named("meta.v1.ObjectMeta"), map.get("metadata"))
            {
                of_type(meta, ty, "metadata", &mut found);
            }
        }
        found
    }
}

/// The path of a field of the object at `parent`.
fn field(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        parent => format!("{parent}.{name}"),
    }
}

fn of_type(map: &Map<String, Value>, ty: &TypeDef, path: &str, found: &mut Vec<UnknownField>) {
    for (name, value) in map {
        if path.is_empty() && name == "status" {
            continue;
        }
        match ty.field(name) {
            Some(field_def) => of_value(value, &field_def.ty, &field(path, name), found),
            None => {
                let mut known: Vec<String> = ty.fields.iter().map(|field| field.name.to_owned()).collect();
                known.sort();
                let path = field(path, name);
                found.push(UnknownField { path, known });
            }
        }
    }
}

fn of_value(value: &Value, ty: &TypeRef, path: &str, found: &mut Vec<UnknownField>) {
    match (ty, value) {
        (TypeRef::List(item), Value::Array(items)) => {
            for (index, value) in items.iter().enumerate() {
                of_value(value, item, &format!("{path}[{index}]"), found);
            }
        }
        (TypeRef::Map(item), Value::Object(map)) => {
            for (name, value) in map {
                of_value(value, item, &field(path, name), found);
            }
        }
        (TypeRef::Named(name), Value::Object(map)) => {
            if let Some(ty) = builtin::type_named(name) {
                of_type(map, ty, path, found);
            }
        }
        _ => {}
    }
}

/// `is_resource`: the value is an object with apiVersion, kind and metadata of its own.
fn of_schema(value: &Value, schema: &SchemaNode, is_resource: bool, path: &str, found: &mut Vec<UnknownField>) {
    match value {
        Value::Object(map) => {
            let is_own = |name: &str| is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
            for (name, value) in map.iter().filter(|(name, _)| !is_own(name)) {
                if path.is_empty() && name == "status" {
                    continue;
                }
                match schema.field(name) {
                    Some(inner) => of_schema(value, inner, inner.embedded_resource, &field(path, name), found),
                    None if schema.keeps_unknown() => {}
                    None => {
                        let known = schema.properties.keys().cloned().collect();
                        let path = field(path, name);
                        found.push(UnknownField { path, known });
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = schema.items.as_deref() {
                for (index, value) in items.iter().enumerate() {
                    of_schema(
                        value,
                        inner,
                        inner.embedded_resource,
                        &format!("{path}[{index}]"),
                        found,
                    );
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_come_with_the_names_known_there() {
        let crd = json!({"spec": {"group": "x.io", "scope": "Cluster", "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"expireAfter": {"type": "string"}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}]},
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.x.io"}});
        let admission = Admission::new([&crd]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "label": {}}, "status": {"odd": 1},
            "spec": {"nodeSelector": {"any": "thing"}, "containers": [{"name": "c", "resource": {}, "resources": {"limits": {"any/thing": 1}}}]}});
        let paths = |object: &Value| -> Vec<String> {
            let found = admission.unknown_fields(object);
            found.into_iter().map(|field| field.path).collect()
        };
        assert_eq!(paths(&pod), ["metadata.label", "spec.containers[0].resource"]);
        let known = admission
            .unknown_fields(&pod)
            .pop()
            .map(|field| field.known)
            .unwrap_or_default();
        assert!(known.iter().any(|name| name == "resources"), "{known:?}");
        let custom = json!({"apiVersion": "x.io/v1", "kind": "A", "metadata": {"name": "a", "odd": 1}, "spec": {"expireAfterr": "1h", "free": {"any": 1}}});
        assert_eq!(paths(&custom), ["spec.expireAfterr", "metadata.odd"]);
        assert_eq!(
            paths(&json!({"apiVersion": "y.io/v1", "kind": "B", "odd": 1})),
            Vec::<String>::new()
        );
    }
}
