//! Validation the controllers repeat at run time, because admission cannot see everything (API-067 to API-083, API-131).
//!
//! The input is specs and the provider's [`LabelRules`], the output is typed errors whose texts users read in the
//! `ValidationSucceeded` condition. All errors are collected. Findings are in the order of keys, so that equal
//! objects give equal messages (API-233).

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;

use crate::label_rules::{LabelRules, RestrictedLabel};
use crate::labels;
use crate::names::{NameError, check_label_value, check_qualified_name};
use crate::node_overlay::NodeOverlaySpec;
use crate::node_pool::NodePoolSpec;
use crate::node_spec::{Operator, Requirement};
use crate::{resources, taints};

/// One thing that is wrong with a NodePool or NodeOverlay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValidationError {
    /// A template label names the pool (API-068).
    #[error("invalid key name \"{key}\" in labels, restricted")]
    PoolLabel {
        /// The key.
        key: String,
    },
    /// A template label's key is no key (API-069).
    #[error("invalid key name \"{key}\" in labels, \"{reason}\"")]
    LabelKey {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: NameError,
    },
    /// A template label's value is no label value (API-070).
    #[error("invalid value: {value} for label[{key}], {reason}")]
    LabelValue {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: NameError,
    },
    /// A template label may not be set (API-071).
    #[error("invalid key name \"{}\" in labels, {source}", source.key)]
    RestrictedLabel {
        /// The rule it breaks.
        source: RestrictedLabel,
    },
    /// A taint's key is no key (API-073).
    #[error("invalid key \"{key}\" in {field}, {reason}")]
    TaintKey {
        /// `taints` or `startupTaints`.
        field: &'static str,
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: NameError,
    },
    /// A taint's value is none (API-073).
    #[error("invalid value \"{value}\" for key \"{key}\" in {field}, {reason}")]
    TaintValue {
        /// `taints` or `startupTaints`.
        field: &'static str,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: NameError,
    },
    /// A taint has an effect that does not exist (LIF-161).
    #[error("invalid effect \"{effect}\" for key \"{key}\" in {field}, use NoSchedule, PreferNoSchedule or NoExecute")]
    TaintEffect {
        /// `taints` or `startupTaints`.
        field: &'static str,
        /// The key.
        key: String,
        /// The effect.
        effect: String,
    },
    /// Two taints with one key and effect (API-072).
    #[error("duplicate taint Key/Effect pair {key}={effect}")]
    DuplicateTaint {
        /// The key.
        key: String,
        /// The effect.
        effect: String,
    },
    /// A requirement does not make sense (API-074).
    #[error("invalid value: {0} in requirements, restricted")]
    Requirement(RequirementError),
    /// A requirement names the pool (API-074).
    #[error("invalid key: \"{key}\" in requirements, restricted")]
    PoolRequirement {
        /// The key.
        key: String,
    },
    /// An overlay sets a resource that only instance types know (API-131).
    #[error("invalid capacity: {resource} in resource, restricted")]
    OverlayCapacity {
        /// The resource.
        resource: String,
    },
}

/// One thing that is wrong with a requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// No such operator (API-076).
    #[error(
        "key {key} has an unsupported operator {operator} not in [{}]",
        supported_operators()
    )]
    UnsupportedOperator {
        /// The label key.
        key: String,
        /// The operator as written.
        operator: String,
    },
    /// The label may not be used (API-077).
    #[error(transparent)]
    Restricted(#[from] RestrictedLabel),
    /// The key is no label key (API-078).
    #[error("key {key} is not a qualified name, {reason}")]
    Key {
        /// The label key.
        key: String,
        /// What is wrong with it.
        reason: NameError,
    },
    /// A value is no label value (API-078).
    #[error("invalid value {value} for key {key}, {reason}")]
    Value {
        /// The label key.
        key: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: NameError,
    },
    /// A set operator without values (API-079, API-131).
    #[error("key {key} with operator {operator} must have a value defined")]
    NoValues {
        /// The label key.
        key: String,
        /// `In` or `NotIn`.
        operator: Operator,
    },
    /// Fewer values than the minimum asks for (API-079).
    #[error("key {key} with operator {operator} must have at least minimum number of values defined in 'values' field")]
    FewerThanMinValues {
        /// The label key.
        key: String,
        /// `In`.
        operator: Operator,
    },
    /// A comparison without exactly one integer that is not negative (API-080).
    #[error("key {key} with operator {operator} must have a single positive integer value")]
    Bound {
        /// The label key.
        key: String,
        /// The comparison.
        operator: Operator,
    },
    /// None of the values exists (API-081).
    #[error(
        "no valid values found in [{}] for {key}, expected one of: {}, got: [{}]",
        .values.join(" "), Set(.known), .values.join(" ")
    )]
    NoKnownValue {
        /// The label key.
        key: String,
        /// The values as written.
        values: Vec<String>,
        /// The values that exist, sorted.
        known: Vec<String>,
    },
    /// Fewer values exist than the minimum asks for (API-081).
    #[error(
        "not enough valid values found in [{}] for {key}, expected at least {min_values} valid values from: [{}], got: {valid}",
        .values.join(" "), .known.join(" ")
    )]
    FewerKnownThanMinValues {
        /// The label key.
        key: String,
        /// The values as written.
        values: Vec<String>,
        /// The values that exist, sorted.
        known: Vec<String>,
        /// The minimum.
        min_values: i64,
        /// How many of the written values exist.
        valid: i64,
    },
}

fn supported_operators() -> String {
    Operator::SUPPORTED.map(|operator| operator.to_string()).join(" ")
}

/// Prints a set as upstream does in messages (API-081).
struct Set<'a>(&'a [String]);

impl fmt::Display for Set<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<String> = self.0.iter().map(|member| format!("{member}:{{}}")).collect();
        write!(f, "map[{}]", members.join(" "))
    }
}

/// A requirement that counts although some of its values do not exist; worth an error in the log (API-081).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartlyKnown {
    /// The label key.
    pub key: String,
    /// The values that exist, as written.
    pub valid: Vec<String>,
    /// The others.
    pub invalid: Vec<String>,
}

/// Everything a validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is wrong; empty means valid.
    pub errors: Vec<ValidationError>,
    /// Values that do not exist; the object is valid all the same.
    pub partly_known: Vec<PartlyKnown>,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors as one condition message (API-067).
    pub fn message(&self) -> String {
        self.errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// Validates a NodePool (API-067, LIF-160 to LIF-163).
pub fn node_pool(spec: &NodePoolSpec, rules: &LabelRules) -> Findings {
    let template = &spec.template;
    let mut findings = Findings::default();
    for (key, value) in template.labels() {
        template_label(key, value, rules, &mut findings.errors);
    }
    let mut seen = BTreeSet::new();
    taint_list("taints", template.spec.taints(), &mut seen, &mut findings.errors);
    taint_list(
        "startupTaints",
        template.spec.startup_taints(),
        &mut seen,
        &mut findings.errors,
    );
    for requirement in &template.spec.requirements {
        wrapped_requirement(requirement, rules, &mut findings);
    }
    for requirement in &template.spec.requirements {
        if requirement.key == labels::NODE_POOL {
            findings.errors.push(ValidationError::PoolRequirement {
                key: requirement.key.clone(),
            });
        }
    }
    findings
}

/// Validates a NodeOverlay (API-131).
pub fn node_overlay(spec: &NodeOverlaySpec, rules: &LabelRules) -> Findings {
    let mut findings = Findings::default();
    for overlay in &spec.requirements {
        let requirement = Requirement::from(overlay);
        wrapped_requirement(&requirement, rules, &mut findings);
        if requirement.operator == Operator::NotIn && requirement.values.is_empty() {
            let error = RequirementError::NoValues {
                key: requirement.key,
                operator: requirement.operator,
            };
            findings.errors.push(ValidationError::Requirement(error));
        }
    }
    for resource in spec.capacity.keys() {
        if resources::WELL_KNOWN.contains(&resource.as_str()) {
            findings.errors.push(ValidationError::OverlayCapacity {
                resource: resource.clone(),
            });
        }
    }
    findings
}

fn template_label(key: &str, value: &str, rules: &LabelRules, errors: &mut Vec<ValidationError>) {
    let owned = || key.to_owned();
    if key == labels::NODE_POOL {
        errors.push(ValidationError::PoolLabel { key: owned() });
    }
    if let Err(reason) = check_qualified_name(key) {
        errors.push(ValidationError::LabelKey { key: owned(), reason });
    }
    if let Err(reason) = check_label_value(value) {
        errors.push(ValidationError::LabelValue {
            key: owned(),
            value: value.to_owned(),
            reason,
        });
    }
    if let Err(source) = rules.check(key) {
        errors.push(ValidationError::RestrictedLabel { source });
    }
}

fn taint_list<'a>(
    field: &'static str,
    list: &'a [Taint],
    seen: &mut BTreeSet<(&'a str, &'a str)>,
    errors: &mut Vec<ValidationError>,
) {
    for taint in list {
        let key = || taint.key.clone();
        if let Err(reason) = check_qualified_name(&taint.key) {
            errors.push(ValidationError::TaintKey {
                field,
                key: key(),
                reason,
            });
        }
        if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty())
            && let Err(reason) = check_qualified_name(value)
        {
            errors.push(ValidationError::TaintValue {
                field,
                key: key(),
                value: value.to_owned(),
                reason,
            });
        }
        if !taint.effect.is_empty() && !taints::EFFECTS.contains(&taint.effect.as_str()) {
            errors.push(ValidationError::TaintEffect {
                field,
                key: key(),
                effect: taint.effect.clone(),
            });
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            errors.push(ValidationError::DuplicateTaint {
                key: key(),
                effect: taint.effect.clone(),
            });
        }
    }
}

fn wrapped_requirement(written: &Requirement, rules: &LabelRules, findings: &mut Findings) {
    let (errors, partly_known) = requirement(written, rules);
    findings
        .errors
        .extend(errors.into_iter().map(ValidationError::Requirement));
    findings.partly_known.extend(partly_known);
}

/// Validates one requirement. Deprecated keys are judged as what they stand for (API-075).
pub fn requirement(written: &Requirement, rules: &LabelRules) -> (Vec<RequirementError>, Option<PartlyKnown>) {
    let key = rules.normalize(&written.key).to_owned();
    let operator = &written.operator;
    let mut errors = Vec::new();
    if let Operator::Unsupported(text) = operator {
        errors.push(RequirementError::UnsupportedOperator {
            key: key.clone(),
            operator: text.to_string(),
        });
    }
    if let Err(restricted) = rules.check(&key) {
        errors.push(restricted.into());
    }
    if let Err(reason) = check_qualified_name(&key) {
        errors.push(RequirementError::Key {
            key: key.clone(),
            reason,
        });
    }
    for value in &written.values {
        if let Err(reason) = check_label_value(value) {
            errors.push(RequirementError::Value {
                key: key.clone(),
                value: value.clone(),
                reason,
            });
        }
    }
    let mut partly_known = None;
    if *operator == Operator::In {
        let count = count(&written.values);
        if count == 0 {
            errors.push(RequirementError::NoValues {
                key: key.clone(),
                operator: operator.clone(),
            });
        } else {
            partly_known = known_values(written, &key, rules, &mut errors);
        }
        if written.min_values.is_some_and(|min| count < min) {
            errors.push(RequirementError::FewerThanMinValues {
                key: key.clone(),
                operator: operator.clone(),
            });
        }
    }
    if operator.is_comparison() && !is_bound(&written.values) {
        errors.push(RequirementError::Bound {
            key,
            operator: operator.clone(),
        });
    }
    (errors, partly_known)
}

fn count<T>(items: &[T]) -> i64 {
    i64::try_from(items.len()).unwrap_or(i64::MAX)
}

fn is_bound(values: &[String]) -> bool {
    matches!(values, [value] if value.parse::<i64>().is_ok_and(|bound| bound >= 0))
}

/// Judges the values of a label whose set of values is closed (API-081, LIF-163).
fn known_values(
    written: &Requirement,
    key: &str,
    rules: &LabelRules,
    errors: &mut Vec<RequirementError>,
) -> Option<PartlyKnown> {
    let known = rules.well_known_values(key)?;
    let (valid, invalid): (Vec<String>, Vec<String>) =
        written.values.iter().cloned().partition(|value| known.contains(value));
    let (key, values) = (key.to_owned(), written.values.clone());
    let known_list = || known.iter().cloned().collect();
    if valid.is_empty() {
        errors.push(RequirementError::NoKnownValue {
            key,
            values,
            known: known_list(),
        });
        return None;
    }
    let valid_count = count(&valid);
    if let Some(min_values) = written.min_values.filter(|min| valid_count < *min) {
        errors.push(RequirementError::FewerKnownThanMinValues {
            key: key.clone(),
            values,
            known: known_list(),
            min_values,
            valid: valid_count,
        });
    }
    (!invalid.is_empty()).then_some(PartlyKnown { key, valid, invalid })
}
