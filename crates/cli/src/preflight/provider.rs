//! Can this version of Kerf launch the machines that the NodePools ask for, and does it know the API server?

use super::facts::Facts;
use super::finding::{Finding, Level};

/// The API group of the provider's node classes.
const GROUP: &str = "karpenter.kwok.sh";

/// The oldest minor version of Kubernetes 1 that is supported.
const MINOR_MIN: u32 = 29;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    match facts.server_version {
        Some((1, minor)) if minor < MINOR_MIN => {
            let message = format!("Kubernetes 1.{minor} is not supported; 1.{MINOR_MIN} is the oldest version");
            findings.push(Finding::new(Level::Problem, "server", message));
        }
        Some((major, minor)) => {
            findings.push(Finding::new(Level::Ok, "server", format!("Kubernetes {major}.{minor}")));
        }
        None => {}
    }
    for pool in &facts.pools {
        let class = &pool.spec.template.spec.node_class_ref;
        if class.group != GROUP {
            let message = format!(
                "uses the node class {} of {}; this version of Kerf launches machines of {GROUP} only",
                class.kind, class.group
            );
            let object = format!("NodePool {}", pool.metadata.name.as_deref().unwrap_or_default());
            findings.push(Finding::new(Level::Problem, "provider", message).on(object));
        }
    }
    findings
}
