//! Flags and variables to values, with the grammar of Go's flag package.

use std::collections::{BTreeMap, BTreeSet};

use kerf_units::duration::GoDuration;
use kerf_units::nearest_name::nearest;

use super::remarks::{Remark, unknown_gates, without_effect};
use super::{OptionDef, OptionKind, Parsed};

/// What is wrong with the command line. The texts are those of Go's flag package, which scripts match on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// `---x` or `-=x`.
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    /// No such flag (OPS-029).
    #[error("flag provided but not defined: -{flag}{}", .meant.map(suggestion).unwrap_or_default())]
    Unknown {
        /// The flag as written.
        flag: String,
        /// The flag that was probably meant.
        meant: Option<&'static str>,
    },
    /// The value is missing.
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    /// The value is not of the flag's type (OPS-026).
    #[error("invalid value {value:?} for flag -{flag}: parse error")]
    BadValue {
        /// The flag.
        flag: String,
        /// The value.
        value: String,
    },
    /// A boolean flag accepts two words only (OPS-025).
    #[error("invalid boolean value {value:?} for -{flag}: {value:?} is not a valid value, must be true or false")]
    BadBool {
        /// The flag.
        flag: String,
        /// The value.
        value: String,
    },
}

fn suggestion(flag: &str) -> String {
    format!("; did you mean --{flag}?")
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Int(i64),
    Decimal(f64),
    Bool(bool),
    Duration(GoDuration),
}

/// The value of every option that was defined, by flag name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    values: BTreeMap<&'static str, Value>,
    /// The flags that were given, not only defaults and variables.
    given: BTreeSet<&'static str>,
    /// What is wrong with the flags; `Options::from_values` reports it together with values that are not allowed.
    pub(super) errors: Vec<FlagError>,
    /// What the user should know about the values that were accepted.
    pub(super) remarks: Vec<Remark>,
}

impl Values {
    /// Reads the options in `definitions`: a flag beats the variable, which beats the default (OPS-001). As in Go,
    /// flags end at the first argument that is none, and what follows is accepted and ignored (OPS-030).
    ///
    /// Flags that are wrong do not end the reading: `Options::from_values` reports all of them.
    pub fn parse(
        definitions: &'static [OptionDef],
        args: impl IntoIterator<Item = String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Parsed<Self> {
        let mut values = Self::default();
        for def in definitions {
            let written = env(def.variable);
            // A variable that does not parse counts as absent (OPS-026).
            let from_env = written.as_deref().and_then(|text| from_variable(def.kind, text));
            if let Some(text) = written.filter(|text| from_env.is_none() && !text.is_empty()) {
                values.remarks.push(Remark::IgnoredVariable { def: *def, text });
            }
            let value = from_env.or_else(|| from_variable(def.kind, def.default));
            values
                .values
                .insert(def.flag, value.unwrap_or_else(|| Value::Text(def.default.to_owned())));
        }
        let mut args = args.into_iter().peekable();
        while let Some(arg) = args.next() {
            let (name, given) = match split(&arg) {
                Ok(Some(flag)) => flag,
                Ok(None) => break,
                Err(error) => {
                    values.errors.push(error);
                    continue;
                }
            };
            let Some(def) = definitions.iter().find(|def| def.flag == name) else {
                if name == "h" || name == "help" {
                    return Parsed::Help;
                }
                values.errors.push(FlagError::Unknown {
                    flag: name.to_owned(),
                    meant: nearest(name, definitions.iter().map(|def| def.flag)),
                });
                // What follows is probably its value, not the end of the flags.
                if given.is_none() {
                    args.next_if(|next| !next.starts_with('-'));
                }
                continue;
            };
            let text = match given {
                Some(text) => Some(text.to_owned()),
                None if def.kind == OptionKind::Bool => Some("true".to_owned()),
                None => args.next(),
            };
            let value = match text {
                Some(text) => from_flag(def, text),
                None => Err(FlagError::NoValue(name.to_owned())),
            };
            match value {
                Ok(value) => {
                    values.values.insert(def.flag, value);
                    values.given.insert(def.flag);
                }
                Err(error) => values.errors.push(error),
            }
        }
        values.remarks.extend(unknown_gates(values.string("feature-gates")));
        values.remarks.extend(without_effect(definitions, &values, env));
        Parsed::Run(values)
    }

    /// What the user should know about the values: variables that were ignored, unknown feature gates, options without an effect.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Whether the command line has the flag.
    pub fn is_given(&self, flag: &str) -> bool {
        self.given.contains(flag)
    }

    /// A text option; "" when it was not defined.
    pub fn string(&self, flag: &str) -> &str {
        match self.values.get(flag) {
            Some(Value::Text(text)) => text,
            Some(Value::Int(_) | Value::Decimal(_) | Value::Bool(_) | Value::Duration(_)) | None => "",
        }
    }

    /// Sets a text option that is empty. Others keep their value.
    pub fn fill(&mut self, flag: &'static str, text: &str) {
        if self.string(flag).is_empty() {
            self.values.insert(flag, Value::Text(text.to_owned()));
        }
    }

    /// A number; 0 when it was not defined.
    pub fn int(&self, flag: &str) -> i64 {
        match self.values.get(flag) {
            Some(Value::Int(number)) => *number,
            Some(Value::Text(_) | Value::Decimal(_) | Value::Bool(_) | Value::Duration(_)) | None => 0,
        }
    }

    /// A number with a fraction; 0 when it was not defined.
    pub fn decimal(&self, flag: &str) -> f64 {
        match self.values.get(flag) {
            Some(Value::Decimal(number)) => *number,
            Some(Value::Text(_) | Value::Int(_) | Value::Bool(_) | Value::Duration(_)) | None => 0.0,
        }
    }

    /// A switch; false when it was not defined.
    pub fn bool(&self, flag: &str) -> bool {
        matches!(self.values.get(flag), Some(Value::Bool(true)))
    }

    /// A duration; zero when it was not defined.
    pub fn duration(&self, flag: &str) -> GoDuration {
        match self.values.get(flag) {
            Some(Value::Duration(duration)) => *duration,
            Some(Value::Text(_) | Value::Bool(_) | Value::Int(_) | Value::Decimal(_)) | None => GoDuration::ZERO,
        }
    }
}

/// The name and the value of a flag. `None` where the argument is no flag.
fn split(arg: &str) -> Result<Option<(&str, Option<&str>)>, FlagError> {
    let Some(name) = arg.strip_prefix('-').filter(|name| !name.is_empty() && *name != "-") else {
        return Ok(None);
    };
    let name = name.strip_prefix('-').unwrap_or(name);
    if name.is_empty() || name.starts_with(['-', '=']) {
        return Err(FlagError::Syntax(arg.to_owned()));
    }
    let split = name.split_once('=');
    Ok(Some(split.map_or((name, None), |(name, value)| (name, Some(value)))))
}

fn from_variable(kind: OptionKind, text: &str) -> Option<Value> {
    match kind {
        OptionKind::Text => Some(Value::Text(text.to_owned())),
        OptionKind::Int => text.parse().ok().map(Value::Int),
        OptionKind::Decimal => text.parse().ok().map(Value::Decimal),
        OptionKind::Bool => go_bool(text).map(Value::Bool),
        OptionKind::Duration => text.parse().ok().map(Value::Duration),
    }
}

fn from_flag(def: &OptionDef, text: String) -> Result<Value, FlagError> {
    let value = match def.kind {
        OptionKind::Text => Some(Value::Text(text.clone())),
        OptionKind::Int => go_int(&text).map(Value::Int),
        OptionKind::Decimal => text.parse().ok().map(Value::Decimal),
        OptionKind::Duration => text.parse().ok().map(Value::Duration),
        OptionKind::Bool => match text.as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => {
                return Err(FlagError::BadBool {
                    flag: def.flag.to_owned(),
                    value: text,
                });
            }
        },
    };
    value.ok_or_else(|| FlagError::BadValue {
        flag: def.flag.to_owned(),
        value: text,
    })
}

/// The words Go reads as booleans (OPS-025).
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Go's flags read numbers with the base their prefix says, and underscores between digits.
fn go_int(text: &str) -> Option<i64> {
    let (sign, magnitude) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { "-" } else { "" }, rest),
        None => ("", text),
    };
    let lower = magnitude.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if let Some(digits) = lower.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        (8, digits)
    } else {
        (10, lower.as_str())
    };
    let plain = digits.starts_with(|c: char| c.is_digit(radix));
    let digits = digits.replace('_', "");
    if plain {
        i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
    } else {
        None
    }
}
