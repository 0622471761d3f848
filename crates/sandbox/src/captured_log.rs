//! Log lines kept in memory, for tests of what is logged.

use std::io::Write;
use std::sync::{Arc, Mutex};

use kerf_runtime::Clock;
use kerf_runtime::logging::{LogConfig, LogLevel, Sinks};
use serde_json::Value;
use tracing::subscriber::DefaultGuard;

/// What was logged on this thread since it was made, debug lines included. It ends when this is dropped.
pub struct CapturedLog {
    buffer: Buffer,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic holds it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    /// Captures from now on.
    ///
    /// # Panics
    /// Never: the time it begins with is a constant.
    #[must_use]
    pub fn start() -> Self {
        let buffer = Buffer::default();
        let config = LogConfig {
            level: LogLevel::Debug,
            sinks: Sinks::to(buffer.clone()),
            error_sinks: Sinks::to(std::io::sink()),
            commit: None,
            clock: Clock::simulated("2026-01-01T00:00:00Z".parse().expect("a time")),
        };
        Self {
            buffer,
            _guard: config.on_this_thread(),
        }
    }

    /// All lines.
    ///
    /// # Panics
    /// If a line is no JSON, or a thread panicked while it logged.
    pub fn all(&self) -> Vec<Value> {
        let text = self.buffer.0.lock().expect("no panic holds it").clone();
        let text = String::from_utf8(text).expect("UTF-8");
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect()
    }

    /// The lines with this message.
    ///
    /// # Panics
    /// As [`all`](Self::all).
    pub fn lines(&self, message: &str) -> Vec<Value> {
        let all = self.all().into_iter();
        all.filter(|line| line["message"] == message).collect()
    }
}
