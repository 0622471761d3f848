//! Where log lines go.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::line::Line;

/// A log destination that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A destination without a name (OPS-027).
    #[error("log output path is empty; name stdout, stderr or a file")]
    NoName,
    /// A file that cannot be opened.
    #[error("log output path {path:?} cannot be opened: {source}")]
    Open {
        /// The path.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Another logger was installed before.
    #[error("a logger is installed already")]
    Installed,
}

/// Who reads a destination.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Tools: one JSON object per line.
    Tool,
    /// A person at a terminal.
    Person,
}

struct Sink {
    reader: Reader,
    writer: Mutex<Box<dyn Write + Send>>,
}

impl Sink {
    fn new(reader: Reader, writer: impl Write + Send + 'static) -> Self {
        Self {
            reader,
            writer: Mutex::new(Box::new(writer)),
        }
    }

    /// Standard output or standard error.
    fn standard(writer: impl Write + IsTerminal + Send + 'static) -> Self {
        let reader = if writer.is_terminal() {
            Reader::Person
        } else {
            Reader::Tool
        };
        Self::new(reader, writer)
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(text.as_bytes()).and_then(|()| writer.flush())
    }
}

/// Where lines go. Cloning is cheap.
#[derive(Clone)]
pub struct Sinks(Arc<Vec<Sink>>);

impl Sinks {
    /// Opens `stdout`, `stderr` and files to append to, from a comma-separated list (OPS-016). A terminal gets lines for people instead of
    /// JSON.
    pub fn open(paths: &str) -> Result<Self, LogError> {
        let open = |path: &str| -> Result<Sink, LogError> {
            Ok(match path {
                "" => return Err(LogError::NoName),
                "stdout" => Sink::standard(std::io::stdout()),
                "stderr" => Sink::standard(std::io::stderr()),
                path => {
                    let file = append(Path::new(path.strip_prefix("file://").unwrap_or(path)));
                    let file = file.map_err(|source| LogError::Open {
                        path: path.to_owned(),
                        source,
                    })?;
                    Sink::new(Reader::Tool, file)
                }
            })
        };
        Ok(Self(Arc::new(paths.split(',').map(open).collect::<Result<_, _>>()?)))
    }

    /// One destination of any kind that gets JSON, for example a buffer in a test.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(vec![Sink::new(Reader::Tool, writer)]))
    }

    /// One destination of any kind that gets lines for people, as a terminal does.
    pub fn to_person(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(vec![Sink::new(Reader::Person, writer)]))
    }

    /// Writes a line to all destinations. Returns the first error, after all have been tried.
    pub(super) fn write(&self, line: &Line) -> std::io::Result<()> {
        let mut result = Ok(());
        let (mut json, mut plain) = (None, None);
        for sink in self.0.iter() {
            let text = match sink.reader {
                Reader::Tool => json.get_or_insert_with(|| line.json()),
                Reader::Person => plain.get_or_insert_with(|| line.plain()),
            };
            result = result.and(sink.write(text));
        }
        result
    }

    /// Writes a text as it is to all destinations.
    pub(super) fn write_text(&self, text: &str) -> std::io::Result<()> {
        let mut result = Ok(());
        // One that fails must not keep the text from the others.
        for sink in &*self.0 {
            result = result.and(sink.write(text));
        }
        result
    }
}

fn append(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().create(true).append(true).open(path)
}
