//! Reads what the rules of the conditions `Drifted` and `Consolidatable` depend on from claims and pools, and writes the conditions. The rules
//! are in [`kerf_lifecycle::claim_conditions`].

use std::time::Duration;

use jiff::Timestamp;
use kerf_api::conditions::node_claim::{
    CONSOLIDATABLE, DRIFTED, INITIALIZED, INSTANCE_TYPE_NOT_FOUND, LAUNCHED, NODE_POOL_DRIFTED, REQUIREMENTS_DRIFTED,
};
use kerf_api::hash;
use kerf_api::status::{Conditioned, RemovalError};
use kerf_api::{Condition, ConditionSet, LabelRules, NodeClaim, NodePool};
use kerf_lifecycle::claim_conditions::{self, Consolidatable, ConsolidatableFacts, TemplateDrift};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::{Interner, Sym};

/// The state that the drift condition should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Drift {
    /// Removed: there is no instance yet that could have drifted (DIS-217).
    NotLaunched,
    /// Removed.
    None,
    /// True for this reason.
    For(String),
}

/// What the comparison of claims with pools and catalogues needs: the label rules, the interner, and the label key of reservations.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub(super) rules: &'a LabelRules,
    pub(super) interner: &'a Interner,
    pub(super) reservation_key: Option<&'a str>,
}

impl Words<'_> {
    /// A claim's labels by key id.
    fn labels(self, claim: &NodeClaim) -> Vec<(Sym, Sym)> {
        let written = claim.metadata.labels.iter().flatten();
        let id = |(key, value): (&String, &String)| {
            let key = self.rules.normalize(key);
            let value = self.rules.normalize_value(key, value);
            (self.interner.intern(key), self.interner.intern(value))
        };
        let mut labels: Vec<(Sym, Sym)> = written.map(id).collect();
        labels.sort_unstable();
        labels.dedup_by_key(|(key, _)| *key);
        labels
    }
}

/// Whether the claim has an instance.
pub(super) fn is_launched(claim: &NodeClaim) -> bool {
    claim.condition_is_true(LAUNCHED)
}

/// The reason if the claim no longer matches its pool's template (DIS-218, DIS-221).
pub(super) fn template_drift(claim: &NodeClaim, pool: &NodePool, words: Words<'_>) -> Option<&'static str> {
    let none = std::collections::BTreeMap::new();
    let of_pool = pool.metadata.annotations.as_ref().unwrap_or(&none);
    let of_claim = claim.metadata.annotations.as_ref().unwrap_or(&none);
    let hash_differs = hash::has_drifted(of_pool, of_claim);
    let template = kerf_cloud::requirements(&pool.spec.template.spec.requirements, words.rules, words.interner);
    let drift = claim_conditions::template_drift(hash_differs, &words.labels(claim), &template, words.interner)?;
    Some(match drift {
        TemplateDrift::Hash => NODE_POOL_DRIFTED,
        TemplateDrift::Requirements => REQUIREMENTS_DRIFTED,
    })
}

/// Whether the claim is checked against the catalogue now. `passed` is how long ago it passed the last check (DIS-237).
pub(super) fn type_check_is_due(claim: &NodeClaim, passed: Option<Duration>, now: Timestamp) -> bool {
    let created = claim.metadata.creation_timestamp.as_ref();
    claim_conditions::type_check_is_due(created.map(|created| created.0), passed, now)
}

/// The reason if the catalogue no longer has the claim's instance type or offering (DIS-237, DIS-238).
pub(super) fn type_drift(claim: &NodeClaim, catalogue: &Catalogue, words: Words<'_>) -> Option<&'static str> {
    let reservation = words.reservation_key.map(|key| words.interner.intern(key));
    let known = |key: Sym| words.rules.is_well_known(words.interner.text(key));
    let labels = words.labels(claim);
    let gone = kerf_disruption::instance_type_gone(&labels, catalogue, reservation, &known, words.interner);
    gone.then_some(INSTANCE_TYPE_NOT_FOUND)
}

/// Whether consolidation may choose the claim (LIF-142).
pub(super) fn consolidatable(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Consolidatable {
    let initialized = claim.condition(INITIALIZED).filter(|condition| condition.is_true());
    let status = claim.status.as_ref();
    let event = status.and_then(|status| status.last_pod_event_time.as_ref());
    let facts = ConsolidatableFacts {
        is_static: pool.spec.is_static(),
        consolidate_after: pool.spec.disruption().consolidate_after.value(),
        initialized_at: initialized.map(Condition::transitioned),
        last_pod_event: event.map(|event| event.0),
    };
    claim_conditions::consolidatable(&facts, now)
}

/// Updates the consolidatable condition of a copy of the claim.
pub(crate) fn update_consolidatable(
    claim: &mut NodeClaim,
    pool: &NodePool,
    now: Timestamp,
) -> Result<(), RemovalError> {
    let verdict = consolidatable(claim, pool, now);
    apply_consolidatable(claim, verdict, now)
}

/// Writes the drift condition into a copy of the claim.
pub(super) fn apply_drift(claim: &mut NodeClaim, drift: &Drift, now: Timestamp) -> Result<(), RemovalError> {
    match drift {
        Drift::For(reason) => {
            if ConditionSet::new(claim, now).set_true_because(DRIFTED, reason, reason) {
                tracing::debug!(reason, "marking drifted");
            }
        }
        Drift::None | Drift::NotLaunched => {
            let why = if *drift == Drift::None {
                "not drifted"
            } else {
                "isn't launched"
            };
            if remove(claim, DRIFTED, now)? {
                match drift {
                    Drift::NotLaunched => tracing::debug!("removing drift status condition, {why}"),
                    _ => tracing::debug!("removing drifted status condition, {why}"),
                }
            }
        }
    }
    Ok(())
}

/// Writes the consolidatable condition into a copy of the claim.
pub(super) fn apply_consolidatable(
    claim: &mut NodeClaim,
    verdict: Consolidatable,
    now: Timestamp,
) -> Result<(), RemovalError> {
    let why = match verdict {
        Consolidatable::Untouched => return Ok(()),
        Consolidatable::Yes => {
            if ConditionSet::new(claim, now).set_true(CONSOLIDATABLE) {
                tracing::debug!("marking consolidatable");
            }
            return Ok(());
        }
        Consolidatable::Disabled => "consolidation disabled",
        Consolidatable::Uninitialized => "isn't initialized",
        Consolidatable::NotBefore(_) => "pod event within consolidateAfter",
    };
    if remove(claim, CONSOLIDATABLE, now)? {
        tracing::debug!(reason = why, "removing consolidatable status condition");
    }
    Ok(())
}

/// Removes a condition, without touching a claim that lacks it.
fn remove(claim: &mut NodeClaim, type_: &str, now: Timestamp) -> Result<bool, RemovalError> {
    if claim.condition(type_).is_none() {
        return Ok(false);
    }
    ConditionSet::new(claim, now).remove(type_)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_event_time::set_pod_event_time;
    use kerf_cloud::TypeBuilder;
    use kerf_model::price::Price;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().expect("a timestamp")
    }

    fn pool(disruption: &Value, requirements: &Value) -> NodePool {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "annotations": {"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v3"}},
            "spec": {"disruption": disruption, "template": {"spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            }}},
        }))
        .expect("a pool")
    }

    /// A claim that was initialised at 11:00, with what `change` says on top.
    fn claim(change: impl FnOnce(&mut NodeClaim)) -> NodeClaim {
        let mut claim: NodeClaim = serde_json::from_value(json!({
            "metadata": {
                "name": "web-1",
                "creationTimestamp": "2026-01-01T10:00:00Z",
                "annotations": {"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v3"},
                "labels": {
                    "node.kubernetes.io/instance-type": "small",
                    "failure-domain.beta.kubernetes.io/zone": "a",
                    "karpenter.sh/capacity-type": "spot",
                },
            },
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
        }))
        .expect("a claim");
        let eleven = "2026-01-01T11:00:00Z".parse().expect("a timestamp");
        let mut conditions = ConditionSet::new(&mut claim, eleven);
        // The first transition of these counts from the creation, unless they change.
        conditions.set_false(INITIALIZED, "No", "");
        conditions.set_true(INITIALIZED);
        conditions.set_true(LAUNCHED);
        change(&mut claim);
        claim
    }

    fn with_words<T>(look: impl FnOnce(Words<'_>) -> T) -> T {
        let (rules, interner) = (LabelRules::core(), Interner::default());
        look(Words {
            rules: &rules,
            interner: &interner,
            reservation_key: None,
        })
    }

    // LIF-142, LIF-144
    #[test]
    fn conditions_times_and_pools_are_read() {
        let at = |text: &str| -> Timestamp { format!("2026-01-01T{text}Z").parse().expect("a timestamp") };
        let eventful = claim(|claim| {
            set_pod_event_time(claim, at("11:45:00"));
        });
        let unready = claim(|claim| {
            ConditionSet::new(claim, now()).set_unknown(INITIALIZED, "x", "");
        });
        let plain = claim(|_| {});
        let verdict = |after: &str, claim: &NodeClaim| {
            consolidatable(claim, &pool(&json!({"consolidateAfter": after}), &json!([])), now())
        };
        assert_eq!(verdict("Never", &plain), Consolidatable::Disabled);
        assert_eq!(verdict("61m", &plain), Consolidatable::NotBefore(at("12:01:00")));
        assert_eq!(verdict("30m", &eventful), Consolidatable::NotBefore(at("12:15:00")));
        assert_eq!(verdict("0s", &unready), Consolidatable::Uninitialized);
        let mut fixed = pool(&json!({"consolidateAfter": "0s"}), &json!([]));
        fixed.spec.replicas = Some(1);
        assert_eq!(consolidatable(&plain, &fixed, now()), Consolidatable::Untouched);
    }

    // LIF-143, API-112
    #[test]
    fn the_condition_is_removed_and_not_false() {
        let mut claim = claim(|_| {});
        apply_consolidatable(&mut claim, Consolidatable::Yes, now()).expect("applied");
        assert!(claim.condition_is_true(CONSOLIDATABLE));
        let reason = claim.condition(CONSOLIDATABLE).map(Condition::reason);
        assert_eq!(reason, Some("Consolidatable"));
        let marked = claim.clone();
        apply_consolidatable(&mut claim, Consolidatable::Untouched, now()).expect("applied");
        assert_eq!(claim, marked);
        apply_consolidatable(&mut claim, Consolidatable::NotBefore(now()), now()).expect("applied");
        assert_eq!(claim.condition(CONSOLIDATABLE), None);
    }

    // DIS-215, DIS-217, API-113
    #[test]
    fn the_drift_condition_names_its_reason_twice_or_is_not_there() {
        let mut claim = claim(|_| {});
        for reason in [
            NODE_POOL_DRIFTED,
            REQUIREMENTS_DRIFTED,
            INSTANCE_TYPE_NOT_FOUND,
            "TheProvidersOwn",
        ] {
            apply_drift(&mut claim, &Drift::For(reason.to_owned()), now()).expect("applied");
            let condition = claim.condition(DRIFTED).cloned().expect("a condition");
            assert!(condition.is_true());
            assert_eq!((condition.reason(), condition.message()), (reason, reason));
        }
        for drift in [Drift::None, Drift::NotLaunched] {
            let mut cured = claim.clone();
            apply_drift(&mut cured, &drift, now()).expect("applied");
            assert_eq!(cured.condition(DRIFTED), None);
        }
    }

    // DIS-218, DIS-221
    #[test]
    fn the_hash_is_asked_before_the_requirements() {
        let elsewhere = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]);
        let here = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]);
        let plain = json!({"consolidateAfter": "0s"});
        let hash = |value: &'static str, key: &'static str| {
            claim(move |claim| {
                let annotations = claim.metadata.annotations.get_or_insert_default();
                annotations.insert(key.to_owned(), value.to_owned());
            })
        };
        let drift = |claim: NodeClaim, requirements: &Value| {
            with_words(|words| template_drift(&claim, &pool(&plain, requirements), words))
        };
        assert_eq!(
            drift(claim(|_| {}), &here),
            None,
            "the old name of the zone label is the zone"
        );
        assert_eq!(drift(claim(|_| {}), &elsewhere), Some("RequirementsDrifted"));
        assert_eq!(
            drift(hash("2", "karpenter.sh/nodepool-hash"), &elsewhere),
            Some("NodePoolDrifted")
        );
        assert_eq!(drift(hash("v2", "karpenter.sh/nodepool-hash-version"), &here), None);
        let unstamped = claim(|claim| claim.metadata.annotations = None);
        assert_eq!(drift(unstamped, &here), None);
    }

    // DIS-237
    #[test]
    fn a_type_without_an_offering_for_the_claim_is_gone() {
        with_words(|words| {
            let kind = |zone: &str| {
                TypeBuilder::new(words.interner, "small")
                    .offering(zone, "spot", Price::ZERO)
                    .build()
            };
            let drift = |zone: &str| {
                type_drift(
                    &claim(|_| {}),
                    &Catalogue {
                        types: vec![kind(zone)],
                    },
                    words,
                )
            };
            assert_eq!(drift("a"), None);
            assert_eq!(drift("b"), Some("InstanceTypeNotFound"));
        });
    }
}
