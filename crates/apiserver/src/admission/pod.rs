//! Pods and pod templates: defaults, values from other objects, validation, allowed changes.

use kerf_units::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::{Checks, limit_range, selector};
use crate::error::ApiError;
use crate::json;
use crate::registry::Resource;
use crate::schema::FieldError;
use crate::state::State;

/// Seconds a pod stays on a node that is not ready or unreachable, unless it says otherwise.
const TOLERATION_S: i64 = 300;

/// Defaults of the spec of a pod or a pod template.
pub(crate) fn default_spec(spec: &mut Value) {
    let host_network = json::at(spec, &["hostNetwork"]).as_bool() == Some(true);
    let map = json::object_mut(spec, &[]);
    json::default(map, "restartPolicy", "Always");
    json::default(map, "dnsPolicy", "ClusterFirst");
    json::default(map, "schedulerName", "default-scheduler");
    json::default(map, "terminationGracePeriodSeconds", 30);
    json::default(map, "securityContext", json!({}));
    for list in ["containers", "initContainers"] {
        for container in json::array_mut(spec, &[list]).into_iter().flatten() {
            default_container(container, host_network);
        }
    }
    for volume in json::array_mut(spec, &["volumes"]).into_iter().flatten() {
        default_volume(volume);
    }
}

fn default_container(container: &mut Value, host_network: bool) {
    let image = json::text(container, &["image"]).unwrap_or_default();
    // A digest is a fixed version; a tag after the last slash is one unless it is "latest".
    let name = image.rsplit('/').next().unwrap_or_default();
    let fixed = image.contains('@') || name.split_once(':').is_some_and(|(_, tag)| tag != "latest");
    let map = json::object_mut(container, &[]);
    json::default(map, "imagePullPolicy", if fixed { "IfNotPresent" } else { "Always" });
    json::default(map, "terminationMessagePath", "/dev/termination-log");
    json::default(map, "terminationMessagePolicy", "File");
    json::default(map, "resources", json!({}));
    for port in json::array_mut(container, &["ports"]).into_iter().flatten() {
        let number = json::at(port, &["containerPort"]).clone();
        let port = json::object_mut(port, &[]);
        json::default(port, "protocol", "TCP");
        if host_network {
            json::default(port, "hostPort", number);
        }
    }
    for env in json::array_mut(container, &["env"]).into_iter().flatten() {
        if env.pointer("/valueFrom/fieldRef").is_some() {
            json::default(json::object_mut(env, &["valueFrom", "fieldRef"]), "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if json::at(container, &[probe]).is_object() {
            default_probe(container, probe);
        }
    }
    // A limit without a request is a request.
    if let Some(limits) = json::at(container, &["resources", "limits"]).as_object().cloned() {
        let requests = json::object_mut(container, &["resources", "requests"]);
        for (name, amount) in limits {
            json::default(requests, &name, amount);
        }
    }
}

fn default_probe(container: &mut Value, probe: &str) {
    let http = json::at(container, &[probe, "httpGet"]).is_object();
    let map = json::object_mut(container, &[probe]);
    for (field, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        json::default(map, field, value);
    }
    if http {
        let get = json::object_mut(container, &[probe, "httpGet"]);
        json::default(get, "path", "/");
        json::default(get, "scheme", "HTTP");
    }
}

fn default_volume(volume: &mut Value) {
    for source in ["secret", "configMap", "projected", "downwardAPI"] {
        if json::at(volume, &[source]).is_object() {
            json::default(json::object_mut(volume, &[source]), "defaultMode", 0o644);
        }
    }
    if json::at(volume, &["hostPath"]).is_object() {
        json::default(json::object_mut(volume, &["hostPath"]), "type", "");
    }
    if json::object_mut(volume, &[]).len() == 1 && json::text(volume, &["name"]).is_some() {
        json::set(volume, &["emptyDir"], json!({}));
    }
}

/// Defaults of a new pod, and what other objects of the cluster decide about it.
pub(crate) fn admit(state: &State, resource: &Resource, pod: &mut Value) -> Result<(), ApiError> {
    default_spec(pod.get_mut("spec").unwrap_or(&mut Value::Null));
    json::default(json::object_mut(pod, &["spec"]), "enableServiceLinks", true);
    admit_runtime_class(state, resource, pod)?;
    admit_priority(state, resource, pod)?;
    limit_range::admit(state, resource, pod)?;
    default_tolerations(pod);
    let qos = qos_class(pod);
    json::set(pod, &["status"], json!({"phase": "Pending", "qosClass": qos}));
    Ok(())
}

fn admit_priority(state: &State, resource: &Resource, pod: &mut Value) -> Result<(), ApiError> {
    let name = json::text(pod, &["metadata", "name"]).unwrap_or_default();
    let class = match json::text(pod, &["spec", "priorityClassName"]) {
        Some(class) => {
            let Some(found) = state.find("scheduling.k8s.io", "priorityclasses", class) else {
                let why = format!("no PriorityClass with name {class} was found");
                return Err(ApiError::forbidden(resource, name, &why));
            };
            Some(found.value())
        }
        None => state
            .table_id("scheduling.k8s.io", "priorityclasses")
            .into_iter()
            .flat_map(|id| state.table(id).range(None))
            .map(|c| c.value())
            .filter(|c| json::at(c, &["globalDefault"]).as_bool() == Some(true))
            .max_by_key(|c| std::cmp::Reverse(json::int(c, &["value"]))),
    };
    let class = class.unwrap_or_default();
    let priority = json::int(&class, &["value"]).unwrap_or(0);
    let policy = json::text(&class, &["preemptionPolicy"]).unwrap_or("PreemptLowerPriority");
    if let Some(given) = json::int(pod, &["spec", "priority"]).filter(|p| *p != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        );
        return Err(ApiError::forbidden(resource, name, &why));
    }
    let spec = json::object_mut(pod, &["spec"]);
    if let Some(class) = json::text(&class, &["metadata", "name"]) {
        json::default(spec, "priorityClassName", class);
    }
    spec.insert("priority".to_owned(), priority.into());
    json::default(spec, "preemptionPolicy", policy);
    Ok(())
}

fn admit_runtime_class(state: &State, resource: &Resource, pod: &mut Value) -> Result<(), ApiError> {
    let Some(class) = json::text(pod, &["spec", "runtimeClassName"]) else {
        return Ok(());
    };
    let Some(found) = state.find("node.k8s.io", "runtimeclasses", class) else {
        let name = json::text(pod, &["metadata", "name"]).unwrap_or_default();
        let why = format!("pod rejected: RuntimeClass {class:?} not found");
        return Err(ApiError::forbidden(resource, name, &why));
    };
    let class = found.value();
    if let Some(overhead) = class.pointer("/overhead/podFixed") {
        json::default(json::object_mut(pod, &["spec"]), "overhead", overhead.clone());
    }
    for (key, value) in json::at(&class, &["scheduling", "nodeSelector"])
        .as_object()
        .into_iter()
        .flatten()
    {
        json::default(json::object_mut(pod, &["spec", "nodeSelector"]), key, value.clone());
    }
    let mut tolerations = json::items(pod, &["spec", "tolerations"]).to_vec();
    let extra = json::items(&class, &["scheduling", "tolerations"]);
    let extra: Vec<Value> = extra.iter().filter(|t| !tolerations.contains(t)).cloned().collect();
    if !extra.is_empty() {
        tolerations.extend(extra);
        json::set(pod, &["spec", "tolerations"], Value::Array(tolerations));
    }
    Ok(())
}

fn default_tolerations(pod: &mut Value) {
    let mut tolerations = json::items(pod, &["spec", "tolerations"]).to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|t| {
            let names_it = json::text(t, &["key"]).is_none_or(|k| k == key);
            let effect = json::text(t, &["effect"]);
            names_it && effect.is_none_or(|e| e == "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S,
            }));
        }
    }
    json::set(pod, &["spec", "tolerations"], Value::Array(tolerations));
}

/// Guaranteed, Burstable or BestEffort, by cpu and memory of all containers.
fn qos_class(pod: &Value) -> &'static str {
    let (mut any, mut all) = (false, true);
    let containers = json::items(pod, &["spec", "containers"]).iter();
    for container in containers.chain(json::items(pod, &["spec", "initContainers"])) {
        for resource in ["cpu", "memory"] {
            let amount = |kind| json::quantity(json::at(container, &["resources", kind, resource]));
            let positive = |kind| amount(kind).filter(|amount| *amount > Quantity::ZERO);
            any |= positive("requests").is_some() || positive("limits").is_some();
            all &= positive("limits").is_some() && positive("limits") == positive("requests");
        }
    }
    match (any, all) {
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
        (false, _) => "BestEffort",
    }
}

/// Validates the spec of a pod or template at `path`.
pub(crate) fn validate_spec(path: &str, spec: &Value, checks: &mut Checks) {
    if json::items(spec, &["containers"]).is_empty() {
        checks.required(&format!("{path}.containers"));
    }
    checks.one_of(path, spec, "restartPolicy", &["Always", "OnFailure", "Never"]);
    checks.one_of(
        path,
        spec,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    checks.not_negative(path, spec, "terminationGracePeriodSeconds");
    super::meta::labels(
        &format!("{path}.nodeSelector"),
        json::at(spec, &["nodeSelector"]),
        &mut checks.0,
    );
    let volumes = unique_names(&format!("{path}.volumes"), json::items(spec, &["volumes"]), checks);
    let mut names = Vec::new();
    for list in ["initContainers", "containers"] {
        for (i, container) in json::items(spec, &[list]).iter().enumerate() {
            let here = format!("{path}.{list}[{i}]");
            validate_container(&here, container, &volumes, checks);
            let name = json::at(container, &["name"]);
            if names.contains(&name) {
                checks.duplicate(&format!("{here}.name"), name);
            }
            names.push(name);
        }
    }
    for (i, toleration) in json::items(spec, &["tolerations"]).iter().enumerate() {
        validate_toleration(&format!("{path}.tolerations[{i}]"), toleration, checks);
    }
    for (i, spread) in json::items(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let here = format!("{path}.topologySpreadConstraints[{i}]");
        checks.one_of(&here, spread, "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]);
        if json::int(spread, &["maxSkew"]).is_some_and(|skew| skew <= 0) {
            checks.invalid(
                &format!("{here}.maxSkew"),
                json::at(spread, &["maxSkew"]),
                "must be greater than zero",
            );
        }
        selector::validate(
            &format!("{here}.labelSelector"),
            json::at(spread, &["labelSelector"]),
            checks,
        );
    }
    validate_affinity(path, spec, checks);
}

fn unique_names(path: &str, entries: &[Value], checks: &mut Checks) -> Vec<String> {
    let mut names = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let name = json::text(entry, &["name"]).unwrap_or_default().to_owned();
        checks.label_name(&format!("{path}[{i}].name"), &name);
        if names.contains(&name) {
            checks.duplicate(&format!("{path}[{i}].name"), &name.as_str().into());
        }
        names.push(name);
    }
    names
}

fn validate_container(path: &str, container: &Value, volumes: &[String], checks: &mut Checks) {
    if let Some(name) = json::text(container, &["name"]) {
        checks.label_name(&format!("{path}.name"), name);
    }
    if json::text(container, &["image"]).is_none() {
        checks.required(&format!("{path}.image"));
    }
    checks.one_of(path, container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]);
    for (i, port) in json::items(container, &["ports"]).iter().enumerate() {
        let here = format!("{path}.ports[{i}]");
        checks.one_of(&here, port, "protocol", &["SCTP", "TCP", "UDP"]);
        for field in ["containerPort", "hostPort"] {
            if json::int(port, &[field]).is_some_and(|n| !(1..=65535).contains(&n)) {
                let at = format!("{here}.{field}");
                checks.invalid(&at, json::at(port, &[field]), "must be between 1 and 65535, inclusive");
            }
        }
    }
    for (i, mount) in json::items(container, &["volumeMounts"]).iter().enumerate() {
        if let Some(name) = json::text(mount, &["name"])
            && !volumes.iter().any(|v| v == name)
        {
            checks.not_found(&format!("{path}.volumeMounts[{i}].name"), name);
        }
    }
    validate_resources(
        &format!("{path}.resources"),
        json::at(container, &["resources"]),
        checks,
    );
}

fn validate_resources(path: &str, resources: &Value, checks: &mut Checks) {
    let list = |kind: &str| json::at(resources, &[kind]).as_object();
    for kind in ["limits", "requests"] {
        for (name, amount) in list(kind).into_iter().flatten() {
            if json::quantity(amount).is_some_and(|amount| amount.is_negative()) {
                let at = format!("{path}.{kind}[{name}]");
                checks.invalid(&at, amount, "must be greater than or equal to 0");
            }
        }
    }
    let empty = Map::new();
    let limits = list("limits").unwrap_or(&empty);
    for (name, request) in list("requests").into_iter().flatten() {
        let amount = json::quantity;
        let Some(limit) = limits.get(name) else {
            continue;
        };
        if amount(request) > amount(limit) {
            let limit = limit.as_str().unwrap_or_default();
            let why = format!("must be less than or equal to {name} limit of {limit}");
            checks.invalid(&format!("{path}.requests"), request, &why);
        } else if name.contains('/') && !name.starts_with("kubernetes.io/") && amount(request) != amount(limit) {
            let why = format!(
                "must be equal to {name} limit of {}",
                limit.as_str().unwrap_or_default()
            );
            checks.invalid(&format!("{path}.requests"), request, &why);
        }
    }
}

fn validate_toleration(path: &str, toleration: &Value, checks: &mut Checks) {
    checks.one_of(path, toleration, "operator", &["Equal", "Exists", "Gt", "Lt"]);
    checks.one_of(
        path,
        toleration,
        "effect",
        &["NoSchedule", "PreferNoSchedule", "NoExecute"],
    );
    let operator = json::text(toleration, &["operator"]).unwrap_or("Equal");
    if json::text(toleration, &["key"]).is_none() && operator != "Exists" {
        let at = format!("{path}.operator");
        checks.invalid(
            &at,
            &operator.into(),
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if operator == "Exists"
        && let Some(value) = json::text(toleration, &["value"])
    {
        checks.invalid(
            &format!("{path}.operator"),
            &value.into(),
            "value must be empty when `operator` is 'Exists'",
        );
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn validate_affinity(path: &str, spec: &Value, checks: &mut Checks) {
    let node = ["affinity", "nodeAffinity"];
    let terms = [node[0], node[1], REQUIRED, "nodeSelectorTerms"];
    for (i, term) in json::items(spec, &terms).iter().enumerate() {
        validate_node_term(&format!("{path}.{}[{i}]", terms.join(".")), term, checks);
    }
    let terms = [node[0], node[1], PREFERRED];
    for (i, weighted) in json::items(spec, &terms).iter().enumerate() {
        let here = format!("{path}.{}[{i}].preference", terms.join("."));
        validate_node_term(&here, json::at(weighted, &["preference"]), checks);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in json::items(spec, &["affinity", kind, REQUIRED]).iter().enumerate() {
            validate_pod_term(&format!("{path}.affinity.{kind}.{REQUIRED}[{i}]"), term, checks);
        }
        for (i, weighted) in json::items(spec, &["affinity", kind, PREFERRED]).iter().enumerate() {
            let here = format!("{path}.affinity.{kind}.{PREFERRED}[{i}].podAffinityTerm");
            validate_pod_term(&here, json::at(weighted, &["podAffinityTerm"]), checks);
        }
    }
}

fn validate_pod_term(path: &str, term: &Value, checks: &mut Checks) {
    if json::text(term, &["topologyKey"]).is_none() {
        checks.required(&format!("{path}.topologyKey"));
    }
    for field in ["labelSelector", "namespaceSelector"] {
        selector::validate(&format!("{path}.{field}"), json::at(term, &[field]), checks);
    }
}

fn validate_node_term(path: &str, term: &Value, checks: &mut Checks) {
    for (i, expression) in json::items(term, &["matchExpressions"]).iter().enumerate() {
        let here = format!("{path}.matchExpressions[{i}]");
        let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        checks.one_of(&here, expression, "operator", &operators);
        let values = json::items(expression, &["values"]).len();
        let at = format!("{here}.values");
        match json::text(expression, &["operator"]) {
            Some("In" | "NotIn") if values == 0 => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                checks.0.push(FieldError::required(&at, why));
            }
            Some("Exists" | "DoesNotExist") if values > 0 => {
                checks.forbidden(
                    &at,
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            Some("Gt" | "Lt") if values != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                checks.0.push(FieldError::required(&at, why));
            }
            _ => {}
        }
    }
}

/// What of a pod's spec may change after creation.
pub(crate) fn validate_update(new: &Value, old: &Value, checks: &mut Checks) {
    let mut allowed = json::at(old, &["spec"]).clone();
    let spec = json::at(new, &["spec"]);
    for list in ["containers", "initContainers"] {
        let images: Vec<Value> = json::items(spec, &[list])
            .iter()
            .map(|c| json::at(c, &["image"]).clone())
            .collect();
        for (container, image) in json::array_mut(&mut allowed, &[list]).into_iter().flatten().zip(images) {
            json::set(container, &["image"], image);
        }
    }
    json::copy(spec, &mut allowed, &["activeDeadlineSeconds"]);
    let kept = json::items(&allowed, &["tolerations"]);
    if kept.iter().all(|t| json::items(spec, &["tolerations"]).contains(t)) {
        json::copy(spec, &mut allowed, &["tolerations"]);
    }
    let gates = json::items(&allowed, &["schedulingGates"]);
    if !gates.is_empty() {
        // A gated pod may narrow its node selection and remove gates.
        if json::items(spec, &["schedulingGates"])
            .iter()
            .all(|g| gates.contains(g))
        {
            json::copy(spec, &mut allowed, &["schedulingGates"]);
        }
        json::copy(spec, &mut allowed, &["nodeSelector"]);
        json::copy(spec, &mut allowed, &["affinity"]);
    }
    if json::int(&allowed, &["terminationGracePeriodSeconds"]).is_some_and(|s| s < 0) {
        json::copy(spec, &mut allowed, &["terminationGracePeriodSeconds"]);
    }
    if allowed != *spec {
        let why = "pod updates may not change fields other than `spec.containers[*].image`,\
                   `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                   existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                   previously negative)";
        checks.forbidden("spec", why);
    }
}
