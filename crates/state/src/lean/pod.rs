//! Pods, as far as they are read.

use super::{Amounts, meta, or_default};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A Pod.
#[derive(Resource, Deserialize, Clone, Debug, Default)]
#[resource(inherit = "k8s_openapi::api::core::v1::Pod")]
pub struct LeanPod {
    /// Its metadata, without managed fields.
    #[serde(deserialize_with = "meta::lean")]
    pub metadata: ObjectMeta,
    /// Its spec.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: LeanPodSpec,
    /// Its status.
    #[serde(default, deserialize_with = "or_default")]
    pub status: LeanPodStatus,
}

/// A pod's spec.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanPodSpec {
    /// The node it is bound to, empty while it is not.
    #[serde(deserialize_with = "or_default")]
    pub node_name: String,
    /// The scheduler that binds it.
    #[serde(deserialize_with = "or_default")]
    pub scheduler_name: String,
    /// Labels its node must have.
    #[serde(deserialize_with = "or_default")]
    pub node_selector: BTreeMap<String, String>,
    /// Affinities.
    #[serde(deserialize_with = "or_default")]
    pub affinity: LeanAffinity,
    /// Tolerations.
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<LeanToleration>,
    /// Topology spread constraints.
    #[serde(deserialize_with = "or_default")]
    pub topology_spread_constraints: Vec<LeanSpread>,
    /// Containers.
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<LeanContainer>,
    /// Init containers and sidecars.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<LeanContainer>,
    /// What the runtime class adds.
    pub overhead: Amounts,
    /// Pod-level resources.
    #[serde(deserialize_with = "or_default")]
    pub resources: LeanResources,
    /// Its priority, once admission resolved it.
    pub priority: Option<i32>,
    /// The priority class it names.
    pub priority_class_name: Option<String>,
    /// How long it may take to end, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// Volumes.
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<LeanVolume>,
    /// Claims of dynamic resource allocation; only whether there are any matters so far.
    #[serde(deserialize_with = "or_default")]
    pub resource_claims: Vec<serde::de::IgnoredAny>,
    /// Whether it uses the node's network.
    #[serde(deserialize_with = "or_default")]
    pub host_network: bool,
    /// Gates that keep it from being scheduled.
    #[serde(deserialize_with = "or_default")]
    pub scheduling_gates: Vec<serde::de::IgnoredAny>,
}

/// A container.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanContainer {
    /// Its name.
    pub name: String,
    /// What it asks for.
    #[serde(deserialize_with = "or_default")]
    pub resources: LeanResources,
    /// Its ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<LeanPort>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// Requests and limits.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanResources {
    /// What must be free on the node.
    pub requests: Amounts,
    /// The most it may use.
    pub limits: Amounts,
}

/// A container port.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanPort {
    /// The port inside the pod.
    pub container_port: i64,
    /// The port on the node, 0 for none.
    #[serde(deserialize_with = "or_default")]
    pub host_port: i64,
    /// The node's address it is bound to.
    #[serde(rename = "hostIP", deserialize_with = "or_default")]
    pub host_ip: String,
    /// The protocol, `TCP` when empty.
    #[serde(deserialize_with = "or_default")]
    pub protocol: String,
}

/// A volume, as far as it refers to a claim.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanVolume {
    /// Its name in the pod.
    pub name: String,
    /// The claim it names.
    pub persistent_volume_claim: Option<LeanVolumeClaim>,
    /// Whether a claim of its own is made for it.
    pub ephemeral: Option<serde::de::IgnoredAny>,
}

/// A reference to a claim in the pod's namespace.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanVolumeClaim {
    /// The claim's name.
    pub claim_name: String,
}

/// A toleration as written.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanToleration {
    /// The key, empty for all.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    /// The comparison, `Equal` when empty.
    #[serde(deserialize_with = "or_default")]
    pub operator: String,
    /// The value compared with.
    #[serde(deserialize_with = "or_default")]
    pub value: String,
    /// The effect, empty for all.
    #[serde(deserialize_with = "or_default")]
    pub effect: String,
}

/// A pod's affinities.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanAffinity {
    /// To nodes.
    #[serde(deserialize_with = "or_default")]
    pub node_affinity: LeanNodeAffinity,
    /// To pods.
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity: LeanPodAffinity,
    /// Away from pods.
    #[serde(deserialize_with = "or_default")]
    pub pod_anti_affinity: LeanPodAffinity,
}

/// Node affinity.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanNodeAffinity {
    /// What must hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<LeanNodeSelector>,
    /// What should hold.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub preferred: Vec<LeanPreferredNodeTerm>,
}

/// Alternatives of node selection.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanNodeSelector {
    /// Any of these suffices.
    #[serde(deserialize_with = "or_default")]
    pub node_selector_terms: Vec<LeanNodeSelectorTerm>,
}

/// One alternative: all of its expressions hold.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanNodeSelectorTerm {
    /// On labels.
    #[serde(deserialize_with = "or_default")]
    pub match_expressions: Vec<LabelKeyExpression>,
    /// On fields.
    #[serde(deserialize_with = "or_default")]
    pub match_fields: Vec<LabelKeyExpression>,
}

/// A weighted node selection.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanPreferredNodeTerm {
    /// How much it counts.
    pub weight: i32,
    /// What should hold.
    #[serde(deserialize_with = "or_default")]
    pub preference: LeanNodeSelectorTerm,
}

/// An expression on one key, of node selectors and label selectors alike.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LabelKeyExpression {
    /// The key.
    pub key: String,
    /// The operator's name.
    pub operator: String,
    /// The values.
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<String>,
}

/// Affinity or anti-affinity to pods.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanPodAffinity {
    /// What must hold.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub required: Vec<LeanAffinityTerm>,
    /// What should hold.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub preferred: Vec<LeanPreferredPodTerm>,
}

/// A weighted pod affinity term.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanPreferredPodTerm {
    /// How much it counts.
    pub weight: i32,
    /// What should hold.
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity_term: LeanAffinityTerm,
}

/// A pod affinity term.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanAffinityTerm {
    /// Which pods.
    pub label_selector: Option<LeanLabelSelector>,
    /// In which namespaces, by name.
    #[serde(deserialize_with = "or_default")]
    pub namespaces: Vec<String>,
    /// In which namespaces, by label.
    pub namespace_selector: Option<LeanLabelSelector>,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// Keys whose value must equal the pod's own.
    #[serde(deserialize_with = "or_default")]
    pub match_label_keys: Vec<String>,
    /// Keys whose value must differ from the pod's own.
    #[serde(deserialize_with = "or_default")]
    pub mismatch_label_keys: Vec<String>,
}

/// A label selector.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanLabelSelector {
    /// Labels that must be there.
    #[serde(deserialize_with = "or_default")]
    pub match_labels: BTreeMap<String, String>,
    /// Expressions that must hold.
    #[serde(deserialize_with = "or_default")]
    pub match_expressions: Vec<LabelKeyExpression>,
}

/// A topology spread constraint.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanSpread {
    /// The largest allowed difference.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// Which pods are counted.
    pub label_selector: Option<LeanLabelSelector>,
    /// The least number of domains.
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`.
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore`.
    pub node_taints_policy: Option<String>,
    /// Keys whose value must equal the pod's own.
    #[serde(deserialize_with = "or_default")]
    pub match_label_keys: Vec<String>,
}

/// A pod's status.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanPodStatus {
    /// Its phase, such as `Pending`.
    #[serde(deserialize_with = "or_default")]
    pub phase: String,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<LeanCondition>,
    /// The node that is to have room for it, because kube-scheduler preempts other pods there or because Kerf planned it so.
    #[serde(deserialize_with = "or_default")]
    pub nominated_node_name: String,
    /// When the kubelet accepted it.
    pub start_time: Option<Time>,
    /// The containers' states.
    #[serde(deserialize_with = "or_default")]
    pub container_statuses: Vec<LeanContainerStatus>,
    /// The init containers' states.
    #[serde(deserialize_with = "or_default")]
    pub init_container_statuses: Vec<LeanContainerStatus>,
}

/// A condition of a pod or node.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct LeanCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    #[serde(deserialize_with = "or_default")]
    pub reason: String,
    /// Details.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Since when the status is what it is.
    #[serde(rename = "lastTransitionTime")]
    pub last_transition_time: Option<Time>,
}

/// A container's state, as far as resizing needs it.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct LeanContainerStatus {
    /// The container's name.
    pub name: String,
    /// The resources that the runtime gives it.
    pub resources: Option<LeanResources>,
    /// The resources that the kubelet allocated for it.
    pub allocated_resources: Amounts,
}
