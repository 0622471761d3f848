//! Conditions in the status of a class.

use crate::node_class::{ConditionType, ReadyState, condition_types, ready};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::conditions::{
    AWAITING_RECONCILIATION, AWAITING_RECONCILIATION_MESSAGE, READY, RECONCILING_DEPENDENTS, UNHEALTHY_DEPENDENTS,
};
use kerf_api::{Condition, ConditionStatus, EC2NodeClass};

/// The conditions of a class while it is worked on.
pub(super) struct ClassConditions<'a> {
    conditions: &'a mut Vec<Condition>,
    generation: Option<i64>,
    reserved_capacity: bool,
    now: Timestamp,
}

impl<'a> ClassConditions<'a> {
    /// Opens the conditions. Missing ones are Unknown; that of reservations exists only where they are used (AWS-058).
    pub(super) fn new(class: &'a mut EC2NodeClass, reserved_capacity: bool, now: Timestamp) -> Self {
        let mut opened = Self {
            generation: class.metadata.generation,
            conditions: &mut class.status.conditions,
            reserved_capacity,
            now,
        };
        if !reserved_capacity {
            let unused = ConditionType::CapacityReservations.as_str();
            opened.conditions.retain(|condition| condition.type_ != unused);
        }
        let kinds = condition_types(reserved_capacity);
        for name in std::iter::once(READY).chain(kinds.into_iter().map(ConditionType::as_str)) {
            if !opened.conditions.iter().any(|condition| condition.type_ == name) {
                let unknown = ConditionStatus::Unknown;
                opened.write(name, unknown, AWAITING_RECONCILIATION, AWAITING_RECONCILIATION_MESSAGE);
            }
        }
        opened
    }

    /// Sets a condition; a True one has its own name as reason.
    pub(super) fn set(&mut self, kind: ConditionType, status: ConditionStatus, reason: &str, message: &str) {
        let reason = if status == ConditionStatus::True {
            kind.as_str()
        } else {
            reason
        };
        self.write(kind.as_str(), status, reason, message);
    }

    /// Says why a condition is not known. One that was found for this generation stays as it is; one of an earlier generation says nothing of
    /// this one.
    pub(super) fn explain_unknown(&mut self, kind: ConditionType, reason: &str, message: &str) {
        let is_known = |one: &Condition| {
            one.type_ == kind.as_str()
                && one.status != ConditionStatus::Unknown
                && one.observed_generation == self.generation
        };
        if !self.conditions.iter().any(is_known) {
            self.write(kind.as_str(), ConditionStatus::Unknown, reason, message);
        }
    }

    /// The time of a condition changes with its status only; the generation is always the current one.
    fn write(&mut self, name: &str, status: ConditionStatus, reason: &str, message: &str) {
        let known = self.conditions.iter_mut().find(|condition| condition.type_ == name);
        let since = known
            .as_ref()
            .filter(|known| known.status == status)
            .map(|known| known.last_transition_time.clone());
        let mut condition = Condition::new(name, status, reason, message, self.now);
        condition.observed_generation = self.generation;
        condition.last_transition_time = since.unwrap_or(Time(self.now));
        match known {
            Some(known) => *known = condition,
            None => self.conditions.push(condition),
        }
    }

    /// The status of each topic. A condition that is about an earlier generation says nothing of this one (AWS-492).
    pub(super) fn statuses(&self) -> Vec<(ConditionType, Option<bool>)> {
        let status = |kind: ConditionType| {
            let found = self
                .conditions
                .iter()
                .find(|condition| condition.type_ == kind.as_str() && condition.observed_generation == self.generation);
            let status = found.and_then(|condition| match condition.status {
                ConditionStatus::True => Some(true),
                ConditionStatus::False => Some(false),
                ConditionStatus::Unknown => None,
            });
            (kind, status)
        };
        condition_types(self.reserved_capacity)
            .into_iter()
            .map(status)
            .collect()
    }

    /// Derives Ready from the others.
    pub(super) fn finish(mut self) {
        let (status, reason, message) = match ready(&self.statuses()) {
            ReadyState::True => (ConditionStatus::True, READY, String::new()),
            ReadyState::False(message) => (ConditionStatus::False, UNHEALTHY_DEPENDENTS, message),
            ReadyState::Unknown(message) => (ConditionStatus::Unknown, RECONCILING_DEPENDENTS, message),
        };
        self.write(READY, status, reason, &message);
    }
}
