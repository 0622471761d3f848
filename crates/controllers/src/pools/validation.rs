//! Validates pools beyond what admission checks.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::conditions::{VALIDATION_SUCCEEDED, node_pool};
use kerf_api::{ConditionSet, LabelRules, NodePool, validate};

use super::status::PoolStatus;
use crate::context::Context;

/// `nodepool.validation` (LIF-159).
pub(crate) fn validation(context: &Context) -> Arc<PoolStatus> {
    let rule = |context: &Context, pool: &mut NodePool, now: Timestamp| {
        judge(pool, &context.provider.profile().vocabulary.labels, now);
    };
    PoolStatus::new(context, "nodepool.validation", 10, false, Box::new(rule))
}

fn judge(pool: &mut NodePool, rules: &LabelRules, now: Timestamp) {
    let findings = validate::node_pool(&pool.spec, rules);
    for partly in &findings.partly_known {
        // LIF-163
        tracing::error!(
            key = partly.key,
            "valid-values" = ?partly.valid,
            "invalid-values" = ?partly.invalid,
            "invalid values found for key",
        );
    }
    let mut conditions = ConditionSet::new(pool, now);
    if findings.is_valid() {
        conditions.set_true(VALIDATION_SUCCEEDED);
    } else {
        conditions.set_false(VALIDATION_SUCCEEDED, node_pool::VALIDATION_FAILED, &findings.message());
    }
}

#[cfg(test)]
mod tests {
    use kerf_api::Conditioned;
    use serde_json::json;

    use super::*;

    // LIF-159, API-084
    #[test]
    fn a_pool_that_makes_no_sense_says_why() {
        let mut pool: NodePool = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"template": {
            "metadata": {"labels": {"karpenter.sh/nodepool": "x"}},
            "spec": {"requirements": [{"key": "a b", "operator": "Exists"}], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}}))
        .expect("a pool");
        judge(&mut pool, &LabelRules::core(), Timestamp::UNIX_EPOCH);
        let condition = pool.condition(VALIDATION_SUCCEEDED).expect("it was set");
        assert!(condition.is_false());
        assert_eq!(condition.reason(), "NodePoolValidationFailed");
        let faults: Vec<&str> = condition.message().split("; ").collect();
        assert!(
            faults.len() == 2 && faults[0].contains("karpenter.sh/nodepool") && faults[1].contains("a b"),
            "{faults:?}"
        );
        assert!(!pool.condition_is_true("Ready"));
        pool.spec.template.metadata = None;
        pool.spec.template.spec.requirements.clear();
        judge(&mut pool, &LabelRules::core(), Timestamp::UNIX_EPOCH);
        let condition = pool.condition(VALIDATION_SUCCEEDED).expect("it was set");
        assert!(condition.is_true());
        assert_eq!((condition.reason(), condition.message()), ("ValidationSucceeded", ""));
    }
}
