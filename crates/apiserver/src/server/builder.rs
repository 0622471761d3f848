//! Options of a server, and the two ways to build it: in memory, and with its state in a folder.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ApiServer;
use crate::state::{Clock, Observer, Shared, State, Write};
use crate::storage::OpenError;

/// Options of a server.
pub struct ApiServerBuilder {
    clock: Option<Clock>,
    seed: u64,
    watch_history: usize,
    bookmark_interval: Duration,
    garbage_collection: bool,
    observer: Option<Observer>,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            clock: None,
            seed: 0,
            watch_history: 8192,
            bookmark_interval: Duration::from_secs(60),
            garbage_collection: true,
            observer: None,
        }
    }
}

impl std::fmt::Debug for ApiServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServerBuilder")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl ApiServerBuilder {
    /// The source of timestamps. The default starts at the beginning of 2026 and follows tokio's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Seed of uids and generated names.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Number of events kept per resource. It limits how far a watch may fall behind and how old a continue token may be.
    #[must_use]
    pub fn watch_history(mut self, events: usize) -> Self {
        self.watch_history = events;
        self
    }

    /// Interval of bookmarks in a watch that allows them.
    #[must_use]
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.bookmark_interval = interval;
        self
    }

    /// Whether garbage collection deletes dependents with their owners; on by default. A control plane without a controller manager has no
    /// garbage collection.
    #[must_use]
    pub fn garbage_collection(mut self, on: bool) -> Self {
        self.garbage_collection = on;
        self
    }

    /// Calls `observer` with every write, before watches deliver it. It must be fast and must not call the server.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(Write<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer::new(observer));
        self
    }

    /// A server that keeps its state in a folder, which it locks and makes readable for its owner only. It reads the state at start and
    /// writes every change. Watch history is not kept: watches from before a restart end with 410 Expired.
    ///
    /// # Errors
    /// When the folder cannot be used, another process uses it, or its log is damaged.
    pub fn open(self, folder: &Path) -> Result<ApiServer, OpenError> {
        self.build_from(|state| state.recover(folder))
    }

    /// The server, with the namespaces and priority classes every cluster has.
    #[must_use]
    pub fn build(self) -> ApiServer {
        match self.build_from(|_| Ok::<(), Infallible>(())) {
            Ok(server) => server,
            Err(never) => match never {},
        }
    }

    fn build_from<E>(self, prepare: impl FnOnce(&mut State) -> Result<(), E>) -> Result<ApiServer, E> {
        let clock = self.clock.unwrap_or_else(tokio_clock);
        let mut state = State::new(self.seed, self.watch_history);
        state.collects_garbage = self.garbage_collection;
        state.observer = self.observer;
        prepare(&mut state)?;
        state.bootstrap(clock());
        Ok(ApiServer {
            shared: Arc::new(Shared::new(state, clock, self.bookmark_interval)),
        })
    }
}

/// 2026-01-01T00:00:00Z
const EPOCH_S: i64 = 1_767_225_600;

fn tokio_clock() -> Clock {
    let start = tokio::time::Instant::now();
    Arc::new(move || {
        let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
        let epoch = Timestamp::from_second(EPOCH_S).unwrap_or(Timestamp::UNIX_EPOCH);
        epoch.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    })
}
