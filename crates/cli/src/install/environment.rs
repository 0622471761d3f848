//! The environment variables of the controller's container (OPS-242, OPS-246).

use super::values::{Settings, Values};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kerf_api::Provider;
use serde_json::Value;

/// The variables in the order of the chart.
pub(super) fn environment(values: &Values, fullname: &str) -> Vec<EnvVar> {
    let settings = &values.settings;
    let container = &values.controller.container_name;
    let mut all = vec![
        text("KARPENTER_SERVICE", fullname),
        text("CLOUD_PROVIDER", provider_name(settings)),
    ];
    all.extend(unless_empty("LOG_LEVEL", &values.log_level));
    all.extend(unless_empty("LOG_OUTPUT_PATHS", &values.log_output_paths.join(",")));
    all.extend(unless_empty(
        "LOG_ERROR_OUTPUT_PATHS",
        &values.log_error_output_paths.join(","),
    ));
    all.extend([
        text("METRICS_PORT", &values.controller.metrics.port.to_string()),
        text("HEALTH_PROBE_PORT", &values.controller.health_probe.port.to_string()),
        from_field("SYSTEM_NAMESPACE", "metadata.namespace"),
        from_resource("CPU_REQUESTS", container, "requests.cpu", "1m"),
        from_resource("MEMORY_LIMIT", container, "limits.memory", "1"),
        text("LEADER_ELECTION_NAME", &settings.leader_election_name),
        text("FEATURE_GATES", &feature_gates(settings)),
    ]);
    for (name, value) in [
        ("BATCH_MAX_DURATION", &settings.batch_max_duration),
        ("BATCH_IDLE_DURATION", &settings.batch_idle_duration),
        ("PREFERENCE_POLICY", &settings.preference_policy),
        ("MIN_VALUES_POLICY", &settings.min_values_policy),
        ("IGNORE_DRA_REQUESTS", &settings.ignore_dra_requests.to_string()),
        (
            "DISABLE_CLUSTER_STATE_OBSERVABILITY",
            &settings.disable_cluster_state_observability.to_string(),
        ),
        ("PACKING", &settings.packing),
        ("NODE_OVERHEAD_COST", &settings.node_overhead_cost),
        ("CONSOLIDATION_DESTINATIONS", &settings.consolidation_destinations),
        ("STARTUP_TAINTS", &settings.startup_taints.join(",")),
        ("SCHEDULER_CONFIG", &settings.scheduler_config),
    ] {
        all.extend(unless_empty(name, value));
    }
    if settings.provider() == Ok(Provider::Aws) {
        all.extend(of_aws(settings));
    }
    all.extend(values.controller.env.iter().cloned());
    all
}

fn provider_name(settings: &Settings) -> &str {
    match settings.provider() {
        Ok(Provider::Aws) => "aws",
        Ok(Provider::Kwok | Provider::Core) => "kwok",
        // The check of the environment refuses it.
        Err(_) => &settings.cloud_provider,
    }
}

/// The variables of the AWS provider.
fn of_aws(settings: &Settings) -> Vec<EnvVar> {
    let scalar = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    let mut all = vec![text("CLUSTER_NAME", &settings.cluster_name)];
    let given = [
        ("CLUSTER_CA_BUNDLE", settings.cluster_ca_bundle.clone()),
        ("CLUSTER_ENDPOINT", settings.cluster_endpoint.clone()),
        ("ISOLATED_VPC", settings.isolated_vpc.to_string()),
        ("EKS_CONTROL_PLANE", settings.eks_control_plane.to_string()),
        (
            "VM_MEMORY_OVERHEAD_PERCENT",
            scalar(&settings.vm_memory_overhead_percent),
        ),
        ("INTERRUPTION_QUEUE", settings.interruption_queue.clone()),
        ("ENABLE_ZONAL_SHIFT", settings.enable_zonal_shift.to_string()),
        ("RESERVED_ENIS", scalar(&settings.reserved_enis)),
        ("DISABLE_DRY_RUN", settings.disable_dry_run.to_string()),
        ("AMI_REFRESH_INTERVAL", settings.ami_refresh_interval.clone()),
        ("SUBNET_REFRESH_INTERVAL", settings.subnet_refresh_interval.clone()),
        (
            "LEARN_MEMORY",
            settings.learn_memory.as_ref().map(bool::to_string).unwrap_or_default(),
        ),
        ("INSTANCE_STATUS_DRY_RUN", settings.instance_status_dry_run.to_string()),
        ("AWS_FEATURE_GATES", aws_feature_gates(settings)),
    ];
    all.extend(given.iter().filter_map(|(name, value)| unless_empty(name, value)));
    all
}

/// The gates of the provider that are on: all are off otherwise.
fn aws_feature_gates(settings: &Settings) -> String {
    let gates = &settings.aws_feature_gates;
    let pairs = [
        ("NodeClassCEL=true", gates.node_class_cel),
        (
            "ExtendedKubeletConfiguration=true",
            gates.extended_kubelet_configuration,
        ),
    ];
    let on = pairs.iter().filter(|(_, on)| *on).map(|(text, _)| *text);
    on.collect::<Vec<_>>().join(",")
}

fn feature_gates(settings: &Settings) -> String {
    let gates = &settings.feature_gates;
    let pairs = [
        ("ReservedCapacity", gates.reserved_capacity),
        ("SpotToSpotConsolidation", gates.spot_to_spot_consolidation),
        ("NodeRepair", gates.node_repair),
        ("NodeOverlay", gates.node_overlay),
        ("StaticCapacity", gates.static_capacity),
        ("CapacityBuffer", gates.capacity_buffer),
    ];
    pairs.map(|(name, on)| format!("{name}={on}")).join(",")
}

fn text(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    }
}

/// A variable that keeps the controller's default where the value is empty.
fn unless_empty(name: &str, value: &str) -> Option<EnvVar> {
    (!value.is_empty()).then(|| text(name, value))
}

fn from_field(name: &str, path: &str) -> EnvVar {
    let source = EnvVarSource {
        field_ref: Some(ObjectFieldSelector {
            api_version: None,
            field_path: path.to_owned(),
        }),
        ..EnvVarSource::default()
    };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(source),
    }
}

fn from_resource(name: &str, container: &str, resource: &str, divisor: &str) -> EnvVar {
    let source = EnvVarSource {
        resource_field_ref: Some(ResourceFieldSelector {
            container_name: Some(container.to_owned()),
            divisor: Some(Quantity(divisor.to_owned())),
            resource: resource.to_owned(),
        }),
        ..EnvVarSource::default()
    };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(source),
    }
}
