//! What every chaos world starts with: a simulated clock, an observation and an API server whose writes it sees.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_apiserver::ApiServer;
use kerf_runtime::Clock;

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
