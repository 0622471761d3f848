//! How often watches are opened.
//!
//! A watch that ends without an error is opened again at once. That is right after an hour, but if a proxy or a failing server ends every
//! watch as soon as it begins, requests would have no limit.

use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request};
use rustc_hash::FxHashMap;

use crate::backoff::TokenBucket;

/// Watches of one path that may be opened in quick succession: a start that is refused, listed instead, and begun anew.
const BURST: u32 = 5;
/// Watches of one path a second after that.
const RATE: f64 = 1.0;

/// The pace of watches, each path's for itself.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<FxHashMap<String, Arc<TokenBucket>>>);

impl Pace {
    /// How long a request has to wait: zero for anything but a watch.
    pub(super) fn of<B>(&self, request: &Request<B>) -> Option<Arc<TokenBucket>> {
        let path = is_watch(request).then(|| request.uri().path())?;
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = paths
            .entry(path.to_owned())
            .or_insert_with(|| Arc::new(TokenBucket::new(RATE, BURST)));
        Some(Arc::clone(bucket))
    }
}

/// Whether a request is a watch, also one that begins with a streamed list.
pub(super) fn is_watch<B>(request: &Request<B>) -> bool {
    let asks = |query: &str| query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
    *request.method() == Method::GET && request.uri().query().is_some_and(asks)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    async fn opened(pace: &Pace, path: &str, times: usize) -> Duration {
        let began = Instant::now();
        for _ in 0..times {
            let request = Request::get(path).body(()).expect("a request");
            if let Some(bucket) = pace.of(&request) {
                bucket.acquire().await;
            }
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_end_at_once_are_opened_once_a_second() {
        let pace = Pace::default();
        assert_eq!(opened(&pace, "/api/v1/pods?&watch=true", 5).await, Duration::ZERO);
        assert!(opened(&pace, "/api/v1/pods?&watch=true&resourceVersion=7", 60).await >= Duration::from_secs(60));
        assert_eq!(opened(&pace, "/api/v1/nodes?&watch=true", 5).await, Duration::ZERO);
        assert_eq!(opened(&pace, "/api/v1/pods?&limit=500", 100).await, Duration::ZERO);
    }
}
