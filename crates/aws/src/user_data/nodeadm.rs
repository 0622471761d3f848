//! Amazon Linux 2023: an archive with a NodeConfig for nodeadm (AWS-135 to AWS-138).

use super::al2::custom_parts;
use super::input::BootstrapInput;
use super::kubelet_flags::labels_flag;
use super::mime::{Archive, NODE_CONFIG, Part};
use super::render::UserDataError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The archive: the class's parts, then the NodeConfig. nodeadm merges NodeConfigs in order, so the last one wins.
pub(super) fn render(input: &BootstrapInput) -> Result<String, UserDataError> {
    let mut parts = match input.custom() {
        Some(custom) if !Archive::is_meant(custom) && is_yaml_map(custom) => vec![Part::new(NODE_CONFIG, custom)],
        Some(custom) => custom_parts(custom)?,
        None => Vec::new(),
    };
    parts.push(Part::new(NODE_CONFIG, node_config(input)?));
    Ok(Archive { parts }.render())
}

fn is_yaml_map(text: &str) -> bool {
    serde_saphyr::from_str::<Map<String, Value>>(text).is_ok()
}

fn node_config(input: &BootstrapInput) -> Result<String, UserDataError> {
    let cidr = input.cluster_cidr.as_deref().filter(|cidr| !cidr.is_empty());
    let cidr = cidr.ok_or(UserDataError::ClusterCidrUnknown)?;
    STANDARD.decode(&input.ca_bundle).map_err(|_| UserDataError::CaBundle)?;
    let mut cluster = json!({
        "apiServerEndpoint": input.endpoint,
        "cidr": cidr,
        "name": input.cluster_name,
    });
    if !input.ca_bundle.is_empty() {
        cluster["certificateAuthority"] = json!(input.ca_bundle);
    }
    let mut spec = json!({"cluster": cluster, "kubelet": {"config": kubelet_config(input)}});
    if let Some(flag) = labels_flag(&input.labels) {
        spec["kubelet"]["flags"] = json!([flag]);
    }
    if input.uses_local_disks() {
        spec["instance"] = json!({"localStorage": {"strategy": "RAID0"}});
    }
    let config = json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec});
    let yaml = serde_saphyr::to_string(&config).map_err(|error| UserDataError::Render(error.to_string()))?;
    Ok(format!("# Generated NodeConfig\n{yaml}"))
}

/// The kubelet settings of the class under their own names, and the taints.
fn kubelet_config(input: &BootstrapInput) -> Value {
    let mut config = serde_json::to_value(&input.kubelet).unwrap_or_else(|_| json!({}));
    if let Some(periods) = &input.kubelet.eviction_soft_grace_period {
        let periods = periods
            .iter()
            .map(|(signal, period)| (signal.clone(), period.value().to_string()));
        config["evictionSoftGracePeriod"] = periods.map(|(signal, period)| (signal, Value::from(period))).collect();
    }
    let taints = input.taints.iter().map(|taint| {
        let mut written = json!({"effect": taint.effect, "key": taint.key});
        if !taint.value.is_empty() {
            written["value"] = json!(taint.value);
        }
        written
    });
    config["registerWithTaints"] = taints.collect();
    config
}
