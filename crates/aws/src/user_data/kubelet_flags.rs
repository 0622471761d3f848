//! Kubelet's settings as command-line flags (AWS-131).

use super::input::{BootstrapInput, NodeTaint};
use std::collections::BTreeMap;

/// `key=value:Effect`, or `key:Effect` for a taint without value.
fn taint(taint: &NodeTaint) -> String {
    match taint.value.as_str() {
        "" => format!("{}:{}", taint.key, taint.effect),
        value => format!("{}={value}:{}", taint.key, taint.effect),
    }
}

/// `--name="key<separator>value,…"`; `None` for an empty map.
fn map_flag<V: AsRef<str>>(name: &str, map: Option<&BTreeMap<String, V>>, separator: char) -> Option<String> {
    let entries: Vec<String> = map
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}{separator}{}", value.as_ref()))
        .collect();
    (!entries.is_empty()).then(|| format!("--{name}={}", quoted(&entries.join(","))))
}

/// The text in double quotes, with quotes and backslashes escaped.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `--node-labels="…"`; `None` without labels.
pub(super) fn labels_flag(labels: &BTreeMap<String, String>) -> Option<String> {
    map_flag("node-labels", Some(labels), '=')
}

/// The flags in a fixed order; what is not set has none. Entries of maps are sorted by key.
pub fn kubelet_flags(input: &BootstrapInput) -> Vec<String> {
    let kubelet = &input.kubelet;
    let taints: Vec<String> = input.taints.iter().map(taint).collect();
    let taints = format!("--register-with-taints={}", quoted(&taints.join(",")));
    let number = |name: &str, value: Option<i32>| value.map(|value| format!("--{name}={value}"));
    let periods: Option<BTreeMap<String, String>> = kubelet.eviction_soft_grace_period.as_ref().map(|periods| {
        let periods = periods.iter();
        periods
            .map(|(signal, period)| (signal.clone(), period.value().to_string()))
            .collect()
    });
    [
        labels_flag(&input.labels),
        Some(taints),
        number("max-pods", kubelet.max_pods_count()),
        number("pods-per-core", kubelet.pods_per_core),
        map_flag("system-reserved", kubelet.system_reserved.as_ref(), '='),
        map_flag("kube-reserved", kubelet.kube_reserved.as_ref(), '='),
        map_flag("eviction-hard", kubelet.eviction_hard.as_ref(), '<'),
        map_flag("eviction-soft", kubelet.eviction_soft.as_ref(), '<'),
        map_flag("eviction-soft-grace-period", periods.as_ref(), '='),
        number("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period),
        number("image-gc-high-threshold", kubelet.image_gc_high_threshold_percent),
        number("image-gc-low-threshold", kubelet.image_gc_low_threshold_percent),
        kubelet
            .cpu_cfs_quota
            .map(|enforced| format!("--cpu-cfs-quota={enforced}")),
    ]
    .into_iter()
    .flatten()
    .collect()
}
