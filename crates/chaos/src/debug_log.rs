//! The log of a world that is looked at.

use kerf_runtime::Clock;
use kerf_runtime::logging::{LogConfig, LogLevel, Sinks};

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
