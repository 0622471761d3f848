//! Amazon Linux 2023: NodeConfigs, which nodeadm merges in their order.

use super::bootstrap::{BootError, Bootstrap};
use super::flags;
use kerf_aws::user_data::{Archive, NodeTaint};
use serde_json::{Map, Value};

/// Content type of a NodeConfig.
const NODE_CONFIG: &str = "application/node.eks.aws";

/// Reads user data.
pub(super) fn read(text: &str) -> Result<Bootstrap, BootError> {
    let configs: Vec<String> = if Archive::is_meant(text) {
        let archive = Archive::parse(text).map_err(|_| BootError::Unreadable("it is no MIME archive"))?;
        let configs = archive
            .parts
            .into_iter()
            .filter(|part| part.content_type() == NODE_CONFIG);
        configs.map(|part| part.content).collect()
    } else {
        vec![text.to_owned()]
    };
    let mut merged = Value::Object(Map::new());
    for config in configs {
        let read: Value =
            serde_saphyr::from_str(&config).map_err(|_| BootError::Unreadable("a NodeConfig is no YAML"))?;
        if read["kind"] == "NodeConfig" {
            merge(&mut merged, read);
        }
    }
    if merged["kind"] != "NodeConfig" {
        return Err(BootError::NoBootstrap);
    }
    bootstrap(&merged["spec"])
}

/// Maps merge key by key; anything else is replaced.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn bootstrap(spec: &Value) -> Result<Bootstrap, BootError> {
    let cluster = &spec["cluster"];
    let text = |name: &str| cluster[name].as_str().map(str::to_owned);
    // nodeadm has no other source for these.
    let mut read = Bootstrap {
        cluster_name: text("name").ok_or(BootError::Missing("name of a cluster"))?,
        endpoint: Some(text("apiServerEndpoint").ok_or(BootError::Missing("API server"))?),
        ca_bundle: Some(text("certificateAuthority").ok_or(BootError::Missing("CA bundle"))?),
        uses_local_disks: spec["instance"]["localStorage"]["strategy"] == "RAID0",
        ..Bootstrap::default()
    };
    text("cidr").ok_or(BootError::Missing("addresses of Services"))?;
    let config = &spec["kubelet"]["config"];
    if !config.is_null() {
        let settings = serde_json::from_value(config.clone());
        read.kubelet = settings.map_err(|_| BootError::Unreadable("kubelet's settings have another form"))?;
    }
    for taint in config["registerWithTaints"].as_array().into_iter().flatten() {
        let text = |name: &str| taint[name].as_str().unwrap_or_default();
        read.taints
            .push(NodeTaint::new(text("key"), text("value"), text("effect")));
    }
    let flags = spec["kubelet"]["flags"].as_array().into_iter().flatten();
    let flags: Vec<String> = flags.filter_map(|flag| flag.as_str().map(str::to_owned)).collect();
    flags::read_words(&flags, &mut read)?;
    Ok(read)
}
