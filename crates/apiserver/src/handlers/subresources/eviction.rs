//! pods/eviction: a deletion that the pod's disruption budget must allow.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Target;
use crate::error::ApiError;
use crate::handlers::answer::Answer;
use crate::handlers::call::Call;
use crate::json;
use crate::registry::Resource;
use crate::request::{DeleteOptions, Query};
use crate::state::{State, seconds};
use crate::storage::{Change, LabelSelector, Stored};

/// Most evictions of a budget that the disruption controller has not confirmed, as in the real server.
const DISRUPTED_PODS_MAX: usize = 2000;
/// `Retry-After` (seconds) while the disruption controller has not processed the budget.
const RETRY_AFTER_S: u32 = 10;

/// Evicts the pod. The error names the budget that forbids it.
pub(crate) fn answer(state: &mut State, call: &Call<'_>, at: &Target<'_>) -> Result<Answer, ApiError> {
    if *call.method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let eviction = call.json_body()?;
    if json::text(&eviction, &["metadata", "name"]).is_some_and(|name| name != at.name) {
        return Err(ApiError::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut options = DeleteOptions::parse(&Query::default(), json::at(&eviction, &["deleteOptions"]))?;
    options.dry_run |= call.query.dry_run("DeleteOptions")?;
    let key = at.resource.key(at.namespace, at.name);
    let live = state
        .find("", "pods", &key)
        .cloned()
        .ok_or_else(|| ApiError::not_found(at.resource, at.name))?;
    let pod = live.value();
    check_preconditions(at.resource, &live, &pod, &options)?;
    if !needs_no_budget(&live, &pod) {
        ask_budget(state, at, &live, &pod, options.dry_run)?;
    }
    state.delete(at.resource, &key, &options, at.now)?;
    let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer::json(201, &success))
}

/// Fails when the deletion would fail, so that no disruption is taken from the budget.
fn check_preconditions(
    resource: &Resource,
    live: &Stored,
    pod: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let uid = json::text(pod, &["metadata", "uid"]).unwrap_or_default();
    if let Some(wanted) = options.uid.as_deref().filter(|w| *w != uid) {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(ApiError::conflict(resource, live.name(), &why));
    }
    Ok(())
}

/// Whether the pod counts for no budget: it is finished, not started, or already being deleted.
fn needs_no_budget(live: &Stored, pod: &Value) -> bool {
    live.deleting
        || matches!(
            json::text(pod, &["status", "phase"]),
            Some("Succeeded" | "Failed" | "Pending")
        )
}

/// Counts an eviction against the budget that covers the pod; stores nothing in a dry run. The error refuses the eviction.
fn ask_budget(
    state: &mut State,
    at: &Target<'_>,
    pod: &Stored,
    pod_value: &Value,
    dry_run: bool,
) -> Result<(), ApiError> {
    let Some(table) = state.table_id("policy", "poddisruptionbudgets") else {
        return Ok(());
    };
    let budgets: Vec<Arc<Stored>> = state
        .table(table)
        .range(Some(at.namespace))
        .filter(|b| {
            let selector = b.value();
            let selector = json::at(&selector, &["spec", "selector"]);
            // A missing selector matches nothing, an empty one everything.
            selector.is_object() && LabelSelector::from_spec(selector).matches(pod)
        })
        .cloned()
        .collect();
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::new(500, "", message));
        }
    };
    let mut budget_value = budget.to_value();
    if !is_ready(pod_value) && unhealthy_may_go(&budget_value) {
        return Ok(());
    }
    charge(at, budget.name(), &mut budget_value)?;
    if !dry_run {
        state.commit(table, Change::Modified, &budget.key, budget_value);
    }
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    json::items(pod, &["status", "conditions"])
        .iter()
        .any(|c| json::text(c, &["type"]) == Some("Ready") && json::text(c, &["status"]) == Some("True"))
}

/// Whether the budget allows the eviction of an unready pod without taking a disruption.
fn unhealthy_may_go(budget: &Value) -> bool {
    let number = |field| json::int(budget, &["status", field]).unwrap_or(0);
    match json::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) {
        Some("AlwaysAllow") => true,
        _ => number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy"),
    }
}

/// Takes one disruption from the budget and records the pod in `disruptedPods`.
fn charge(at: &Target<'_>, name: &str, budget: &mut Value) -> Result<(), ApiError> {
    let number = |field| json::int(budget, &["status", field]).unwrap_or(0);
    if number("observedGeneration") < json::int(budget, &["metadata", "generation"]).unwrap_or(0) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refusal(&why).retry_after(RETRY_AFTER_S));
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden(name, "pdb disruptions allowed is negative"));
    }
    let disrupted = json::at(budget, &["status", "disruptedPods"])
        .as_object()
        .map_or(0, serde_json::Map::len);
    if disrupted > DISRUPTED_PODS_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(name, why));
    }
    if allowed == 0 {
        let why = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("desiredHealthy"),
            number("currentHealthy")
        );
        return Err(refusal(&why));
    }
    json::set(budget, &["status", "disruptionsAllowed"], (allowed - 1).into());
    json::set(budget, &["status", "disruptedPods", at.name], seconds(at.now).into());
    Ok(())
}

fn refusal(why: &str) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::new(429, "TooManyRequests", message)
        .with_causes(vec![json!({"reason": "DisruptionBudget", "message": why})])
}

fn forbidden(name: &str, why: &str) -> ApiError {
    ApiError::new(
        403,
        "Forbidden",
        format!("poddisruptionbudget.policy {name:?} is forbidden: {why}"),
    )
}
