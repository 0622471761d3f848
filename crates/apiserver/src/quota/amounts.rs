//! Lists of amounts by quota resource, such as `pods` and `requests.cpu`.

use std::collections::BTreeMap;

use kerf_units::quantity::Quantity;
use serde_json::Value;

use crate::json;

/// Amounts by quota resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// The amounts at `path` of an object; a value that is no quantity is left out.
pub(crate) fn amounts(object: &Value, path: &[&str]) -> Amounts {
    let fields = json::at(object, path).as_object().into_iter().flatten();
    fields
        .filter_map(|(name, amount)| Some((name.clone(), json::quantity(amount)?)))
        .collect()
}

/// The amounts as messages of the real server list them: `cpu=1,pods=2`.
pub(crate) fn text(amounts: &Amounts) -> String {
    let each: Vec<String> = amounts
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    each.join(",")
}
