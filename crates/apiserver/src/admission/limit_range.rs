//! LimitRanges: default requests and limits of new containers, and the bounds that refuse a pod.

use std::sync::Arc;

use kerf_units::quantity::Quantity;
use serde_json::Value;

use crate::error::ApiError;
use crate::json;
use crate::registry::Resource;
use crate::state::State;
use crate::storage::Stored;

/// The annotation that names the values a LimitRange has set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Completes a LimitRange: limits of containers default to the maximum, requests to the default limit, then to the minimum.
pub(super) fn default(limit_range: &mut Value) {
    for item in json::array_mut(limit_range, &["spec", "limits"]).into_iter().flatten() {
        if json::text(item, &["type"]) != Some("Container") {
            continue;
        }
        for (from, to) in [
            ("max", "default"),
            ("default", "defaultRequest"),
            ("min", "defaultRequest"),
        ] {
            for (resource, amount) in json::at(item, &[from]).as_object().cloned().into_iter().flatten() {
                json::default(json::object_mut(item, &[to]), &resource, amount);
            }
        }
    }
}

/// Applies the LimitRanges of the namespace to a new pod: sets defaults, then refuses the pod when a bound is broken (403).
pub(super) fn admit(state: &State, resource: &Resource, pod: &mut Value) -> Result<(), ApiError> {
    let namespace = json::text(pod, &["metadata", "namespace"]).unwrap_or_default();
    let ranges: Vec<Arc<Stored>> = state
        .table_id("", "limitranges")
        .into_iter()
        .flat_map(|table| state.table(table).range(Some(namespace)))
        .cloned()
        .collect();
    let ranges: Vec<Arc<Value>> = ranges.iter().map(|range| range.value()).collect();
    let items = || ranges.iter().flat_map(|range| json::items(range, &["spec", "limits"]));
    let mut set = Vec::new();
    for item in items().filter(|item| json::text(item, &["type"]) == Some("Container")) {
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            for container in json::array_mut(pod, &["spec", list]).into_iter().flatten() {
                default_container(item, container, what, &mut set);
            }
        }
    }
    if !set.is_empty() {
        let text = format!("LimitRanger plugin set: {}", set.join("; "));
        json::set(pod, &["metadata", "annotations", ANNOTATION], text.into());
    }
    let broken: Vec<String> = items().flat_map(|item| broken_bounds(item, pod)).collect();
    let why = match broken.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let name = json::text(pod, &["metadata", "name"]).unwrap_or_default();
    Err(ApiError::forbidden(resource, name, &why))
}

/// Sets the default requests and limits of one limit range item on a container. Adds a text about what was set to `set`.
fn default_container(item: &Value, container: &mut Value, what: &str, set: &mut Vec<String>) {
    let name = json::text(container, &["name"]).unwrap_or_default().to_owned();
    for (from, kind, word) in [
        ("defaultRequest", "requests", "request"),
        ("default", "limits", "limit"),
    ] {
        let mut resources = Vec::new();
        for (resource, amount) in json::at(item, &[from]).as_object().into_iter().flatten() {
            let amounts = json::object_mut(container, &["resources", kind]);
            if !amounts.contains_key(resource) {
                amounts.insert(resource.clone(), amount.clone());
                resources.push(resource.as_str());
            }
        }
        if !resources.is_empty() {
            set.push(format!("{} {word} for {what} {name}", resources.join(", ")));
        }
    }
}

/// The bounds of one item that the pod breaks, as the real server words them.
fn broken_bounds(item: &Value, pod: &Value) -> Vec<String> {
    let containers = json::items(pod, &["spec", "containers"]);
    let of = |container: &Value, kind: &str, resource: &str| {
        let text = json::text(container, &["resources", kind, resource])?;
        Some((text.parse().ok()?, text.to_owned()))
    };
    let mut broken = Vec::new();
    match json::text(item, &["type"]) {
        Some("Container") => {
            for container in containers.iter().chain(json::items(pod, &["spec", "initContainers"])) {
                broken.extend(bounds(item, "Container", |kind, resource| {
                    of(container, kind, resource)
                }));
            }
        }
        Some("Pod") => broken.extend(bounds(item, "Pod", |kind, resource| {
            let amounts: Vec<_> = containers
                .iter()
                .filter_map(|container| of(container, kind, resource))
                .collect();
            match amounts.as_slice() {
                [] => None,
                [(amount, text)] => Some((amount.clone(), text.clone())),
                many => {
                    let texts: Vec<&str> = many.iter().map(|(_, text)| text.as_str()).collect();
                    let sum = many
                        .iter()
                        .fold(Quantity::ZERO, |sum, (amount, _)| sum.saturating_add(amount));
                    Some((sum, texts.join("+")))
                }
            }
        })),
        _ => {}
    }
    broken
}

/// Compares the amounts of a container or pod with the minimum and maximum of an item. `amount_of` gives the amount and its text for `requests` or `limits` and a resource.
fn bounds(item: &Value, what: &str, amount_of: impl Fn(&str, &str) -> Option<(Quantity, String)>) -> Vec<String> {
    let mut broken = Vec::new();
    for (bound, word) in [("min", "minimum"), ("max", "maximum")] {
        for (resource, value) in json::at(item, &[bound]).as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            let Ok(limit) = text.parse::<Quantity>() else { continue };
            let exceeds = |amount: &Quantity| {
                if bound == "min" {
                    *amount < limit
                } else {
                    *amount > limit
                }
            };
            let head = format!("{word} {resource} usage per {what} is {text}");
            let (request, maximum) = (amount_of("requests", resource), amount_of("limits", resource));
            match (bound, &request, &maximum) {
                ("min", None, _) => broken.push(format!("{head}.  No request is specified")),
                ("max", _, None) => broken.push(format!("{head}.  No limit is specified")),
                _ => {
                    let mut amounts = [("request", &request), ("limit", &maximum)];
                    if bound == "max" {
                        amounts.reverse();
                    }
                    let wrong = amounts.into_iter().find_map(|(kind, amount)| {
                        let (amount, text) = amount.as_ref()?;
                        exceeds(amount).then(|| format!("{head}, but {kind} is {text}"))
                    });
                    broken.extend(wrong);
                }
            }
        }
    }
    broken
}
