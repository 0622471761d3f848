//! One lock per NodeClaim and NodePool, so that the writes of each follow one another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as BlockingMutex, PoisonError, Weak};

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The locks by the unique id of the object; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteLocks(Arc<BlockingMutex<BTreeMap<String, Weak<Mutex<()>>>>>);

impl WriteLocks {
    /// Waits until no other write of the object is under way. Dropping the result unlocks it.
    pub(crate) async fn lock(&self, uid: &str) -> OwnedMutexGuard<()> {
        self.of(uid).lock_owned().await
    }

    fn of(&self, uid: &str) -> Arc<Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(uid).and_then(Weak::upgrade) {
            return lock;
        }
        // Removes the locks that no task holds or waits for.
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Mutex::new(()));
        locks.insert(uid.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_object_has_its_own_lock() {
        let locks = WriteLocks::default();
        let first = locks.lock("a").await;
        let _other = locks.lock("b").await;
        assert!(locks.of("a").try_lock().is_err());
        drop(first);
        assert!(locks.of("a").try_lock().is_ok());
    }
}
