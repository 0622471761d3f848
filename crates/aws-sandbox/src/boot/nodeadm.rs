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
        if field(&read, "/kind") == "NodeConfig" {
            merge(&mut merged, read);
        }
    }
    if field(&merged, "/kind") != "NodeConfig" {
        return Err(BootError::NoBootstrap);
    }
    bootstrap(field(&merged, "/spec"))
}

/// What stands at a JSON pointer; null if nothing does.
fn field<'a>(of: &'a Value, pointer: &str) -> &'a Value {
    of.pointer(pointer).unwrap_or(&Value::Null)
}

/// The text at a JSON pointer.
fn text(of: &Value, pointer: &str) -> Option<String> {
    field(of, pointer).as_str().map(str::to_owned)
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
    // nodeadm has no other source for these.
    let needed = |pointer: &str, what: &'static str| text(spec, pointer).ok_or(BootError::Missing(what));
    let mut read = Bootstrap {
        cluster_name: needed("/cluster/name", "name of a cluster")?,
        endpoint: Some(needed("/cluster/apiServerEndpoint", "API server")?),
        ca_bundle: Some(needed("/cluster/certificateAuthority", "CA bundle")?),
        uses_local_disks: field(spec, "/instance/localStorage/strategy") == "RAID0",
        ..Bootstrap::default()
    };
    needed("/cluster/cidr", "addresses of Services")?;
    let config = field(spec, "/kubelet/config");
    if !config.is_null() {
        let settings = serde_json::from_value(config.clone());
        read.kubelet = settings.map_err(|_| BootError::Unreadable("kubelet's settings have another form"))?;
    }
    // Taints are read by themselves.
    read.kubelet.other.remove("registerWithTaints");
    let taints = field(config, "/registerWithTaints").as_array();
    for taint in taints.into_iter().flatten() {
        let text = |pointer: &str| field(taint, pointer).as_str().unwrap_or_default();
        read.taints
            .push(NodeTaint::new(text("/key"), text("/value"), text("/effect")));
    }
    let flags = field(spec, "/kubelet/flags").as_array().into_iter().flatten();
    let flags: Vec<String> = flags.filter_map(|flag| flag.as_str().map(str::to_owned)).collect();
    flags::read_words(&flags, &mut read)?;
    Ok(read)
}
