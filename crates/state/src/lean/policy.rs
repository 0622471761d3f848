//! Disruption budgets, namespaces and priorities, as far as they are read.

use super::{LeanLabelSelector, meta, or_default};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;

/// A PodDisruptionBudget.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::policy::v1::PodDisruptionBudget")]
pub struct LeanPdb {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// What it protects.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanPdbSpec,
    /// What it allows now.
    #[serde(default, deserialize_with = "or_default")]
    pub status: LeanPdbStatus,
}

/// A budget's spec.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanPdbSpec {
    /// Which pods; none when unset.
    pub selector: Option<LeanLabelSelector>,
    /// How many must stay.
    pub min_available: Option<CountOrShare>,
    /// How many may go.
    pub max_unavailable: Option<CountOrShare>,
    /// `AlwaysAllow` or `IfHealthyBudget`.
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// A budget's status.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanPdbStatus {
    /// How many pods may be disrupted now.
    #[serde(deserialize_with = "or_default")]
    pub disruptions_allowed: i32,
}

/// A number of pods or a share of them as text (`30%`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountOrShare {
    /// So many.
    Count(i64),
    /// As written.
    Share(Box<str>),
}

impl<'de> Deserialize<'de> for CountOrShare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntOrText;
        impl Visitor<'_> for IntOrText {
            type Value = CountOrShare;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a percentage such as 30%")
            }

            fn visit_i64<E>(self, count: i64) -> Result<CountOrShare, E> {
                Ok(CountOrShare::Count(count))
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<CountOrShare, E> {
                i64::try_from(count).map(CountOrShare::Count).map_err(E::custom)
            }

            fn visit_str<E>(self, text: &str) -> Result<CountOrShare, E> {
                Ok(CountOrShare::Share(text.into()))
            }
        }
        deserializer.deserialize_any(IntOrText)
    }
}

/// A Namespace: its labels are all that matters.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::core::v1::Namespace")]
pub struct LeanNamespace {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
}

/// A PriorityClass; only offline input needs it, since admission resolves it in a cluster.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::scheduling::v1::PriorityClass")]
#[serde(rename_all = "camelCase")]
pub struct LeanPriorityClass {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// The priority it stands for.
    #[serde(default, deserialize_with = "or_default")]
    pub value: i32,
    /// Whether pods that name no class have it.
    #[serde(default, deserialize_with = "or_default")]
    pub global_default: bool,
}
