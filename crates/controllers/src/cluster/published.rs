//! The last snapshot, for readers that need not wait for writers.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, RwLockWriteGuard};

use kerf_model::snapshot::Snapshot;

use super::handle::Inner;

/// The last snapshot, `None` from the end of a write that changed what it shows until the next one.
#[derive(Default, Debug)]
pub(super) struct Published(Mutex<Option<Arc<Snapshot>>>);

impl Published {
    /// The last snapshot, if no write has changed anything since. A write that is under way counts once it has ended.
    pub(super) fn current(&self) -> Option<Arc<Snapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wraps the lock of a write, so that the end of one that changes something makes the last snapshot out of date.
    pub(super) const fn guard<'a>(&'a self, inner: RwLockWriteGuard<'a, Inner>) -> WriteGuard<'a> {
        WriteGuard { inner, published: self }
    }
}

/// Exclusive access to the cluster. When it ends, readers get the mirror's last snapshot if nothing has changed since that was taken, none
/// otherwise.
pub(super) struct WriteGuard<'a> {
    inner: RwLockWriteGuard<'a, Inner>,
    published: &'a Published,
}

impl Deref for WriteGuard<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for WriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        let mirror = &self.inner.mirror;
        let current = (!mirror.has_changes()).then(|| Arc::clone(mirror.last_snapshot()));
        let mut last = self.published.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *last, current);
        // A snapshot that nobody else holds is freed after readers can go on.
        drop(last);
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::RwLock;
    use std::time::Duration;

    use jiff::Timestamp;
    use kerf_api::NodePool;
    use kerf_model::intern::Interner;
    use kerf_state::{Mirror, MirrorOptions, Now};

    use super::*;

    fn cluster() -> RwLock<Inner> {
        RwLock::new(Inner {
            mirror: Mirror::new(Arc::new(Interner::default()), &MirrorOptions::default()),
            synced_once: false,
        })
    }

    #[test]
    fn a_snapshot_is_current_until_a_write_that_changed_something_ends_and_nobody_waits_for_it() {
        let (published, inner) = (Published::default(), cluster());
        let write = || published.guard(inner.write().unwrap());
        assert!(published.current().is_none(), "none was taken");
        let first = write().mirror.snapshot(Timestamp::UNIX_EPOCH);
        let is_current =
            |snapshot: &Arc<Snapshot>| published.current().is_some_and(|last| Arc::ptr_eq(&last, snapshot));
        assert!(is_current(&first));

        let pool: NodePool = serde_json::from_str(POOL).expect("a pool");
        let mut writing = write();
        writing.mirror.apply(pool);
        assert!(is_current(&first), "the lock is held");
        drop(writing);
        assert!(published.current().is_none());

        let mut writing = write();
        let second = writing.mirror.snapshot(Timestamp::UNIX_EPOCH);
        writing
            .mirror
            .delete(&serde_json::from_str::<NodePool>(POOL).expect("a pool"));
        drop(writing);
        assert!(
            published.current().is_none(),
            "it was changed after the snapshot was taken"
        );
        assert!(!is_current(&second));
    }

    #[test]
    fn a_write_that_changes_nothing_leaves_the_snapshot_current() {
        let (published, inner) = (Published::default(), cluster());
        let write = || published.guard(inner.write().unwrap());
        write()
            .mirror
            .apply(serde_json::from_str::<NodePool>(POOL).expect("a pool"));
        let last = write().mirror.snapshot(Timestamp::UNIX_EPOCH);
        let now = Timestamp::UNIX_EPOCH;
        let writes: [&dyn Fn(&mut Mirror); 4] = [
            &|mirror| {
                mirror.expire(Now {
                    wall: now,
                    uptime: Duration::ZERO,
                });
            },
            &|mirror| assert!(mirror.pool("a", now).is_some()),
            &|mirror| mirror.set_buffer_pods_on_machines([]),
            &|mirror| mirror.apply(serde_json::from_str::<NodePool>(POOL).expect("a pool")),
        ];
        for (number, one) in writes.into_iter().enumerate() {
            one(&mut write().mirror);
            let current = published.current();
            assert!(
                current.is_some_and(|current| Arc::ptr_eq(&current, &last)),
                "write {number}"
            );
        }
    }

    const POOL: &str = r#"{
        "metadata": {"name": "a", "uid": "a"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "g", "kind": "K", "name": "c"}, "requirements": []}}}
    }"#;
}
