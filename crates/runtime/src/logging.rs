//! Log lines as upstream's tools expect them: one JSON object per line, keys in a fixed order (section 12 of `docs/behaviour/operations.md`). A
//! terminal gets shorter lines, for people.
//!
//! Fields of enclosing spans come before the event's own. A field made with [`json`] is written as a JSON value
//! instead of text.

mod line;
mod sinks;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{LazyLock, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::clock::Clock;
use line::{Line, quoted};

pub use sinks::{LogError, Sinks};

/// Marks a text field as JSON; no text of ours begins with it.
const JSON_MARK: char = '\u{1}';
/// Of identical lines (level and message) within a second, the first hundred are written …
const SAMPLE_FIRST: u64 = 100;
/// … and then every hundredth (OPS-218).
const SAMPLE_EVERY: u64 = 100;

/// Fields with these keys are references to objects: a name, or `namespace/name` (OPS-216).
const KINDS: [&str; 8] = [
    "NodePool",
    "NodeClaim",
    "Node",
    "Pod",
    "NodeOverlay",
    "CapacityBuffer",
    "NodeRepairPolicy",
    "DaemonSet",
];

/// The levels of `LOG_LEVEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Everything, with callers.
    Debug,
    /// What happens; the default.
    #[default]
    Info,
    /// Only what fails.
    Error,
}

impl FromStr for LogLevel {
    type Err = ();

    /// "" is info (OPS-015, OPS-027).
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "debug" => Ok(Self::Debug),
            "" | "info" => Ok(Self::Info),
            "error" => Ok(Self::Error),
            _ => Err(()),
        }
    }
}

/// The settings of the log.
#[derive(Clone)]
pub struct LogConfig {
    /// What is written.
    pub level: LogLevel,
    /// Where lines go.
    pub sinks: Sinks,
    /// Where the logger's own errors go (OPS-017).
    pub error_sinks: Sinks,
    /// The build's revision as the lines carry it; `None` when it is unknown (OPS-214).
    pub commit: Option<String>,
    /// The time the lines carry.
    pub clock: Clock,
}

impl LogConfig {
    /// Writes the log of this thread as configured, until the guard is dropped. For tests: other threads log elsewhere.
    pub fn on_this_thread(self) -> DefaultGuard {
        /// While there is one subscriber, tracing caches for the whole process whether the first thread that reaches a log line wants it. With a
        /// second subscriber it asks each thread, so that a thread without a log does not silence the others.
        static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
        LazyLock::force(&ANOTHER);
        tracing::subscriber::set_default(self.subscriber())
    }

    /// A subscriber that writes as configured, for `tracing::subscriber::with_default` and the like.
    pub fn subscriber(self) -> impl Subscriber + Send + Sync + for<'a> LookupSpan<'a> {
        let ours = match self.level {
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Error => LevelFilter::ERROR,
        };
        // Errors of libraries reach the callers as values, which log them; the libraries' own lines would repeat them.
        let targets = Targets::new()
            .with_default(ours.min(LevelFilter::INFO))
            .with_target("kerf", ours)
            .with_target("kube_client", LevelFilter::OFF)
            .with_target("kube_runtime", LevelFilter::OFF)
            .with_target("tower", LevelFilter::OFF);
        tracing_subscriber::registry().with(LogLines::new(self).with_filter(targets))
    }

    /// Makes this the log of the whole process.
    pub fn install(self) -> Result<(), LogError> {
        let unknown = self.commit.is_none();
        tracing::subscriber::set_global_default(self.subscriber()).map_err(|_| LogError::Installed)?;
        if unknown {
            tracing::info!("build revision is unknown, log lines carry no commit");
        }
        Ok(())
    }
}

/// A field value that is written as JSON: `tracing::info!(Node = %json(&node_ref), "registered nodeclaim")`.
pub fn json(value: &impl Serialize) -> impl fmt::Display {
    match serde_json::to_string(value) {
        Ok(text) => format!("{JSON_MARK}{text}"),
        Err(error) => error.to_string(),
    }
}

/// The layer that formats and writes.
struct LogLines {
    config: LogConfig,
    seen: Mutex<Sampling>,
}

#[derive(Default)]
struct Sampling {
    second: i64,
    counts: HashMap<(Level, String), u64>,
}

/// Fields of a span, as `(key, JSON text)`.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl LogLines {
    fn new(config: LogConfig) -> Self {
        Self {
            config,
            seen: Mutex::default(),
        }
    }

    fn is_sampled_out(&self, level: Level, message: &str, now: Timestamp) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.second != now.as_second() {
            seen.second = now.as_second();
            seen.counts.clear();
        }
        let count = seen.counts.entry((level, message.to_owned())).or_default();
        *count += 1;
        *count > SAMPLE_FIRST && !(*count - SAMPLE_FIRST).is_multiple_of(SAMPLE_EVERY)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Fields::default();
        event.record(&mut own);
        let now = self.config.clock.now();
        let (level, name) = level_of(*event.metadata().level());
        let message = own.take("message").unwrap_or_else(|| "\"\"".to_owned());
        if self.is_sampled_out(level, &message, now) {
            return;
        }
        let logger = own.take("logger");
        let logger = logger.and_then(|logger| serde_json::from_str::<String>(&logger).ok());
        let mut line = Line {
            level: name,
            is_warning: *event.metadata().level() == Level::WARN,
            time: now,
            logger: logger.map_or_else(|| "controller".to_owned(), |logger| format!("controller.{logger}")),
            caller: (self.config.level == LogLevel::Debug)
                .then(|| caller(event.metadata().file(), event.metadata().line())),
            message,
            commit: self.config.commit.clone(),
            fields: Vec::new(),
        };
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.add_span(&fields.0);
            }
        }
        for (key, value) in own.0 {
            line.add(key, value);
        }
        if let Err(error) = self.config.sinks.write(&line) {
            // If this fails too, there is no place left for a message.
            let _ = self
                .config
                .error_sinks
                .write_text(&format!("log line cannot be written: {error}\n"));
        }
    }
}

/// Upstream has three levels, so warnings are written at level info.
fn level_of(level: Level) -> (Level, &'static str) {
    match level {
        Level::ERROR => (Level::ERROR, "ERROR"),
        Level::WARN | Level::INFO => (Level::INFO, "INFO"),
        _ => (Level::DEBUG, "DEBUG"),
    }
}

/// `dir/file:line`.
fn caller(file: Option<&str>, line: Option<u32>) -> String {
    let file = file.unwrap_or("?");
    let short = file
        .rmatch_indices('/')
        .nth(1)
        .map_or(file, |(at, _)| file.split_at(at + 1).1);
    format!("{short}:{}", line.unwrap_or(0))
}

/// A reference to an object as JSON.
fn reference(text: &str) -> String {
    match text.split_once('/') {
        Some((namespace, name)) => format!("{{\"name\":{},\"namespace\":{}}}", quoted(name), quoted(namespace)),
        None => format!("{{\"name\":{}}}", quoted(text)),
    }
}

impl Fields {
    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    fn put(&mut self, field: &Field, json: String) {
        self.0.push((field.name().to_owned(), json));
    }

    fn put_text(&mut self, field: &Field, text: &str) {
        let json = text
            .strip_prefix(JSON_MARK)
            .filter(|j| serde_json::from_str::<serde::de::IgnoredAny>(j).is_ok());
        let json = match json {
            Some(json) => json.to_owned(),
            None if KINDS.contains(&field.name()) => reference(text),
            None => quoted(text),
        };
        self.put(field, json);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(
            field,
            serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned()),
        );
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.to_string());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put_text(field, &value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field, &format!("{value:?}"));
    }
}
