//! Flags and variables to values, with the grammar of Go's flag package.

use std::collections::{BTreeMap, BTreeSet};

use kerf_units::duration::GoDuration;

use super::{OptionDef, OptionKind, Parsed};

/// What is wrong with the command line. The texts are those of Go's flag package, which scripts match on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// `---x` or `-=x`.
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    /// No such flag (OPS-029).
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
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

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Int(i64),
    Bool(bool),
    Duration(GoDuration),
}

/// The value of every option that was defined, by flag name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    values: BTreeMap<&'static str, Value>,
    /// The flags that were given, not only defaults and variables.
    given: BTreeSet<&'static str>,
}

impl Values {
    /// Reads the options in `definitions`: a flag beats the variable, which beats the default (OPS-001). As in Go,
    /// flags end at the first argument that is none, and what follows is accepted and ignored (OPS-030).
    pub fn parse(
        definitions: &'static [OptionDef],
        args: impl IntoIterator<Item = String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Parsed<Self>, FlagError> {
        let mut values = Self::default();
        for def in definitions {
            // A variable that does not parse counts as absent (OPS-026).
            let from_env = env(def.variable).and_then(|text| from_variable(def.kind, &text));
            let value = from_env.or_else(|| from_variable(def.kind, def.default));
            values
                .values
                .insert(def.flag, value.unwrap_or_else(|| Value::Text(def.default.to_owned())));
        }
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let Some(name) = arg.strip_prefix('-').filter(|name| !name.is_empty()) else {
                break;
            };
            if name == "-" {
                break;
            }
            let name = name.strip_prefix('-').unwrap_or(name);
            if name.is_empty() || name.starts_with(['-', '=']) {
                return Err(FlagError::Syntax(arg));
            }
            let (name, given) = name
                .split_once('=')
                .map_or((name, None), |(name, value)| (name, Some(value)));
            let Some(def) = definitions.iter().find(|def| def.flag == name) else {
                if name == "h" || name == "help" {
                    return Ok(Parsed::Help);
                }
                return Err(FlagError::Unknown(name.to_owned()));
            };
            let text = match given {
                Some(text) => text.to_owned(),
                None if def.kind == OptionKind::Bool => "true".to_owned(),
                None => args.next().ok_or_else(|| FlagError::NoValue(name.to_owned()))?,
            };
            values.values.insert(def.flag, from_flag(def, text)?);
            values.given.insert(def.flag);
        }
        Ok(Parsed::Run(values))
    }

    /// Whether the command line has the flag.
    pub fn is_given(&self, flag: &str) -> bool {
        self.given.contains(flag)
    }

    /// A text option; "" when it was not defined.
    pub fn string(&self, flag: &str) -> &str {
        match self.values.get(flag) {
            Some(Value::Text(text)) => text,
            Some(Value::Int(_) | Value::Bool(_) | Value::Duration(_)) | None => "",
        }
    }

    /// A number; 0 when it was not defined.
    pub fn int(&self, flag: &str) -> i64 {
        match self.values.get(flag) {
            Some(Value::Int(number)) => *number,
            Some(Value::Text(_) | Value::Bool(_) | Value::Duration(_)) | None => 0,
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
            Some(Value::Text(_) | Value::Bool(_) | Value::Int(_)) | None => GoDuration::ZERO,
        }
    }
}

fn from_variable(kind: OptionKind, text: &str) -> Option<Value> {
    match kind {
        OptionKind::Text => Some(Value::Text(text.to_owned())),
        OptionKind::Int => text.parse().ok().map(Value::Int),
        OptionKind::Bool => go_bool(text).map(Value::Bool),
        OptionKind::Duration => text.parse().ok().map(Value::Duration),
    }
}

fn from_flag(def: &OptionDef, text: String) -> Result<Value, FlagError> {
    let value = match def.kind {
        OptionKind::Text => Some(Value::Text(text.clone())),
        OptionKind::Int => go_int(&text).map(Value::Int),
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
pub(super) fn go_bool(text: &str) -> Option<bool> {
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
