//! Annotations the provider writes: on NodeClaims (AWS-360), and one on EC2NodeClasses.

use kerf_api::EC2NodeClass;

/// `true` once the instance has its name tags.
pub const INSTANCE_TAGGED: &str = "karpenter.k8s.aws/tagged";
/// `true` once the instance has the cluster name tag, which older versions did not write.
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
/// Name of the instance profile the instance was launched with.
pub const INSTANCE_PROFILE: &str = "karpenter.k8s.aws/instance-profile-name";
/// On an EC2NodeClass: the memory that registered nodes of its images reported, so that a restart does not forget it.
pub const DISCOVERED_MEMORY: &str = "kerf.sh/discovered-memory";

/// The text that a class keeps about memory.
pub(crate) fn kept_memory(class: &EC2NodeClass) -> Option<&str> {
    let annotations = class.metadata.annotations.as_ref()?;
    annotations.get(DISCOVERED_MEMORY).map(String::as_str)
}
