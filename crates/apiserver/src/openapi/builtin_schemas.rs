//! Component schemas of built-in types, from the type table.

use serde_json::{Map, Value, json};

use super::descriptions;
use super::documents::{API_VERSION_TEXT, KIND_TEXT, Schemas, custom_component, gvk, reference};
use crate::json;
use crate::schema::builtin::{self, FieldDef, Ownership, TypeRef};

impl Schemas {
    /// Adds a built-in kind with everything it refers to; a kind the table does not know is an open object.
    pub(super) fn add_builtin(&mut self, group: &str, version: &str, kind: &str) -> String {
        let component = match builtin::kind_type(group, version, kind) {
            Some(ty) => self.add_type(ty.name),
            None => {
                let component = custom_component(group, version, kind);
                let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
                self.0.insert(component.clone(), open);
                component
            }
        };
        if let Some(Value::Object(schema)) = self.0.get_mut(&component) {
            schema.insert(
                "x-kubernetes-group-version-kind".to_owned(),
                json!([gvk(group, version, kind)]),
            );
        }
        self.add_list(group, version, kind, &component);
        component
    }

    /// Adds a type of the table and what it refers to; returns its component name.
    pub(super) fn add_type(&mut self, name: &str) -> String {
        let component = component_name(name);
        if self.0.contains_key(&component) {
            return component;
        }
        // Types refer to each other in circles (JSON schemas do), so the name is taken before its fields are read.
        self.0.insert(component.clone(), Value::Null);
        let Some(ty) = builtin::type_named(name) else {
            return component;
        };
        let mut properties = Map::new();
        for field in &ty.fields {
            let mut property = self.field_schema(field);
            let description = descriptions::of_field(name, field.name).or_else(|| match field.name {
                "apiVersion" => Some(API_VERSION_TEXT.to_owned()),
                "kind" => Some(KIND_TEXT.to_owned()),
                _ => None,
            });
            if let Some(description) = description {
                json::set(&mut property, &["description"], description.into());
            }
            properties.insert(field.name.to_owned(), property);
        }
        let required: Vec<&str> = ty.fields.iter().filter(|f| f.required).map(|f| f.name).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        if let Some(description) = descriptions::of_type(name) {
            json::set(&mut schema, &["description"], description.into());
        }
        if !required.is_empty() {
            json::set(&mut schema, &["required"], json!(required));
        }
        if ty.atomic {
            json::set(&mut schema, &["x-kubernetes-map-type"], json!("atomic"));
        }
        self.0.insert(component.clone(), schema);
        component
    }

    fn field_schema(&mut self, field: &FieldDef) -> Value {
        let mut schema = self.type_schema(&field.ty);
        if let Some(strategy) = field.patch_strategy() {
            json::set(&mut schema, &["x-kubernetes-patch-strategy"], json!(strategy));
        }
        if let Some(key) = field.patch_merge_key {
            json::set(&mut schema, &["x-kubernetes-patch-merge-key"], json!(key));
        }
        match (&field.ownership, &field.ty) {
            (Ownership::Default, _) => {}
            (Ownership::Atomic, TypeRef::List(_)) => {
                json::set(&mut schema, &["x-kubernetes-list-type"], json!("atomic"));
            }
            (Ownership::Atomic, _) => json::set(&mut schema, &["x-kubernetes-map-type"], json!("atomic")),
            (Ownership::Set, _) => json::set(&mut schema, &["x-kubernetes-list-type"], json!("set")),
            (Ownership::Keyed(keys), _) => {
                json::set(&mut schema, &["x-kubernetes-list-type"], json!("map"));
                json::set(&mut schema, &["x-kubernetes-list-map-keys"], json!(keys));
            }
        }
        schema
    }

    fn type_schema(&mut self, ty: &TypeRef) -> Value {
        match ty {
            TypeRef::String => json!({"type": "string"}),
            TypeRef::Bool => json!({"type": "boolean"}),
            TypeRef::Int32 => json!({"type": "integer", "format": "int32"}),
            TypeRef::Int64 => json!({"type": "integer", "format": "int64"}),
            TypeRef::Number => json!({"type": "number", "format": "double"}),
            TypeRef::Bytes => json!({"type": "string", "format": "byte"}),
            TypeRef::Any => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            TypeRef::Time => self.well_known(
                "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
                json!({"type": "string", "format": "date-time"}),
            ),
            TypeRef::MicroTime => self.well_known(
                "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
                json!({"type": "string", "format": "date-time"}),
            ),
            TypeRef::Quantity => self.well_known(
                "io.k8s.apimachinery.pkg.api.resource.Quantity",
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ),
            TypeRef::IntOrString => self.well_known(
                "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
            ),
            TypeRef::List(item) => json!({"type": "array", "items": self.type_schema(item)}),
            TypeRef::Map(item) => json!({"type": "object", "additionalProperties": self.type_schema(item)}),
            TypeRef::Named(name) => {
                let component = self.add_type(name);
                json!({"allOf": [{"$ref": reference(&component)}]})
            }
        }
    }

    fn well_known(&mut self, component: &str, schema: Value) -> Value {
        self.0.entry(component.to_owned()).or_insert(schema);
        json!({"allOf": [{"$ref": reference(component)}]})
    }
}

/// The component name of a type of the table, as in `io.k8s.api.core.v1.PodSpec`.
fn component_name(name: &str) -> String {
    if name.starts_with("meta.") {
        format!("io.k8s.apimachinery.pkg.apis.{name}")
    } else {
        format!("io.k8s.api.{name}")
    }
}
