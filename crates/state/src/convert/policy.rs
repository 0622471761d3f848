//! Pod disruption budgets.

use super::{Converter, label_selector};
use crate::lean::{CountOrShare, LeanPdb};
use kerf_model::snapshot::Pdb;

impl Converter {
    /// Reads a budget (SCH-029, SCH-030, DIS-069).
    pub fn pdb(&mut self, lean: &LeanPdb) -> Pdb {
        let spec = &lean.spec;
        let share = |field: &Option<CountOrShare>, text: &str| matches!(field, Some(CountOrShare::Share(share)) if **share == *text);
        let none_at_all = matches!(spec.max_unavailable, Some(CountOrShare::Count(0)));
        Pdb {
            namespace: self.text(lean.metadata.namespace.as_deref().unwrap_or("default")),
            name: self.text(lean.metadata.name.as_deref().unwrap_or_default()),
            selector: label_selector(spec.selector.as_ref()),
            disruptions_allowed: lean.status.disruptions_allowed,
            blocks_always: none_at_all || share(&spec.max_unavailable, "0%") || share(&spec.min_available, "100%"),
            always_allow_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
        }
    }
}
