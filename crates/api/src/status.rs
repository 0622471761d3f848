//! How conditions are kept on objects: which are added, when their times change, how Ready is derived
//! (section 8 of `docs/behaviour/api.md`).
//!
//! The time is an argument. A [`ConditionSet`] changes only the object in memory; writing it is the caller's business.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;

use crate::condition::{Condition, ConditionStatus};
use crate::conditions::{self, READY};
use crate::kwok_node_class::KwokNodeClass;
use crate::node_claim::NodeClaim;
use crate::node_overlay::NodeOverlay;
use crate::node_pool::NodePool;
use crate::node_repair_policy::NodeRepairPolicy;

/// An object whose Ready condition follows from others.
pub trait Conditioned: Resource<DynamicType = ()> {
    /// The types of the conditions Ready depends on (API-186).
    const DEPENDENTS: &'static [&'static str];

    /// The conditions as stored.
    fn conditions(&self) -> &[Condition];

    /// The conditions, for change; creates the status where there is none.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    /// A condition as stored.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions().iter().find(|condition| condition.type_ == type_)
    }

    /// Whether a condition is stored and holds.
    fn condition_is_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(Condition::is_true)
    }
}

macro_rules! conditioned {
    ($kind:ty, $dependents:expr) => {
        impl Conditioned for $kind {
            const DEPENDENTS: &'static [&'static str] = $dependents;

            fn conditions(&self) -> &[Condition] {
                self.status
                    .as_ref()
                    .map(|status| status.conditions.as_slice())
                    .unwrap_or_default()
            }

            fn conditions_mut(&mut self) -> &mut Vec<Condition> {
                &mut self.status.get_or_insert_default().conditions
            }
        }
    };
}

conditioned!(NodePool, &conditions::node_pool::DEPENDENTS);
conditioned!(NodeClaim, &conditions::node_claim::DEPENDENTS);
conditioned!(NodeOverlay, &conditions::node_overlay::DEPENDENTS);
conditioned!(NodeRepairPolicy, &conditions::node_repair_policy::DEPENDENTS);
conditioned!(KwokNodeClass, &[]);

/// A condition Ready depends on, and Ready itself, cannot be removed (API-182).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("condition {type_} cannot be removed because Ready depends on it; set it to False or Unknown")]
pub struct RemovalError {
    /// The condition.
    pub type_: String,
}

/// The conditions of one object at one time.
#[derive(Debug)]
pub struct ConditionSet<'a, K> {
    object: &'a mut K,
    now: Timestamp,
}

impl<'a, K: Conditioned> ConditionSet<'a, K> {
    /// Opens the conditions of an object. Missing ones are added at once, root first, as Unknown (API-178).
    pub fn new(object: &'a mut K, now: Timestamp) -> Self {
        let mut set = Self { object, now };
        for type_ in std::iter::once(READY).chain(K::DEPENDENTS.iter().copied()) {
            if set.get(type_).is_none() {
                set.set_unknown(
                    type_,
                    conditions::AWAITING_RECONCILIATION,
                    conditions::AWAITING_RECONCILIATION_MESSAGE,
                );
            }
        }
        set
    }

    /// A condition.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        self.object.condition(type_)
    }

    /// Whether a condition holds.
    pub fn is_true(&self, type_: &str) -> bool {
        self.object.condition_is_true(type_)
    }

    /// The root.
    pub fn ready(&self) -> Option<&Condition> {
        self.get(READY)
    }

    /// Sets a condition True with its own name as reason (API-185). Returns whether anything changed.
    pub fn set_true(&mut self, type_: &str) -> bool {
        self.set(type_, ConditionStatus::True, type_, "")
    }

    /// Sets a condition True. Returns whether anything changed.
    pub fn set_true_because(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, ConditionStatus::True, reason, message)
    }

    /// Sets a condition False. Returns whether anything changed.
    pub fn set_false(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, ConditionStatus::False, reason, message)
    }

    /// Sets a condition Unknown. Returns whether anything changed.
    pub fn set_unknown(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, ConditionStatus::Unknown, reason, message)
    }

    /// Sets a condition. The time changes with the status only, the generation is always the current one (API-180). Returns
    /// whether anything changed.
    pub fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) -> bool {
        let generation = self.generation();
        let stored = self.get(type_);
        let transitioned = match stored {
            Some(stored) if stored.status == status => stored.transitioned(),
            Some(_) => self.now,
            None => self.first_transition(type_),
        };
        let condition = Condition {
            observed_generation: generation,
            ..Condition::new(type_, status, reason, message, transitioned)
        };
        if stored == Some(&condition) {
            return false;
        }
        let deleting = self.object.meta().deletion_timestamp.is_some();
        let conditions = self.object.conditions_mut();
        conditions.retain(|other| other.type_ != type_);
        if deleting {
            // The other conditions will not be set again, and must not appear to be out of date (API-181).
            conditions
                .iter_mut()
                .for_each(|other| other.observed_generation = generation);
        }
        conditions.push(condition);
        conditions.sort_by_key(|condition| match condition.type_.as_str() {
            READY => (true, Timestamp::MIN),
            _ => (false, condition.transitioned()),
        });
        if type_ != READY {
            self.recompute_root();
        }
        true
    }

    /// Removes a condition that Ready does not depend on. Returns whether there was one.
    pub fn remove(&mut self, type_: &str) -> Result<bool, RemovalError> {
        if type_ == READY || K::DEPENDENTS.contains(&type_) {
            return Err(RemovalError {
                type_: type_.to_owned(),
            });
        }
        if self.get(type_).is_none() {
            return Ok(false);
        }
        let conditions = self.object.conditions_mut();
        conditions.retain(|condition| condition.type_ != type_);
        conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        Ok(true)
    }

    /// The current generation; 0 is what objects without one have, and is not written.
    fn generation(&self) -> Option<i64> {
        self.object.meta().generation.filter(|generation| *generation != 0)
    }

    /// A dependent has been in its first status since the object exists, any other condition since now (API-179).
    fn first_transition(&self, type_: &str) -> Timestamp {
        let created = self
            .object
            .meta()
            .creation_timestamp
            .as_ref()
            .map(|Time(created)| *created);
        if K::DEPENDENTS.contains(&type_) {
            created.unwrap_or(self.now)
        } else {
            self.now
        }
    }

    /// Derives Ready from the conditions it depends on (API-183, API-184).
    fn recompute_root(&mut self) {
        let generation = self.generation();
        let current = |condition: &Condition| condition.observed_generation == generation;
        let mut unhealthy: Vec<&Condition> = self
            .object
            .conditions()
            .iter()
            .filter(|condition| K::DEPENDENTS.contains(&condition.type_.as_str()))
            .filter(|condition| !condition.is_true() || !current(condition))
            .collect();
        if unhealthy.is_empty() {
            self.set_true(READY);
            return;
        }
        unhealthy.sort_by_key(|condition| std::cmp::Reverse(condition.transitioned()));
        let broken = unhealthy
            .iter()
            .any(|condition| condition.is_false() && current(condition));
        let parts: Vec<String> = unhealthy
            .iter()
            .map(|condition| format!("{}={}", condition.type_, condition.status))
            .collect();
        let message = parts.join(", ");
        if broken {
            self.set_false(READY, conditions::UNHEALTHY_DEPENDENTS, &message);
        } else {
            self.set_unknown(READY, conditions::RECONCILING_DEPENDENTS, &message);
        }
    }
}
