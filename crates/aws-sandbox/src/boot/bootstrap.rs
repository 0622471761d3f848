//! Reads from user data which cluster a machine joins, and how its kubelet starts.

use super::{bottlerocket, nodeadm, scripts};
use kerf_api::ec2_node_class::{AmiFamily, KubeletConfiguration};
use kerf_aws::user_data::NodeTaint;
use std::collections::BTreeMap;

/// How a machine starts its kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bootstrap {
    /// Name of the cluster.
    pub cluster_name: String,
    /// URL of the API server; the image asks EKS for it if there is none.
    pub endpoint: Option<String>,
    /// CA bundle as base64 text.
    pub ca_bundle: Option<String>,
    /// Labels that the node registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with.
    pub taints: Vec<NodeTaint>,
    /// Kubelet settings.
    pub kubelet: KubeletConfiguration,
    /// Whether local disks hold pods' storage.
    pub uses_local_disks: bool,
}

/// Why a machine does not join the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    /// The user data cannot be read.
    #[error("user data cannot be read: {0}")]
    Unreadable(&'static str),
    /// Nothing in the user data starts a kubelet.
    #[error("nothing in the user data joins a cluster")]
    NoBootstrap,
    /// A setting that the image needs is missing.
    #[error("the user data has no {0}")]
    Missing(&'static str),
    /// The cluster is another one.
    #[error("the user data is for cluster {0:?}")]
    WrongCluster(String),
    /// The API server is another one.
    #[error("the user data names the API server {0:?}")]
    WrongEndpoint(String),
    /// The CA is not that of the API server.
    #[error("the user data has a CA that did not sign the API server's certificate")]
    WrongCa,
    /// A label that kubelet may not set: it does not start then.
    #[error("kubelet does not start with the label {0:?}")]
    ForbiddenLabel(String),
    /// The instance has no role, so that the API server does not know it.
    #[error("the instance has no role")]
    NoRole,
}

/// Reads user data as an image of a family does. A custom image takes any form.
pub fn read_user_data(family: AmiFamily, text: &str) -> Result<Bootstrap, BootError> {
    match family {
        AmiFamily::Al2 => scripts::read_al2(text),
        AmiFamily::Al2023 => nodeadm::read(text),
        AmiFamily::Bottlerocket => bottlerocket::read(text),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => scripts::read_windows(text),
        AmiFamily::Custom => {
            let readers = [
                nodeadm::read,
                scripts::read_al2,
                bottlerocket::read,
                scripts::read_windows,
            ];
            let read = readers.iter().find_map(|read| read(text).ok());
            read.ok_or(BootError::NoBootstrap)
        }
    }
}

/// Labels of these domains may be set by kubelet.
const ALLOWED_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Labels of Kubernetes' own domains that kubelet may set.
const ALLOWED_LABELS: [&str; 9] = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
];

/// Whether kubelet starts with a label: of Kubernetes' own domains it takes few.
fn is_allowed(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else {
        return true;
    };
    let is_within = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    let is_reserved = is_within("kubernetes.io") || is_within("k8s.io");
    !is_reserved || ALLOWED_LABELS.contains(&label) || ALLOWED_DOMAINS.iter().any(|allowed| is_within(allowed))
}

impl Bootstrap {
    /// Whether a machine with these settings can join the cluster.
    pub(super) fn check(&self, cluster: &crate::account::EksCluster) -> Result<(), BootError> {
        if self.cluster_name != cluster.name {
            return Err(BootError::WrongCluster(self.cluster_name.clone()));
        }
        if let Some(endpoint) = self
            .endpoint
            .as_ref()
            .filter(|endpoint| **endpoint != cluster.description.endpoint)
        {
            return Err(BootError::WrongEndpoint(endpoint.clone()));
        }
        if self
            .ca_bundle
            .as_ref()
            .is_some_and(|bundle| *bundle != cluster.certificate)
        {
            return Err(BootError::WrongCa);
        }
        match self.labels.keys().find(|label| !is_allowed(label)) {
            Some(label) => Err(BootError::ForbiddenLabel(label.clone())),
            None => Ok(()),
        }
    }
}
