//! The list of field errors that the rules of built-in kinds fill.

use serde_json::Value;

use super::meta;
use crate::json;
use crate::schema::{ErrorKind, FieldError};

/// The field errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Checks(pub(crate) Vec<FieldError>);

impl Checks {
    pub(super) fn required(&mut self, path: &str) {
        // The type table may have reported it already.
        if !self.0.iter().any(|e| e.path == path) {
            self.0.push(FieldError::required(path, ""));
        }
    }

    pub(super) fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        self.0.push(FieldError::invalid(path, value, why));
    }

    pub(super) fn duplicate(&mut self, path: &str, value: &Value) {
        self.0
            .push(FieldError::new(ErrorKind::Duplicate, path, Some(value.clone()), ""));
    }

    pub(super) fn forbidden(&mut self, path: &str, why: &str) {
        self.0.push(FieldError::new(ErrorKind::Forbidden, path, None, why));
    }

    pub(super) fn not_found(&mut self, path: &str, name: &str) {
        self.0.push(FieldError::new(
            ErrorKind::Invalid,
            path,
            Some(name.into()),
            "not found",
        ));
    }

    /// `field` of `object` is one of these, when set.
    pub(super) fn one_of(&mut self, path: &str, object: &Value, field: &str, supported: &[&str]) {
        let value = json::at(object, &[field]);
        let Some(text) = value.as_str() else {
            return;
        };
        let at = if path.is_empty() {
            field.to_owned()
        } else {
            format!("{path}.{field}")
        };
        let known = self.0.iter().any(|e| e.path == at);
        // An empty effect is any effect.
        let fine = supported.contains(&text) || (text.is_empty() && field == "effect");
        if !fine && !known {
            let supported: Vec<Value> = supported.iter().map(|s| Value::from(*s)).collect();
            self.0.push(FieldError::not_supported(&at, value, &supported));
        }
    }

    pub(super) fn not_negative(&mut self, path: &str, object: &Value, field: &str) {
        let value = json::at(object, &[field]);
        if value.as_i64().is_some_and(|n| n < 0) {
            self.invalid(&format!("{path}.{field}"), value, "must be greater than or equal to 0");
        }
    }

    pub(super) fn label_name(&mut self, path: &str, name: &str) {
        if !name.is_empty()
            && let Err(why) = meta::dns_label(name)
        {
            self.invalid(path, &name.into(), &why);
        }
    }

    /// Top-level fields that may not change.
    pub(super) fn unchanged(&mut self, object: &Value, old: Option<&Value>, fields: &[&str]) {
        let Some(old) = old else {
            return;
        };
        for field in fields {
            if json::at(object, &[field]) != json::at(old, &[field]) {
                self.forbidden(field, "updates are forbidden.");
            }
        }
    }
}
