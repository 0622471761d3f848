//! All objects of one resource in key order, with a bounded history that serves watches and older snapshots.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::Notify;

use super::change::Change;
use super::object::{FieldPath, Stored};

/// Index of a table in the server's list of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(pub(crate) usize);

/// One write, as watchers see it.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) change: Change,
    /// The object after the write; of a deletion its last state with the version of the deletion.
    pub(crate) object: Arc<Stored>,
    /// The object before the write.
    pub(crate) previous: Option<Arc<Stored>>,
}

/// All objects of one resource.
#[derive(Debug)]
pub(crate) struct Table {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    history: VecDeque<Event>,
    /// Most events kept: the bound on what a slow watcher can cost in memory.
    history_max: usize,
    /// Version of the newest event that was dropped from the history.
    compacted: u64,
    /// Fields that field selectors may name.
    pub(crate) fields: Arc<[FieldPath]>,
    /// Wakes watchers, in the order in which they began to wait: runs must not differ. (A watch channel wakes in random order.)
    written: Arc<Notify>,
}

impl Table {
    pub(crate) fn new(fields: Arc<[FieldPath]>, history_max: usize, version: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            history_max,
            compacted: version,
            fields,
            written: Arc::default(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Is notified of every write.
    pub(crate) fn written(&self) -> Arc<Notify> {
        Arc::clone(&self.written)
    }

    /// The objects in key order: of one namespace, or all.
    pub(crate) fn range<'a>(&'a self, namespace: Option<&str>) -> Box<dyn Iterator<Item = &'a Arc<Stored>> + 'a> {
        match namespace {
            None => Box::new(self.objects.values()),
            Some(ns) => {
                // '0' follows '/', so the bounds enclose exactly the keys that start with "ns/".
                let (from, to) = (format!("{ns}/"), format!("{ns}0"));
                let bounds = (Bound::Included(from.as_str()), Bound::Excluded(to.as_str()));
                Box::new(self.objects.range::<str, _>(bounds).map(|(_, v)| v))
            }
        }
    }

    /// Puts the object in its place and the event in the history.
    pub(crate) fn record(&mut self, change: Change, object: Arc<Stored>) {
        let previous = match change {
            Change::Added | Change::Modified => self.objects.insert(Arc::clone(&object.key), Arc::clone(&object)),
            Change::Deleted => self.objects.remove(&object.key),
        };
        self.history.push_back(Event {
            change,
            object,
            previous,
        });
        while self.history.len() > self.history_max {
            if let Some(dropped) = self.history.pop_front() {
                self.compacted = dropped.object.version;
            }
        }
        self.written.notify_waiters();
    }

    /// Puts an object in its place without an event: for state read from disk.
    pub(crate) fn restore(&mut self, object: Arc<Stored>) {
        self.objects.insert(Arc::clone(&object.key), object);
    }

    /// Undoes [`Self::restore`].
    pub(crate) fn forget(&mut self, key: &str) -> Option<Arc<Stored>> {
        self.objects.remove(key)
    }

    /// Drops the history up to `version`: watches that need it get 410.
    pub(crate) fn compact(&mut self, version: u64) {
        self.history.clear();
        self.compacted = version;
        self.written.notify_waiters();
    }

    /// The version before which nothing is known.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Up to `max` events after `version`, oldest first; `None` when some of them are gone.
    pub(crate) fn events_after(&self, version: u64, max: usize) -> Option<impl Iterator<Item = &Event>> {
        if version < self.compacted {
            return None;
        }
        let first = self.history.partition_point(|e| e.object.version <= version);
        Some(self.history.range(first..).take(max))
    }

    /// The objects of a namespace (or all) as they were at `version`; `None` when that is no longer known.
    pub(crate) fn snapshot(&self, namespace: Option<&str>, version: u64) -> Option<Vec<Arc<Stored>>> {
        if version < self.compacted {
            return None;
        }
        let first = self.history.partition_point(|e| e.object.version <= version);
        if first == self.history.len() {
            return Some(self.range(namespace).cloned().collect());
        }
        let mut objects: BTreeMap<Arc<str>, Arc<Stored>> = self
            .range(namespace)
            .map(|o| (Arc::clone(&o.key), Arc::clone(o)))
            .collect();
        for event in self.history.range(first..).rev() {
            if namespace.is_some_and(|ns| event.object.namespace() != ns) {
                continue;
            }
            match &event.previous {
                Some(previous) => objects.insert(Arc::clone(&previous.key), Arc::clone(previous)),
                None => objects.remove(&event.object.key),
            };
        }
        Some(objects.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(name: &str, version: u64) -> Arc<Stored> {
        let object = json!({"metadata": {"name": name, "namespace": "a", "resourceVersion": version.to_string()}});
        Arc::new(Stored::new(&format!("a/{name}"), version, Change::Added, &object, &[]))
    }

    #[test]
    fn a_snapshot_undoes_later_writes() {
        let mut table = Table::new(Arc::from([]), 10, 0);
        table.record(Change::Added, stored("x", 1));
        table.record(Change::Modified, stored("x", 2));
        table.record(Change::Added, stored("y", 3));
        table.record(Change::Deleted, stored("x", 4));
        let names = |v| -> Option<Vec<(String, u64)>> {
            Some(
                table
                    .snapshot(Some("a"), v)?
                    .iter()
                    .map(|o| (o.name().to_owned(), o.version))
                    .collect(),
            )
        };
        assert_eq!(names(1), Some(vec![("x".to_owned(), 1)]));
        assert_eq!(names(2), Some(vec![("x".to_owned(), 2)]));
        assert_eq!(names(3), Some(vec![("x".to_owned(), 2), ("y".to_owned(), 3)]));
        assert_eq!(names(4), Some(vec![("y".to_owned(), 3)]));
    }

    #[test]
    fn the_history_is_bounded_and_says_what_it_lost() {
        let mut table = Table::new(Arc::from([]), 2, 0);
        for version in 1..=5 {
            table.record(Change::Modified, stored("x", version));
        }
        assert!(table.events_after(2, 10).is_none());
        assert_eq!(table.events_after(3, 10).map(Iterator::count), Some(2));
        assert!(table.snapshot(None, 2).is_none());
    }
}
