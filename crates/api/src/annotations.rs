//! Annotation keys (API-164 to API-173).

/// `true` blocks voluntary disruption; on pods also a positive duration since their start (API-164).
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Decimal drift hash of a pool's template (API-165).
pub const NODE_POOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the algorithm behind [`NODE_POOL_HASH`] (API-166).
pub const NODE_POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// Decimal drift hash of an EC2NodeClass (AWS-034).
pub const EC2_NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Version of the algorithm behind [`EC2_NODE_CLASS_HASH`] (AWS-034).
pub const EC2_NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// RFC 3339 time after which a node's pods are deleted forcibly (API-167).
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Whether minimum values were relaxed for this claim, `true` or `false` (API-168).
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// Comma-separated drivers that must publish devices before the node counts as initialised (API-169).
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// `true` when an overlay changed the price of an instance type of the claim (API-170).
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// `true` when an overlay changed the capacity of an instance type of the claim (API-170).
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// Reserved for compatibility, never read (API-171).
pub const PROVIDER_COMPATIBILITY: &str = "compatibility.karpenter.sh/provider";
/// `true` on the virtual pods of a capacity buffer, which are never stored (API-172).
pub const BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// Name of the buffer a virtual pod belongs to (API-173).
pub const BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
/// Namespace of the buffer a virtual pod belongs to (API-173).
pub const BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";

/// On a NodePool, with the value `"true"`: a node that only a do-not-disrupt pod keeps from being consolidated takes no more pods, and
/// is deleted when the pod has finished.
pub const RETIRE_BLOCKED: &str = "kerf.sh/retire-blocked";

/// On a NodePool: how its nodes are chosen, instead of the option `--packing`.
pub const PACKING: &str = "kerf.sh/packing";
/// On a NodePool: dollars per hour that a node costs besides its price, instead of the option `--node-overhead-cost`.
pub const NODE_OVERHEAD_COST: &str = "kerf.sh/node-overhead-cost";

/// The annotation value that means yes.
pub const TRUE: &str = "true";
