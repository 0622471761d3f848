//! KWOKNodeClass: settings of simulated nodes (section 12 of `docs/behaviour/api.md`).

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_units::duration::{GoDuration, WrittenDuration};
use serde::{Deserialize, Serialize, Serializer};

use crate::cluster_wide::cluster_wide;
use crate::condition::Condition;
use crate::node_spec::or_default;

/// API group.
pub const GROUP: &str = "karpenter.kwok.sh";
/// API version.
pub const VERSION: &str = "v1alpha1";
/// Kind.
pub const KIND: &str = "KWOKNodeClass";

/// Settings of simulated nodes. Written out, because the derive wants a `spec` and this kind requires none (API-007).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct KwokNodeClass {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// Settings.
    #[serde(default)]
    pub spec: Option<KwokNodeClassSpec>,
    /// Findings.
    #[serde(default)]
    pub status: Option<KwokNodeClassStatus>,
}

/// Settings of simulated nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KwokNodeClassSpec {
    /// Time between the launch of a node and its appearance in the cluster (API-224).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_registration_delay: Option<WrittenDuration>,
}

/// What is known about a KWOKNodeClass; API servers fill in a Ready condition (API-225).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KwokNodeClassStatus {
    /// Findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl KwokNodeClass {
    /// A class with nothing but a name.
    pub fn new(name: &str) -> Self {
        Self {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Self::default()
        }
    }

    /// Time between the launch of a node and its appearance in the cluster, zero when unset.
    pub fn node_registration_delay(&self) -> GoDuration {
        let delay = self
            .spec
            .as_ref()
            .and_then(|spec| spec.node_registration_delay.as_ref());
        delay.map_or(GoDuration::ZERO, WrittenDuration::value)
    }
}

cluster_wide!(KwokNodeClass, KIND, GROUP, VERSION, "kwoknodeclasses");

impl Serialize for KwokNodeClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            api_version: Cow<'a, str>,
            kind: &'a str,
            metadata: &'a ObjectMeta,
            #[serde(skip_serializing_if = "Option::is_none")]
            spec: Option<&'a KwokNodeClassSpec>,
            #[serde(skip_serializing_if = "Option::is_none")]
            status: Option<&'a KwokNodeClassStatus>,
        }
        let wire = Wire {
            api_version: <Self as kube::Resource>::api_version(&()),
            kind: KIND,
            metadata: &self.metadata,
            spec: self.spec.as_ref(),
            status: self.status.as_ref(),
        };
        wire.serialize(serializer)
    }
}
