//! The CA bundle that the Kubernetes client trusts, byte for byte: it is part of what node classes hash (AWS-334).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use std::path::Path;

/// Where a pod finds the CA of its cluster.
const IN_CLUSTER: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// The bundle as base64 text: that of the kubeconfig file, if one is named; else that of `KUBECONFIG` or `~/.kube/config`; else that of the
/// pod. Empty if there is none.
pub fn client_ca(kubeconfig: Option<&Path>) -> String {
    let read = kubeconfig.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    read.map_or_else(|_| encoded(Path::new(IN_CLUSTER)), |config| of_kubeconfig(&config))
}

#[expect(
    clippy::disallowed_methods,
    reason = "read once at start, before anything is decided"
)]
fn encoded(file: &Path) -> String {
    std::fs::read(file).map_or_else(|_| String::new(), |bytes| STANDARD.encode(bytes))
}

/// The bundle of the cluster of the current context.
fn of_kubeconfig(config: &Kubeconfig) -> String {
    let current = config.current_context.as_deref();
    let context = config.contexts.iter().find(|one| Some(one.name.as_str()) == current);
    let name = context
        .and_then(|one| one.context.as_ref())
        .map(|context| context.cluster.as_str());
    let cluster = config.clusters.iter().find(|one| Some(one.name.as_str()) == name);
    let Some(cluster) = cluster.and_then(|one| one.cluster.as_ref()) else {
        return String::new();
    };
    match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => data.clone(),
        (None, Some(file)) => encoded(Path::new(file)),
        (None, None) => String::new(),
    }
}
