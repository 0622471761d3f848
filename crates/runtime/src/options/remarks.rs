//! What a user should know about options that were accepted: nothing here stops the controller.

use std::fmt::{self, Display, Formatter};

use kerf_units::nearest_name::nearest;

use super::gates::FeatureGates;
use super::{OptionDef, OptionKind, OptionOrigin, Values};

/// Variables that Go's runtime reads.
const OF_GO: [&str; 5] = ["GOMEMLIMIT", "GOGC", "GOMAXPROCS", "GODEBUG", "GOTRACEBACK"];

/// One thing to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A variable does not parse, so that the default counts (OPS-026).
    IgnoredVariable {
        /// The option.
        def: OptionDef,
        /// The variable's text.
        text: String,
    },
    /// Feature gates are unknown, so that they are ignored (OPS-039): their names as written.
    UnknownGates(Vec<String>),
    /// Options are set that have no effect here: flags, and variables of options and of Go's runtime.
    WithoutEffect(Vec<String>),
}

impl Remark {
    /// Whether the setting is probably a mistake.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::IgnoredVariable { .. } | Self::UnknownGates(_) => true,
            Self::WithoutEffect(_) => false,
        }
    }
}

impl Display for Remark {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::IgnoredVariable { def, text } => {
                let expected = match def.kind {
                    OptionKind::Text => "a text",
                    OptionKind::Int | OptionKind::Decimal => "a number",
                    OptionKind::Bool => "true or false",
                    OptionKind::Duration => "a duration such as 1m30s",
                };
                write!(
                    f,
                    "{} is {text:?}, which is not {expected}: the default {} is used",
                    def.variable, def.default
                )
            }
            Self::UnknownGates(names) => {
                let names: Vec<String> = names.iter().map(|name| with_suggestion(name)).collect();
                write!(
                    f,
                    "unknown feature gates: {}; known are {}",
                    names.join(", "),
                    FeatureGates::NAMES.join(", ")
                )
            }
            Self::WithoutEffect(names) => write!(f, "options without effect: {}", names.join(", ")),
        }
    }
}

/// The name of an unknown gate, with the gate that was probably meant.
fn with_suggestion(name: &str) -> String {
    match nearest(name, FeatureGates::NAMES) {
        Some(meant) => format!("{name} (did you mean {meant}?)"),
        None => name.to_owned(),
    }
}

/// A remark if the list has gates that this version does not know.
pub fn unknown_gates(gates: &str) -> Option<Remark> {
    let unknown = FeatureGates::unknown_names(gates).into_iter().map(str::to_owned);
    let unknown: Vec<String> = unknown.collect();
    (!unknown.is_empty()).then_some(Remark::UnknownGates(unknown))
}

/// One remark for all options that are set and have no effect.
pub(super) fn without_effect(
    definitions: &[OptionDef],
    values: &Values,
    env: impl Fn(&str) -> Option<String>,
) -> Option<Remark> {
    let ineffective = definitions
        .iter()
        .filter(|def| def.origin == OptionOrigin::WithoutEffect);
    let mut names: Vec<String> = ineffective
        .filter_map(|def| {
            if values.is_given(def.flag) {
                Some(format!("--{}", def.flag))
            } else {
                env(def.variable).map(|_| def.variable.to_owned())
            }
        })
        .collect();
    names.extend(OF_GO.iter().filter(|name| env(name).is_some()).map(ToString::to_string));
    (!names.is_empty()).then_some(Remark::WithoutEffect(names))
}
