//! Taints that well-known software puts on nodes while they start and later removes, and that pools often do not declare as
//! `startupTaints`. While a node initializes they are treated as if they were declared; without that, each of them looks like a node
//! no pod may use, and its pods get a second one.
//!
//! Not here: taints that stay (`nvidia.com/gpu`, `CriticalAddonsOnly`), and those Karpenter knows, which need no declaration
//! ([`crate::taints::is_known_ephemeral`]). NVIDIA's GPU operator and device plugin have none of their own; their guide uses the
//! prefix `readiness.k8s.io/` (<https://github.com/NVIDIA/gpu-operator/pull/2573>). Calico, Flannel and the AWS VPC CNI have no taint of
//! their own: they keep the node NotReady, or set its `NetworkUnavailable` condition, which the node lifecycle controller turns into the
//! first row.

/// One taint, whatever its value and effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownStartupTaint {
    /// Its key; one that ends with `/` stands for every key that begins so.
    pub key: &'static str,
    /// Who takes it away.
    pub by: &'static str,
    /// The document that describes the taint.
    pub source: &'static str,
}

const fn row(key: &'static str, by: &'static str, source: &'static str) -> KnownStartupTaint {
    KnownStartupTaint { key, by, source }
}

/// All that are known.
pub const KNOWN: &[KnownStartupTaint] = &[
    row(
        "node.kubernetes.io/network-unavailable",
        "the network plugin or the cloud's route controller",
        "https://kubernetes.io/docs/reference/labels-annotations-taints/",
    ),
    row(
        "node.cloudprovider.kubernetes.io/uninitialized",
        "the cloud controller manager",
        "https://kubernetes.io/docs/tasks/administer-cluster/running-cloud-controller/",
    ),
    row(
        "node.cluster.x-k8s.io/uninitialized",
        "Cluster API",
        "https://github.com/giantswarm/capa-karpenter-taint-remover",
    ),
    row(
        "node.gardener.cloud/critical-components-not-ready",
        "Gardener",
        "https://github.com/gardener/gardener/blob/master/docs/usage/advanced/node-readiness.md",
    ),
    row(
        "node.cilium.io/agent-not-ready",
        "Cilium",
        "https://docs.cilium.io/en/stable/installation/taints/",
    ),
    row(
        "cni.istio.io/not-ready",
        "Istio",
        "https://istio.io/latest/docs/setup/additional-setup/cni/",
    ),
    row(
        "k8s.ovn.org/network-unavailable",
        "OVN-Kubernetes",
        "https://github.com/ovn-kubernetes/ovn-kubernetes/pull/2183",
    ),
    row(
        "ebs.csi.aws.com/agent-not-ready",
        "the Amazon EBS CSI driver",
        "https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/install.md",
    ),
    row(
        "efs.csi.aws.com/agent-not-ready",
        "the Amazon EFS CSI driver",
        "https://github.com/kubernetes-sigs/aws-efs-csi-driver/blob/master/docs/README.md",
    ),
    row(
        "fsx.csi.aws.com/agent-not-ready",
        "the Amazon FSx for Lustre CSI driver",
        "https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/docs/install.md",
    ),
    row(
        "s3.csi.aws.com/agent-not-ready",
        "the Mountpoint for Amazon S3 CSI driver",
        "https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md",
    ),
    row(
        "s3.csi.scality.com/agent-not-ready",
        "the Scality S3 CSI driver",
        "https://scality.github.io/mountpoint-s3-csi-driver/2.2/driver-deployment/node-startup-taint/",
    ),
    row(
        "disk.csi.azure.com/agent-not-ready",
        "the Azure Disk CSI driver",
        "https://github.com/kubernetes-sigs/azuredisk-csi-driver/blob/master/pkg/azuredisk/azuredisk.go",
    ),
    row(
        "azurelustre.csi.azure.com/agent-not-ready",
        "the Azure Lustre CSI driver",
        "https://github.com/kubernetes-sigs/azurelustre-csi-driver/blob/main/docs/driver-parameters.md",
    ),
    row(
        "skyhook.nvidia.com",
        "NVIDIA Skyhook",
        "https://github.com/NVIDIA/skyhook/blob/main/docs/runtime_required.md",
    ),
    row(
        "agent.datadoghq.com/not-ready",
        "the Datadog operator",
        "https://github.com/DataDog/datadog-operator/blob/main/docs/untaint_controller.md",
    ),
    row(
        "startup-taint.cluster-autoscaler.kubernetes.io/",
        "software that follows the Cluster Autoscaler's convention",
        "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md",
    ),
    row(
        "ignore-taint.cluster-autoscaler.kubernetes.io/",
        "software that follows the Cluster Autoscaler's convention",
        "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md",
    ),
];

/// The known ones and those an administrator adds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StartupTaints {
    added: Vec<String>,
}

impl StartupTaints {
    /// The known ones and these keys; one that ends with `/` stands for every key that begins so.
    pub fn with(added: impl IntoIterator<Item = String>) -> Self {
        Self {
            added: added.into_iter().collect(),
        }
    }

    /// Whether well-known software removes a taint with this key while a node starts.
    pub fn contains(&self, key: &str) -> bool {
        known(key).is_some() || self.added.iter().any(|pattern| matches(pattern, key))
    }
}

/// What is known about a taint key.
pub fn known(key: &str) -> Option<&'static KnownStartupTaint> {
    KNOWN.iter().find(|row| matches(row.key, key))
}

fn matches(pattern: &str, key: &str) -> bool {
    if pattern.ends_with('/') {
        key.len() > pattern.len() && key.starts_with(pattern)
    } else {
        key == pattern
    }
}
