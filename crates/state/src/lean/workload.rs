//! Workloads and their pod templates, as far as they are read.

use super::{LeanPodSpec, meta, or_default};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A DaemonSet.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::apps::v1::DaemonSet")]
pub struct LeanDaemonSet {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanDaemonSetSpec,
}

/// A DaemonSet's spec.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanDaemonSetSpec {
    /// The pod it puts on each node.
    #[serde(deserialize_with = "or_default")]
    pub template: LeanPodTemplate,
}

/// A pod template.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanPodTemplate {
    /// Labels and annotations of its pods.
    #[serde(deserialize_with = "or_default")]
    pub metadata: LeanTemplateMeta,
    /// Their spec.
    #[serde(deserialize_with = "or_default")]
    pub spec: LeanPodSpec,
}

/// A template's metadata.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanTemplateMeta {
    /// Labels of its pods.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of its pods.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
}

/// A PodTemplate object.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::core::v1::PodTemplate")]
pub struct LeanPodTemplateObject {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// The template.
    #[serde(default, deserialize_with = "or_default")]
    pub template: LeanPodTemplate,
}

/// The spec of a workload that can be scaled.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanWorkloadSpec {
    /// How many pods it wants; 1 if unset.
    pub replicas: Option<i32>,
    /// The template of its pods.
    #[serde(deserialize_with = "or_default")]
    pub template: LeanPodTemplate,
}

/// A Deployment.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::apps::v1::Deployment")]
pub struct LeanDeployment {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanWorkloadSpec,
}

/// A StatefulSet.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::apps::v1::StatefulSet")]
pub struct LeanStatefulSet {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanWorkloadSpec,
}

/// A ReplicaSet.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::apps::v1::ReplicaSet")]
pub struct LeanReplicaSet {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanWorkloadSpec,
}
