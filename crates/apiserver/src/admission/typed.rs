//! Built-in objects by their type table: unknown fields are removed, values of the wrong JSON type and missing required fields are refused.
//! In the real server, decoding into Go structs does this.

use kerf_units::quantity::Quantity;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::registry::Resource;
use crate::schema::builtin::{self, TypeDef, TypeRef};
use crate::schema::{FieldError, FieldValidation, Place};

/// Amounts below this are held exactly by [`Quantity`].
const LARGEST_EXACT: f64 = 1e29;

/// Shapes a built-in object; returns warnings. Kinds the table does not know pass as they are.
pub(crate) fn shape(
    resource: &Resource,
    object: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, ApiError> {
    let Some(ty) = builtin::kind_type(&resource.group, &resource.version, &resource.kind) else {
        return metadata(resource, object);
    };
    let mut decoder = Decoder {
        unknown: Vec::new(),
        type_name: resource.kind.as_str(),
    };
    if let Value::Object(map) = object {
        decoder
            .fields(map, ty, &Place::Root)
            .map_err(|why| undecodable(resource, &why))?;
    }
    let unknown = decoder
        .unknown
        .iter()
        .map(|path| format!("unknown field {path:?}"))
        .collect::<Vec<_>>();
    match validation {
        FieldValidation::Strict if !unknown.is_empty() => Err(undecodable(
            resource,
            &format!("strict decoding error: {}", unknown.join(", ")),
        )),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(unknown),
    }
}

/// Shapes the metadata alone: custom resources have their own schema for the rest.
pub(crate) fn metadata(resource: &Resource, object: &mut Value) -> Result<Vec<String>, ApiError> {
    if let Some(ty) = builtin::type_named("meta.v1.ObjectMeta")
        && let Some(Value::Object(map)) = object.get_mut("metadata")
    {
        let mut decoder = Decoder {
            unknown: Vec::new(),
            type_name: "ObjectMeta",
        };
        decoder
            .fields(map, ty, &Place::Field(&Place::Root, "metadata"))
            .map_err(|why| undecodable(resource, &why))?;
    }
    Ok(Vec::new())
}

/// 400: the body is no object of this kind.
pub(crate) fn undecodable(resource: &Resource, why: &str) -> ApiError {
    let kind = &resource.kind;
    ApiError::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: {why}",
        resource.version
    ))
}

/// Decodes an object by its built-in type: drops and collects unknown fields, and refuses values of a wrong type.
struct Decoder<'a> {
    unknown: Vec<String>,
    type_name: &'a str,
}

impl Decoder<'_> {
    fn fields(&mut self, map: &mut Map<String, Value>, ty: &'static TypeDef, place: &Place<'_>) -> Result<(), String> {
        let mut gone = Vec::new();
        for (key, value) in map.iter_mut() {
            let here = Place::Field(place, key);
            match ty.field(key) {
                None => {
                    gone.push(key.clone());
                    self.unknown.push(here.path());
                }
                // A null is an absent field.
                Some(_) if value.is_null() => gone.push(key.clone()),
                Some(field) => self.value(value, &field.ty, &here)?,
            }
        }
        for key in gone {
            map.remove(&key);
        }
        Ok(())
    }

    fn value(&mut self, value: &mut Value, ty: &TypeRef, place: &Place<'_>) -> Result<(), String> {
        let fits = match ty {
            TypeRef::String | TypeRef::Bytes => value.is_string(),
            TypeRef::Bool => value.is_boolean(),
            TypeRef::Int32 => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            TypeRef::Int64 => value.as_i64().is_some(),
            TypeRef::Number => value.is_number(),
            TypeRef::Time | TypeRef::MicroTime => value.as_str().is_some_and(|t| t.parse::<jiff::Timestamp>().is_ok()),
            TypeRef::IntOrString => value.is_string() || value.as_i64().is_some(),
            TypeRef::Quantity => {
                // The real server does not name the field; the path helps to find it.
                return canonical_quantity(value).map_err(|why| format!("{why} (found {value} at {})", place.path()));
            }
            TypeRef::Any => true,
            TypeRef::List(item) => match value {
                Value::Array(items) => {
                    for (i, item_value) in items.iter_mut().enumerate() {
                        self.value(item_value, item, &Place::Item(place, i))?;
                    }
                    true
                }
                _ => false,
            },
            TypeRef::Map(item) => match value {
                Value::Object(map) => {
                    for (name, item_value) in map.iter_mut() {
                        self.value(item_value, item, &Place::Field(place, name))?;
                    }
                    true
                }
                _ => false,
            },
            TypeRef::Named(name) => match (&mut *value, builtin::type_named(name)) {
                (Value::Object(map), Some(ty)) => {
                    self.fields(map, ty, place)?;
                    true
                }
                (_, None) => true,
                _ => false,
            },
        };
        if fits {
            Ok(())
        } else {
            Err(self.mismatch(value, ty, &place.path()))
        }
    }

    fn mismatch(&self, value: &Value, ty: &TypeRef, path: &str) -> String {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{path} of type {}",
            self.type_name,
            go_type(ty)
        )
    }
}

fn go_type(ty: &TypeRef) -> String {
    match ty {
        TypeRef::String => "string".to_owned(),
        TypeRef::Bool => "bool".to_owned(),
        TypeRef::Int32 => "int32".to_owned(),
        TypeRef::Int64 => "int64".to_owned(),
        TypeRef::Number => "float64".to_owned(),
        TypeRef::Bytes => "[]uint8".to_owned(),
        TypeRef::Time => "v1.Time".to_owned(),
        TypeRef::MicroTime => "v1.MicroTime".to_owned(),
        TypeRef::Quantity => "resource.Quantity".to_owned(),
        TypeRef::IntOrString => "intstr.IntOrString".to_owned(),
        TypeRef::Any => "runtime.RawExtension".to_owned(),
        TypeRef::List(item) => format!("[]{}", go_type(item)),
        TypeRef::Map(item) => format!("map[string]{}", go_type(item)),
        TypeRef::Named(name) => {
            let short = name.split('.').skip(1).collect::<Vec<_>>().join(".");
            if short.is_empty() { (*name).to_owned() } else { short }
        }
    }
}

/// Puts a quantity into canonical form: `0.5` and `"0.5"` become `500m`.
fn canonical_quantity(value: &mut Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err("quantities must be strings or numbers".to_owned()),
    };
    let Ok(quantity) = text.parse::<Quantity>() else {
        return Err(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned(),
        );
    };
    if !exponent_fits(&text) {
        return Err(format!("the exponent of quantity {text:?} does not fit 32 bits"));
    }
    // Larger amounts are capped by the type here, and not by the real server.
    let exact = quantity.to_f64().abs() < LARGEST_EXACT;
    *value = Value::String(if exact { quantity.to_string() } else { text });
    Ok(())
}

/// Whether the exponent of a quantity, if it has one, fits the type that the real server keeps it in.
fn exponent_fits(quantity: &str) -> bool {
    let exponent = quantity.split_once(['e', 'E']).map_or("", |(_, exponent)| exponent);
    // `E` and `Ei` are suffixes.
    matches!(exponent, "" | "i") || exponent.parse::<i32>().is_ok()
}

/// Reports missing required fields outside metadata and status, which have their own rules.
pub(crate) fn required(resource: &Resource, object: &Value, errors: &mut Vec<FieldError>) {
    let Some(ty) = builtin::kind_type(&resource.group, &resource.version, &resource.kind) else {
        return;
    };
    if let Value::Object(map) = object {
        for field in ty.fields.iter().filter(|f| !matches!(f.name, "metadata" | "status")) {
            let place = Place::Field(&Place::Root, field.name);
            missing(map.get(field.name), field.required, &field.ty, &place, errors);
        }
    }
}

fn missing(value: Option<&Value>, required: bool, ty: &TypeRef, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    let Some(value) = value else {
        if required {
            errors.push(FieldError::required(&place.path(), ""));
        }
        return;
    };
    match (ty, value) {
        (TypeRef::String, Value::String(text)) if required && text.is_empty() => {
            errors.push(FieldError::required(&place.path(), ""));
        }
        (TypeRef::List(item), Value::Array(items)) if matches!(**item, TypeRef::Named(_)) => {
            for (i, entry) in items.iter().enumerate() {
                missing(Some(entry), true, item, &Place::Item(place, i), errors);
            }
        }
        (TypeRef::Named(name), Value::Object(map)) => {
            // The metadata of templates has no required fields.
            let Some(ty) = builtin::type_named(name).filter(|t| t.name != "meta.v1.ObjectMeta") else {
                return;
            };
            for field in &ty.fields {
                let present = map.get(field.name);
                if present.is_some() || field.required {
                    missing(
                        present,
                        field.required,
                        &field.ty,
                        &Place::Field(place, field.name),
                        errors,
                    );
                }
            }
        }
        _ => {}
    }
}
