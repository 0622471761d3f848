//! Pod disruption budgets.

use super::{Converter, selector};
use crate::lean::{CountOrShare, LeanPdb};
use crate::object::name_and_uid;
use kerf_model::selector::LabelSelector;
use kerf_model::snapshot::Pdb;

impl Converter {
    /// Reads a budget (SCH-029, SCH-030, DIS-069); `None` without a name or unique id. It is unknown which pods an unparsable selector means: until it is corrected, all of its
    /// namespace stay (deviation at DIS-063).
    pub fn pdb(&mut self, lean: &LeanPdb) -> Option<Pdb> {
        let spec = &lean.spec;
        let (name, _) = name_and_uid(&lean.metadata)?;
        let share = |field: &Option<CountOrShare>, text: &str| matches!(field, Some(CountOrShare::Share(share)) if **share == *text);
        let conditions = spec.selector.as_ref().map(selector::conditions);
        let unparsable = matches!(conditions, Some(None));
        let none_at_all = matches!(spec.max_unavailable, Some(CountOrShare::Count(0)));
        Some(Pdb {
            namespace: self.text(lean.metadata.namespace.as_deref().unwrap_or("default")),
            name: self.text(name),
            selector: match conditions {
                Some(conditions) => LabelSelector::all(conditions.unwrap_or_default()),
                None => LabelSelector::Nothing,
            },
            disruptions_allowed: if unparsable { 0 } else { lean.status.disruptions_allowed },
            blocks_always: none_at_all || share(&spec.max_unavailable, "0%") || share(&spec.min_available, "100%"),
            always_allow_unhealthy: !unparsable && spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conventions;
    use kerf_model::selector::LabelSet;
    use std::sync::Arc;

    // DIS-063
    #[test]
    fn a_budget_guards_the_pods_its_selector_means() {
        let interner = Arc::new(kerf_model::intern::Interner::default());
        let mut converter = Converter::new(interner, &Conventions::default());
        let mut guards = |selector: &str| {
            let spec = format!("{{\"selector\": {selector}, \"unhealthyPodEvictionPolicy\": \"AlwaysAllow\"}}");
            let pdb = format!(
                "{{\"metadata\": {{\"name\": \"p\", \"uid\": \"u\"}}, \"spec\": {spec}, \"status\": {{\"disruptionsAllowed\": 1}}}}"
            );
            let pdb = converter
                .pdb(&serde_json::from_str(&pdb).expect("a budget"))
                .expect("a name");
            let pod = LabelSet::from_iter([("app", "web")]);
            (
                pdb.selector.matches(&pod),
                pdb.disruptions_allowed,
                pdb.always_allow_unhealthy,
            )
        };
        assert_eq!(guards("null"), (false, 1, true));
        assert_eq!(guards("{}"), (true, 1, true));
        assert_eq!(guards(r#"{"matchLabels": {"app": "web"}}"#), (true, 1, true));
        assert_eq!(guards(r#"{"matchLabels": {"app": "api"}}"#), (false, 1, true));
        let nonsense = r#"{"matchExpressions": [{"key": "app", "operator": "Resembles", "values": ["api"]}]}"#;
        assert_eq!(guards(nonsense), (true, 0, false));
    }
}
