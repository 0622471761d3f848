//! Takes watch events into the mirror and returns what they changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_api::{NodeClaim, NodeOverlay, NodePool};
use kerf_model::pod::Owner;
use kerf_runtime::ObjectKey;
use kerf_state::lean::{LeanNode, LeanPod};
use kerf_state::{Kind, ListedPod, Mirror, Mirrored, NodeClass, ResetReport, Stored};
use kube::Resource;

use super::{CheckedKind, Cluster};
use crate::changes::{Change, Diff, PodChange, PodFacts};

/// Namespace, empty for objects of the cluster, and name.
pub(crate) type Key = (String, String);
/// Several objects.
pub(crate) type Keys = BTreeSet<Key>;

/// A kind that is watched.
pub(crate) trait Watched: Resource<DynamicType = ()> + Sized {
    /// Its name in the watch check.
    const CHECKED: CheckedKind;
    /// What is kept of an object until the list that it is in is complete.
    type Listed: Send;
    /// An object is there, new or changed.
    fn apply(cluster: &Cluster, object: Self) -> Vec<Change>;
    /// An object is gone.
    fn delete(cluster: &Cluster, object: &Self) -> Vec<Change>;
    /// A list of all objects was asked for.
    fn expect_list(_cluster: &Cluster) {}
    /// Takes an object of a list, before the list is complete. `None` for an object that the mirror ignores.
    fn listed(cluster: &Cluster, object: Self) -> Option<Self::Listed>;
    /// Replaces all objects by these, except those named in `unreadable`, which stay as they were known.
    fn reset(cluster: &Cluster, objects: Vec<Self::Listed>, unreadable: &Keys) -> Vec<Change>;
}

fn is_in(keys: &Keys, namespace: &str, name: &str) -> bool {
    !keys.is_empty() && keys.contains(&(namespace.to_owned(), name.to_owned()))
}

/// Kinds whose changes trigger no controller.
macro_rules! without_changes {
    ($($kind:ty),+ $(,)?) => {$(
        impl Watched for $kind {
            const CHECKED: CheckedKind = CheckedKind::Mirrored(<$kind as Mirrored>::KIND);
            type Listed = Arc<Self>;

            fn apply(cluster: &Cluster, object: Self) -> Vec<Change> {
                cluster.lock().mirror.apply(object);
                Vec::new()
            }
            fn delete(cluster: &Cluster, object: &Self) -> Vec<Change> {
                cluster.lock().mirror.delete(object);
                Vec::new()
            }
            fn listed(_cluster: &Cluster, object: Self) -> Option<Arc<Self>> {
                Some(Arc::new(object))
            }
            fn reset(cluster: &Cluster, objects: Vec<Arc<Self>>, unreadable: &Keys) -> Vec<Change> {
                log(&reset(&mut cluster.lock().mirror, &objects, unreadable));
                Vec::new()
            }
        }
    )+};
}

without_changes!(
    kerf_state::lean::LeanDaemonSet,
    kerf_state::lean::LeanPvc,
    kerf_state::lean::LeanPv,
    kerf_state::lean::LeanStorageClass,
    kerf_state::lean::LeanCsiNode,
    kerf_state::lean::LeanPdb,
    kerf_state::lean::LeanNamespace,
);

/// Kinds whose changes show the objects themselves.
macro_rules! with_changes {
    ($($kind:ty: $change:path),+ $(,)?) => {$(
        impl Watched for $kind {
            const CHECKED: CheckedKind = CheckedKind::Mirrored(<$kind as Mirrored>::KIND);
            type Listed = Arc<Self>;

            fn apply(cluster: &Cluster, object: Self) -> Vec<Change> {
                let Some(name) = object.meta().name.clone() else {
                    return Vec::new();
                };
                let object = Arc::new(object);
                let mut inner = cluster.lock();
                let before = Self::named(&inner.mirror, &name);
                inner.mirror.apply_shared(&object);
                let after = Self::named(&inner.mirror, &name);
                diff(name, before, after).map($change).into_iter().collect()
            }

            fn delete(cluster: &Cluster, object: &Self) -> Vec<Change> {
                let Some(name) = object.meta().name.clone() else {
                    return Vec::new();
                };
                let mut inner = cluster.lock();
                let before = Self::named(&inner.mirror, &name);
                inner.mirror.delete(object);
                let after = Self::named(&inner.mirror, &name);
                diff(name, before, after).map($change).into_iter().collect()
            }

            fn expect_list(cluster: &Cluster) {
                cluster.lock().mirror.expect_list(<$kind as Mirrored>::KIND);
            }

            fn listed(_cluster: &Cluster, object: Self) -> Option<Arc<Self>> {
                Some(Arc::new(object))
            }

            fn reset(cluster: &Cluster, objects: Vec<Arc<Self>>, unreadable: &Keys) -> Vec<Change> {
                let mut inner = cluster.lock();
                let before = Self::all(&inner.mirror);
                let report = reset(&mut inner.mirror, &objects, unreadable);
                let after = Self::all(&inner.mirror);
                drop(inner);
                log(&report);
                relisted(before, after, cluster_key).map($change).collect()
            }
        }
    )+};
}

with_changes! {
    LeanNode: Change::Node,
    NodeClaim: Change::Claim,
    NodePool: Change::Pool,
    NodeOverlay: Change::Overlay,
}

pub(super) fn reset<K: Mirrored>(mirror: &mut Mirror, objects: &[Arc<K>], unreadable: &Keys) -> ResetReport {
    mirror.reset_but(objects, &|namespace, name| is_in(unreadable, namespace, name))
}

/// The key of an object without namespace; `None` without a name.
fn cluster_key<T: Resource>(object: &T) -> Option<ObjectKey> {
    Some(ObjectKey::new("", object.meta().name.as_deref()?))
}

/// What a live event changed about the object of that name; nothing if both sides are the same object.
pub(super) fn diff<T>(name: String, before: Option<Arc<T>>, after: Option<Arc<T>>) -> Option<Diff<T>> {
    let same = match (&before, &after) {
        (Some(before), Some(after)) => Arc::ptr_eq(before, after),
        (before, after) => before.is_none() && after.is_none(),
    };
    (!same).then_some(Diff {
        name,
        before,
        after,
        listed: false,
    })
}

/// The changes that a complete list makes, from all objects before and after it. An unchanged object makes a change too, with equal sides, so
/// that controllers reconcile every object after a relist. The mirror has no object without a name, so each has a key.
pub(super) fn relisted<T>(
    before: Vec<Arc<T>>,
    after: Vec<Arc<T>>,
    key: impl Fn(&T) -> Option<ObjectKey>,
) -> impl Iterator<Item = Diff<T>> {
    let keyed = |objects: Vec<Arc<T>>| objects.into_iter().filter_map(|object| Some((key(&object)?, object)));
    let mut diffs = Vec::with_capacity(after.len());
    let mut before: BTreeMap<ObjectKey, Arc<T>> = keyed(before).collect();
    for (key, after) in keyed(after) {
        diffs.push(Diff {
            before: before.remove(&key),
            name: key.name,
            after: Some(after),
            listed: true,
        });
    }
    let gone = before.into_iter().map(|(key, before)| Diff {
        name: key.name,
        before: Some(before),
        after: None,
        listed: true,
    });
    diffs.into_iter().chain(gone)
}

/// Stores an object that was written here and returns the changes.
pub(super) fn written<K: Stored>(mirror: &mut Mirror, object: K, take: fn(&mut Mirror, K) -> bool) -> Option<Diff<K>> {
    let name = object.meta().name.clone()?;
    let before = K::named(mirror, &name);
    take(mirror, object).then(|| Diff {
        before,
        after: K::named(mirror, &name),
        name,
        listed: false,
    })
}

impl Watched for LeanPod {
    const CHECKED: CheckedKind = CheckedKind::Mirrored(Kind::Pod);
    type Listed = ListedPod;

    fn apply(cluster: &Cluster, object: Self) -> Vec<Change> {
        let Some(key) = key_of(&object) else {
            return Vec::new();
        };
        let mut inner = cluster.lock();
        let before = facts(&inner.mirror, &key);
        inner.mirror.apply(object);
        let after = facts(&inner.mirror, &key);
        vec![pod_change(key, before, after, false)]
    }

    fn delete(cluster: &Cluster, object: &Self) -> Vec<Change> {
        let Some(key) = key_of(object) else {
            return Vec::new();
        };
        let mut inner = cluster.lock();
        let before = facts(&inner.mirror, &key);
        inner.mirror.delete(object);
        let after = facts(&inner.mirror, &key);
        vec![pod_change(key, before, after, false)]
    }

    fn listed(cluster: &Cluster, object: Self) -> Option<ListedPod> {
        cluster.lock().mirror.listed_pod(&object)
    }

    fn reset(cluster: &Cluster, objects: Vec<ListedPod>, unreadable: &Keys) -> Vec<Change> {
        let keys: Vec<PodKey> = objects.iter().map(|pod| pod.key().clone()).collect();
        let mut inner = cluster.lock();
        let mirror = &mut inner.mirror;
        let before: Vec<_> = keys.iter().map(|key| facts(mirror, key)).collect();
        let report = mirror.reset_pods(objects, &|namespace, name| is_in(unreadable, namespace, name));
        let mut changes = Vec::with_capacity(keys.len());
        for (key, before) in keys.into_iter().zip(before) {
            let after = facts(mirror, &key);
            changes.push(pod_change(key, before, after, true));
        }
        for gone in &report.vanished {
            let (namespace, name) = gone.split_once('/').unwrap_or(("default", gone));
            let key = (namespace.into(), name.into());
            // The facts before the deletion are not known any more.
            if facts(mirror, &key).is_none() {
                changes.push(pod_change(key, None, None, true));
            }
        }
        drop(inner);
        log(&report);
        changes
    }
}

impl Cluster {
    /// All objects that trigger controllers, as if they had just been listed.
    pub(crate) fn everything(&self) -> Vec<Change> {
        fn listed<T: Resource>(known: Vec<Arc<T>>) -> impl Iterator<Item = Diff<T>> {
            known.into_iter().filter_map(|object| {
                Some(Diff {
                    name: object.meta().name.clone()?,
                    before: None,
                    after: Some(object),
                    listed: true,
                })
            })
        }
        let class = |class: Arc<NodeClass>| Diff {
            name: class.name.clone(),
            before: None,
            after: Some(class),
            listed: true,
        };
        let inner = self.read();
        let pods = inner.mirror.pods().map(|pod| {
            let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
            let after = facts(&inner.mirror, &key);
            pod_change(key, None, after, true)
        });
        let classes = inner.mirror.node_classes().into_iter().map(class).map(Change::Class);
        let overlays = listed(NodeOverlay::all(&inner.mirror)).map(Change::Overlay);
        let pools = listed(NodePool::all(&inner.mirror)).map(Change::Pool);
        let claims = listed(NodeClaim::all(&inner.mirror)).map(Change::Claim);
        let nodes = listed(LeanNode::all(&inner.mirror)).map(Change::Node);
        let buffers = listed(inner.mirror.capacity_buffers()).map(Change::Buffer);
        let all = classes
            .chain(overlays)
            .chain(buffers)
            .chain(pools)
            .chain(claims)
            .chain(nodes);
        all.chain(pods).collect()
    }

    /// A node class is there.
    pub(crate) fn apply_class(&self, class: NodeClass) -> Vec<Change> {
        let after = Arc::new(class);
        let before = self.lock().mirror.apply_node_class(&after);
        vec![Change::Class(Diff {
            name: after.name.clone(),
            before,
            after: Some(after),
            listed: false,
        })]
    }

    /// A node class is gone.
    pub(crate) fn delete_class(&self, class: &NodeClass) -> Vec<Change> {
        let before = self.lock().mirror.delete_node_class(class);
        let gone = |before: Arc<NodeClass>| {
            Change::Class(Diff {
                name: before.name.clone(),
                before: Some(before),
                after: None,
                listed: false,
            })
        };
        before.into_iter().map(gone).collect()
    }

    /// These are all node classes of one kind.
    pub(crate) fn reset_classes(&self, kind: kerf_api::NodeClassKind, classes: Vec<NodeClass>) -> Vec<Change> {
        let after: Vec<Arc<NodeClass>> = classes.into_iter().map(Arc::new).collect();
        let before = self.lock().mirror.reset_node_classes(kind, &after);
        relisted(before, after, |class| Some(ObjectKey::new("", &*class.name)))
            .map(Change::Class)
            .collect()
    }
}

/// Namespace and name.
type PodKey = (Arc<str>, Arc<str>);

/// `None` for a pod without a name, which the mirror ignores.
fn key_of(pod: &LeanPod) -> Option<PodKey> {
    let meta = &pod.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    Some((Arc::from(namespace), Arc::from(meta.name.as_deref()?)))
}

fn facts(mirror: &Mirror, key: &PodKey) -> Option<PodFacts> {
    let (pod, provisionable) = mirror.pod_and_provisionable(key)?;
    Some(PodFacts {
        uid: Arc::clone(&pod.uid),
        node: pod.node_name.clone(),
        terminal: pod.phase.is_terminal(),
        terminating: pod.deletion.is_some(),
        daemon: pod.owner == Owner::DaemonSet,
        provisionable,
        untried: mirror.is_untried(key),
    })
}

fn pod_change((namespace, name): PodKey, before: Option<PodFacts>, after: Option<PodFacts>, listed: bool) -> Change {
    Change::Pod(PodChange {
        namespace,
        name,
        before,
        after,
        listed,
    })
}

pub(super) fn log(report: &ResetReport) {
    if report.is_suspicious() && matches!(report.kind, Kind::Node | Kind::NodeClaim) {
        tracing::error!(
            kind = ?report.kind,
            listed = report.listed,
            before = report.before,
            vanished = report.vanished.len(),
            rewound = report.rewound.len(),
            "list came back empty or older than before; no instance will be deleted for want of an object",
        );
    } else if !report.vanished.is_empty() {
        tracing::debug!(kind = ?report.kind, vanished = report.vanished.len(), "relist found objects gone");
    }
}

/// Takes in a complete list.
#[cfg(test)]
pub(crate) fn relist<K: Watched>(cluster: &Cluster, objects: Vec<K>, unreadable: &Keys) -> Vec<Change> {
    let objects = objects
        .into_iter()
        .filter_map(|object| K::listed(cluster, object))
        .collect();
    K::reset(cluster, objects, unreadable)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kerf_cloud::{CloudProvider, FakeCloud};
    use kerf_model::instance_type::Catalogue;
    use kerf_model::intern::Interner;
    use kerf_testkit::objects;
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn cluster() -> Cluster {
        let interner = Arc::new(Interner::default());
        let cloud = FakeCloud::new(Arc::clone(&interner), Arc::new(Catalogue::default()));
        Cluster::new(interner, cloud.profile(), &kerf_runtime::Options::default())
    }

    fn claim(name: &str, version: u64, provider_id: Option<&str>) -> NodeClaim {
        claim_of("KWOKNodeClass", name, version, provider_id)
    }

    fn claim_of(class: &str, name: &str, version: u64, provider_id: Option<&str>) -> NodeClaim {
        let status = provider_id.map(|id| json!({"providerID": id}));
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": class, "name": "default"}},
            "status": status,
        }))
        .expect("a claim")
    }

    /// The sides of the changes of claims, as versions.
    fn sides(changes: &[Change]) -> Vec<(Option<u64>, Option<u64>)> {
        let of = |claim: &Option<Arc<NodeClaim>>| claim.as_ref()?.resource_version()?.parse().ok();
        let sides = |change: &Change| match change {
            Change::Claim(diff) => (of(&diff.before), of(&diff.after)),
            _ => (None, None),
        };
        changes.iter().map(sides).collect()
    }

    // OPS-056 (one state with the lookups instead of indexes: docs/deviations.md)
    #[test]
    fn a_relist_reports_what_came_changed_and_went() {
        let cluster = cluster();
        let all = vec![claim("a", 1, None), claim("b", 2, None)];
        assert_eq!(
            sides(&relist(&cluster, all, &BTreeSet::new())),
            [(None, Some(1)), (None, Some(2))]
        );
        let later = vec![claim("b", 5, Some("id-b"))];
        assert_eq!(
            sides(&relist(&cluster, later, &BTreeSet::new())),
            [(Some(2), Some(5)), (Some(1), None)]
        );
        assert_eq!(cluster.claims_by_provider_id("id-b").len(), 1);
        assert!(cluster.claims_by_provider_id("").is_empty());
        assert_eq!(cluster.trustworthy(), Ok(()));
    }

    #[test]
    fn an_object_that_cannot_be_read_stays_as_it_was() {
        let cluster = cluster();
        relist(&cluster, vec![claim("a", 1, Some("id"))], &BTreeSet::new());
        relist::<NodeClaim>(&cluster, Vec::new(), &[(String::new(), "a".to_owned())].into());
        assert!(cluster.claim("a").is_some());
        assert_eq!(cluster.trustworthy(), Ok(()));
    }

    #[test]
    fn an_empty_list_is_followed_but_not_trusted() {
        let cluster = cluster();
        relist(&cluster, vec![claim("a", 1, Some("id"))], &BTreeSet::new());
        relist::<NodeClaim>(&cluster, Vec::new(), &BTreeSet::new());
        assert!(cluster.claims().is_empty());
        assert!(cluster.trustworthy().is_err());
        NodeClaim::apply(&cluster, claim("a", 1, Some("id")));
        assert_eq!(cluster.trustworthy(), Ok(()));
    }

    // SCH-076
    #[test]
    fn what_we_wrote_is_known_at_once_and_never_goes_back() {
        let cluster = cluster();
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        cluster.subscribe(move |change| {
            seen.lock()
                .expect("no panic")
                .extend(sides(std::slice::from_ref(change)));
        });
        cluster.created(claim("a", 3, None));
        assert!(!cluster.is_synced());
        cluster.wrote_claim(claim("a", 5, Some("id")));
        assert_eq!(*told.lock().expect("no panic"), [(None, Some(3)), (Some(3), Some(5))]);
        assert!(
            NodeClaim::apply(&cluster, claim("a", 3, None)).is_empty(),
            "the watch is behind"
        );
        assert_eq!(cluster.claims_by_provider_id("id").len(), 1);
        NodeClaim::delete(&cluster, &claim("a", 7, Some("id")));
        cluster.created(claim("a", 3, None));
        cluster.wrote_claim(claim("a", 5, Some("id")));
        assert!(cluster.claims().is_empty(), "it is gone already");
    }

    #[test]
    fn a_list_older_than_what_was_written_meanwhile_takes_nothing_back() {
        let cluster = cluster();
        relist(&cluster, vec![claim("a", 1, None)], &BTreeSet::new());
        NodeClaim::expect_list(&cluster);
        cluster.created(claim("b", 3, None));
        cluster.wrote_claim(claim("a", 5, Some("id")));
        relist(&cluster, vec![claim("a", 1, None)], &BTreeSet::new());
        assert_eq!(cluster.claims_by_provider_id("id").len(), 1);
        assert!(cluster.claim("b").is_some());
        assert_eq!(cluster.trustworthy(), Ok(()), "nothing vanished");
        NodeClaim::expect_list(&cluster);
        relist(&cluster, vec![claim("a", 5, Some("id"))], &BTreeSet::new());
        assert!(cluster.claim("b").is_none(), "the next list was asked for afterwards");
    }

    #[test]
    fn a_pod_nobody_can_read_any_more_stays_where_it_was() {
        let cluster = cluster();
        let pod = |name: &str| -> LeanPod {
            let pod = objects::running(objects::stored("team", objects::pod(name, "1")), "n");
            serde_json::from_value(pod).expect("a pod")
        };
        relist(&cluster, vec![pod("a"), pod("b")], &Keys::new());
        relist::<LeanPod>(&cluster, Vec::new(), &[("team".to_owned(), "a".to_owned())].into());
        assert!(cluster.pod("team", "a").is_some() && cluster.pod("team", "b").is_none());
        assert_eq!(cluster.pods_on("n").len(), 1);
    }

    #[test]
    fn everything_is_reported_as_new() {
        let cluster = cluster();
        NodeClaim::apply(&cluster, claim("a", 1, None));
        NodeClaim::apply(&cluster, claim("a", 2, Some("id")));
        let pod = objects::running(objects::stored("team", objects::pod("p", "1")), "n");
        LeanPod::apply(&cluster, serde_json::from_value(pod).expect("a pod"));
        let everything = cluster.everything();
        assert_eq!(sides(&everything), [(None, Some(2)), (None, None)]);
        let Some(Change::Pod(pod)) = everything.last() else {
            panic!("{everything:?}");
        };
        assert_eq!((&*pod.namespace, &*pod.name, pod.listed), ("team", "p", true));
        let node = pod.after.as_ref().and_then(|facts| facts.node.as_deref());
        assert!(pod.before.is_none() && node == Some("n"));
    }

    #[test]
    fn an_object_that_changes_to_another_providers_class_is_gone() {
        let cluster = cluster();
        NodeClaim::apply(&cluster, claim("a", 1, Some("id")));
        let changes = NodeClaim::apply(&cluster, claim_of("EC2NodeClass", "a", 2, Some("id")));
        assert_eq!(sides(&changes), [(Some(1), None)]);
        assert!(cluster.claim("a").is_none() && cluster.claims_by_provider_id("id").is_empty());
    }

    // LIF-005
    #[test]
    fn objects_of_other_providers_are_not_there() {
        let cluster = cluster();
        assert!(NodeClaim::apply(&cluster, claim_of("EC2NodeClass", "a", 1, None)).is_empty());
        assert!(cluster.claim("a").is_none());
    }
}
