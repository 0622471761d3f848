//! Tags of EC2 resources: those of the class, and those that mark what belongs to the cluster.

use std::collections::BTreeMap;

use kerf_api::ec2_node_class::is_restricted_tag;

/// Tag with the name of the NodePool.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// Tag with the name of the NodeClaim.
pub const NODE_CLAIM: &str = "karpenter.sh/nodeclaim";
/// Tag with the name of the EC2NodeClass.
pub const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// Tag with the name of the cluster.
pub const CLUSTER_NAME: &str = "eks:eks-cluster-name";
/// Tag with the name that the EC2 console shows.
pub const NAME: &str = "Name";
/// Tag with the region, on instance profiles.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Value of the cluster tag on resources that the cluster owns.
pub const OWNED: &str = "owned";

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// The key of the tag that says that a resource belongs to a cluster.
pub fn cluster_key(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// The tags of everything a launch creates: those of the class and the fixed ones, which win (AWS-176).
pub fn launch_tags(class_tags: Option<&Tags>, cluster: &str, node_pool: &str, node_class: &str) -> Tags {
    let mut tags = class_tags.cloned().unwrap_or_default();
    let fixed = [
        (cluster_key(cluster), OWNED),
        (NODE_POOL.to_owned(), node_pool),
        (CLUSTER_NAME.to_owned(), cluster),
        (NODE_CLASS.to_owned(), node_class),
    ];
    tags.extend(fixed.map(|(key, value)| (key, value.to_owned())));
    tags
}

/// The tags of an instance profile (AWS-093).
pub fn profile_tags(class_tags: Option<&Tags>, cluster: &str, node_class: &str, region: &str) -> Tags {
    let mut tags = class_tags.cloned().unwrap_or_default();
    let fixed = [
        (cluster_key(cluster), OWNED),
        (CLUSTER_NAME.to_owned(), cluster),
        (NODE_CLASS.to_owned(), node_class),
        (REGION.to_owned(), region),
    ];
    tags.extend(fixed.map(|(key, value)| (key, value.to_owned())));
    tags
}

/// The tags an instance lacks once its node is known: names that were not known at launch. What the instance has is never overwritten
/// (AWS-327).
pub fn missing_name_tags(present: &Tags, node: &str, claim: &str, cluster: &str) -> Tags {
    let wanted = [(NAME, node), (NODE_CLAIM, claim), (CLUSTER_NAME, cluster)];
    let missing = wanted.into_iter().filter(|(key, _)| !present.contains_key(*key));
    missing.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Whether an instance carries the three tags that prove that the cluster's provider made it (AWS-325).
pub fn is_owned(present: &Tags, cluster: &str) -> bool {
    present.contains_key(NODE_POOL)
        && present.contains_key(NODE_CLASS)
        && present.get(CLUSTER_NAME).is_some_and(|name| name == cluster)
}

/// The first tag of the class that only the provider may set (AWS-071, AWS-285).
pub fn first_restricted(class_tags: Option<&Tags>) -> Option<&str> {
    let mut keys = class_tags.into_iter().flatten().map(|(key, _)| key.as_str());
    keys.find(|key| is_restricted_tag(key))
}
