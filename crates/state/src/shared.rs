//! The handle readers take snapshots from: the writer swaps a pointer, nobody waits (STY-003).

use arc_swap::ArcSwap;
use kerf_model::intern::Interner;
use kerf_model::snapshot::Snapshot;
use std::fmt;
use std::sync::Arc;

/// The newest published snapshot. Clones share it.
#[derive(Clone)]
pub struct Shared(Arc<ArcSwap<Snapshot>>);

impl Shared {
    /// A handle that shows an empty cluster until the first publication.
    pub fn new(interner: Arc<Interner>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(Snapshot::new(interner))))
    }

    /// Replaces what readers get from now on. Those who hold an older snapshot keep it.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.0.store(snapshot);
    }

    /// The newest snapshot.
    pub fn latest(&self) -> Arc<Snapshot> {
        self.0.load_full()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latest = self.latest();
        write!(
            f,
            "Shared({} nodes, {} pending pods)",
            latest.nodes.len(),
            latest.pending.len()
        )
    }
}
