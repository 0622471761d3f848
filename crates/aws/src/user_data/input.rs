//! What user data is made from (AWS-126 to AWS-130).

use kerf_api::ec2_node_class::{AmiFamily, InstanceStorePolicy, KubeletConfiguration, MaxPods};
use kerf_api::labels::{CAPACITY_TYPE, DO_NOT_SYNC_TAINTS, TRUE};
use kerf_api::names::domain_of;
use std::collections::BTreeMap;

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTaint {
    /// Key.
    pub key: String,
    /// Value; empty for none.
    pub value: String,
    /// Effect, such as `NoSchedule`.
    pub effect: String,
}

impl NodeTaint {
    /// A taint.
    pub fn new(key: &str, value: &str, effect: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        }
    }
}

/// Everything that user data is made from.
#[derive(Clone, Debug)]
pub struct BootstrapInput {
    /// Image family.
    pub family: AmiFamily,
    /// Name of the cluster.
    pub cluster_name: String,
    /// URL of the API server.
    pub endpoint: String,
    /// The cluster's CA bundle as base64 text; empty if it is not known.
    pub ca_bundle: String,
    /// Addresses of Services; only nodeadm needs them.
    pub cluster_cidr: Option<String>,
    /// Kubelet settings, with the pods the scheduler assumed.
    pub kubelet: KubeletConfiguration,
    /// Taints a node registers with.
    pub taints: Vec<NodeTaint>,
    /// Labels a node registers with.
    pub labels: BTreeMap<String, String>,
    /// How local disks are used.
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// User data of the class.
    pub custom: Option<String>,
    /// Whether a Bottlerocket image binds the usual paths by itself.
    pub binds_default_paths: bool,
}

impl BootstrapInput {
    /// The DNS server of families that take one: the first of the class's.
    pub fn dns_server(&self) -> Option<&str> {
        self.kubelet.cluster_dns.as_deref()?.first().map(String::as_str)
    }

    /// The user data of the class; `None` for an empty text.
    pub fn custom(&self) -> Option<&str> {
        self.custom.as_deref().filter(|text| !text.is_empty())
    }

    /// Whether local disks hold pods' storage.
    pub fn uses_local_disks(&self) -> bool {
        self.instance_store_policy == Some(InstanceStorePolicy::Raid0)
    }
}

impl BootstrapInput {
    /// Fills in what the class leaves open: the most pods, which every node gets so that it agrees with the scheduler, and the DNS server
    /// (AWS-127, AWS-128, AWS-497).
    #[must_use]
    pub fn with_defaults(mut self, pods: i64, kube_dns: Option<&str>) -> Self {
        let kubelet = &mut self.kubelet;
        let count = kubelet.max_pods_count().or_else(|| i32::try_from(pods).ok());
        kubelet.max_pods = count.map(MaxPods::Count);
        if kubelet.cluster_dns.as_ref().is_none_or(Vec::is_empty) {
            kubelet.cluster_dns = kube_dns.map(|address| vec![address.to_owned()]);
        }
        self
    }
}

/// Domains whose labels kubelet may not set on its own Node (AWS-498).
const RESERVED_DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"];

fn may_kubelet_set(key: &str) -> bool {
    let Some(domain) = domain_of(key) else { return true };
    !RESERVED_DOMAINS.iter().any(|reserved| {
        let parent = domain.strip_suffix(reserved);
        parent.is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
    })
}

/// The labels a node registers with: those of the claim and the capacity type, without those kubelet may not set. All families but custom
/// images also get the label that keeps taints as they are at registration, since the taints are in the user data (AWS-130).
pub fn node_labels(
    claim_labels: &BTreeMap<String, String>,
    capacity_type: &str,
    family: AmiFamily,
) -> BTreeMap<String, String> {
    let mut labels = claim_labels.clone();
    labels.insert(CAPACITY_TYPE.to_owned(), capacity_type.to_owned());
    if family != AmiFamily::Custom {
        labels.insert(DO_NOT_SYNC_TAINTS.to_owned(), TRUE.to_owned());
    }
    labels.retain(|key, _| may_kubelet_set(key));
    labels
}

/// The taints a node registers with: those of the template, the startup taints, and the one that keeps pods away until registration
/// (AWS-129).
pub fn node_taints(taints: &[NodeTaint], startup_taints: &[NodeTaint]) -> Vec<NodeTaint> {
    let unregistered = NodeTaint::new(kerf_api::taints::UNREGISTERED, "", "NoExecute");
    let mut all = [taints, startup_taints].concat();
    let has = |taint: &NodeTaint| taint.key == unregistered.key && taint.effect == unregistered.effect;
    if !all.iter().any(has) {
        all.push(unregistered);
    }
    all
}
