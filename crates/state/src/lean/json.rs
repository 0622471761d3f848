//! Decoding of the lean forms, compiled once for all crates above ([`kerf_api::json`]).

use super::{
    LeanCsiNode, LeanDaemonSet, LeanDeployment, LeanNamespace, LeanNode, LeanPdb, LeanPod, LeanPriorityClass, LeanPv,
    LeanPvc, LeanReplicaSet, LeanStatefulSet, LeanStorageClass,
};

kerf_api::from_json!(
    LeanCsiNode,
    LeanDaemonSet,
    LeanDeployment,
    LeanNamespace,
    LeanNode,
    LeanPdb,
    LeanPod,
    LeanPriorityClass,
    LeanPv,
    LeanPvc,
    LeanReplicaSet,
    LeanStatefulSet,
    LeanStorageClass,
);
