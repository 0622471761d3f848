//! Requirements as manifests write them: reading, and the checks of SCH-017 to SCH-022.

use super::Converter;
use kerf_api::validate;
use kerf_model::requirement::{Operator, Requirement};

impl Converter {
    /// An expression as a requirement, key and values normalised (SCH-099); `None` where the operator is unknown or a bound is no integer.
    pub(crate) fn requirement(&self, key: &str, operator: &str, values: &[String]) -> Option<Requirement> {
        let key = self.label_key(key);
        let ids = || values.iter().map(|value| self.label_value(key, value));
        let bound = || match values {
            [only] => only.parse::<i64>().ok().filter(|n| *n >= 0),
            _ => None,
        };
        Some(match Operator::parse(operator)? {
            Operator::In => Requirement::any_of(key, ids()),
            Operator::NotIn => Requirement::none_of(key, ids()),
            Operator::Exists => Requirement::exists(key),
            Operator::DoesNotExist => Requirement::does_not_exist(key),
            Operator::Gt => Requirement::greater(key, bound()?),
            Operator::Lt => Requirement::less(key, bound()?),
            Operator::Gte => Requirement::between(key, Some(bound()?), None),
            Operator::Lte => Requirement::between(key, None, Some(bound()?)),
        })
    }

    /// A requirement of a pool or claim; one that cannot be read admits nothing but the key's absence.
    pub(crate) fn api_requirement(&self, written: &kerf_api::Requirement) -> Requirement {
        let min_values = written.min_values.and_then(|n| u32::try_from(n).ok());
        self.requirement(&written.key, written.operator.as_str(), &written.values)
            .unwrap_or_else(|| Requirement::does_not_exist(self.label_key(&written.key)))
            .with_min_values(min_values)
    }

    /// What is wrong with an expression of a hard constraint, in the contract's words (SCH-017, API-076 to API-081).
    pub(crate) fn requirement_faults(&self, key: &str, operator: &str, values: &[String], faults: &mut Vec<String>) {
        let Ok(operator) = operator.parse::<kerf_api::Operator>();
        let written = kerf_api::Requirement::new(key, operator, values.iter().cloned());
        let (errors, _) = validate::requirement(&written, &self.conventions.given.labels);
        faults.extend(errors.iter().map(ToString::to_string));
    }
}
