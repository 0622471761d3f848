//! What a claim's conditions `Drifted` and `Consolidatable` should be: pure.

use jiff::{SignedDuration, Timestamp};
use kerf_api::conditions::node_claim::{
    CONSOLIDATABLE, DRIFTED, INITIALIZED, INSTANCE_TYPE_NOT_FOUND, LAUNCHED, NODE_POOL_DRIFTED, REQUIREMENTS_DRIFTED,
};
use kerf_api::hash;
use kerf_api::status::{Conditioned, RemovalError};
use kerf_api::{Condition, ConditionSet, LabelRules, NodeClaim, NodePool};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::{Interner, Sym};

/// Claims younger than this are not held against the catalogue (DIS-237).
const TYPE_CHECK_FROM: SignedDuration = SignedDuration::from_hours(1);

/// What the drift condition should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Drift {
    /// Removed: there is no instance yet that could have drifted (DIS-217).
    NotLaunched,
    /// Removed.
    None,
    /// True for this reason.
    For(String),
}

/// What the consolidatable condition should be, and when to look again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Consolidatable {
    /// The pool is static: not touched (LIF-144).
    Untouched,
    /// Removed; the text says why.
    No(&'static str),
    /// Removed until then: something happened on the node too recently.
    NotBefore(Timestamp),
    /// True.
    Yes,
}

/// The words claims, pools and catalogues are compared in.
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

/// Whether the claim is no longer what its pool's template asks for (DIS-218: hash, then requirements).
pub(super) fn template_drift(claim: &NodeClaim, pool: &NodePool, words: Words<'_>) -> Option<&'static str> {
    let none = std::collections::BTreeMap::new();
    let of_pool = pool.metadata.annotations.as_ref().unwrap_or(&none);
    let of_claim = claim.metadata.annotations.as_ref().unwrap_or(&none);
    if hash::has_drifted(of_pool, of_claim) {
        return Some(NODE_POOL_DRIFTED);
    }
    let template = kerf_cloud::requirements(&pool.spec.template.spec.requirements, words.rules, words.interner);
    let drifted = kerf_disruption::requirements_drifted(&words.labels(claim), &template, words.interner);
    drifted.then_some(REQUIREMENTS_DRIFTED)
}

/// Whether a claim is old enough to be held against the catalogue (DIS-237).
pub(super) fn type_check_is_due(claim: &NodeClaim, now: Timestamp) -> bool {
    let created = claim.metadata.creation_timestamp.as_ref();
    created.is_some_and(|created| now.duration_since(created.0) > TYPE_CHECK_FROM)
}

/// Whether the catalogue no longer has what the claim runs on (DIS-237, DIS-238).
pub(super) fn type_drift(claim: &NodeClaim, catalogue: &Catalogue, words: Words<'_>) -> Option<&'static str> {
    let reservation = words.reservation_key.map(|key| words.interner.intern(key));
    let known = |key: Sym| words.rules.is_well_known(words.interner.text(key));
    let labels = words.labels(claim);
    let gone = kerf_disruption::instance_type_gone(&labels, catalogue, reservation, &known, words.interner);
    gone.then_some(INSTANCE_TYPE_NOT_FOUND)
}

/// Whether consolidation may look at the claim (LIF-142, DIS-121).
pub(super) fn consolidatable(claim: &NodeClaim, pool: &NodePool, now: Timestamp) -> Consolidatable {
    if pool.spec.is_static() {
        return Consolidatable::Untouched;
    }
    let Some(after) = pool.spec.disruption().consolidate_after.value() else {
        return Consolidatable::No("consolidation disabled");
    };
    let initialized = claim.condition(INITIALIZED).filter(|condition| condition.is_true());
    let event = claim
        .status
        .as_ref()
        .and_then(|status| status.last_pod_event_time.as_ref());
    let settles = kerf_disruption::settles_at(
        initialized.map(Condition::transitioned),
        event.map(|event| event.0),
        after,
    );
    match settles {
        None => Consolidatable::No("isn't initialized"),
        Some(at) if now < at => Consolidatable::NotBefore(at),
        Some(_) => Consolidatable::Yes,
    }
}

/// Brings the drift condition of a copy to what it should be.
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

/// Brings the consolidatable condition of a copy to what it should be.
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
        Consolidatable::No(why) => why,
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
