//! The lists of one kind: whoever has to know how things are now asks for one and waits until it is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

/// Counts the lists of a kind that were asked for and those that are complete.
#[derive(Debug)]
pub(crate) struct Listing {
    bell: Arc<Notify>,
    asked: AtomicU64,
    complete: watch::Sender<u64>,
}

impl Listing {
    /// Lists that begin when `bell` rings.
    pub(crate) fn new(bell: Arc<Notify>) -> Self {
        Self {
            bell,
            asked: AtomicU64::new(0),
            complete: watch::Sender::new(0),
        }
    }

    /// What rings for a new list.
    pub(crate) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// A list begins; which of those asked for it answers.
    pub(crate) fn begin(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// The list that began so is complete.
    pub(crate) fn complete(&self, begun: u64) {
        self.complete.send_replace(begun);
    }

    /// Returns once a list is complete that began after this call.
    pub(crate) async fn renew(&self) {
        let mut complete = self.complete.subscribe();
        let wanted = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.bell.notify_one();
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
        let listing = Arc::new(Listing::new(Arc::default()));
        let older = listing.begin();
        let renewed = tokio::spawn({
            let listing = Arc::clone(&listing);
            async move { listing.renew().await }
        });
        listing.bell().notified().await;
        listing.complete(older);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!renewed.is_finished());
        let newer = listing.begin();
        listing.complete(newer);
        renewed.await.expect("no panic");
    }
}
