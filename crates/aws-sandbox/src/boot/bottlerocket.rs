//! Bottlerocket: settings as TOML.

use super::bootstrap::{BootError, Bootstrap};
use kerf_aws::user_data::NodeTaint;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Reads user data.
pub(super) fn read(text: &str) -> Result<Bootstrap, BootError> {
    let root: Table = text.parse().map_err(|_| BootError::Unreadable("it is no TOML"))?;
    let settings = root
        .get("settings")
        .and_then(Value::as_table)
        .ok_or(BootError::NoBootstrap)?;
    let kubernetes = settings
        .get("kubernetes")
        .and_then(Value::as_table)
        .ok_or(BootError::NoBootstrap)?;
    let text = |name: &str| kubernetes.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name: &str| {
        let value = kubernetes.get(name)?;
        let number = value.as_integer().or_else(|| value.as_str()?.parse().ok())?;
        i32::try_from(number).ok()
    };
    let mut read = Bootstrap {
        cluster_name: text("cluster-name").ok_or(BootError::Missing("name of a cluster"))?,
        endpoint: Some(text("api-server").ok_or(BootError::Missing("API server"))?),
        ca_bundle: Some(text("cluster-certificate").ok_or(BootError::Missing("CA bundle"))?),
        labels: texts(kubernetes, "node-labels").unwrap_or_default(),
        taints: taints(kubernetes),
        ..Bootstrap::default()
    };
    read.kubelet.max_pods = number("max-pods").map(Into::into);
    read.kubelet.system_reserved = texts(kubernetes, "system-reserved");
    read.kubelet.kube_reserved = texts(kubernetes, "kube-reserved");
    read.kubelet.eviction_hard = texts(kubernetes, "eviction-hard");
    read.kubelet.cluster_dns = text("cluster-dns-ip").map(|address| vec![address]);
    let commands = settings.get("bootstrap-commands").and_then(Value::as_table);
    let commands = commands.into_iter().flat_map(Table::values).map(ToString::to_string);
    read.uses_local_disks = commands
        .into_iter()
        .any(|command| command.contains("ephemeral-storage"));
    Ok(read)
}

fn texts(table: &Table, name: &str) -> Option<BTreeMap<String, String>> {
    let below = table.get(name)?.as_table()?;
    let pair = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    Some(below.iter().filter_map(pair).collect())
}

/// Taints by key, each as a list of `value:Effect`.
fn taints(kubernetes: &Table) -> Vec<NodeTaint> {
    let by_key = kubernetes.get("node-taints").and_then(Value::as_table);
    let each = by_key.into_iter().flatten().flat_map(|(key, values)| {
        let values = values.as_array().into_iter().flatten().filter_map(Value::as_str);
        values.filter_map(move |text| {
            let (value, effect) = text.split_once(':')?;
            Some(NodeTaint::new(key, value, effect))
        })
    });
    each.collect()
}
