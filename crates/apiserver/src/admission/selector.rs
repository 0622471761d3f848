//! Validation of label selectors.

use serde_json::Value;

use super::{Checks, meta};
use crate::json;
use crate::schema::FieldError;

/// Checks a selector. An absent selector is valid.
pub(super) fn validate(path: &str, selector: &Value, checks: &mut Checks) {
    meta::labels(
        &format!("{path}.matchLabels"),
        json::at(selector, &["matchLabels"]),
        &mut checks.0,
    );
    for (i, expression) in json::items(selector, &["matchExpressions"]).iter().enumerate() {
        let here = format!("{path}.matchExpressions[{i}]");
        let values = json::items(expression, &["values"]);
        let at = format!("{here}.values");
        match json::text(expression, &["operator"]).unwrap_or_default() {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                checks.0.push(FieldError::required(&at, why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                checks.forbidden(
                    &at,
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let operator = json::at(expression, &["operator"]);
                checks.invalid(&format!("{here}.operator"), operator, "not a valid selector operator");
            }
        }
        let key = json::text(expression, &["key"]).unwrap_or_default();
        meta::label_key(&format!("{here}.key"), key, &mut checks.0);
        for (j, value) in values.iter().enumerate() {
            meta::label_value(&format!("{at}[{j}]"), value, &mut checks.0);
        }
    }
}
