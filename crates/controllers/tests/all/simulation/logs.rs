//! Captures log lines of the controllers.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Level, Metadata, Subscriber};

thread_local! {
    /// The lines of the test that listens on this thread. A subscriber per thread would not do: what one thread does not want to hear of
    /// is remembered for all.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Makes the subscriber of all tests the global one. It costs little on threads that do not listen.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| set_global_default(Listener).expect("no other subscriber is global"));
}

/// Lines logged on this thread while this lives, as `LEVEL message key=value …`.
pub(crate) struct Logs(());

impl Logs {
    /// Listens from now on.
    pub(crate) fn listen() -> Self {
        install();
        LINES.set(Some(Vec::new()));
        Self(())
    }

    /// The lines that contain a text.
    pub(crate) fn with(&self, text: &str) -> Vec<String> {
        LINES.with_borrow(|lines| {
            let lines = lines.iter().flatten();
            lines.filter(|line| line.contains(text)).cloned().collect()
        })
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

struct Listener;

impl Subscriber for Listener {
    fn register_callsite(&self, _metadata: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.target().starts_with("kerf") && *metadata.level() <= Level::DEBUG;
        ours && LINES.with_borrow(Option::is_some)
    }
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let line = format!("{} {}{}", event.metadata().level(), line.message, line.fields);
        LINES.with_borrow_mut(|lines| lines.iter_mut().for_each(|lines| lines.push(line.clone())));
    }
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            let written = write!(self.fields, " {}={value:?}", field.name());
            debug_assert!(written.is_ok(), "a string takes everything");
        }
    }
}
