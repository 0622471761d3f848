//! The last snapshot, for readers that need not wait for writers.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLockWriteGuard};

use kerf_model::snapshot::Snapshot;

/// The last snapshot and the version of the cluster that it shows.
#[derive(Default, Debug)]
pub(super) struct Published {
    /// Rises with every write, before its lock is released.
    version: AtomicU64,
    last: Mutex<Option<(u64, Arc<Snapshot>)>>,
}

impl Published {
    /// The last snapshot, if nothing was written since. A write that is under way counts once it has ended.
    pub(super) fn current(&self) -> Option<Arc<Snapshot>> {
        let version = self.version.load(Ordering::Acquire);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, snapshot) = last.as_ref().filter(|(of, _)| *of == version)?;
        Some(Arc::clone(snapshot))
    }

    /// The last snapshot, current or not.
    #[cfg(test)]
    pub(super) fn last(&self) -> Option<Arc<Snapshot>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|(_, snapshot)| Arc::clone(snapshot))
    }

    /// Watches over a write.
    pub(super) const fn guard<'a, T>(&'a self, inner: RwLockWriteGuard<'a, T>) -> WriteGuard<'a, T> {
        WriteGuard {
            inner,
            published: self,
            snapshot: None,
        }
    }
}

/// Exclusive access to the cluster. When it ends, the last snapshot is out of date, unless one was published after all changes.
#[derive(Debug)]
pub(super) struct WriteGuard<'a, T> {
    inner: RwLockWriteGuard<'a, T>,
    published: &'a Published,
    /// Published after all changes so far.
    snapshot: Option<Arc<Snapshot>>,
}

impl<T> WriteGuard<'_, T> {
    /// Publishes a snapshot that shows everything written so far.
    pub(super) fn publish(&mut self, snapshot: &Arc<Snapshot>) {
        self.snapshot = Some(Arc::clone(snapshot));
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.snapshot = None;
        &mut self.inner
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        let version = self.published.version.fetch_add(1, Ordering::AcqRel) + 1;
        if let Some(snapshot) = self.snapshot.take() {
            *self.published.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((version, snapshot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::intern::Interner;
    use std::sync::RwLock;

    fn snapshot() -> Arc<Snapshot> {
        Arc::new(Snapshot::new(Arc::new(Interner::default())))
    }

    #[test]
    fn a_snapshot_is_current_until_the_next_write_ends_and_nobody_waits_for_it() {
        let (published, inner) = (Published::default(), RwLock::new(0));
        let write = || published.guard(inner.write().unwrap());
        assert!(published.current().is_none(), "none was taken");
        let first = snapshot();
        write().publish(&first);
        let is_current =
            |snapshot: &Arc<Snapshot>| published.current().is_some_and(|last| Arc::ptr_eq(&last, snapshot));
        assert!(is_current(&first));
        let mut writing = write();
        *writing = 1;
        assert!(is_current(&first), "the lock is held");
        drop(writing);
        assert!(published.current().is_none());
        let mut writing = write();
        writing.publish(&first);
        *writing = 2;
        drop(writing);
        assert!(
            published.current().is_none(),
            "it was changed after the snapshot was taken"
        );
    }
}
