//! The interner: strings that decisions compare often become small integers.
//!
//! One interner serves a whole process: it only grows, ids stay valid, and reading a string needs no lock. Pod labels are not
//! interned (their values churn with every rollout); keys and values of requirements, node labels and instance types are.

#![expect(
    clippy::disallowed_types,
    reason = "texts come from pod authors, so the hash is keyed; nothing iterates over the map"
)]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, RwLock};

/// An interned string. The number says nothing about order: whatever is shown or breaks a tie is ordered by text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sym(u32);

impl Sym {
    /// The position in the interner's table, dense from zero.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match WELL_KNOWN.get(self.index()) {
            Some(text) => write!(f, "Sym({text})"),
            None => write!(f, "Sym({})", self.0),
        }
    }
}

macro_rules! well_known {
    ($($name:ident = $text:literal),+ $(,)?) => {
        well_known!(@const 0u32; $($name = $text,)+);
        const WELL_KNOWN: &[&str] = &[$($text),+];
    };
    (@const $n:expr; $name:ident = $text:literal, $($rest:tt)*) => {
        #[doc = concat!("`", $text, "`")]
        pub const $name: Sym = Sym($n);
        well_known!(@const $n + 1; $($rest)*);
    };
    (@const $n:expr;) => {};
}

/// Strings every interner knows from the start, so that code can name them without a look-up.
pub mod sym {
    use super::Sym;
    well_known! {
        CPU = "cpu",
        MEMORY = "memory",
        EPHEMERAL_STORAGE = "ephemeral-storage",
        PODS = "pods",
        NODES = "nodes",
        HOSTNAME = "kubernetes.io/hostname",
        ZONE = "topology.kubernetes.io/zone",
        REGION = "topology.kubernetes.io/region",
        INSTANCE_TYPE = "node.kubernetes.io/instance-type",
        ARCH = "kubernetes.io/arch",
        OS = "kubernetes.io/os",
        WINDOWS_BUILD = "node.kubernetes.io/windows-build",
        CAPACITY_TYPE = "karpenter.sh/capacity-type",
        NODEPOOL = "karpenter.sh/nodepool",
        REGISTERED = "karpenter.sh/registered",
        INITIALIZED = "karpenter.sh/initialized",
        ON_DEMAND = "on-demand",
        SPOT = "spot",
        RESERVED = "reserved",
        TRUE = "true",
        EMPTY = "",
    }
    pub(super) const TABLE: &[&str] = WELL_KNOWN;
}
const WELL_KNOWN: &[&str] = sym::TABLE;

struct Entry {
    text: Arc<str>,
    integer: Option<i64>,
}

type Chunk = Box<[OnceLock<Entry>]>;

const CHUNK_BITS: usize = 12;
const CHUNK_LEN: usize = 1 << CHUNK_BITS;
/// 16,384 chunks of 4,096 strings: more than a process can hold in memory.
const CHUNKS: usize = 1 << 14;

/// The text of an id that no string of the interner has. No object of the API can have such a name.
pub const UNKNOWN: &str = "<unknown id>";

/// The append-only table of strings.
pub struct Interner {
    // A keyed hash, since pod authors choose what is looked up here.
    ids: RwLock<HashMap<Arc<str>, Sym>>,
    chunks: Box<[OnceLock<Chunk>]>,
}

impl Default for Interner {
    fn default() -> Self {
        let interner = Self {
            ids: RwLock::new(HashMap::new()),
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
        };
        for text in WELL_KNOWN {
            interner.intern(text);
        }
        interner
    }
}

impl fmt::Debug for Interner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interner({} strings)", self.len())
    }
}

impl Interner {
    /// The id of `text`; a new one if it was not interned before.
    #[expect(
        clippy::indexing_slicing,
        reason = "both indices are cut to the length of what they index"
    )]
    pub fn intern(&self, text: &str) -> Sym {
        if let Some(known) = self.get(text) {
            return known;
        }
        let mut ids = self.ids.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(&known) = ids.get(text) {
            return known;
        }
        let index = ids.len();
        let text: Arc<str> = Arc::from(text);
        let chunk = self.chunks[(index >> CHUNK_BITS).min(CHUNKS - 1)]
            .get_or_init(|| (0..CHUNK_LEN).map(|_| OnceLock::new()).collect());
        let entry = Entry {
            text: Arc::clone(&text),
            integer: parse_integer(&text),
        };
        // The write lock makes this the only writer of the slot.
        let _ = chunk[index & (CHUNK_LEN - 1)].set(entry);
        let id = Sym(index as u32);
        ids.insert(text, id);
        id
    }

    /// The id of `text` if it was interned before.
    pub fn get(&self, text: &str) -> Option<Sym> {
        self.ids
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(text)
            .copied()
    }

    fn entry(&self, id: Sym) -> Option<&Entry> {
        self.chunks
            .get(id.index() >> CHUNK_BITS)?
            .get()?
            .get(id.index() & (CHUNK_LEN - 1))?
            .get()
    }

    /// The text of an id. An id of another interner, which is a mistake of the caller, gives another text or [`UNKNOWN`].
    pub fn text(&self, id: Sym) -> &str {
        self.entry(id).map_or(UNKNOWN, |entry| &entry.text)
    }

    /// The text of an id as a shared string.
    pub fn shared(&self, id: Sym) -> Arc<str> {
        self.entry(id)
            .map_or_else(|| Arc::from(UNKNOWN), |entry| Arc::clone(&entry.text))
    }

    /// The text read as a decimal integer, where it is one (the operators Gt, Lt, Gte and Lte compare integers only, SCH-087).
    pub fn integer(&self, id: Sym) -> Option<i64> {
        self.entry(id)?.integer
    }

    /// How many strings are interned.
    pub fn len(&self) -> usize {
        self.ids.read().unwrap_or_else(std::sync::PoisonError::into_inner).len()
    }

    /// Never true: the well-known strings are always there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn parse_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_ids_are_the_same_in_every_interner() {
        let interner = Interner::default();
        assert_eq!(interner.text(sym::ZONE), "topology.kubernetes.io/zone");
        assert_eq!(interner.intern("kubernetes.io/hostname"), sym::HOSTNAME);
        assert_eq!(interner.text(sym::EMPTY), "");
    }

    #[test]
    fn ids_survive_growth_over_several_chunks() {
        let interner = Interner::default();
        let ids: Vec<_> = (0..3 * CHUNK_LEN)
            .map(|n| interner.intern(&format!("value-{n}")))
            .collect();
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(interner.text(*id), format!("value-{n}"));
            assert_eq!(interner.intern(&format!("value-{n}")), *id);
        }
        assert_eq!(interner.integer(interner.intern("42")), Some(42));
        assert_eq!(interner.integer(interner.intern("4x")), None);
    }
}
