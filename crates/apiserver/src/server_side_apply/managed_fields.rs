//! The field managers of an object: `metadata.managedFields`.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::apply::Conflict;
use super::field_set::FieldSet;

/// How a manager wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// By server-side apply.
    Apply,
    /// By anything else.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

#[derive(Debug, Clone)]
struct Manager {
    name: String,
    operation: Operation,
    api_version: String,
    subresource: String,
    time: String,
    owned: FieldSet,
}

impl Manager {
    fn is(&self, name: &str, operation: Operation, subresource: &str) -> bool {
        self.name == name && self.operation == operation && self.subresource == subresource
    }

    fn shown(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }

    fn to_json(&self) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        put("manager", self.name.as_str().into());
        put("operation", self.operation.name().into());
        put("apiVersion", self.api_version.as_str().into());
        put("time", self.time.as_str().into());
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.owned.to_json());
        if !self.subresource.is_empty() {
            put("subresource", self.subresource.as_str().into());
        }
        Value::Object(entry)
    }

    fn from_json(entry: &Value) -> Self {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            name: text("manager"),
            operation: if text("operation") == "Apply" {
                Operation::Apply
            } else {
                Operation::Update
            },
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            owned: FieldSet::from_json(entry.get("fieldsV1").unwrap_or(&Value::Null)),
        }
    }
}

/// All managers of one object.
#[derive(Debug, Clone, Default)]
pub(super) struct Managers(Vec<Manager>);

impl Managers {
    /// Removes `managedFields` from an object and parses it.
    pub(super) fn take(object: &mut Value) -> Self {
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return Self::default();
        };
        match metadata.remove("managedFields") {
            Some(Value::Array(entries)) => Self(entries.iter().map(Manager::from_json).collect()),
            _ => Self::default(),
        }
    }

    /// Writes `managedFields` into an object: appliers first, then by time and name.
    pub(super) fn put(mut self, object: &mut Value) {
        self.0.retain(|m| !m.owned.is_empty());
        self.0.sort_by(|a, b| {
            let key = |m: &Manager| (m.operation, m.time.clone(), m.name.clone(), m.subresource.clone());
            key(a).cmp(&key(b))
        });
        if self.0.is_empty() {
            return;
        }
        let entries = Value::Array(self.0.iter().map(Manager::to_json).collect());
        if let Some(map) = object.as_object_mut()
            && let Value::Object(metadata) = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()))
        {
            metadata.insert("managedFields".to_owned(), entries);
        }
    }

    /// Whether no field has an owner.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of the manager's last apply.
    pub(super) fn owned_by_applier(&self, name: &str, subresource: &str) -> Option<&FieldSet> {
        self.0
            .iter()
            .find(|m| m.is(name, Operation::Apply, subresource))
            .map(|m| &m.owned)
    }

    /// All owned fields.
    pub(super) fn all_owned(&self) -> FieldSet {
        self.0.iter().fold(FieldSet::default(), |all, m| all.union(&m.owned))
    }

    /// Sets the fields of a manager. Its time changes only when they change.
    pub(super) fn set(
        &mut self,
        name: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
        owned: FieldSet,
        now: Timestamp,
    ) {
        match self.0.iter_mut().find(|m| m.is(name, operation, subresource)) {
            Some(manager) if manager.owned == owned && manager.api_version == api_version => {}
            Some(manager) => {
                manager.owned = owned;
                api_version.clone_into(&mut manager.api_version);
                manager.time = seconds(now);
            }
            None => self.0.push(Manager {
                name: name.to_owned(),
                operation,
                api_version: api_version.to_owned(),
                subresource: subresource.to_owned(),
                time: seconds(now),
                owned,
            }),
        }
    }

    /// Gives the changed fields of an ordinary write to its manager.
    pub(super) fn add(
        &mut self,
        name: &str,
        api_version: &str,
        subresource: &str,
        changed: &FieldSet,
        removed: &FieldSet,
        now: Timestamp,
    ) {
        let mine = self.0.iter().find(|m| m.is(name, Operation::Update, subresource));
        let owned = mine
            .map(|m| m.owned.clone())
            .unwrap_or_default()
            .union(changed)
            .difference(removed);
        self.set(name, Operation::Update, api_version, subresource, owned, now);
    }

    /// The fields others own that an apply changed.
    pub(super) fn conflicts(&self, name: &str, subresource: &str, changed: &FieldSet) -> Vec<Conflict> {
        let others = self.0.iter().filter(|m| !m.is(name, Operation::Apply, subresource));
        others
            .flat_map(|manager| {
                let fields = manager.owned.intersection(changed).paths();
                fields.into_iter().map(|field| Conflict {
                    manager: manager.shown(),
                    field,
                })
            })
            .collect()
    }

    /// Removes the changed and removed fields from all other managers.
    pub(super) fn give_up(
        &mut self,
        name: &str,
        operation: Operation,
        subresource: &str,
        changed: &FieldSet,
        removed: &FieldSet,
        now: Timestamp,
    ) {
        for manager in &mut self.0 {
            let left = if manager.is(name, operation, subresource) {
                manager.owned.difference(removed)
            } else {
                manager.owned.difference(changed).difference(removed)
            };
            if left != manager.owned {
                manager.owned = left;
                manager.time = seconds(now);
            }
        }
    }
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
