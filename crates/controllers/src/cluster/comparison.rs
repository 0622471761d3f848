//! The comparison of the mirror with a fresh list of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_cloud::NodeClassKind;
use kerf_state::{Kind, ObjectVersion};

use super::{Cluster, NodeClass};
use crate::metadata_list::Identity;

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

/// The objects that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// Those of a kind in the mirror.
    Mirrored(Kind),
    /// Node classes of one kind.
    Classes(NodeClassKind),
}

impl Subject {
    /// The kind the mirror has them under.
    const fn mirrored(self) -> Option<Kind> {
        match self {
            Self::Mirrored(kind) => Some(kind),
            Self::Classes(_) => None,
        }
    }
}

/// What a list says of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    pub(crate) uid: Arc<str>,
    pub(crate) version: u64,
}

/// A difference between the mirror and the API server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Discrepancy {
    /// The mirror lacks this version of an object, or a later one.
    Behind {
        /// Which object.
        key: Key,
        /// Which version.
        version: u64,
    },
    /// The mirror has an object that is gone.
    Ghost {
        /// Which object.
        key: Key,
        /// Its unique id: the name may be used again.
        uid: Arc<str>,
    },
}

impl Discrepancy {
    /// Which object it concerns.
    pub(crate) const fn key(&self) -> &Key {
        let (Self::Behind { key, .. } | Self::Ghost { key, .. }) = self;
        key
    }

    /// Whether the difference is still there, given the present versions in the mirror.
    pub(crate) fn persists(&self, known: &BTreeMap<Key, ObjectVersion>) -> bool {
        match self {
            Self::Behind { key, version } => known.get(key).is_none_or(|known| known.version < *version),
            Self::Ghost { key, uid } => known.get(key).is_some_and(|known| known.uid == *uid),
        }
    }
}

/// Compares the versions in the mirror before a list was requested with the list.
pub(crate) fn compare(before: &BTreeMap<Key, ObjectVersion>, listed: &BTreeMap<Key, Listed>) -> BTreeSet<Discrepancy> {
    let behind = listed.iter().map(|(key, listed)| Discrepancy::Behind {
        key: key.clone(),
        version: listed.version,
    });
    let ghosts = before
        .iter()
        .filter(|(key, known)| listed.get(*key).is_none_or(|listed| listed.uid != known.uid));
    let ghosts = ghosts.map(|(key, known)| Discrepancy::Ghost {
        key: key.clone(),
        uid: Arc::clone(&known.uid),
    });
    behind.chain(ghosts).filter(|one| one.persists(before)).collect()
}

/// An object of a list, read from its metadata.
pub(crate) fn listed(object: &Identity) -> (Key, Listed) {
    let listed = Listed {
        uid: object.uid.as_str().into(),
        version: version(&object.resource_version),
    };
    ((object.namespace.as_str().into(), object.name.as_str().into()), listed)
}

impl Cluster {
    /// The versions of the objects in the mirror; with `unbound_only` only those of pods that are not bound.
    pub(crate) fn known(&self, subject: Subject, unbound_only: bool) -> BTreeMap<Key, ObjectVersion> {
        let inner = self.lock();
        let known = match subject {
            Subject::Mirrored(Kind::Pod) if unbound_only => inner.mirror.versions_of_unbound_pods(),
            Subject::Mirrored(kind) => inner.mirror.versions(kind),
            Subject::Classes(kind) => inner
                .node_classes
                .of_kind(kind)
                .map(|class| version_of(class))
                .collect(),
        };
        known
            .into_iter()
            .map(|known| ((Arc::clone(&known.namespace), Arc::clone(&known.name)), known))
            .collect()
    }

    /// How many pods are known.
    pub(crate) fn pod_count(&self) -> usize {
        self.lock().mirror.count(Kind::Pod)
    }

    /// Whether the last lists of the objects were suspicious.
    pub(crate) fn suspects(&self, subject: Subject) -> bool {
        subject.mirrored().is_some_and(|kind| self.lock().mirror.suspects(kind))
    }

    /// Notes whether a fresh list of the objects agrees with the mirror.
    pub(crate) fn heard(&self, subject: Subject, agrees: bool) {
        let Some(kind) = subject.mirrored() else { return };
        let believed = self.lock().mirror.compared(kind, agrees, self.uptime());
        if let Some(believed) = believed {
            let (kind, missing) = (believed.kind, believed.missing);
            tracing::warn!(
                ?kind,
                missing,
                "fresh lists confirm that objects are gone, going on without them"
            );
        }
    }
}

fn version_of(class: &NodeClass) -> ObjectVersion {
    ObjectVersion {
        namespace: Arc::from(""),
        name: Arc::from(class.name.as_str()),
        uid: Arc::from(class.uid.as_str()),
        version: version(&class.resource_version),
    }
}

/// A resource version as a number, 0 if it is none. They are opaque by contract, but every API server counts them up.
fn version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("".into(), name.into())
    }

    fn known(objects: &[(&str, &str, u64)]) -> BTreeMap<Key, ObjectVersion> {
        let known = |(name, uid, version): &(&str, &str, u64)| ObjectVersion {
            namespace: "".into(),
            name: (*name).into(),
            uid: (*uid).into(),
            version: *version,
        };
        objects.iter().map(|object| (key(object.0), known(object))).collect()
    }

    fn list(objects: &[(&str, &str, u64)]) -> BTreeMap<Key, Listed> {
        let listed = |(_, uid, version): &(&str, &str, u64)| Listed {
            uid: (*uid).into(),
            version: *version,
        };
        objects.iter().map(|object| (key(object.0), listed(object))).collect()
    }

    #[test]
    fn lost_events_of_every_kind_are_found() {
        let before = known(&[
            ("same", "1", 5),
            ("ahead", "2", 9),
            ("behind", "3", 5),
            ("gone", "4", 5),
            ("anew", "5", 5),
        ]);
        let listed = list(&[
            ("same", "1", 5),
            ("ahead", "2", 8),
            ("behind", "3", 6),
            ("new", "6", 7),
            ("anew", "7", 9),
        ]);
        let found = compare(&before, &listed);
        let behind = |name, version| Discrepancy::Behind {
            key: key(name),
            version,
        };
        let ghost = |name, uid: &str| Discrepancy::Ghost {
            key: key(name),
            uid: uid.into(),
        };
        let expected = [
            behind("anew", 9),
            behind("behind", 6),
            behind("new", 7),
            ghost("anew", "5"),
            ghost("gone", "4"),
        ];
        assert_eq!(found, BTreeSet::from(expected));
    }

    #[test]
    fn a_watch_that_catches_up_clears_them() {
        let listed = list(&[("new", "6", 7)]);
        let found = compare(&known(&[("gone", "4", 5)]), &listed);
        let later = known(&[("new", "6", 8), ("gone", "9", 8)]);
        assert_eq!(found.len(), 2);
        assert!(!found.iter().any(|one| one.persists(&later)));
    }
}
