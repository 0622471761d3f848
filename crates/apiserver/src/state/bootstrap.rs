//! The objects every cluster has from the start.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ObjectRef, State};
use crate::json;
use crate::storage::Change;
use std::sync::Arc;

impl State {
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

    /// Adds an object that every cluster has, unless one of its name exists.
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
}
