//! One call for all that ask for the same object at the same time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, WeakShared};

type Call<T> = BoxFuture<'static, Result<T, Arc<kube::Error>>>;

/// Reads objects by name. Who asks for a name while it is being read gets that answer, so that a batch of launches asks for its node class
/// once and not once per claim. No answer is kept once it is there: the next reader asks anew.
pub struct SharedReads<T> {
    running: Mutex<BTreeMap<String, WeakShared<Call<T>>>>,
}

impl<T> Default for SharedReads<T> {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
        }
    }
}

impl<T> fmt::Debug for SharedReads<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedReads").finish_non_exhaustive()
    }
}

impl<T: Clone + Send + Sync + 'static> SharedReads<T> {
    /// The answer for a name: that of a call already running, or else of `call`.
    pub async fn read<F>(&self, name: &str, call: impl FnOnce() -> F) -> Result<T, Arc<kube::Error>>
    where
        F: Future<Output = Result<T, kube::Error>> + Send + 'static,
    {
        let answer = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            // A call whose callers have all gone is not joined: its answer may be an old one.
            running.retain(|_, call| call.upgrade().is_some_and(|call| call.peek().is_none()));
            if let Some(call) = running.get(name).and_then(WeakShared::upgrade) {
                call
            } else {
                let call = call();
                let call = async move { call.await.map_err(Arc::new) }.boxed().shared();
                running.extend(call.downgrade().map(|weak| (name.to_owned(), weak)));
                call
            }
        };
        answer.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    /// A call that takes a second and returns how many there were.
    fn slow(calls: &Arc<AtomicU32>) -> impl Future<Output = Result<u32, kube::Error>> + Send + 'static {
        let number = calls.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(number)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_together_share_a_call_and_later_ones_make_their_own() {
        let (reads, calls) = (SharedReads::default(), Arc::new(AtomicU32::new(0)));
        let read = async |name: &str| reads.read(name, || slow(&calls)).await.expect("an answer");
        let together = tokio::join!(read("a"), read("a"), read("b"));
        assert_eq!(together, (0, 0, 1));
        assert_eq!(read("a").await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_everybody_has_left_is_not_joined() {
        let (reads, calls) = (SharedReads::default(), Arc::new(AtomicU32::new(0)));
        let read = || reads.read("a", || slow(&calls));
        let left = tokio::time::timeout(Duration::from_millis(500), read()).await;
        assert!(left.is_err());
        assert_eq!(read().await.expect("an answer"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_gets_the_error() {
        let reads: SharedReads<u32> = SharedReads::default();
        let fails = || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(kube::Error::LinesCodecMaxLineLengthExceeded)
        };
        let (one, other) = tokio::join!(reads.read("a", fails), reads.read("a", fails));
        let error = one.expect_err("an error");
        assert!(Arc::ptr_eq(&error, &other.expect_err("an error")));
    }
}
