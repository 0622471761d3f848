//! Interned requirement sets of pods and volumes: equal sets share one id, so that derived facts are computed once.

use crate::dense::ids::{Id, IdVec};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::requirement::{Requirement, Requirements};
use rustc_hash::FxHashMap;

/// The id of an interned requirement set.
pub(crate) type ReqId = Id<ReqSet>;

/// What a pod, or one alternative of a volume, requires of a node's labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ReqSet {
    /// All keys except hostname.
    pub(crate) labels: Requirements,
    /// Hostname. It identifies a node and is never part of a claim's requirements.
    pub(crate) host: Option<Requirement>,
    /// A key whose constraints contradict each other, so that no node satisfies the set (SCH-472).
    pub(crate) contradiction: Option<Sym>,
}

impl ReqSet {
    /// Intersects single requirements by key.
    pub(crate) fn new(parts: impl IntoIterator<Item = Requirement>, interner: &Interner) -> Self {
        let mut set = Self::default();
        for part in parts {
            set.add(&part, interner);
        }
        set
    }

    fn add(&mut self, part: &Requirement, interner: &Interner) {
        let key = part.key;
        let before = if key == sym::HOSTNAME {
            self.host.as_ref()
        } else {
            self.labels.get(key)
        };
        let after = before.map_or_else(|| part.clone(), |before| before.intersect(part, interner));
        let absent = part.admits_absence() && before.is_none_or(Requirement::admits_absence);
        if before.is_some() && after.is_does_not_exist() && !absent {
            self.contradiction.get_or_insert(key);
        }
        if key == sym::HOSTNAME {
            self.host = Some(after);
        } else {
            self.labels.replace(after);
        }
    }

    /// All requirements, hostname last.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Requirement> {
        self.labels.iter().chain(&self.host)
    }

    /// The requirement on a key.
    pub(crate) fn get(&self, key: Sym) -> Option<&Requirement> {
        if key == sym::HOSTNAME {
            self.host.as_ref()
        } else {
            self.labels.get(key)
        }
    }

    /// Returns whether a node that has no name yet can satisfy the hostname requirement.
    pub(crate) fn allows_new_host(&self) -> bool {
        self.host
            .as_ref()
            .is_none_or(|host| host.complement && host.gte.is_none() && host.lte.is_none())
    }

    /// Returns whether a node with this hostname satisfies the hostname requirement.
    pub(crate) fn allows_host(&self, hostname: Sym, interner: &Interner) -> bool {
        self.host.as_ref().is_none_or(|host| host.has(hostname, interner))
    }
}

/// Returns whether two requirements on one key overlap: a common value, or both admit absence (SCH-100).
pub(crate) fn requirements_overlap(a: &Requirement, b: &Requirement, interner: &Interner) -> bool {
    a.intersects(b, interner) || (a.admits_absence() && b.admits_absence())
}

/// The interned requirement sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReqSets {
    pub(crate) sets: IdVec<ReqSet, ReqSet>,
    ids: FxHashMap<ReqSet, ReqId>,
}

impl ReqSets {
    pub(crate) fn intern(&mut self, set: ReqSet) -> ReqId {
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        let id = self.sets.push(set.clone());
        self.ids.insert(set, id);
        id
    }

    pub(crate) fn get(&self, id: ReqId) -> &ReqSet {
        &self.sets[id]
    }
}
