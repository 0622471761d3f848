//! Garbage collection by owner and by namespace.
//!
//! A real control plane does this in a controller some time later; here it runs inside the request that causes it, so that
//! a run is the same every time. The rules are the real ones: a dependent is deleted when none of its owners is left, foreground
//! deletion waits for the dependents that block it, orphaning removes the references.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::json;
use crate::registry::Resource;
use crate::request::{DeleteOptions, Propagation};
use crate::state::{FOREGROUND, GarbageTask, ORPHAN, ObjectRef, State};
use crate::storage::{Change, Stored, Uid};

impl State {
    /// Queues the garbage collection work that follows when `object` is marked as being deleted.
    pub(crate) fn after_marking(&mut self, resource: &Resource, object: &Arc<Stored>) {
        self.gc.push_back(GarbageTask::OwnerMarked(ObjectRef {
            table: resource.table,
            key: Arc::clone(&object.key),
        }));
    }

    /// Processes the queue until it is empty.
    pub(crate) fn collect_garbage(&mut self, now: Timestamp) {
        while let Some(task) = self.gc.pop_front() {
            match task {
                GarbageTask::OwnerGone(uid) => {
                    let dependents = self.dependents(uid);
                    self.gc.extend(dependents.into_iter().map(GarbageTask::Dependent));
                }
                GarbageTask::Dependent(at) => self.judge_dependent(&at, now),
                GarbageTask::OwnerMarked(at) => self.work_off_finalizers(&at, now),
                GarbageTask::DependentGone(uid) => {
                    if let Some(at) = self.locate(uid).cloned() {
                        self.work_off_finalizers(&at, now);
                    }
                }
                GarbageTask::NamespaceMarked(name) => self.empty_namespace(&name, now),
                GarbageTask::NamespaceShrunk(name) => self.end_namespace(&name),
            }
        }
    }

    /// Deletes the dependent when it has no owner left; otherwise removes its references to deleted owners.
    fn judge_dependent(&mut self, at: &ObjectRef, now: Timestamp) {
        let (Some(stored), Some(resource)) = (self.get(at).cloned(), self.resource_of(at.table)) else {
            return;
        };
        let object = stored.value();
        let references = json::items(&object, &["metadata", "ownerReferences"]).to_vec();
        let (mut solid, mut waiting) = (Vec::new(), false);
        for reference in &references {
            let uid = Uid::parse(json::text(reference, &["uid"]).unwrap_or_default());
            let Some(owner) = self.locate(uid).and_then(|at| self.get(at)) else {
                continue;
            };
            if owner.deleting && has_finalizer(&owner.value(), FOREGROUND) {
                waiting = true;
            } else {
                solid.push(reference.clone());
            }
        }
        if solid.is_empty() {
            let propagation = if waiting && !self.dependents(stored.uid).is_empty() {
                Some(Propagation::Foreground)
            } else {
                kept_policy(&object)
            };
            let options = DeleteOptions {
                propagation,
                ..DeleteOptions::default()
            };
            // A deletion without preconditions fails only when the object is gone already.
            drop(self.delete(&resource, &at.key, &options, now));
        } else if solid.len() < references.len() {
            let mut object = Arc::unwrap_or_clone(object);
            json::set(&mut object, &["metadata", "ownerReferences"], Value::Array(solid));
            self.commit(at.table, Change::Modified, &at.key, object);
        }
    }

    /// Processes the foreground and orphan finalizers of an owner, and removes them when their work is complete.
    fn work_off_finalizers(&mut self, at: &ObjectRef, now: Timestamp) {
        let Some(stored) = self.get(at).cloned() else {
            return;
        };
        if !stored.deleting {
            return;
        }
        let object = stored.to_value();
        let dependents = self.dependents(stored.uid);
        if has_finalizer(&object, ORPHAN) {
            for dependent in &dependents {
                self.orphan(dependent, stored.uid);
            }
            self.drop_finalizer(at, object, ORPHAN);
        } else if has_finalizer(&object, FOREGROUND) {
            if !dependents.iter().any(|d| self.blocks(d, stored.uid)) {
                self.drop_finalizer(at, object, FOREGROUND);
                return;
            }
            for dependent in dependents {
                if self.get(&dependent).is_some_and(|d| !d.deleting) {
                    self.judge_dependent(&dependent, now);
                }
            }
        }
    }

    /// Whether a dependent blocks the foreground deletion of an owner: its reference has `blockOwnerDeletion`.
    fn blocks(&self, dependent: &ObjectRef, owner: Uid) -> bool {
        self.get(dependent).is_some_and(|d| {
            json::items(&d.value(), &["metadata", "ownerReferences"])
                .iter()
                .any(|r| {
                    Uid::parse(json::text(r, &["uid"]).unwrap_or_default()) == owner
                        && json::at(r, &["blockOwnerDeletion"]).as_bool() == Some(true)
                })
        })
    }

    /// Removes the references to an owner from a dependent.
    fn orphan(&mut self, dependent: &ObjectRef, owner: Uid) {
        let Some(mut object) = self.get(dependent).map(|d| d.to_value()) else {
            return;
        };
        if let Some(references) = json::array_mut(&mut object, &["metadata", "ownerReferences"]) {
            references.retain(|r| Uid::parse(json::text(r, &["uid"]).unwrap_or_default()) != owner);
            if references.is_empty() {
                json::take(&mut object, &["metadata", "ownerReferences"]);
            }
            self.commit(dependent.table, Change::Modified, &dependent.key, object);
        }
    }

    /// Removes a finalizer from an object that is being deleted; erases the object if it was the last one.
    fn drop_finalizer(&mut self, at: &ObjectRef, mut object: Value, finalizer: &str) {
        if let Some(finalizers) = json::array_mut(&mut object, &["metadata", "finalizers"]) {
            finalizers.retain(|f| f != finalizer);
            if finalizers.is_empty() {
                json::take(&mut object, &["metadata", "finalizers"]);
            }
        }
        if crate::verbs::nothing_holds(&object) {
            self.erase(at, object);
        } else {
            self.commit(at.table, Change::Modified, &at.key, object);
        }
    }

    /// Deletes all objects of a namespace.
    fn empty_namespace(&mut self, name: &str, now: Timestamp) {
        let content: Vec<(Arc<Resource>, ObjectRef)> = self
            .tables()
            .filter_map(|(id, table)| Some((id, self.resource_of(id).filter(|r| r.namespaced)?, table)))
            .flat_map(|(id, resource, table)| {
                let at = |o: &Arc<Stored>| ObjectRef {
                    table: id,
                    key: Arc::clone(&o.key),
                };
                table
                    .range(Some(name))
                    .map(|o| (Arc::clone(&resource), at(o)))
                    .collect::<Vec<_>>()
            })
            .collect();
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        for (resource, at) in content {
            // An object is missing here only when the deletion of another one removed it.
            drop(self.delete(&resource, &at.key, &options, now));
        }
        self.end_namespace(name);
    }

    /// Removes a namespace that is being deleted once it is empty.
    fn end_namespace(&mut self, name: &str) {
        let Some(table) = self.table_id("", "namespaces") else {
            return;
        };
        let Some(namespace) = self.table(table).get(name).filter(|n| n.deleting).cloned() else {
            return;
        };
        if self
            .tables()
            .any(|(id, t)| id != table && t.range(Some(name)).next().is_some())
        {
            return;
        }
        let mut object = namespace.to_value();
        json::take(&mut object, &["spec", "finalizers"]);
        if crate::verbs::nothing_holds(&object) {
            self.erase(
                &ObjectRef {
                    table,
                    key: Arc::clone(&namespace.key),
                },
                object,
            );
        }
    }
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    json::items(object, &["metadata", "finalizers"])
        .iter()
        .any(|f| f == finalizer)
}

/// The propagation policy of a dependent that is already being deleted; Background otherwise.
fn kept_policy(object: &Value) -> Option<Propagation> {
    if has_finalizer(object, ORPHAN) {
        Some(Propagation::Orphan)
    } else if has_finalizer(object, FOREGROUND) {
        Some(Propagation::Foreground)
    } else {
        Some(Propagation::Background)
    }
}
