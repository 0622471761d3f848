//! How much one object uses of each quota resource.

use std::collections::BTreeMap;

use kerf_units::quantity::Quantity;
use serde_json::Value;

use super::amounts::{Amounts, amounts};
use crate::json;

/// Core resources with a quota resource of their own name besides `count/…`.
const COUNTED: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// Quota resources that every container of a pod must specify where a quota limits them.
const SPECIFIED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// What follows the name of a StorageClass in a quota resource.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Whether the resource is core pods.
pub(super) fn is_pod(group: &str, plural: &str) -> bool {
    group.is_empty() && plural == "pods"
}

/// Group and plural of the objects that a quota resource counts.
pub(crate) fn counted_resource(name: &str) -> (&str, &str) {
    if let Some(counted) = name.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return (group, plural);
    }
    let plural = match name {
        "requests.storage" => "persistentvolumeclaims",
        "services.loadbalancers" | "services.nodeports" => "services",
        _ if name.contains(OF_CLASS) => "persistentvolumeclaims",
        _ => COUNTED
            .iter()
            .find(|counted| **counted == name)
            .copied()
            .unwrap_or("pods"),
    };
    ("", plural)
}

/// What an object uses of all quota resources.
pub(crate) fn usage(group: &str, plural: &str, object: &Value) -> Amounts {
    let one = Quantity::from_units(1);
    let counted = if group.is_empty() {
        format!("count/{plural}")
    } else {
        format!("count/{plural}.{group}")
    };
    let mut used = Amounts::from([(counted, one.clone())]);
    if !group.is_empty() {
        return used;
    }
    let finished = matches!(json::text(object, &["status", "phase"]), Some("Succeeded" | "Failed"));
    if is_pod(group, plural) && finished {
        return used;
    }
    if COUNTED.contains(&plural) {
        used.insert(plural.to_owned(), one);
    }
    match plural {
        "pods" => used.extend(of_pod(object)),
        "persistentvolumeclaims" => used.extend(of_claim(object)),
        "services" => used.extend(of_service(object)),
        _ => {}
    }
    used
}

fn of_pod(pod: &Value) -> Amounts {
    let mut used = Amounts::new();
    for (name, amount) in pod_amounts(pod, "requests") {
        let plain = !name.contains('/') || name.starts_with("hugepages-");
        if plain {
            used.insert(name.clone(), amount.clone());
        }
        used.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in pod_amounts(pod, "limits") {
        used.insert(format!("limits.{name}"), amount);
    }
    used
}

/// The requests or limits of a pod: the sum of its containers and sidecars or the largest init container, plus overhead. Amounts of the
/// pod itself replace those of its containers.
fn pod_amounts(pod: &Value, kind: &str) -> Amounts {
    let mut total = Amounts::new();
    let mut sidecars = Amounts::new();
    let mut largest = Amounts::new();
    for container in json::items(pod, &["spec", "initContainers"]) {
        let own = amounts(container, &["resources", kind]);
        if json::text(container, &["restartPolicy"]) == Some("Always") {
            add(&mut sidecars, &own);
            raise(&mut largest, &sidecars);
        } else {
            let mut with_sidecars = sidecars.clone();
            add(&mut with_sidecars, &own);
            raise(&mut largest, &with_sidecars);
        }
    }
    for container in json::items(pod, &["spec", "containers"]) {
        add(&mut total, &amounts(container, &["resources", kind]));
    }
    add(&mut total, &sidecars);
    raise(&mut total, &largest);
    total.extend(amounts(pod, &["spec", "resources", kind]));
    let overhead = amounts(pod, &["spec", "overhead"]);
    add(&mut total, &overhead);
    total
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.get(name).unwrap_or(&Quantity::ZERO).saturating_add(amount);
        total.insert(name.clone(), sum);
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let known = total.entry(name.clone()).or_insert_with(|| amount.clone());
        if *known < *amount {
            *known = amount.clone();
        }
    }
}

fn of_claim(claim: &Value) -> Amounts {
    let mut used = Amounts::new();
    let storage = json::quantity(json::at(claim, &["spec", "resources", "requests", "storage"]));
    let class = json::text(claim, &["spec", "storageClassName"]);
    if let Some(class) = class {
        used.insert(
            format!("{class}{OF_CLASS}persistentvolumeclaims"),
            Quantity::from_units(1),
        );
    }
    if let Some(storage) = storage {
        if let Some(class) = class {
            used.insert(format!("{class}{OF_CLASS}requests.storage"), storage.clone());
        }
        used.insert("requests.storage".to_owned(), storage);
    }
    used
}

fn of_service(service: &Value) -> Amounts {
    let ports = json::items(service, &["spec", "ports"]);
    let count = |count: usize| Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX));
    match json::text(service, &["spec", "type"]) {
        Some("NodePort") => Amounts::from([("services.nodeports".to_owned(), count(ports.len()))]),
        Some("LoadBalancer") => {
            let closed = json::at(service, &["spec", "allocateLoadBalancerNodePorts"]).as_bool() == Some(false);
            Amounts::from([
                (
                    "services.nodeports".to_owned(),
                    count(if closed { 0 } else { ports.len() }),
                ),
                ("services.loadbalancers".to_owned(), count(1)),
            ])
        }
        _ => Amounts::new(),
    }
}

/// What containers of the pod leave out although a quota limits it, as the real server words it: `limits.cpu for: a,b; memory for: a`.
pub(crate) fn unspecified(hard: &Amounts, pod: &Value) -> Option<String> {
    let containers = json::items(pod, &["spec", "containers"]).iter();
    let containers = containers.chain(json::items(pod, &["spec", "initContainers"]));
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for container in containers {
        for name in SPECIFIED.into_iter().filter(|name| hard.contains_key(*name)) {
            let (kind, resource) = name.split_once('.').unwrap_or(("requests", name));
            let specified = |object: &Value| json::at(object, &["resources", kind]).get(resource).is_some();
            if !specified(container) && !specified(json::at(pod, &["spec"])) {
                let container = json::text(container, &["name"]).unwrap_or_default();
                missing.entry(name).or_default().push(container);
            }
        }
    }
    let each: Vec<String> = missing
        .into_iter()
        .map(|(name, mut containers)| {
            containers.sort_unstable();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// Whether no container has a request or limit of CPU or memory.
pub(super) fn is_best_effort(pod: &Value) -> bool {
    ["requests", "limits"].into_iter().all(|kind| {
        let all = pod_amounts(pod, kind);
        ["cpu", "memory"]
            .into_iter()
            .all(|name| all.get(name).is_none_or(Quantity::is_zero))
    })
}
