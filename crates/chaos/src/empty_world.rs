//! What every chaos world starts with: a simulated clock, an observation and an API server whose writes it sees.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_apiserver::ApiServer;
use kerf_runtime::Clock;
use kerf_runtime::logging::{LogConfig, LogLevel, Sinks};

use crate::observation::{Instances, Observation};

/// When worlds begin, in seconds since 1970.
pub const WORLD_START: i64 = 1_767_225_600;
/// How often a quiet watch gets a bookmark. Dozens of them cost more than all that happens in most worlds.
const BOOKMARKS: Duration = Duration::from_secs(240);

/// A world in which nothing runs yet.
pub struct EmptyWorld {
    /// The world's time.
    pub clock: Clock,
    /// Sees each write to the API.
    pub observation: Observation,
    /// The API, which is empty.
    pub api: ApiServer,
}

impl EmptyWorld {
    /// A world that begins now; `whole` keeps its log.
    ///
    /// # Panics
    ///
    /// Never: the time it begins with is a constant.
    pub fn new(seed: u64, whole: bool, instances: Instances) -> Self {
        let clock = Clock::simulated(Timestamp::from_second(WORLD_START).expect("a time"));
        let observation = Observation::new(clock.clone(), whole, instances);
        let (wall, look) = (clock.clone(), observation.clone());
        let api = ApiServer::builder()
            .clock(Arc::new(move || wall.now()))
            .seed(seed)
            .bookmark_interval(BOOKMARKS)
            .observer(move |write| look.write(&write))
            .build();
        Self {
            clock,
            observation,
            api,
        }
    }
}

/// Runs something on a runtime of its own, in virtual time.
///
/// # Panics
///
/// If there can be no runtime.
pub fn in_virtual_time<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(what)
}

/// What the controllers of a world log, debug lines included, at its times and on the standard error.
pub fn debug_log(clock: &Clock) -> LogConfig {
    let stderr = || Sinks::to(std::io::stderr());
    LogConfig {
        level: LogLevel::Debug,
        sinks: stderr(),
        error_sinks: stderr(),
        commit: None,
        clock: clock.clone(),
    }
}

/// Which one ends first, and how; the first one of several that have ended. Waits for ever if there is none.
pub async fn first_end<'a, P, End>(of: &'a mut [P], ended: impl Fn(&'a mut P) -> End) -> (usize, End::Output)
where
    End: Future + Unpin,
{
    if of.is_empty() {
        return std::future::pending().await;
    }
    let (end, index, _) = futures::future::select_all(of.iter_mut().map(ended)).await;
    (index, end)
}
