//! What Kerf does in another way than Karpenter, and how to keep Karpenter's way where there is a choice.

use super::finding::{Finding, Level};

const DIFFERENCES: [&str; 5] = [
    "nodes are chosen by lowest price plus node overhead cost, with few more nodes than Karpenter; PACKING=upstream keeps Karpenter's greedy",
    "a slow launch does not stop provisioning and disruption of the rest of the cluster",
    "startup taints of well-known software are known without a declaration in the NodePool",
    "profiles for Go's tools are not served; memory limits have no effect",
    "docs/deviations.md lists every difference; Karpenter can take the cluster back at any time",
];

pub(super) fn all() -> Vec<Finding> {
    let note = |text: &&str| Finding::new(Level::Note, "differences", *text);
    DIFFERENCES.iter().map(note).collect()
}
