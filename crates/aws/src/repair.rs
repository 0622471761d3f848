//! Node conditions for which a node is replaced (AWS-324).

use kerf_cloud::RepairPolicy;
use std::time::Duration;

const LONG: Duration = Duration::from_mins(30);
/// Accelerators fail for good, so their nodes are replaced sooner.
const SHORT: Duration = Duration::from_mins(10);

/// The conditions kubelet and the EKS node monitoring agent report.
pub fn repair_policies() -> Vec<RepairPolicy> {
    let table = [
        ("Ready", "False", LONG),
        ("Ready", "Unknown", LONG),
        ("AcceleratedHardwareReady", "False", SHORT),
        ("StorageReady", "False", LONG),
        ("NetworkingReady", "False", LONG),
        ("KernelReady", "False", LONG),
        ("ContainerRuntimeReady", "False", LONG),
    ];
    table
        .into_iter()
        .map(|(condition, status, toleration)| RepairPolicy::new(condition, status, toleration))
        .collect()
}
