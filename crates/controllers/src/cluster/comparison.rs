//! The comparison of the mirror with a fresh list of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kerf_api::NodeClassKind;
use kerf_state::{Kind, ObjectVersion};

use super::Cluster;
use crate::metadata_list::Identity;

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

/// The kind of the objects that a watch check compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckedKind {
    /// A kind that decisions read.
    Mirrored(Kind),
    /// A kind of node class.
    NodeClass(NodeClassKind),
}

impl CheckedKind {
    /// The kind as the mirror names it; `None` for node classes.
    const fn mirrored(self) -> Option<Kind> {
        match self {
            Self::Mirrored(kind) => Some(kind),
            Self::NodeClass(_) => None,
        }
    }
}

/// One object of a list.
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
        /// The version of the list without it: it was deleted before that. `u64::MAX` if unknown.
        version: u64,
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
            Self::Ghost { key, uid, .. } => known.get(key).is_some_and(|known| known.uid == *uid),
        }
    }

    /// Whether the watch lost the event: it has delivered a later one. `position` is the highest version it has delivered. While the watch
    /// is behind this version, the event may still come.
    pub(crate) const fn is_lost(&self, position: u64) -> bool {
        let (Self::Behind { version, .. } | Self::Ghost { version, .. }) = self;
        *version < position
    }
}

/// Compares the versions in the mirror before a list was requested with the list, which is of this version.
pub(crate) fn compare(
    before: &BTreeMap<Key, ObjectVersion>,
    listed: &BTreeMap<Key, Listed>,
    version: u64,
) -> BTreeSet<Discrepancy> {
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
        version,
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
    pub(crate) fn known(&self, kind: CheckedKind, unbound_only: bool) -> BTreeMap<Key, ObjectVersion> {
        let inner = self.read();
        let known = match kind {
            CheckedKind::Mirrored(Kind::Pod) if unbound_only => inner.mirror.versions_of_unbound_pods(),
            CheckedKind::Mirrored(kind) => inner.mirror.versions(kind),
            CheckedKind::NodeClass(kind) => inner.mirror.versions_of_node_classes(kind),
        };
        known
            .into_iter()
            .map(|known| ((Arc::clone(&known.namespace), Arc::clone(&known.name)), known))
            .collect()
    }

    /// The highest version that the watch of a kind has delivered.
    pub(crate) fn watch_position(&self, kind: CheckedKind) -> u64 {
        let inner = self.read();
        match kind {
            CheckedKind::Mirrored(kind) => inner.mirror.watch_position(kind),
            CheckedKind::NodeClass(kind) => inner.mirror.watch_position_of_node_classes(kind),
        }
    }

    /// How many pods are known.
    pub(crate) fn pod_count(&self) -> usize {
        self.read().mirror.count(Kind::Pod)
    }

    /// Whether the last lists of the objects were suspicious.
    pub(crate) fn suspects(&self, kind: CheckedKind) -> bool {
        kind.mirrored().is_some_and(|kind| self.read().mirror.suspects(kind))
    }

    /// Records whether a fresh list of the objects agrees with the mirror.
    pub(crate) fn note_comparison(&self, kind: CheckedKind, agrees: bool) {
        let Some(kind) = kind.mirrored() else { return };
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

/// A resource version as a number, 0 if it is none. They are opaque by contract, but every API server counts them up.
pub(crate) fn version(text: &str) -> u64 {
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
        let found = compare(&before, &listed, 9);
        let behind = |name, version| Discrepancy::Behind {
            key: key(name),
            version,
        };
        let ghost = |name, uid: &str| Discrepancy::Ghost {
            key: key(name),
            uid: uid.into(),
            version: 9,
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
        let found = compare(&known(&[("gone", "4", 5)]), &listed, 9);
        let later = known(&[("new", "6", 8), ("gone", "9", 8)]);
        assert_eq!(found.len(), 2);
        assert!(!found.iter().any(|one| one.persists(&later)));
    }

    #[test]
    fn an_event_is_lost_when_the_watch_has_delivered_a_later_one() {
        let found = compare(&known(&[("gone", "4", 5)]), &list(&[("new", "6", 7)]), 9);
        for (position, lost) in [(5, 0), (7, 0), (8, 1), (9, 1), (10, 2)] {
            let count = found.iter().filter(|one| one.is_lost(position)).count();
            assert_eq!(count, lost, "{position}");
        }
    }
}
