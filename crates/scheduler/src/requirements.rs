//! Requirement sets of pods and volumes, interned: equal sets share one number, so that everything derived from them is computed once.

use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::requirement::{Requirement, Requirements};
use rustc_hash::FxHashMap;

/// The number of an interned requirement set.
pub(crate) type ReqId = u32;

/// What a pod (or a volume alternative) asks of a node's labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ReqSet {
    /// All keys but hostname.
    pub(crate) labels: Requirements,
    /// Hostname, which is a node's identity and never part of a requirement state.
    pub(crate) host: Option<Requirement>,
    /// A key whose constraints contradict each other: nothing can satisfy them (SCH-472).
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

    /// All requirements.
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

    /// Whether a machine that has no name yet can satisfy the hostname part: any name nobody could have written down.
    pub(crate) fn allows_new_host(&self) -> bool {
        self.host
            .as_ref()
            .is_none_or(|host| host.complement && host.gte.is_none() && host.lte.is_none())
    }

    /// Whether a machine of this name satisfies the hostname part.
    pub(crate) fn allows_host(&self, hostname: Sym, interner: &Interner) -> bool {
        self.host.as_ref().is_none_or(|host| host.has(hostname, interner))
    }
}

/// The interned sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReqSets {
    pub(crate) sets: Vec<ReqSet>,
    ids: FxHashMap<ReqSet, ReqId>,
}

impl ReqSets {
    pub(crate) fn intern(&mut self, set: ReqSet) -> ReqId {
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        let id = self.sets.len() as ReqId;
        self.sets.push(set.clone());
        self.ids.insert(set, id);
        id
    }

    pub(crate) fn get(&self, id: ReqId) -> &ReqSet {
        &self.sets[id as usize]
    }
}
