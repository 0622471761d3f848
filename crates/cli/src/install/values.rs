//! The values of an installation: those of the chart `charts/kerf`, typed.

use k8s_openapi::api::apps::v1::DeploymentStrategy;
use k8s_openapi::api::core::v1::{
    Affinity, AppArmorProfile, Container, EnvFromSource, EnvVar, LocalObjectReference, PodDNSConfig,
    PodSecurityContext, ResourceRequirements, SELinuxOptions, SeccompProfile, Toleration, TopologySpreadConstraint,
    Volume, VolumeMount,
};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kerf_api::Provider;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The defaults: the `values.yaml` of the chart, which documents every value.
pub(crate) const DEFAULTS: &str = include_str!("../../../../charts/kerf/values.yaml");

/// Labels or annotations.
pub(crate) type Texts = BTreeMap<String, String>;

/// All values that have a meaning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Values {
    pub(crate) name_override: String,
    pub(crate) fullname_override: String,
    pub(crate) additional_labels: Texts,
    pub(crate) additional_annotations: Texts,
    pub(crate) image_pull_policy: String,
    pub(crate) image_pull_secrets: Vec<LocalObjectReference>,
    pub(crate) service: ServiceValues,
    pub(crate) service_account: ServiceAccountValues,
    pub(crate) additional_cluster_role_rules: Vec<PolicyRule>,
    pub(crate) service_monitor: ServiceMonitorValues,
    pub(crate) network_policy: NetworkPolicyValues,
    pub(crate) replicas: Option<i32>,
    pub(crate) revision_history_limit: Option<i32>,
    pub(crate) strategy: DeploymentStrategy,
    pub(crate) pod_labels: Texts,
    pub(crate) pod_annotations: Texts,
    pub(crate) pod_disruption_budget: PodDisruptionBudgetValues,
    pub(crate) pod_security_context: PodSecurityContext,
    pub(crate) priority_class_name: String,
    pub(crate) termination_grace_period_seconds: Option<i64>,
    pub(crate) host_network: bool,
    pub(crate) scheduler_name: String,
    pub(crate) dns_policy: String,
    pub(crate) dns_config: PodDNSConfig,
    pub(crate) init_containers: Vec<Container>,
    pub(crate) node_selector: Texts,
    pub(crate) affinity: Affinity,
    pub(crate) topology_spread_constraints: Vec<TopologySpreadConstraint>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) extra_volumes: Vec<Volume>,
    pub(crate) controller: ControllerValues,
    pub(crate) log_level: String,
    pub(crate) log_output_paths: Vec<String>,
    pub(crate) log_error_output_paths: Vec<String>,
    pub(crate) settings: Settings,
}

/// Values of the Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct ServiceValues {
    pub(crate) annotations: Texts,
}

/// Values of the ServiceAccount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct ServiceAccountValues {
    pub(crate) create: bool,
    pub(crate) name: String,
    pub(crate) annotations: Texts,
}

/// Values of the ServiceMonitor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct ServiceMonitorValues {
    pub(crate) enabled: bool,
    pub(crate) additional_labels: Texts,
    pub(crate) relabelings: Vec<Value>,
    pub(crate) metric_relabelings: Vec<Value>,
    pub(crate) endpoint_config: Map<String, Value>,
    pub(crate) sample_limit: Option<i64>,
}

/// Values of the NetworkPolicy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct NetworkPolicyValues {
    pub(crate) enabled: bool,
    pub(crate) metrics_from: Vec<NetworkPolicyPeer>,
    pub(crate) api_server_ports: Vec<i32>,
}

/// Values of the PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct PodDisruptionBudgetValues {
    pub(crate) name: String,
    pub(crate) max_unavailable: Option<IntOrString>,
}

/// Values of the controller's container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct ControllerValues {
    pub(crate) container_name: String,
    pub(crate) image: ImageValues,
    pub(crate) env: Vec<EnvVar>,
    pub(crate) env_from: Vec<EnvFromSource>,
    pub(crate) security_context: ContainerSecurityValues,
    pub(crate) resources: ResourceRequirements,
    pub(crate) extra_volume_mounts: Vec<VolumeMount>,
    pub(crate) sidecar_container: Vec<Container>,
    pub(crate) sidecar_volume_mounts: Vec<VolumeMount>,
    pub(crate) metrics: PortValues,
    pub(crate) health_probe: PortValues,
}

/// The image of the controller's container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct ImageValues {
    pub(crate) repository: String,
    pub(crate) tag: String,
    pub(crate) digest: String,
}

/// The part of the container's security context that is not fixed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct ContainerSecurityValues {
    pub(crate) app_armor_profile: Option<AppArmorProfile>,
    pub(crate) se_linux_options: Option<SELinuxOptions>,
    pub(crate) seccomp_profile: Option<SeccompProfile>,
}

/// A port of the container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct PortValues {
    pub(crate) port: i32,
}

/// Options of the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) cloud_provider: String,
    pub(crate) leader_election_name: String,
    pub(crate) batch_max_duration: String,
    pub(crate) batch_idle_duration: String,
    pub(crate) preference_policy: String,
    pub(crate) min_values_policy: String,
    #[serde(rename = "ignoreDRARequests")]
    pub(crate) ignore_dra_requests: bool,
    pub(crate) disable_cluster_state_observability: bool,
    pub(crate) packing: String,
    pub(crate) node_overhead_cost: String,
    pub(crate) consolidation_destinations: String,
    pub(crate) startup_taints: Vec<String>,
    pub(crate) scheduler_config: String,
    pub(crate) feature_gates: FeatureGateValues,
    #[serde(rename = "clusterCABundle")]
    pub(crate) cluster_ca_bundle: String,
    pub(crate) cluster_name: String,
    pub(crate) cluster_endpoint: String,
    #[serde(rename = "isolatedVPC")]
    pub(crate) isolated_vpc: bool,
    pub(crate) eks_control_plane: bool,
    /// A number, or its text.
    pub(crate) vm_memory_overhead_percent: Value,
    pub(crate) interruption_queue: String,
    pub(crate) enable_zonal_shift: bool,
    /// A number, or its text.
    #[serde(rename = "reservedENIs")]
    pub(crate) reserved_enis: Value,
    pub(crate) disable_dry_run: bool,
    pub(crate) ami_refresh_interval: String,
    pub(crate) subnet_refresh_interval: String,
    /// The controller's default where it is null.
    pub(crate) learn_memory: Option<bool>,
    pub(crate) instance_status_dry_run: bool,
    pub(crate) aws_feature_gates: AwsFeatureGateValues,
}

impl Settings {
    /// The provider: the one named, else AWS if there is a name of the cluster, which no other provider needs. The error is the name of one
    /// that does not exist.
    pub(crate) fn provider(&self) -> Result<Provider, String> {
        match self.cloud_provider.as_str() {
            "" if self.cluster_name.is_empty() => Ok(Provider::Kwok),
            "" | "aws" => Ok(Provider::Aws),
            "kwok" => Ok(Provider::Kwok),
            other => Err(other.to_owned()),
        }
    }
}

/// Feature gates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct FeatureGateValues {
    pub(crate) node_repair: bool,
    pub(crate) node_overlay: bool,
    pub(crate) reserved_capacity: bool,
    pub(crate) spot_to_spot_consolidation: bool,
    pub(crate) static_capacity: bool,
    pub(crate) capacity_buffer: bool,
}

/// Features of the AWS provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct AwsFeatureGateValues {
    #[serde(rename = "nodeClassCEL")]
    pub(crate) node_class_cel: bool,
    pub(crate) extended_kubelet_configuration: bool,
}

/// Values that only the AWS provider reads.
pub(crate) const OF_AWS: [&str; 15] = [
    "clusterCABundle",
    "clusterName",
    "clusterEndpoint",
    "isolatedVPC",
    "eksControlPlane",
    "vmMemoryOverheadPercent",
    "interruptionQueue",
    "enableZonalShift",
    "reservedENIs",
    "disableDryRun",
    "amiRefreshInterval",
    "subnetRefreshInterval",
    "learnMemory",
    "instanceStatusDryRun",
    "awsFeatureGates",
];

/// Values whose fields users name themselves, or whose fields are those of a Kubernetes type.
pub(crate) const OPEN: [&str; 14] = [
    "additionalLabels",
    "additionalAnnotations",
    "service.annotations",
    "serviceAccount.annotations",
    "serviceMonitor.additionalLabels",
    "serviceMonitor.endpointConfig",
    "strategy",
    "podLabels",
    "podAnnotations",
    "podSecurityContext",
    "dnsConfig",
    "nodeSelector",
    "affinity",
    "controller.resources",
];
