//! The pods a NodeClaim on its way was made for, as far as a cluster shows: by the `Nominated` events of those pods. A running controller
//! knows them by itself.

use kerf_api::{NodeClaim, labels};
use kerf_model::instance_type::Catalogue;
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_state::Mirror;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The events that show it.
pub(super) const SELECTOR: &str = "reason=Nominated";

/// A pod an event is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Nominated {
    namespace: String,
    name: String,
    uid: String,
}

/// Pods by the name of the claim they are to run on.
pub(crate) type Nominations = BTreeMap<String, Vec<Nominated>>;

/// Reads lists of events. Of several about one pod the newest counts.
pub(super) fn read(lists: &[Value]) -> Nominations {
    let events = lists.iter().filter_map(|list| list.get("items")?.as_array()).flatten();
    let mut newest: BTreeMap<&str, (&str, Nominated, &str)> = BTreeMap::new();
    for event in events {
        let text = |path: &str| {
            event
                .pointer(path)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let (Some(uid), Some(name)) = (text("/involvedObject/uid"), text("/involvedObject/name")) else {
            continue;
        };
        let Some(claim) = text("/message").and_then(claim_of).filter(|_| is_ours(event)) else {
            continue;
        };
        let times = [
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/eventTime",
            "/metadata/creationTimestamp",
        ];
        let at = times.into_iter().find_map(text).unwrap_or_default();
        let pod = Nominated {
            namespace: text("/involvedObject/namespace").unwrap_or("default").to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        if newest.get(uid).is_none_or(|(before, _, _)| *before <= at) {
            newest.insert(uid, (at, pod, claim));
        }
    }
    let mut nominations = Nominations::new();
    for (_, pod, claim) in newest.into_values() {
        nominations.entry(claim.to_owned()).or_default().push(pod);
    }
    nominations
}

/// The scheduler of Kubernetes has nominations of its own.
fn is_ours(event: &Value) -> bool {
    ["/source/component", "/reportingComponent"]
        .into_iter()
        .any(|path| event.pointer(path).and_then(Value::as_str) == Some("karpenter"))
}

/// SCH-341: the claim a message names.
fn claim_of(message: &str) -> Option<&str> {
    let mut places = message.strip_prefix("Pod should schedule on: ")?.split(", ");
    places.find_map(|place| place.strip_prefix("nodeclaim/"))
}

/// Promises pods to the claims that are not launched yet, as the controller has done.
pub(super) fn promise(
    mirror: &mut Mirror,
    nominations: &Nominations,
    claims: &[NodeClaim],
    catalogue: impl Fn(&str) -> Option<Arc<Catalogue>>,
) {
    for claim in claims {
        let Some(name) = claim.metadata.name.as_deref() else {
            continue;
        };
        let nominated = nominations.get(name).into_iter().flatten();
        let pods: Vec<Arc<Pod>> = nominated
            .filter_map(|pod| {
                mirror
                    .pod(&pod.namespace, &pod.name)
                    .filter(|known| *known.uid == *pod.uid)
            })
            .filter(|pod| pod.node_name.is_none())
            .collect();
        if pods.is_empty() {
            continue;
        }
        let pool = claim
            .metadata
            .labels
            .as_ref()
            .and_then(|all| all.get(labels::NODE_POOL));
        let catalogue = pool.and_then(|pool| catalogue(pool));
        let capacity = catalogue.map_or_else(Resources::new, |catalogue| largest(mirror, claim, &catalogue));
        mirror.promise(name, &pods, capacity);
    }
}

/// The most the machine may have, as limits count it (SCH-148).
fn largest(mirror: &Mirror, claim: &NodeClaim, catalogue: &Catalogue) -> Resources {
    let requirements = claim.spec.requirements.iter();
    let offered: Vec<&str> = requirements
        .filter(|requirement| requirement.key == labels::INSTANCE_TYPE)
        .flat_map(|requirement| requirement.values.iter().map(String::as_str))
        .collect();
    let rows = (0..).zip(&catalogue.types);
    let rows = rows.filter(|(_, kind)| offered.contains(&mirror.interner().text(kind.name)));
    catalogue.capacity_max(rows.map(|(row, _)| row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(pod: &str, at: &str, message: &str) -> Value {
        json!({"reason": "Nominated", "message": message, "lastTimestamp": at, "source": {"component": "karpenter"},
               "involvedObject": {"kind": "Pod", "namespace": "shop", "name": pod, "uid": format!("uid-{pod}")}})
    }

    #[test]
    fn the_newest_nomination_of_a_pod_counts_and_only_claims_are_of_interest() {
        let mut foreign = event("d", "2026-01-01T00:00:01Z", "Pod should schedule on: nodeclaim/web-1");
        foreign["source"]["component"] = json!("default-scheduler");
        let lists = [
            json!({"items": [
                event("a", "2026-01-01T00:00:02Z", "Pod should schedule on: nodeclaim/web-2"),
                event("a", "2026-01-01T00:00:01Z", "Pod should schedule on: nodeclaim/web-1"),
                event("b", "2026-01-01T00:00:01Z", "Pod should schedule on: nodeclaim/web-2, node/n"),
                event("c", "2026-01-01T00:00:01Z", "Pod should schedule on: node/n"),
            ]}),
            json!({"items": [foreign, {"message": 7}]}),
            json!({}),
        ];
        let read = read(&lists);
        let names: Vec<(&str, Vec<&str>)> = read
            .iter()
            .map(|(claim, pods)| (claim.as_str(), pods.iter().map(|pod| pod.name.as_str()).collect()))
            .collect();
        assert_eq!(names, [("web-2", vec!["a", "b"])]);
    }
}
