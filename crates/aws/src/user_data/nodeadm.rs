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
    let mut cluster = Map::new();
    cluster.insert("apiServerEndpoint".to_owned(), json!(input.endpoint));
    cluster.insert("cidr".to_owned(), json!(cidr));
    cluster.insert("name".to_owned(), json!(input.cluster_name));
    if !input.ca_bundle.is_empty() {
        cluster.insert("certificateAuthority".to_owned(), json!(input.ca_bundle));
    }
    let mut kubelet = Map::new();
    kubelet.insert("config".to_owned(), kubelet_config(input).into());
    if let Some(flag) = labels_flag(&input.labels) {
        kubelet.insert("flags".to_owned(), json!([flag]));
    }
    let mut spec = Map::new();
    spec.insert("cluster".to_owned(), cluster.into());
    spec.insert("kubelet".to_owned(), kubelet.into());
    if input.uses_local_disks() {
        spec.insert("instance".to_owned(), json!({"localStorage": {"strategy": "RAID0"}}));
    }
    let config = json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec});
    let yaml = serde_saphyr::to_string(&config).map_err(|error| UserDataError::Render(error.to_string()))?;
    Ok(format!("# Generated NodeConfig\n{yaml}"))
}

/// The kubelet settings of the class under their own names, and the taints.
fn kubelet_config(input: &BootstrapInput) -> Map<String, Value> {
    let mut config = match serde_json::to_value(&input.kubelet) {
        Ok(Value::Object(config)) => config,
        _ => Map::new(),
    };
    if let Some(periods) = &input.kubelet.eviction_soft_grace_period {
        let periods = periods
            .iter()
            .map(|(signal, period)| (signal.clone(), Value::from(period.value().to_string())));
        config.insert("evictionSoftGracePeriod".to_owned(), periods.collect());
    }
    let taints = input.taints.iter().map(|taint| {
        let mut written = Map::new();
        written.insert("effect".to_owned(), json!(taint.effect));
        written.insert("key".to_owned(), json!(taint.key));
        if !taint.value.is_empty() {
            written.insert("value".to_owned(), json!(taint.value));
        }
        Value::Object(written)
    });
    config.insert("registerWithTaints".to_owned(), taints.collect());
    config
}
