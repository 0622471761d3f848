//! Finds out at start what the provider must know of the cluster (AWS-334 to AWS-336).

use super::cluster_facts::ClusterFacts;
use crate::cluster::ClusterVersion;
use crate::error_advice::explain;
use crate::errors::ApiError;
use crate::options::AwsOptions;
use crate::services::{ClusterDescription, Services};
use k8s_openapi::api::core::v1::Service;
use kerf_runtime::client::{describe, found};
use kube::{Api, Client};

/// Where the DNS Service of a cluster is.
const DNS_SERVICE: (&str, &str) = ("kube-system", "kube-dns");

/// Why the cluster is not known. The process cannot start without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// EKS could not be asked for the cluster, or does not know it.
    #[error("describing cluster {cluster:?}, {}{}", explain(.error), without_eks(.error))]
    Describe {
        /// Name of the cluster.
        cluster: String,
        /// What EKS said.
        error: ApiError,
    },
    /// The API server could not be asked for its version.
    #[error("reading the version of the cluster, {0}")]
    Version(String),
    /// The version cannot be read.
    #[error("the version of the cluster, {0:?}, cannot be read")]
    UnreadableVersion(String),
}

/// How to do without EKS, where it may not be asked or does not answer.
fn without_eks(error: &ApiError) -> &'static str {
    if error.is_access_denied() || error.is_unanswered() {
        "; or set --cluster-endpoint, so that eks:DescribeCluster is not needed"
    } else {
        ""
    }
}

/// What is known of the cluster from options, EKS and the API server. `client_ca` is the CA bundle that the Kubernetes client trusts, as
/// base64 text.
pub async fn discover_cluster(
    services: &Services,
    options: &AwsOptions,
    region: &str,
    client: &Client,
    client_ca: &str,
) -> Result<ClusterFacts, DiscoveryError> {
    let endpoint = if options.cluster_endpoint.is_empty() {
        describe_cluster(services, options).await?.endpoint
    } else {
        options.cluster_endpoint.clone()
    };
    let ca_bundle = if options.cluster_ca_bundle.is_empty() {
        client_ca
    } else {
        &options.cluster_ca_bundle
    };
    let kube_dns = kube_dns(client).await;
    let version = read_version(services, options, client).await?;
    Ok(ClusterFacts::new(
        &options.cluster_name,
        region,
        &endpoint,
        ca_bundle,
        kube_dns.as_deref(),
        version,
    ))
}

async fn describe_cluster(services: &Services, options: &AwsOptions) -> Result<ClusterDescription, DiscoveryError> {
    let described = services.eks.cluster(&options.cluster_name).await;
    described.map_err(|error| DiscoveryError::Describe {
        cluster: options.cluster_name.clone(),
        error,
    })
}

/// The version of the cluster: that of EKS with the option, else that of the API server (AWS-335).
pub async fn read_version(
    services: &Services,
    options: &AwsOptions,
    client: &Client,
) -> Result<ClusterVersion, DiscoveryError> {
    let text = if options.eks_control_plane {
        describe_cluster(services, options).await?.version
    } else {
        let info = client.apiserver_version().await;
        let info = info.map_err(|error| DiscoveryError::Version(describe(&error)))?;
        format!("{}.{}", info.major, info.minor)
    };
    ClusterVersion::parse(&text).ok_or(DiscoveryError::UnreadableVersion(text))
}

/// The address of the DNS Service; a cluster without is only logged.
async fn kube_dns(client: &Client) -> Option<String> {
    let services = Api::<Service>::namespaced(client.clone(), DNS_SERVICE.0);
    match found(services.get(DNS_SERVICE.1).await) {
        Ok(service) => {
            let address = service.and_then(|service| service.spec?.cluster_ip);
            if address.is_none() {
                tracing::info!("the cluster has no Service kube-system/kube-dns");
            }
            address
        }
        Err(error) => {
            tracing::error!(
                error = describe(&error),
                "failed getting the Service kube-system/kube-dns"
            );
            None
        }
    }
}
