//! Can this version of Kerf launch the machines that the NodePools ask for, and does it know the API server?

use super::facts::{AWS_GROUP, Facts, title};
use super::finding::{Finding, Level};
use kerf_api::Provider;

/// The API group of KWOKNodeClasses.
const KWOK_GROUP: &str = "karpenter.kwok.sh";

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
    let group = match facts.provider() {
        Provider::Aws => AWS_GROUP,
        Provider::Kwok | Provider::Core => KWOK_GROUP,
    };
    for pool in &facts.pools {
        let class = &pool.spec.template.spec.node_class_ref;
        if class.group != group {
            let message = format!(
                "uses the node class {} of {}; a controller launches machines of one provider, here {group}",
                class.kind, class.group
            );
            let object = title("NodePool", None, pool.metadata.name.as_deref());
            findings.push(Finding::new(Level::Problem, "provider", message).on(object));
        }
    }
    findings
}
