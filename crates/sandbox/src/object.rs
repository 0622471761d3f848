//! Accessors of Kubernetes objects, and the references and events that actors write.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Resource, ResourceExt};
use std::collections::BTreeMap;

/// The owner that manages the object.
pub(crate) fn controller<K: Resource>(object: &K) -> Option<&OwnerReference> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

pub(crate) fn controller_uid<K: Resource>(object: &K) -> Option<String> {
    controller(object).map(|owner| owner.uid.clone())
}

/// A reference to an object's manager.
pub(crate) fn controlled_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: uid(owner).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub(crate) fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

pub(crate) fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

pub(crate) fn annotation<'a, K: Resource>(object: &'a K, key: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(key).map(String::as_str)
}

pub(crate) fn phase(pod: &Pod) -> &str {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase.unwrap_or("Pending")
}

pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref()?.node_name.as_deref();
    name.filter(|name| !name.is_empty())
}

pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_deleting(pod)
}

/// When the pod became ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    (ready.status == "True").then(|| {
        ready
            .last_transition_time
            .as_ref()
            .map_or(Timestamp::MIN, |time| time.0)
    })
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// Whether the pod has been ready for at least `min_ready_s`.
pub(crate) fn is_available(pod: &Pod, min_ready_s: i32, now: Timestamp) -> bool {
    let due = |since: Timestamp| since.saturating_add(jiff::SignedDuration::from_secs(min_ready_s.into()));
    ready_since(pod).is_some_and(|since| min_ready_s == 0 || due(since).is_ok_and(|due| due <= now))
}

/// Whether a selector matches labels; a missing selector matches nothing, an empty one everything.
pub(crate) fn selects(selector: Option<&LabelSelector>, labels: Option<&BTreeMap<String, String>>) -> bool {
    let Some(selector) = selector else { return false };
    let empty = BTreeMap::new();
    let labels = labels.unwrap_or(&empty);
    let mut plain = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    plain.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|expression| {
            let value = labels.get(&expression.key);
            let listed = value.is_some_and(|value| expression.values.iter().flatten().any(|v| v == value));
            match expression.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// An integer as it is, or a percentage of `total` rounded up or down. Text that is no percentage counts as 0 %.
pub(crate) fn scaled_value(value: &IntOrString, total: i32, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(count) => *count,
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let product = percent * i64::from(total);
            let share = if round_up {
                (product + 99).div_euclid(100)
            } else {
                product.div_euclid(100)
            };
            i32::try_from(share).unwrap_or(i32::MAX)
        }
    }
}

/// A hash of the value's JSON: ten characters of the alphabet of generated Kubernetes names. Equal JSON gives equal hashes.
pub(crate) fn short_hash(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let alphabet = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name = String::new();
    for _ in 0..10 {
        name.push(char::from(alphabet[(hash % alphabet.len() as u64) as usize]));
        hash /= alphabet.len() as u64;
    }
    name
}

/// The time in whole seconds, as most Kubernetes fields hold it.
pub(crate) fn seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// The reference to an object that its events carry.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    let meta = object.meta();
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

/// An event about an object from one of the cluster's components.
pub(crate) fn event<K: Resource<DynamicType = ()>>(
    object: &K,
    component: &str,
    kind: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Event {
    let about = reference(object);
    let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
    // Like client-go: unique for an object and a time.
    let nanos = now.as_nanosecond() as u64 ^ u64::from_str_radix(&short_suffix(reason, message), 16).unwrap_or(0);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{nanos:016x}", object.name_any())),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        involved_object: about,
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        type_: Some(kind.to_owned()),
        count: Some(1),
        first_timestamp: Some(seconds(now)),
        last_timestamp: Some(seconds(now)),
        source: Some(EventSource {
            component: Some(component.to_owned()),
            host: None,
        }),
        reporting_component: Some(component.to_owned()),
        ..Event::default()
    }
}

fn short_suffix(reason: &str, message: &str) -> String {
    let hash = reason
        .bytes()
        .chain(message.bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
    format!("{:03x}", hash & 0xfff)
}
