//! Reading the state from the log on disk, and writing it back in full.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::State;
use crate::json;
use crate::storage::{Change, Log, LogEntry, OpenError, Stored, TableId};

/// The objects of a server at one moment, as a backup of etcd has them.
#[derive(Clone, Debug)]
pub struct Backup {
    version: u64,
    tables: Vec<(TableId, Vec<Arc<Stored>>)>,
}

impl State {
    /// The objects as they are now.
    pub(crate) fn back_up(&self) -> Backup {
        let tables = self.tables();
        Backup {
            version: self.version,
            tables: tables
                .map(|(id, table)| (id, table.range(None).cloned().collect()))
                .collect(),
        }
    }

    /// Goes back to the objects and the version of a backup, without events. Tables made since then stay, empty.
    pub(crate) fn go_back(&mut self, backup: &Backup) {
        let now: Vec<(TableId, Vec<Arc<Stored>>)> = self.back_up().tables;
        for (id, objects) in now {
            for object in objects {
                self.unindex(id, &object);
                self.table_mut(id).forget(&object.key);
            }
        }
        for (id, objects) in &backup.tables {
            for object in objects {
                self.index(*id, object);
                self.table_mut(*id).restore(Arc::clone(object));
            }
        }
        self.version = backup.version;
        self.epoch += 1;
        let ids: Vec<TableId> = self.tables().map(|(id, _)| id).collect();
        for id in ids {
            self.table_mut(id).compact(backup.version);
        }
    }

    /// Reads the log of `folder` and continues it: every later write is appended.
    ///
    /// History is not kept: watches from before the restart end with 410 Expired.
    pub(crate) fn recover(&mut self, folder: &Path) -> Result<(), OpenError> {
        let mut log = Log::open(folder)?;
        log.replay(|entry| self.apply_log_entry(entry))?;
        self.compact();
        log.rewrite(self.version, self.log_entries())?;
        self.log = Some(log);
        Ok(())
    }

    /// Rewrites the log if it has grown enough since it was last rewritten.
    pub(super) fn compact_log(&mut self) {
        let Some(mut log) = self.log.take_if(|log| log.is_overgrown()) else {
            return;
        };
        if let Err(error) = log.rewrite(self.version, self.log_entries()) {
            log.put_off_rewrite(&error);
        }
        self.log = Some(log);
    }

    /// Every stored object. Definitions come first, because their tables are made before the tables they define.
    fn log_entries(&self) -> impl Iterator<Item = LogEntry<'_>> {
        self.tables().flat_map(|(id, table)| {
            let (group, plural) = self.table_name(id);
            table.range(None).map(move |object| LogEntry {
                group,
                plural,
                change: Change::Added,
                object,
            })
        })
    }

    fn apply_log_entry(&mut self, entry: &Value) -> Result<(), String> {
        if let (Some(version), None) = (json::at(entry, &["version"]).as_u64(), entry.get("resource")) {
            self.version = self.version.max(version);
            return Ok(());
        }
        let text = |field: &str| {
            entry
                .get(field)
                .and_then(Value::as_str)
                .ok_or_else(|| format!("no {field}"))
        };
        let (group, plural, key) = (text("group")?, text("resource")?, text("key")?);
        let table = self
            .table_id(group, plural)
            .ok_or_else(|| format!("no resource {plural} of group {group:?}"))?;
        if let Some(version) = json::at(entry, &["deleted"]).as_u64() {
            self.unrestore(table, key, version);
            return Ok(());
        }
        let object = json::at(entry, &["object"]);
        if !object.is_object() {
            return Err("no object".to_owned());
        }
        self.restore(table, key, object);
        Ok(())
    }

    /// Stores an object from the log, without an event and without garbage collection.
    fn restore(&mut self, table: TableId, key: &str, object: &Value) {
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

    /// Removes an object that a later line of the log deletes.
    fn unrestore(&mut self, table: TableId, key: &str, version: u64) {
        self.version = self.version.max(version);
        if let Some(previous) = self.table_mut(table).forget(key) {
            self.unindex(table, &previous);
        }
    }
}
