//! One log line, as JSON for tools and as text for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;

/// Fields that repeat another field, or that only tools use. Lines for people leave them out.
const FOR_TOOLS: [&str; 5] = ["controllerGroup", "controllerKind", "namespace", "name", "reconcileID"];

/// A line.
pub(super) struct Line {
    /// DEBUG, INFO or ERROR.
    pub(super) level: &'static str,
    /// Whether it is a warning, which tools see at level INFO.
    pub(super) is_warning: bool,
    pub(super) time: Timestamp,
    pub(super) logger: String,
    /// Where in the source it was logged; only at log level debug.
    pub(super) caller: Option<String>,
    /// The message as JSON text.
    pub(super) message: String,
    pub(super) commit: Option<String>,
    /// Keys and JSON texts.
    pub(super) fields: Vec<(String, String)>,
}

impl Line {
    /// Adds a field; a later value of the same key replaces it, because a JSON object has each key once.
    pub(super) fn add(&mut self, key: String, value: String) {
        match self.fields.iter_mut().find(|(present, _)| *present == key) {
            Some((_, present)) => *present = value,
            None => self.fields.push((key, value)),
        }
    }

    /// Adds the fields of a span; a reconciled object also appears under its kind's name (OPS-215).
    pub(super) fn add_span(&mut self, fields: &[(String, String)]) {
        let get = |key: &str| {
            fields
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value.as_str())
        };
        for (key, value) in fields {
            self.add(key.clone(), value.clone());
            if key == "controllerKind" {
                let kind: String = serde_json::from_str(value).unwrap_or_default();
                let name = get("name").unwrap_or("\"\"");
                let object = match get("namespace") {
                    None | Some("\"\"") => format!("{{\"name\":{name}}}"),
                    Some(namespace) => format!("{{\"name\":{name},\"namespace\":{namespace}}}"),
                };
                self.add(kind, object);
            }
        }
    }

    /// The line as JSON, with a line feed (OPS-214).
    pub(super) fn json(&self) -> String {
        let mut text = "{".to_owned();
        let mut add = |key: &str, value: &str| {
            if text.len() > 1 {
                text.push(',');
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "{}:{value}", quoted(key));
        };
        add("level", &quoted(self.level));
        add(
            "time",
            &quoted(&self.time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()),
        );
        add("logger", &quoted(&self.logger));
        if let Some(caller) = &self.caller {
            add("caller", &quoted(caller));
        }
        add("message", &self.message);
        if let Some(commit) = &self.commit {
            add("commit", &quoted(commit));
        }
        for (key, value) in &self.fields {
            add(key, value);
        }
        text.push_str("}\n");
        text
    }

    /// The line for a person, with a line feed: time of day in UTC, level, message, and fields as `key=value`.
    pub(super) fn plain(&self) -> String {
        let level = if self.is_warning { "WARN" } else { self.level };
        let time = self.time.strftime("%H:%M:%S");
        let message: String = serde_json::from_str(&self.message).unwrap_or_default();
        let mut text = format!("{time} {level:<5} {}", shown(&message));
        for (key, value) in &self.fields {
            if !FOR_TOOLS.contains(&key.as_str()) {
                let _ = write!(text, " {key}={}", plain_value(value));
            }
        }
        if let Some(caller) = &self.caller {
            let _ = write!(text, " ({caller})");
        }
        text.push('\n');
        text
    }
}

/// A JSON text for a person: plain words without quotes, references to objects as `namespace/name`.
fn plain_value(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(Value::String(text)) if is_word(&text) => text,
        Ok(Value::Object(fields)) => match (fields.get("name"), fields.get("namespace"), fields.len()) {
            (Some(Value::String(name)), None, 1) if is_word(name) => name.clone(),
            (Some(Value::String(name)), Some(Value::String(namespace)), 2) if is_word(name) && is_word(namespace) => {
                format!("{namespace}/{name}")
            }
            _ => json.to_owned(),
        },
        _ => json.to_owned(),
    }
}

fn is_word(text: &str) -> bool {
    let plain = |letter: char| !letter.is_whitespace() && !letter.is_control() && letter != '"' && letter != '=';
    !text.is_empty() && text.chars().all(plain)
}

/// A message on one line: control characters cannot move the cursor of a terminal.
fn shown(text: &str) -> String {
    let escape = |letter: char| {
        if letter.is_control() {
            letter.escape_default().to_string()
        } else {
            letter.to_string()
        }
    };
    text.chars().map(escape).collect()
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}
