//! The cluster as the last decision read it, so that the next one reads only what has changed since, be it another pass of provisioning or a
//! search of consolidation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Prepared};

/// What the last decision made ready; clones share it. It holds on to that decision's snapshot, and to nothing older.
#[derive(Clone, Default, Debug)]
pub(crate) struct Index(Arc<Mutex<Option<Last>>>);

#[derive(Debug)]
struct Last {
    snapshot: Arc<Snapshot>,
    prepared: Arc<Prepared>,
}

impl Index {
    /// A snapshot made ready for questions. Plans are those of a fresh reading.
    pub(crate) fn read(&self, snapshot: &Arc<Snapshot>, options: &Options) -> Arc<Prepared> {
        // Should reading panic, or two read at the same time, the next one begins anew.
        let last = self.lock().take();
        let prepared = match last {
            Some(last) if Arc::ptr_eq(&last.snapshot, snapshot) => last.prepared,
            Some(last) => Arc::new(last.prepared.next(snapshot, options)),
            None => Arc::new(Prepared::new(snapshot, options)),
        };
        *self.lock() = Some(Last {
            snapshot: Arc::clone(snapshot),
            prepared: Arc::clone(&prepared),
        });
        prepared
    }

    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::intern::Interner;

    #[test]
    fn the_same_snapshot_is_read_once_and_an_older_one_is_let_go() {
        let (index, options) = (Index::default(), Options::default());
        let interner = Arc::new(Interner::default());
        let first = Arc::new(Snapshot::new(Arc::clone(&interner)));
        let reading = index.read(&first, &options);
        assert!(Arc::ptr_eq(&reading, &index.read(&first, &options)));
        let gone = Arc::downgrade(&reading);
        drop(reading);
        let next = Arc::new(Snapshot::new(interner));
        index.read(&next, &options);
        assert!(gone.upgrade().is_none());
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
