//! Requests for a new list of one kind, and waiting until one that began after the request is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

/// Counts the requested and the completed lists of one kind.
#[derive(Debug)]
pub(crate) struct Relist {
    signal: Arc<Notify>,
    requested: AtomicU64,
    complete: watch::Sender<u64>,
    is_listing: AtomicBool,
}

impl Relist {
    /// Relists are requested through `signal`, which the watch waits for.
    pub(crate) fn new(signal: Arc<Notify>) -> Self {
        Self {
            signal,
            requested: AtomicU64::new(0),
            complete: watch::Sender::new(0),
            is_listing: AtomicBool::new(false),
        }
    }

    /// Returns the signal that makes the watch list again.
    pub(crate) fn signal(&self) -> Arc<Notify> {
        Arc::clone(&self.signal)
    }

    /// A list begins. Returns the number of requests it answers, for [`Relist::complete`].
    pub(crate) fn begin(&self) -> u64 {
        self.is_listing.store(true, Ordering::Release);
        self.requested.load(Ordering::Acquire)
    }

    /// The list that began with this number is complete.
    pub(crate) fn complete(&self, begun: u64) {
        self.is_listing.store(false, Ordering::Release);
        self.complete.send_replace(begun);
    }

    /// Whether a list has begun and is not complete.
    pub(crate) fn is_listing(&self) -> bool {
        self.is_listing.load(Ordering::Acquire)
    }

    /// Requests a list and returns once a list that began after this call is complete.
    pub(crate) async fn renew(&self) {
        let mut complete = self.complete.subscribe();
        let wanted = self.requested.fetch_add(1, Ordering::AcqRel) + 1;
        self.signal.notify_one();
        // The sender lives as long as this does.
        let _ = complete.wait_for(|done| *done >= wanted).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_began_before_does_not_count() {
        let relist = Arc::new(Relist::new(Arc::default()));
        let older = relist.begin();
        let renewed = tokio::spawn({
            let relist = Arc::clone(&relist);
            async move { relist.renew().await }
        });
        relist.signal().notified().await;
        assert!(relist.is_listing());
        relist.complete(older);
        assert!(!relist.is_listing());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!renewed.is_finished());
        let newer = relist.begin();
        relist.complete(newer);
        renewed.await.expect("no panic");
    }
}
