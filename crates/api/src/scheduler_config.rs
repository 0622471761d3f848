//! The parts of kube-scheduler's configuration that decisions follow: the option `--scheduler-config` (`docs/scheduler-config.md`).

use crate::names::{NameError, check_qualified_name};
use kerf_units::policy::{NodeScoring, UnknownPolicy};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::str::FromStr;
use std::sync::Arc;

/// What the cluster's kube-scheduler is configured to do. The default is its own default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SchedulerConfig {
    /// The constraints of pods that declare none, of the plugin `PodTopologySpread`. Empty for kube-scheduler's own, which are preferences only.
    pub default_constraints: Arc<[DefaultConstraint]>,
    /// How the plugin `NodeResourcesFit` scores nodes.
    pub node_scoring: NodeScoring,
}

/// A topology spread constraint without a selector: that is deduced for each pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefaultConstraint {
    /// The largest allowed difference between a domain's count and the smallest one; at least 1.
    pub max_skew: u32,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// `DoNotSchedule` (true) or `ScheduleAnyway`.
    pub required: bool,
    /// The least number of domains; at least 1.
    pub min_domains: Option<u32>,
    /// `nodeAffinityPolicy: Honor` (the default).
    pub honor_node_affinity: bool,
    /// `nodeTaintsPolicy: Honor` (not the default).
    pub honor_taints: bool,
}

/// Why a document is no configuration. Each error begins with the field.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SchedulerConfigError {
    /// It is no YAML.
    #[error("is no YAML: {0}")]
    Unreadable(String),
    /// A field is unknown or has a value of another type.
    #[error("{path}: {problem}")]
    Field {
        /// Where it is in the document; `.` for the document itself.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A default constraint is wrong.
    #[error("podTopologySpread.defaultConstraints[{index}].{problem}")]
    Constraint {
        /// Its position.
        index: usize,
        /// The field and what is wrong with it.
        problem: ConstraintProblem,
    },
    /// Two default constraints have the same key and effect.
    #[error(
        "podTopologySpread.defaultConstraints[{0}] is a duplicate of [{1}]: topologyKey and whenUnsatisfiable are the same"
    )]
    Duplicate(usize, usize),
    /// The scoring strategy is none that forecasts know.
    #[error("nodeResourcesFit.scoringStrategy.type {0}")]
    Scoring(UnknownPolicy),
}

/// What is wrong with a default constraint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConstraintProblem {
    /// The skew is 0, negative or missing.
    #[error("maxSkew must be greater than 0")]
    MaxSkew,
    /// There is no key.
    #[error("topologyKey must be set")]
    NoKey,
    /// The key is no label key.
    #[error("topologyKey {0:?} is not a valid label name: {1}")]
    Key(String, NameError),
    /// The effect is unknown or missing.
    #[error("whenUnsatisfiable {0:?} must be DoNotSchedule or ScheduleAnyway")]
    WhenUnsatisfiable(String),
    /// There is a selector.
    #[error("labelSelector must not be set: it is deduced for each pod")]
    LabelSelector,
    /// There are label keys for a selector.
    #[error("matchLabelKeys must not be set: it has no effect on default constraints")]
    MatchLabelKeys,
    /// The number of domains is 0 or negative.
    #[error("minDomains must be greater than 0")]
    MinDomains,
    /// A policy is unknown.
    #[error("{0} {1:?} must be Honor or Ignore")]
    NodePolicy(&'static str, String),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, expecting = "an object")]
struct Document {
    pod_topology_spread: Option<PodTopologySpread>,
    node_resources_fit: Option<NodeResourcesFit>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, expecting = "an object")]
struct PodTopologySpread {
    default_constraints: Option<Vec<WrittenConstraint>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, expecting = "an object")]
struct WrittenConstraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    label_selector: Option<IgnoredAny>,
    match_label_keys: Option<Vec<String>>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields, expecting = "an object")]
struct NodeResourcesFit {
    scoring_strategy: Option<ScoringStrategy>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct ScoringStrategy {
    r#type: Option<String>,
}

impl WrittenConstraint {
    fn read(self) -> Result<DefaultConstraint, ConstraintProblem> {
        let positive = |number: i32| u32::try_from(number).ok().filter(|number| *number > 0);
        let max_skew = positive(self.max_skew).ok_or(ConstraintProblem::MaxSkew)?;
        if self.topology_key.is_empty() {
            return Err(ConstraintProblem::NoKey);
        }
        if let Err(reason) = check_qualified_name(&self.topology_key) {
            return Err(ConstraintProblem::Key(self.topology_key, reason));
        }
        let required = match self.when_unsatisfiable.as_str() {
            "DoNotSchedule" => true,
            "ScheduleAnyway" => false,
            _ => return Err(ConstraintProblem::WhenUnsatisfiable(self.when_unsatisfiable)),
        };
        if self.label_selector.is_some() {
            return Err(ConstraintProblem::LabelSelector);
        }
        if self.match_label_keys.is_some_and(|keys| !keys.is_empty()) {
            return Err(ConstraintProblem::MatchLabelKeys);
        }
        let min_domains = match self.min_domains {
            Some(number) => Some(positive(number).ok_or(ConstraintProblem::MinDomains)?),
            None => None,
        };
        let honors = |field, policy: Option<String>, otherwise| match policy.as_deref() {
            None => Ok(otherwise),
            Some("Honor") => Ok(true),
            Some("Ignore") => Ok(false),
            Some(other) => Err(ConstraintProblem::NodePolicy(field, other.to_owned())),
        };
        Ok(DefaultConstraint {
            max_skew,
            topology_key: self.topology_key,
            required,
            min_domains,
            honor_node_affinity: honors("nodeAffinityPolicy", self.node_affinity_policy, true)?,
            honor_taints: honors("nodeTaintsPolicy", self.node_taints_policy, false)?,
        })
    }
}

impl FromStr for SchedulerConfig {
    type Err = SchedulerConfigError;

    /// Reads a YAML or JSON document; the empty text is the default.
    fn from_str(text: &str) -> Result<Self, SchedulerConfigError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let options = serde_saphyr::options! { with_snippet: false };
        let document: Value = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| SchedulerConfigError::Unreadable(error.to_string()))?;
        let document: Option<Document> =
            serde_path_to_error::deserialize(document).map_err(|error| SchedulerConfigError::Field {
                path: error.path().to_string(),
                problem: error.into_inner().to_string(),
            })?;
        let document = document.unwrap_or_default();
        let written = document
            .pod_topology_spread
            .and_then(|spread| spread.default_constraints);
        let mut constraints: Vec<DefaultConstraint> = Vec::new();
        for (index, written) in written.into_iter().flatten().enumerate() {
            let constraint = written
                .read()
                .map_err(|problem| SchedulerConfigError::Constraint { index, problem })?;
            let is_same = |other: &DefaultConstraint| {
                other.topology_key == constraint.topology_key && other.required == constraint.required
            };
            if let Some(first) = constraints.iter().position(is_same) {
                return Err(SchedulerConfigError::Duplicate(index, first));
            }
            constraints.push(constraint);
        }
        let strategy = document.node_resources_fit.and_then(|fit| fit.scoring_strategy);
        let node_scoring = match strategy.and_then(|strategy| strategy.r#type) {
            Some(name) => name.parse().map_err(SchedulerConfigError::Scoring)?,
            None => NodeScoring::default(),
        };
        Ok(Self {
            default_constraints: constraints.into(),
            node_scoring,
        })
    }
}
