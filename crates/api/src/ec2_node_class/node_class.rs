//! The object itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;

use crate::cluster_wide::cluster_wide;

use super::{EC2NodeClassSpec, EC2NodeClassStatus, GROUP, KIND, VERSION};

/// How nodes are made on EC2.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct EC2NodeClass {
    /// Name, labels and so on.
    pub metadata: ObjectMeta,
    /// Settings. The schema requires no spec, but an object without one selects nothing and is never ready.
    #[serde(default)]
    pub spec: EC2NodeClassSpec,
    /// What the controllers found.
    #[serde(default)]
    pub status: EC2NodeClassStatus,
}

impl EC2NodeClass {
    /// A class with this name and spec.
    pub fn new(name: &str, spec: EC2NodeClassSpec) -> Self {
        Self {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec,
            status: EC2NodeClassStatus::default(),
        }
    }

    /// Its name; `None` for a class that was not read from an API server and has none.
    pub fn name(&self) -> Option<&str> {
        self.metadata.name.as_deref()
    }

    /// Its name for a message, which says so where it has none.
    pub fn shown_name(&self) -> &str {
        self.name().unwrap_or("(without a name)")
    }
}

cluster_wide!(EC2NodeClass, KIND, GROUP, VERSION, "ec2nodeclasses");

impl Serialize for EC2NodeClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            api_version: Cow<'a, str>,
            kind: &'a str,
            metadata: &'a ObjectMeta,
            spec: &'a EC2NodeClassSpec,
            #[serde(skip_serializing_if = "EC2NodeClassStatus::is_empty")]
            status: &'a EC2NodeClassStatus,
        }
        let wire = Wire {
            api_version: <Self as kube::Resource>::api_version(&()),
            kind: KIND,
            metadata: &self.metadata,
            spec: &self.spec,
            status: &self.status,
        };
        wire.serialize(serializer)
    }
}
