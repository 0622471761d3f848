//! Everything the server knows, behind one lock: tables, registry and the indexes garbage collection needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::garbage::GarbageTask;
use super::observer::{Observer, Write};
use super::random::Random;
use crate::discovery::Documents;
use crate::json;
use crate::registry::{Registry, Resource, builtins};
use crate::storage::{Change, FieldPath, Log, LogEntry, Recent, Stored, Table, TableId, Uid};

/// How long an event is kept after its last write, as in the real server.
const EVENT_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectRef {
    pub(crate) table: TableId,
    pub(crate) key: Arc<str>,
}

/// The state of the server. Every change goes through [`State::commit`].
#[derive(Debug)]
pub(crate) struct State {
    /// The one resourceVersion counter.
    pub(crate) version: u64,
    /// How often the server went back to a backup: running watches belong to one epoch.
    pub(crate) epoch: u64,
    pub(crate) registry: Registry,
    pub(super) tables: Vec<Table>,
    table_of: BTreeMap<(String, String), TableId>,
    history_max: usize,
    live: FxHashMap<Uid, ObjectRef>,
    dependents: FxHashMap<Uid, BTreeSet<ObjectRef>>,
    /// The tasks that garbage collection still has to do; empty between requests.
    pub(crate) gc: VecDeque<GarbageTask>,
    pub(crate) collects_garbage: bool,
    /// Time of the current request.
    pub(crate) now: Timestamp,
    /// Events by the time of their last write, oldest first.
    pub(super) expiring: VecDeque<(Timestamp, ObjectRef, u64)>,
    pub(crate) random: Random,
    recent: Recent,
    pub(crate) log: Option<Log>,
    pub(crate) observer: Option<Observer>,
    /// The OpenAPI documents, built on the first request.
    pub(crate) documents: Option<Documents>,
}

impl State {
    pub(crate) fn new(seed: u64, history_max: usize) -> Self {
        let mut state = Self {
            version: 1,
            epoch: 0,
            registry: Registry::default(),
            tables: Vec::new(),
            table_of: BTreeMap::new(),
            history_max,
            live: FxHashMap::default(),
            dependents: FxHashMap::default(),
            gc: VecDeque::new(),
            collects_garbage: true,
            now: Timestamp::UNIX_EPOCH,
            expiring: VecDeque::new(),
            random: Random::seeded(seed),
            recent: Recent::default(),
            log: None,
            observer: None,
            documents: None,
        };
        for row in builtins() {
            let (group, _, plural) = row.storage();
            let fields: Vec<FieldPath> = row.fields.iter().map(|f| FieldPath::new(f, f)).collect();
            let table = state.table_for(group, plural, &fields);
            state.registry.insert(row.resource(table));
        }
        state
    }

    /// The table of a resource, made at first use.
    pub(crate) fn table_for(&mut self, group: &str, plural: &str, fields: &[FieldPath]) -> TableId {
        let key = (group.to_owned(), plural.to_owned());
        if let Some(id) = self.table_of.get(&key) {
            return *id;
        }
        let id = TableId(self.tables.len());
        self.tables
            .push(Table::new(Arc::from(fields), self.history_max, self.version));
        self.table_of.insert(key, id);
        id
    }

    /// The table of a resource that is known to be served.
    pub(crate) fn table_id(&self, group: &str, plural: &str) -> Option<TableId> {
        self.table_of.get(&(group.to_owned(), plural.to_owned())).copied()
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "ids are only handed out by table_for and tables are never removed"
    )]
    pub(crate) fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "ids are only handed out by table_for and tables are never removed"
    )]
    pub(crate) fn table_mut(&mut self, id: TableId) -> &mut Table {
        &mut self.tables[id.0]
    }

    /// Group and plural of what a table holds.
    pub(crate) fn table_name(&self, id: TableId) -> (&str, &str) {
        let found = self.table_of.iter().find(|(_, table)| **table == id);
        found.map_or(("", ""), |((group, plural), _)| (group, plural))
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().enumerate().map(|(i, t)| (TableId(i), t))
    }

    pub(crate) fn get(&self, at: &ObjectRef) -> Option<&Arc<Stored>> {
        self.table(at.table).get(&at.key)
    }

    /// An object of a built-in resource.
    pub(crate) fn find(&self, group: &str, plural: &str, key: &str) -> Option<&Arc<Stored>> {
        self.table(self.table_id(group, plural)?).get(key)
    }

    pub(crate) fn locate(&self, uid: Uid) -> Option<&ObjectRef> {
        self.live.get(&uid)
    }

    /// The objects that name `owner` in their ownerReferences, in a fixed order.
    pub(crate) fn dependents(&self, owner: Uid) -> Vec<ObjectRef> {
        self.dependents.get(&owner).into_iter().flatten().cloned().collect()
    }

    /// Stores an object.
    pub(crate) fn commit(&mut self, table: TableId, change: Change, key: &str, mut object: Value) -> Arc<Stored> {
        let stored = self.write_down(table, change, key, &mut object);
        self.recent.keep(&stored, object);
        stored
    }

    /// Carries out one write: gives it the next version, stores it, notifies watchers, keeps the indexes.
    fn write_down(&mut self, table: TableId, change: Change, key: &str, object: &mut Value) -> Arc<Stored> {
        self.version += 1;
        json::set(
            object,
            &["metadata", "resourceVersion"],
            self.version.to_string().into(),
        );
        let version = self.version;
        let fields = Arc::clone(&self.table(table).fields);
        let stored = Arc::new(Stored::new(key, version, change, object, &fields));
        let previous = self.table(table).get(key).cloned();
        let charged = previous.as_ref().filter(|_| self.has_quotas());
        let before = charged.map(|previous| previous.value());
        if let Some(previous) = &previous {
            previous.forget();
            self.unindex(table, previous);
        }
        if change != Change::Deleted {
            self.index(table, &stored);
        }
        if let Some(mut log) = self.log.take() {
            let (group, plural) = self.table_name(table);
            log.append(LogEntry {
                group,
                plural,
                change,
                object: &stored,
            });
            self.log = Some(log);
        }
        if let Some(observer) = &self.observer {
            let (group, plural) = self.table_name(table);
            observer.notify(Write {
                group,
                plural,
                change,
                object,
            });
        }
        self.table_mut(table).record(change, Arc::clone(&stored));
        self.compact_log();
        self.after_commit(table, change, &stored, object);
        if self.has_quotas() {
            let after = (change != Change::Deleted).then_some(&*object);
            self.charge_quotas(table, stored.namespace(), before.as_deref(), after);
        }
        stored
    }

    /// Follows up a write: serves or retires custom resources, schedules the expiry of events, and queues garbage collection.
    fn after_commit(&mut self, table: TableId, change: Change, stored: &Arc<Stored>, object: &Value) {
        if self.table_id("apiextensions.k8s.io", "customresourcedefinitions") == Some(table) {
            match change {
                Change::Added | Change::Modified => self.serve_custom_resource(object),
                Change::Deleted => self.retire_custom_resource(object),
            }
        }
        if self.table_id("", "events") == Some(table) && change != Change::Deleted {
            let at = ObjectRef {
                table,
                key: Arc::clone(&stored.key),
            };
            self.expiring.push_back((self.now, at, stored.version));
        }
        if !self.collects_garbage {
            return;
        }
        if stored.deleting && self.table_id("", "namespaces") == Some(table) {
            self.gc
                .push_back(GarbageTask::NamespaceShrunk(stored.name().to_owned()));
        }
        if change == Change::Deleted {
            self.gc.push_back(GarbageTask::OwnerGone(stored.uid));
            self.gc
                .extend(stored.owners.iter().map(|owner| GarbageTask::DependentGone(*owner)));
            if !stored.namespace().is_empty() {
                self.gc
                    .push_back(GarbageTask::NamespaceShrunk(stored.namespace().to_owned()));
            }
        } else if stored.owners.iter().any(|owner| !self.live.contains_key(owner)) {
            self.gc.push_back(GarbageTask::Dependent(ObjectRef {
                table,
                key: Arc::clone(&stored.key),
            }));
        }
    }

    pub(super) fn index(&mut self, table: TableId, object: &Stored) {
        let at = ObjectRef {
            table,
            key: Arc::clone(&object.key),
        };
        for owner in &object.owners {
            self.dependents.entry(*owner).or_default().insert(at.clone());
        }
        self.live.insert(object.uid, at);
    }

    pub(super) fn unindex(&mut self, table: TableId, object: &Stored) {
        let at = ObjectRef {
            table,
            key: Arc::clone(&object.key),
        };
        for owner in &object.owners {
            if let Some(set) = self.dependents.get_mut(owner) {
                set.remove(&at);
                if set.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        self.live.remove(&object.uid);
    }

    /// Removes the events that were not written to for [`EVENT_LIFE`].
    pub(crate) fn expire_events(&mut self) {
        while let Some((written, _, _)) = self.expiring.front()
            && self.now.duration_since(*written) >= EVENT_LIFE
            && let Some((_, at, version)) = self.expiring.pop_front()
        {
            if let Some(event) = self.get(&at).filter(|e| e.version == version).map(|e| e.to_value()) {
                self.erase(&at, event);
            }
        }
    }

    /// Drops the history of every table.
    pub(crate) fn compact(&mut self) {
        // A version of its own: clients that are at the newest version must lose their place too.
        self.version += 1;
        let version = self.version;
        for table in &mut self.tables {
            table.compact(version);
        }
    }

    /// Removes an object for good. `object` is its last state, given back with the version of the removal.
    pub(crate) fn erase(&mut self, at: &ObjectRef, mut object: Value) -> Value {
        self.write_down(at.table, Change::Deleted, &at.key, &mut object);
        object
    }

    /// Gives a new object its uid and creation time.
    pub(crate) fn stamp(&mut self, object: &mut Value, now: Timestamp) {
        let (_, uid) = Uid::random(self.random.bits());
        json::set(object, &["metadata", "uid"], uid.into());
        json::set(object, &["metadata", "creationTimestamp"], seconds(now).into());
    }

    /// The resource an object of a table is served as.
    pub(crate) fn resource_of(&self, table: TableId) -> Option<Arc<Resource>> {
        self.registry.of_table(table).cloned()
    }
}

/// A timestamp as the API writes it: whole seconds.
pub(crate) fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
