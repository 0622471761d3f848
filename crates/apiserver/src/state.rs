//! Everything the server knows, behind one lock: tables, registry and the indexes garbage collection needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::discovery::Documents;
use crate::gc::Task;
use crate::json;
use crate::observe::{Observer, Write};
use crate::persist::Journal;
use crate::random::Random;
use crate::registry::{Registry, Resource, builtins};
use crate::storage::{Change, FieldPath, Recent, Stored, Table, TableId, Uid};

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
    pub(crate) registry: Registry,
    tables: Vec<Table>,
    table_of: BTreeMap<(String, String), TableId>,
    history_max: usize,
    live: FxHashMap<Uid, ObjectRef>,
    dependents: FxHashMap<Uid, BTreeSet<ObjectRef>>,
    /// What garbage collection still has to look at; empty between requests.
    pub(crate) gc: VecDeque<Task>,
    pub(crate) collects_garbage: bool,
    /// Time of the request at hand.
    pub(crate) now: Timestamp,
    /// Events by the time of their last write, oldest first.
    expiring: VecDeque<(Timestamp, ObjectRef, u64)>,
    pub(crate) random: Random,
    recent: Recent,
    pub(crate) journal: Option<Journal>,
    pub(crate) observer: Option<Observer>,
    /// The OpenAPI documents, once somebody asked for them.
    pub(crate) documents: Option<Documents>,
}

impl State {
    pub(crate) fn new(seed: u64, history_max: usize) -> Self {
        let mut state = Self {
            version: 1,
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
            journal: None,
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

    /// Carries out one write: gives it the next version, stores it, tells watchers, keeps the indexes.
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
        if let Some(previous) = &previous {
            previous.forget();
            self.unindex(table, previous);
        }
        if change != Change::Deleted {
            self.index(table, &stored);
        }
        if let Some(mut journal) = self.journal.take() {
            let (group, plural) = self.table_name(table);
            journal.append(group, plural, change, &stored);
            self.journal = Some(journal);
        }
        if let Some(observer) = &self.observer {
            let (group, plural) = self.table_name(table);
            observer.tell(Write {
                group,
                plural,
                change,
                object,
            });
        }
        self.table_mut(table).record(change, Arc::clone(&stored));
        self.after_commit(table, change, &stored, object);
        stored
    }

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
            self.gc.push_back(Task::NamespaceShrunk(stored.name().to_owned()));
        }
        if change == Change::Deleted {
            self.gc.push_back(Task::OwnerGone(stored.uid));
            self.gc
                .extend(stored.owners.iter().map(|owner| Task::DependentGone(*owner)));
            if !stored.namespace().is_empty() {
                self.gc.push_back(Task::NamespaceShrunk(stored.namespace().to_owned()));
            }
        } else if stored.owners.iter().any(|owner| !self.live.contains_key(owner)) {
            self.gc.push_back(Task::Dependent(ObjectRef {
                table,
                key: Arc::clone(&stored.key),
            }));
        }
    }

    fn index(&mut self, table: TableId, object: &Stored) {
        let at = ObjectRef {
            table,
            key: Arc::clone(&object.key),
        };
        for owner in &object.owners {
            self.dependents.entry(*owner).or_default().insert(at.clone());
        }
        self.live.insert(object.uid, at);
    }

    fn unindex(&mut self, table: TableId, object: &Stored) {
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

    /// Removes the events nobody has written to for [`EVENT_LIFE`].
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

    /// Puts back an object read from disk: no event, no garbage collection.
    pub(crate) fn restore(&mut self, table: TableId, key: &str, object: &Value) {
        let version = json::text(object, &["metadata", "resourceVersion"])
            .and_then(|v| v.parse().ok())
            .unwrap_or(1);
        self.version = self.version.max(version);
        let fields = Arc::clone(&self.table(table).fields);
        let stored = Arc::new(Stored::new(key, version, Change::Added, object, &fields));
        if let Some(previous) = self.table_mut(table).forget(key) {
            self.unindex(table, &previous);
        }
        self.index(table, &stored);
        self.table_mut(table).restore(stored);
        if self.table_id("apiextensions.k8s.io", "customresourcedefinitions") == Some(table) {
            self.serve_custom_resource(object);
        }
    }

    /// Forgets an object that the log on disk says was deleted.
    pub(crate) fn unrestore(&mut self, table: TableId, key: &str, version: u64) {
        self.version = self.version.max(version);
        if let Some(previous) = self.table_mut(table).forget(key) {
            self.unindex(table, &previous);
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

    /// The namespaces and classes every cluster has from its first moment.
    pub(crate) fn bootstrap(&mut self, now: Timestamp) {
        self.now = now;
        // Events read from disk live another hour.
        if let Some(table) = self.table_id("", "events") {
            let restored: Vec<_> = self
                .table(table)
                .range(None)
                .map(|e| {
                    (
                        now,
                        ObjectRef {
                            table,
                            key: Arc::clone(&e.key),
                        },
                        e.version,
                    )
                })
                .collect();
            self.expiring.extend(restored);
        }
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            self.seed("", "namespaces", namespace, now);
        }
        for (name, value, who) in [
            (
                "system-cluster-critical",
                2_000_000_000_u32,
                "system critical pods that must run in the cluster",
            ),
            (
                "system-node-critical",
                2_000_001_000,
                "system critical pods that must not be moved from their node",
            ),
        ] {
            let class = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name, "generation": 1}, "value": value,
                "preemptionPolicy": "PreemptLowerPriority", "description": format!("Used for {who}."),
            });
            self.seed("scheduling.k8s.io", "priorityclasses", class, now);
        }
    }

    fn seed(&mut self, group: &str, plural: &str, mut object: Value, now: Timestamp) {
        let name = json::text(&object, &["metadata", "name"])
            .unwrap_or_default()
            .to_owned();
        if let Some(table) = self.table_id(group, plural)
            && self.table(table).get(&name).is_none()
        {
            self.stamp(&mut object, now);
            self.commit(table, Change::Added, &name, object);
        }
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
