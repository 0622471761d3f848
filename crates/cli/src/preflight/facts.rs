//! The facts that the checks read.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Container;
use kerf_api::{EC2NodeClass, NodeClaim, NodePool, Provider};
use serde_json::Value;

/// What was read of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Version of the API server as major and minor number; `None` with files.
    pub(crate) server_version: Option<(u32, u32)>,
    /// CustomResourceDefinitions; `None` if they could not be read.
    pub(crate) definitions: Option<Vec<Value>>,
    pub(crate) pools: Vec<NodePool>,
    pub(crate) claims: Vec<NodeClaim>,
    pub(crate) classes: Vec<EC2NodeClass>,
    /// CA bundle of the API server as base64 text, if it is known.
    pub(crate) ca_bundle: Option<String>,
    /// Deployments of Karpenter or Kerf.
    pub(crate) deployments: Vec<Deployment>,
    /// Leases, those of other uses included.
    pub(crate) leases: Vec<Lease>,
    /// Answers of the API server about permissions; `None` if it was not asked.
    pub(crate) permissions: Option<Permissions>,
    /// What could not be read, and why.
    pub(crate) unread: Vec<String>,
    /// The namespace Kerf will run in, if the user names it.
    pub(crate) namespace: Option<String>,
    pub(crate) now: Timestamp,
}

/// Answers of the API server about permissions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Permissions {
    /// Whose permissions they are.
    pub(crate) subject: String,
    pub(crate) asked: usize,
    /// What is missing.
    pub(crate) missing: Vec<MissingPermission>,
}

/// A permission that the controller needs and does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MissingPermission {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) purpose: &'static str,
}

/// The API group of EC2NodeClasses.
pub(super) const AWS_GROUP: &str = "karpenter.k8s.aws";

/// Namespace of a new installation.
pub(crate) const DEFAULT_NAMESPACE: &str = "kube-system";

impl Facts {
    /// Nothing read yet.
    pub(crate) fn new(now: Timestamp, namespace: Option<String>) -> Self {
        Self {
            server_version: None,
            definitions: None,
            pools: Vec::new(),
            claims: Vec::new(),
            classes: Vec::new(),
            ca_bundle: None,
            deployments: Vec::new(),
            leases: Vec::new(),
            permissions: None,
            unread: Vec::new(),
            namespace,
            now,
        }
    }

    /// The provider the cluster needs: AWS if a NodePool has such a node class, or the Deployment names an EKS cluster.
    pub(crate) fn provider(&self) -> Provider {
        let mut pools = self.pools.iter().map(|pool| &pool.spec.template.spec.node_class_ref);
        let mut containers = self.deployments.iter().flat_map(containers);
        let is_aws = pools.any(|class| class.group == AWS_GROUP)
            || containers.any(|container| {
                let mut variables = container.env.iter().flatten();
                variables.any(|variable| variable.name == "CLUSTER_NAME")
            });
        if is_aws { Provider::Aws } else { Provider::Kwok }
    }

    /// The namespace Kerf will run in: the one named by the user, else that of the Deployment it replaces.
    pub(crate) fn target_namespace(&self) -> &str {
        let replaced = || self.deployments.first()?.metadata.namespace.as_deref();
        self.namespace.as_deref().or_else(replaced).unwrap_or(DEFAULT_NAMESPACE)
    }
}

/// Whether a Deployment runs Karpenter or Kerf.
pub(crate) fn is_controller(deployment: &Deployment) -> bool {
    let labels = deployment.metadata.labels.as_ref();
    let name = labels.and_then(|labels| labels.get("app.kubernetes.io/name"));
    if name.is_some_and(|name| name == "karpenter" || name == "kerf") {
        return true;
    }
    containers(deployment).iter().any(|container| {
        let variables = container.env.as_deref().unwrap_or_default();
        variables.iter().any(|variable| variable.name == "KARPENTER_SERVICE")
    })
}

/// The containers of a Deployment's pods.
pub(super) fn containers(deployment: &Deployment) -> &[Container] {
    let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    spec.map(|spec| spec.containers.as_slice()).unwrap_or_default()
}

/// An object's kind, namespace and name. An object of a file may have no name.
pub(crate) fn title(kind: &str, namespace: Option<&str>, name: Option<&str>) -> String {
    match (namespace, name) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        (Some(namespace), None) => format!("{kind} without a name in {namespace}"),
        (None, None) => format!("{kind} without a name"),
    }
}
