//! The status of ResourceQuotas. It is kept with every write, so that admission compares with exact amounts.

use std::sync::Arc;

use kerf_units::quantity::Quantity;
use serde_json::{Value, json};

use super::State;
use crate::json;
use crate::quota::{self, Amounts};
use crate::storage::{Change, Stored, TableId};

impl State {
    /// Whether any namespace has a quota.
    pub(super) fn has_quotas(&self) -> bool {
        let table = self.table_id("", "resourcequotas");
        table.is_some_and(|table| self.table(table).len() > 0)
    }

    /// The quotas of a namespace; none for the empty name, which cluster-scoped objects have.
    pub(crate) fn quotas(&self, namespace: &str) -> Vec<Arc<Stored>> {
        let table = self.table_id("", "resourcequotas").filter(|_| !namespace.is_empty());
        let quotas = table
            .into_iter()
            .flat_map(|table| self.table(table).range(Some(namespace)));
        quotas.cloned().collect()
    }

    /// The status of a new or changed quota: its limits, and what the objects of its namespace use of them.
    pub(crate) fn quota_status(&self, quota: &Value) -> Value {
        let namespace = json::text(quota, &["metadata", "namespace"]);
        let hard = quota::amounts(quota, &["spec", "hard"]);
        let mut used: Amounts = hard.keys().map(|name| (name.clone(), Quantity::ZERO)).collect();
        for (id, table) in self.tables() {
            let (group, plural) = self.table_name(id);
            if !hard.keys().any(|name| quota::counted_resource(name) == (group, plural)) {
                continue;
            }
            for object in table.range(namespace) {
                let object = object.value();
                if quota::counts(quota, group, plural, &object) {
                    for (name, amount) in quota::usage(group, plural, &object) {
                        used.entry(name)
                            .and_modify(|total| *total = total.saturating_add(&amount));
                    }
                }
            }
        }
        json!({"hard": json::at(quota, &["spec", "hard"]), "used": rendered(&used)})
    }

    /// Charges the quotas of the namespace with the difference of an object before and after a write.
    pub(super) fn charge_quotas(
        &mut self,
        table: TableId,
        namespace: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        let Some(quota_table) = self.table_id("", "resourcequotas") else {
            return;
        };
        for quota in self.quotas(namespace) {
            let mut changed = quota.to_value();
            let (group, plural) = self.table_name(table);
            let of = |object: Option<&Value>| {
                let counted = object.filter(|object| quota::counts(&changed, group, plural, object));
                counted
                    .map(|object| quota::usage(group, plural, object))
                    .unwrap_or_default()
            };
            let (less, more) = (of(before), of(after));
            let mut used = quota::amounts(&changed, &["status", "used"]);
            let known = used.clone();
            for (name, total) in &mut used {
                let of = |amounts: &Amounts| amounts.get(name).cloned().unwrap_or(Quantity::ZERO);
                *total = total.saturating_add(&of(&more)).saturating_sub(&of(&less));
            }
            if used != known {
                json::set(&mut changed, &["status", "used"], rendered(&used));
                self.commit(quota_table, Change::Modified, &quota.key, changed);
            }
        }
    }
}

fn rendered(amounts: &Amounts) -> Value {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), Value::from(amount.to_string())))
        .collect()
}
