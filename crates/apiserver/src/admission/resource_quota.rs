//! ResourceQuotas: a new object is refused when it would use more than a quota of its namespace has left.

use kerf_units::quantity::Quantity;
use serde_json::Value;

use crate::error::ApiError;
use crate::json;
use crate::quota::{self, Amounts};
use crate::registry::Resource;
use crate::state::State;

/// Fails with 403 when the object exceeds a quota, or leaves out a request that a quota limits.
pub(super) fn admit(state: &State, resource: &Resource, object: &Value) -> Result<(), ApiError> {
    let namespace = json::text(object, &["metadata", "namespace"]).unwrap_or_default();
    let name = json::text(object, &["metadata", "name"]).unwrap_or_default();
    for stored in state.quotas(namespace) {
        let quota = stored.value();
        if !quota::counts(&quota, &resource.group, &resource.plural, object) {
            continue;
        }
        let hard = quota::amounts(&quota, &["spec", "hard"]);
        if resource.is("", "pods")
            && let Some(missing) = quota::unspecified(&hard, object)
        {
            let why = format!("failed quota: {}: must specify {missing}", stored.name());
            return Err(ApiError::forbidden(resource, name, &why));
        }
        let used = quota::amounts(&quota, &["status", "used"]);
        let requested = quota::usage(&resource.group, &resource.plural, object);
        let mut exceeded = requested;
        exceeded.retain(|name, amount| {
            let total = used.get(name).unwrap_or(&Quantity::ZERO).saturating_add(amount);
            hard.get(name).is_some_and(|limit| total > *limit)
        });
        if exceeded.is_empty() {
            continue;
        }
        let of = |amounts: &Amounts| {
            let named = amounts.iter().filter(|(name, _)| exceeded.contains_key(*name));
            quota::text(&named.map(|(name, amount)| (name.clone(), amount.clone())).collect())
        };
        let why = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            stored.name(),
            quota::text(&exceeded),
            of(&used),
            of(&hard)
        );
        return Err(ApiError::forbidden(resource, name, &why));
    }
    Ok(())
}
