//! Kubernetes objects as JSON, for the kinds that several crates use.
//!
//! Code that encodes and decodes is generic: each crate compiles it for the kinds it uses, unless a crate it depends on has done so. This crate
//! does so for the kinds listed below. Nobody needs to call these traits: calls of serde_json use the compiled code, in all crates with an
//! `opt-level` of 0, 1 or `s` (above that, rustc shares no generic code between crates).

use crate::{CapacityBuffer, EC2NodeClass, KwokNodeClass, NodeClaim, NodeOverlay, NodePool, NodeRepairPolicy};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Result, Value};

#[doc(hidden)]
pub use serde_json;

/// An object that can be read from JSON.
pub trait FromJson: Sized {
    /// Reads it from a text. The error says where in the text it is wrong.
    fn from_text(text: &str) -> Result<Self>;
    /// Reads it from a value. The error names the problem.
    fn from_value(value: Value) -> Result<Self>;
}

/// An object that can be written as JSON.
pub trait ToJson {
    /// The object as a value, or why serde_json refuses it.
    fn to_value(&self) -> Result<Value>;
    /// The object as text in UTF-8, or why serde_json refuses it.
    fn to_bytes(&self) -> Result<Vec<u8>>;
}

/// Implements [`FromJson`](crate::json::FromJson) for kinds, so that the calling crate compiles their decoding.
#[macro_export]
macro_rules! from_json {
    ($($kind:ty),* $(,)?) => {$(
        impl $crate::json::FromJson for $kind {
            fn from_text(text: &str) -> $crate::json::serde_json::Result<Self> {
                $crate::json::serde_json::from_str(text)
            }
            fn from_value(value: $crate::json::serde_json::Value) -> $crate::json::serde_json::Result<Self> {
                $crate::json::serde_json::from_value(value)
            }
        }
    )*};
}

macro_rules! json {
    ($($kind:ty),* $(,)?) => {
        from_json!($($kind),*);
        $(
            impl ToJson for $kind {
                fn to_value(&self) -> Result<Value> {
                    serde_json::to_value(self)
                }
                fn to_bytes(&self) -> Result<Vec<u8>> {
                    serde_json::to_vec(self)
                }
            }
        )*
    };
}

json!(
    CapacityBuffer,
    CSINode,
    CustomResourceDefinition,
    DaemonSet,
    Deployment,
    EC2NodeClass,
    Event,
    Job,
    KwokNodeClass,
    Lease,
    Namespace,
    Node,
    NodeClaim,
    NodeOverlay,
    NodePool,
    NodeRepairPolicy,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
);
