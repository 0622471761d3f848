//! What NodePool templates and NodeClaims share: references to node classes, requirements, resource lists.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use kerf_units::quantity::Quantity;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Names the provider-specific configuration of a node (API-031).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClassRef {
    /// API group, without a version.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// A kind of node class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeClassKind {
    /// API group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural, as in paths.
    pub plural: &'static str,
}

impl NodeClassKind {
    /// The label that carries a class's name on claims and nodes: `<group>/<lowercase kind>`.
    pub fn label_key(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_lowercase())
    }
}

impl NodeClassRef {
    /// The label that carries the class's name on claims and nodes: `<group>/<lowercase kind>` (API-158).
    pub fn label_key(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_lowercase())
    }
}

/// A condition on one label of a node (section 5 of `docs/behaviour/api.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// How the label relates to the values.
    pub operator: Operator,
    /// Label values; a single integer for the comparisons.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub values: Vec<String>,
    /// How many different values the offered instance types must cover (API-137).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

impl Requirement {
    /// A requirement without a minimum of values.
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        Self {
            key: key.into(),
            operator,
            values: values.into_iter().map(Into::into).collect(),
            min_values: None,
        }
    }
}

/// How a label relates to the values of a requirement (API-135).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// At least the value.
    Gte,
    /// At most the value.
    Lte,
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Above the value.
    Gt,
    /// Below the value.
    Lt,
    /// Something the schema does not admit; validation reports it (API-076).
    Unsupported(Box<str>),
}

impl Operator {
    /// The supported ones, in the order error texts list them (API-233).
    pub const SUPPORTED: [Self; 8] = [
        Self::Gte,
        Self::Lte,
        Self::In,
        Self::NotIn,
        Self::Exists,
        Self::DoesNotExist,
        Self::Gt,
        Self::Lt,
    ];

    /// As written in objects.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Gte => "Gte",
            Self::Lte => "Lte",
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Unsupported(text) => text,
        }
    }

    /// Whether it compares with an integer.
    pub const fn is_comparison(&self) -> bool {
        matches!(self, Self::Gte | Self::Lte | Self::Gt | Self::Lt)
    }
}

impl FromStr for Operator {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let known = Self::SUPPORTED.into_iter().find(|operator| operator.as_str() == text);
        Ok(known.unwrap_or_else(|| Self::Unsupported(text.into())))
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Operator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Operator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Ok(operator) = String::deserialize(deserializer)?.parse();
        Ok(operator)
    }
}

/// Reads an explicit null as absence, as API servers do where the schema does not say otherwise.
pub(crate) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
