//! The part of a schema that apply needs: which values are owned as a whole, field by field, or entry by entry.

use serde_json::Value;

use crate::patch::Gvk;
use crate::schema::builtin::{self, Ownership, TypeDef, TypeRef};
use crate::schema::{CompiledVersion, ListType, SchemaNode};

/// The schema of a kind, as apply sees it.
pub(crate) trait MergeSchema {
    /// The node of the whole object.
    fn root(&self) -> MergeNode<'_>;
}

/// One part of a schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeNode<'a>(SchemaPart<'a>);

#[derive(Debug, Clone, Copy)]
enum SchemaPart<'a> {
    /// A custom resource; its metadata is that of every object.
    CustomRoot(&'a SchemaNode),
    Custom(&'a SchemaNode),
    Type(&'static TypeDef),
    Reference(&'static TypeRef, &'static Ownership),
    /// No schema: objects field by field, lists as a whole.
    Deduced,
}

/// How a value is owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// As a whole.
    Leaf,
    /// Field by field.
    Fields,
    /// A list, entry by entry, named by these keys.
    Keyed(Vec<String>),
    /// A list, value by value.
    Set,
}

impl MergeSchema for CompiledVersion {
    fn root(&self) -> MergeNode<'_> {
        MergeNode(SchemaPart::CustomRoot(&self.schema))
    }
}

/// The schema of a built-in kind; kinds the table does not know are deduced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltinSchema(Option<&'static TypeDef>);

impl BuiltinSchema {
    /// The schema of this kind.
    pub(crate) fn of(gvk: &Gvk) -> Self {
        Self(builtin::kind_type(&gvk.group, &gvk.version, &gvk.kind))
    }
}

impl MergeSchema for BuiltinSchema {
    fn root(&self) -> MergeNode<'_> {
        MergeNode(self.0.map_or(SchemaPart::Deduced, SchemaPart::Type))
    }
}

impl<'a> MergeNode<'a> {
    /// How `value` is owned at this place.
    pub(super) fn shape(&self, value: &Value) -> Shape {
        match value {
            Value::Object(_) if self.splits_objects() => Shape::Fields,
            Value::Array(_) => self.list_shape(),
            _ => Shape::Leaf,
        }
    }

    fn splits_objects(&self) -> bool {
        match self.0 {
            SchemaPart::CustomRoot(_) | SchemaPart::Deduced => true,
            SchemaPart::Custom(node) => !node.map_atomic,
            SchemaPart::Type(ty) => !ty.atomic,
            SchemaPart::Reference(_, Ownership::Atomic) => false,
            SchemaPart::Reference(TypeRef::Named(name), _) => builtin::type_named(name).is_none_or(|t| !t.atomic),
            SchemaPart::Reference(..) => true,
        }
    }

    fn list_shape(&self) -> Shape {
        match self.0 {
            SchemaPart::Custom(node) => match node.list_type {
                ListType::Atomic => Shape::Leaf,
                ListType::Set => Shape::Set,
                ListType::Map => Shape::Keyed(node.list_map_keys.clone()),
            },
            SchemaPart::Reference(_, Ownership::Set) => Shape::Set,
            SchemaPart::Reference(_, Ownership::Keyed(keys)) => {
                Shape::Keyed(keys.iter().map(|k| (*k).to_owned()).collect())
            }
            _ => Shape::Leaf,
        }
    }

    /// The place of a field.
    pub(super) fn field(&self, name: &str) -> MergeNode<'a> {
        MergeNode(match self.0 {
            SchemaPart::CustomRoot(_) if name == "metadata" => {
                builtin::type_named("meta.v1.ObjectMeta").map_or(SchemaPart::Deduced, SchemaPart::Type)
            }
            SchemaPart::CustomRoot(node) | SchemaPart::Custom(node) => {
                node.field(name).map_or(SchemaPart::Deduced, SchemaPart::Custom)
            }
            SchemaPart::Type(ty) => field_of(ty, name),
            SchemaPart::Reference(TypeRef::Named(ty), _) => {
                builtin::type_named(ty).map_or(SchemaPart::Deduced, |ty| field_of(ty, name))
            }
            SchemaPart::Reference(TypeRef::Map(item), _) => SchemaPart::Reference(item, &Ownership::Default),
            SchemaPart::Reference(..) | SchemaPart::Deduced => SchemaPart::Deduced,
        })
    }

    /// Whether a field of this name is declared, as opposed to being a key of a map.
    pub(super) fn declares(&self, name: &str) -> bool {
        match self.0 {
            SchemaPart::CustomRoot(node) | SchemaPart::Custom(node) => {
                name == "metadata" || node.properties.contains_key(name)
            }
            SchemaPart::Type(ty) => ty.field(name).is_some(),
            SchemaPart::Reference(TypeRef::Named(ty), _) => {
                builtin::type_named(ty).is_some_and(|t| t.field(name).is_some())
            }
            SchemaPart::Reference(..) | SchemaPart::Deduced => false,
        }
    }

    /// The place of a list's entries.
    pub(super) fn item(&self) -> MergeNode<'a> {
        MergeNode(match self.0 {
            SchemaPart::CustomRoot(node) | SchemaPart::Custom(node) => {
                node.items.as_deref().map_or(SchemaPart::Deduced, SchemaPart::Custom)
            }
            SchemaPart::Reference(TypeRef::List(item), _) => SchemaPart::Reference(item, &Ownership::Default),
            SchemaPart::Type(_) | SchemaPart::Reference(..) | SchemaPart::Deduced => SchemaPart::Deduced,
        })
    }

    /// The default of a field, which stands in for an absent list key.
    pub(super) fn field_default(&self, name: &str) -> Option<Value> {
        match self.0 {
            SchemaPart::CustomRoot(node) | SchemaPart::Custom(node) => node.properties.get(name)?.default.clone(),
            SchemaPart::Type(ty) => default_of(ty, name),
            SchemaPart::Reference(TypeRef::Named(ty), _) => default_of(builtin::type_named(ty)?, name),
            SchemaPart::Reference(..) | SchemaPart::Deduced => None,
        }
    }

    /// The path element of a list entry; `None` when it lacks a key.
    pub(super) fn element(&self, item: &Value, shape: &Shape) -> Option<String> {
        match shape {
            Shape::Set => Some(format!("v:{item}")),
            Shape::Keyed(keys) => {
                let place = self.item();
                let mut named: Vec<(&String, Value)> = Vec::with_capacity(keys.len());
                for key in keys {
                    match item.get(key).cloned().or_else(|| place.field_default(key)) {
                        Some(value) => named.push((key, value)),
                        // One key of several may be absent, as `shareID` of devices.
                        None if keys.len() > 1 => {}
                        None => return None,
                    }
                }
                named.sort_by_key(|(key, _)| *key);
                let pairs: Vec<String> = named
                    .iter()
                    .map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())))
                    .collect();
                Some(format!("k:{{{}}}", pairs.join(",")))
            }
            Shape::Leaf | Shape::Fields => None,
        }
    }
}

fn field_of<'a>(ty: &'static TypeDef, name: &str) -> SchemaPart<'a> {
    ty.field(name)
        .map_or(SchemaPart::Deduced, |f| SchemaPart::Reference(&f.ty, &f.ownership))
}

fn default_of(ty: &'static TypeDef, name: &str) -> Option<Value> {
    let field = ty.field(name)?;
    let text = field.default?;
    Some(match field.ty {
        TypeRef::String => text.into(),
        _ => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    })
}
