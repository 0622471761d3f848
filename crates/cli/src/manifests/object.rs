//! Parses text to objects: YAML or JSON documents, items of Lists, checked kinds and names.

use super::error::{InputError, Origin};
use super::kinds::{self, Lookup, Use};
use super::parallel;
use super::source::Input;
use super::split;
use super::unread::{because, unread};
use kerf_disruption::Unread;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// One Kubernetes object as written.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) origin: Origin,
    pub(crate) kind: String,
    pub(crate) used: Use,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) value: Value,
}

impl Object {
    /// `Kind namespace/name` or `Kind name`.
    pub(crate) fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    /// An error about a field of this object.
    pub(crate) fn error(&self, field: &str, problem: impl Into<String>) -> InputError {
        let error = InputError::new(&self.origin, problem).object(self.title());
        if field.is_empty() { error } else { error.field(field) }
    }
}

/// All documents of the inputs as they are, those in lists one by one, whatever their kinds.
pub(crate) fn raw_documents(inputs: &[Input]) -> (Vec<Value>, Vec<InputError>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for input in inputs {
        let documents = if input.text.trim_start().starts_with('{') {
            json_documents(input)
        } else {
            yaml_documents(input)
        };
        for (_, document) in documents {
            match document {
                Ok(mut value) => match value.get_mut("items").and_then(Value::as_array_mut) {
                    Some(items) => found.append(items),
                    None => found.push(value),
                },
                Err(error) => errors.push(error),
            }
        }
    }
    (found, errors)
}

/// Reads the objects of all inputs. Duplicates are errors. Documents that are no Kubernetes objects are errors in files the user names, and
/// notes in folders.
pub(crate) fn read_objects(inputs: &[Input]) -> Objects {
    let mut all = Objects::default();
    for input in inputs {
        all.read(input);
    }
    all
}

/// Reads the objects of an API server's lists. Errors name `server` instead of a file.
pub(crate) fn objects_of(server: &Arc<str>, lists: Vec<Value>) -> Objects {
    let mut all = Objects::default();
    for list in lists {
        let origin = Origin {
            file: Arc::clone(server),
            document: None,
        };
        all.document(origin, list, false);
    }
    all
}

/// Objects, and what is wrong with others.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) objects: Vec<Object>,
    pub(crate) errors: Vec<InputError>,
    /// Messages that are no errors.
    pub(crate) notes: Vec<String>,
    /// Objects that were left out and may protect nodes.
    pub(crate) unread: Vec<Unread>,
    seen: HashMap<(String, Option<String>, String), Origin>,
}

impl Objects {
    fn read(&mut self, input: &Input) {
        let documents = if input.text.trim_start().starts_with('{') {
            json_documents(input)
        } else {
            yaml_documents(input)
        };
        if documents.is_empty() {
            let note = format!("{}: holds no document", input.name);
            if input.from_folder {
                self.notes.push(note);
            } else {
                let error = InputError::new(&*input.name, "is empty: it holds no document");
                self.errors
                    .push(error.remedy("give a file with at least one Kubernetes object"));
            }
        }
        for (origin, document) in documents {
            match document {
                Ok(value) => self.document(origin, value, input.from_folder),
                Err(error) => self.errors.push(error),
            }
        }
    }

    fn document(&mut self, origin: Origin, value: Value, from_folder: bool) {
        let is_object = value.get("kind").is_some() && value.get("apiVersion").is_some();
        if !is_object && from_folder {
            self.notes.push(format!(
                "{origin}: skipped, not a Kubernetes object (no apiVersion and kind)"
            ));
            return;
        }
        let (Some(api_version), Some(kind)) = (text(&value, "apiVersion"), text(&value, "kind")) else {
            let missing = if text(&value, "apiVersion").is_none() {
                "apiVersion"
            } else {
                "kind"
            };
            let error = InputError::new(&origin, "is missing or not text").field(missing);
            self.errors
                .push(error.remedy("every Kubernetes object has apiVersion and kind"));
            return;
        };
        if kind == "List" || (kind.ends_with("List") && value.get("items").is_some()) {
            self.list(&origin, value, from_folder);
        } else {
            self.object(origin, &api_version, kind, value);
        }
    }

    fn list(&mut self, origin: &Origin, mut value: Value, from_folder: bool) {
        let item_kind = text(&value, "kind").and_then(|kind| kind.strip_suffix("List").map(str::to_owned));
        let api_version = value.get("apiVersion").cloned();
        let Some(items) = value.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take) else {
            let error = InputError::new(origin, "is missing or not a sequence").field("items");
            self.errors.push(error.remedy("a List holds its objects under items"));
            return;
        };
        for mut item in items {
            // Items of a typed list, as an API server returns it, have no type of their own.
            if let (Some(object), Some(kind)) = (item.as_object_mut(), item_kind.as_deref().filter(|k| !k.is_empty())) {
                object.entry("kind").or_insert_with(|| kind.into());
                if let Some(api_version) = &api_version {
                    object.entry("apiVersion").or_insert_with(|| api_version.clone());
                }
            }
            self.document(origin.clone(), item, from_folder);
        }
    }

    /// Leaves an object out and reports the error.
    fn leave_out(&mut self, kind: &str, written: &Value, error: InputError) {
        let unread = unread(kind, written);
        self.unread
            .extend(unread.map(|unread| because(unread, std::slice::from_ref(&error))));
        self.errors.push(error);
    }

    fn object(&mut self, origin: Origin, api_version: &str, kind: String, mut value: Value) {
        let meta = value.get("metadata");
        let name = meta.and_then(|meta| text(meta, "name"));
        let (used, namespaced) = match kinds::look_up(api_version, &kind) {
            Lookup::Found { used, namespaced } => (used, namespaced),
            Lookup::OtherVersion { known, namespaced } => {
                let namespace = meta.and_then(|meta| text(meta, "namespace"));
                let title = match (name, namespaced) {
                    (Some(name), true) => format!("{kind} {}/{name}", namespace.as_deref().unwrap_or("default")),
                    (Some(name), false) => format!("{kind} {name}"),
                    (None, _) => kind.clone(),
                };
                let error = InputError::new(&origin, format!("{api_version} is not a version of {kind} Kerf reads"));
                let error = error.object(title).field("apiVersion");
                self.leave_out(&kind, &value, error.remedy(format!("write apiVersion: {known}")));
                return;
            }
            Lookup::Unknown { meant: Some(meant) } => {
                let error = InputError::new(&origin, format!("unknown kind {kind} ({api_version})")).field("kind");
                self.errors.push(error.remedy(format!("did you mean {meant}?")));
                return;
            }
            Lookup::SameName | Lookup::Unknown { meant: None } => {
                self.notes.push(skipped(&origin, api_version, &kind, &value));
                return;
            }
        };
        let Some(name) = name.or_else(|| meta.and_then(|meta| text(meta, "generateName"))) else {
            let error = InputError::new(&origin, "is missing or not text");
            let error = error.object(kind.as_str()).field("metadata.name");
            self.leave_out(&kind, &value, error.remedy("name the object"));
            return;
        };
        let namespace = match meta.and_then(|meta| meta.get("namespace")) {
            _ if !namespaced => None,
            None | Some(Value::Null) => Some("default".to_owned()),
            Some(Value::String(text)) if text.is_empty() => Some("default".to_owned()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                let error = InputError::new(&origin, "is not text").object(format!("{kind} {name}"));
                let error = error.field("metadata.namespace");
                self.leave_out(&kind, &value, error.remedy("write the namespace in quotes"));
                return;
            }
        };
        if let (Some(namespace), Some(meta)) = (&namespace, value.get_mut("metadata").and_then(Value::as_object_mut)) {
            meta.insert("namespace".to_owned(), namespace.clone().into());
        }
        let object = Object {
            origin,
            kind,
            used,
            namespace,
            name,
            value,
        };
        if used == Use::Skipped {
            return;
        }
        let key = (object.kind.clone(), object.namespace.clone(), object.name.clone());
        if let Some(first) = self.seen.get(&key) {
            let error = object.error("metadata.name", format!("appears twice, first in {first}"));
            self.errors.push(error.remedy("rename or remove one of them"));
            return;
        }
        self.seen.insert(key, object.origin.clone());
        self.objects.push(object);
    }
}

/// The note about an object whose kind Kerf does not know.
fn skipped(origin: &Origin, api_version: &str, kind: &str, value: &Value) -> String {
    let meta = value.get("metadata");
    let part = |field: &str| meta.and_then(|meta| text(meta, field));
    let parts = [part("namespace"), part("name")];
    let path = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
    let note = format!("{origin}: {kind} {path}: skipped, Kerf does not know the {kind} of {api_version}");
    match value.pointer("/spec/template/spec/containers") {
        Some(Value::Array(_)) => {
            format!(
                "{note}; its pods are not planned: to plan them, add a Deployment with the same replicas and pod template"
            )
        }
        _ => note,
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value
        .get(field)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

type Parsed = (Origin, Result<Value, InputError>);

fn json_documents(input: &Input) -> Vec<Parsed> {
    let stream = serde_json::Deserializer::from_str(&input.text).into_iter::<Value>();
    let mut found = Vec::new();
    for (index, document) in stream.enumerate() {
        let origin = Origin {
            file: Arc::clone(&input.name),
            document: Some(index + 1),
        };
        let failed = document.is_err();
        let document = document.map_err(|error| {
            InputError::new(&origin, format!("is not valid JSON: {error}")).remedy("fix the syntax at that place")
        });
        found.push((origin, document));
        if failed {
            break;
        }
    }
    found
}

fn yaml_documents(input: &Input) -> Vec<Parsed> {
    let documents: Vec<_> = split::documents(&input.text).into_iter().enumerate().collect();
    // Parsing takes most of the time of reading.
    parallel::map(&documents, |(index, document)| {
        let origin = Origin {
            file: Arc::clone(&input.name),
            document: Some(index + 1),
        };
        let parsed = parse_yaml(document.text).map_err(|(line, column, message)| {
            let line = document.line + line.max(1) - 1;
            InputError::new(
                &origin,
                format!("is not valid YAML: line {line}, column {column}: {message}"),
            )
            .remedy("fix the syntax at that place")
        });
        (origin, parsed)
    })
}

fn parse_yaml(text: &str) -> Result<Value, (usize, usize, String)> {
    // The dump of a whole cluster exceeds the parser's default limit of nodes. Octal numbers are read as Kubernetes' tools do.
    let options = serde_saphyr::options! { budget: None, legacy_octal_numbers: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error: serde_saphyr::Error| {
        let location = error.location();
        let (line, column) = location.map_or((1, 1), |at| (at.line() as usize, at.column() as usize));
        (line, column, syntax_error(&error.to_string()))
    })
}

/// The parser's message without the places, the last of which is said before it, and without advice to programmers.
fn syntax_error(text: &str) -> String {
    let text = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let text = text.split_once(" at line ").map_or(text, |(message, _)| message);
    let text = text
        .split_once(", set DuplicateKeyPolicy")
        .map_or(text, |(message, _)| message);
    text.to_owned()
}
