//! One refused field, worded as the real server words it (API-024).

use std::fmt;

use serde_json::Value;

/// The class of a refused field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// A required field is missing.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The value is not one of an enumeration.
    NotSupported,
    /// A string is too long.
    TooLong,
    /// A list or map has too many entries.
    TooMany,
    /// An entry appears twice.
    Duplicate,
    /// The field may not be set.
    Forbidden,
    /// The schema has no such field; only strict field validation reports it (400, not 422).
    UnknownField,
}

/// One refused field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldError {
    /// Where, as in `spec.disruption.budgets[0].nodes`; `<nil>` for the object as a whole.
    pub(crate) path: String,
    /// The class.
    pub(crate) kind: ErrorKind,
    /// The value as the server shows it; `None` where the server shows none.
    pub(crate) value: Option<Value>,
    /// Why; may be empty.
    pub(crate) message: String,
}

impl FieldError {
    /// An error from its parts.
    pub(crate) fn new(kind: ErrorKind, path: &str, value: Option<Value>, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            kind,
            value,
            message: message.into(),
        }
    }

    /// A missing field.
    pub(crate) fn required(path: &str, message: &str) -> Self {
        Self::new(ErrorKind::Required, path, None, message)
    }

    /// A value that breaks a rule.
    pub(crate) fn invalid(path: &str, value: &Value, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, path, Some(value.clone()), message)
    }

    /// A value out of an enumeration.
    pub(crate) fn not_supported(path: &str, value: &Value, supported: &[Value]) -> Self {
        let names: Vec<String> = supported.iter().map(quoted).collect();
        Self::new(
            ErrorKind::NotSupported,
            path,
            Some(value.clone()),
            format!("supported values: {}", names.join(", ")),
        )
    }

    /// The text after the path: what a `Status` cause carries as its message.
    pub(crate) fn body(&self) -> String {
        let title = match self.kind {
            ErrorKind::Required => "Required value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::UnknownField => return self.message.clone(),
        };
        let mut text = title.to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(&quoted(value));
        }
        if !self.message.is_empty() {
            text.push_str(": ");
            text.push_str(&self.message);
        }
        text
    }

    /// The machine-readable reason of a `Status` cause.
    pub(crate) fn reason(&self) -> &'static str {
        match self.kind {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid | ErrorKind::UnknownField => "FieldValueInvalid",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Forbidden => "FieldValueForbidden",
        }
    }

    /// Whether CEL rules go unchecked while this error stands (API-025).
    pub(crate) fn blocks_rules(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Required
                | ErrorKind::TypeInvalid
                | ErrorKind::NotSupported
                | ErrorKind::TooLong
                | ErrorKind::TooMany
        )
    }

    /// Lists the fields strict decoding found, the way the real server joins them; `None` when there are none.
    pub(crate) fn strict_decoding_message(errors: &[Self]) -> Option<String> {
        let found: Vec<&str> = errors
            .iter()
            .filter(|e| e.kind == ErrorKind::UnknownField)
            .map(|e| e.message.as_str())
            .collect();
        if found.is_empty() {
            None
        } else {
            Some(format!("strict decoding error: {}", found.join(", ")))
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == ErrorKind::UnknownField {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.body())
    }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// The path of a field below `base`.
pub(super) fn child(base: &str, name: &str) -> String {
    if base.is_empty() {
        name.to_owned()
    } else {
        format!("{base}.{name}")
    }
}

/// The path of a list entry below `base`.
pub(super) fn index(base: &str, at: usize) -> String {
    format!("{base}[{at}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // API-024
    #[test]
    fn errors_read_like_the_real_servers() {
        let cases = [
            (
                FieldError::required("spec.template", ""),
                "spec.template: Required value",
            ),
            (
                FieldError::invalid("spec.weight", &json!(0), "too small"),
                "spec.weight: Invalid value: 0: too small",
            ),
            (
                FieldError::not_supported("x", &json!("c"), &[json!("a"), json!("b")]),
                "x: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (
                FieldError::new(ErrorKind::TooLong, "x", None, "may not be more than 63 bytes"),
                "x: Too long: may not be more than 63 bytes",
            ),
            (
                FieldError::new(ErrorKind::TooMany, "x", Some(json!(101)), "must have at most 100 items"),
                "x: Too many: 101: must have at most 100 items",
            ),
            (
                FieldError::new(ErrorKind::Duplicate, "x[1]", Some(json!("a")), ""),
                "x[1]: Duplicate value: \"a\"",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
