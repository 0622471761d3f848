//! Kubelet settings of a class.

use std::collections::BTreeMap;

use kerf_units::duration::WrittenDuration;
use kerf_units::quantity::Quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most pods on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or an expression as text")]
pub enum MaxPods {
    /// So many.
    Count(i32),
    /// A CEL expression that gives the number for an instance type.
    Expression(String),
}

impl From<i32> for MaxPods {
    fn from(count: i32) -> Self {
        Self::Count(count)
    }
}

/// Kubelet settings (AWS-017 to AWS-021). Values of the maps stay the text they were given as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfiguration {
    /// Addresses of DNS servers.
    #[serde(default, rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<String>>,
    /// Most pods on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<MaxPods>,
    /// Most pods per core; zero means unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<i32>,
    /// Quantities reserved for processes outside Kubernetes, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_reserved: Option<BTreeMap<String, String>>,
    /// Quantities reserved for Kubernetes' own processes, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_reserved: Option<BTreeMap<String, String>>,
    /// Quantities or percentages at which pods are evicted at once, by signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Quantities or percentages at which pods are evicted after a grace period, by signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_soft: Option<BTreeMap<String, String>>,
    /// Grace periods of the soft thresholds, by signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_soft_grace_period: Option<BTreeMap<String, WrittenDuration>>,
    /// Longest grace period in seconds of a pod that a soft threshold evicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Disk usage in percent from which images are always collected.
    #[serde(
        default,
        rename = "imageGCHighThresholdPercent",
        skip_serializing_if = "Option::is_none"
    )]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Disk usage in percent below which images are never collected.
    #[serde(
        default,
        rename = "imageGCLowThresholdPercent",
        skip_serializing_if = "Option::is_none"
    )]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// Whether CPU limits of containers are enforced.
    #[serde(default, rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
    /// Fields of kubelet's own configuration beside those above, as they were given. The definition of Karpenter 1.14 prunes them.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl KubeletConfiguration {
    /// The number of pods, where it is given as one.
    pub fn max_pods_count(&self) -> Option<i32> {
        match self.max_pods {
            Some(MaxPods::Count(count)) => Some(count),
            Some(MaxPods::Expression(_)) | None => None,
        }
    }

    /// The two maps of reserved resources, with their names.
    fn reserved(&self) -> impl Iterator<Item = (&'static str, &String, &String)> {
        let maps = [
            ("kubeReserved", &self.kube_reserved),
            ("systemReserved", &self.system_reserved),
        ];
        maps.into_iter().flat_map(|(field, map)| {
            let entries = map.iter().flatten();
            entries.map(move |(key, value)| (field, key, value))
        })
    }

    /// The fields whose values are expressions.
    pub fn expression_fields(&self) -> Vec<String> {
        let pods = matches!(self.max_pods, Some(MaxPods::Expression(_))).then(|| "maxPods".to_owned());
        let reserved = self.reserved().filter(|(_, _, value)| is_expression(value));
        let reserved = reserved.map(|(field, key, _)| format!("{field}[{key}]"));
        pods.into_iter().chain(reserved).collect()
    }

    /// The settings without those whose values are expressions.
    #[must_use]
    pub fn without_expressions(&self) -> Self {
        let mut rest = self.clone();
        rest.max_pods = self.max_pods_count().map(MaxPods::Count);
        for map in [&mut rest.kube_reserved, &mut rest.system_reserved] {
            map.iter_mut()
                .for_each(|map| map.retain(|_, value| !is_expression(value)));
        }
        rest
    }
}

/// Whether the value of a reserved resource is an expression: everything that is no quantity.
pub fn is_expression(value: &str) -> bool {
    value.parse::<Quantity>().is_err()
}
