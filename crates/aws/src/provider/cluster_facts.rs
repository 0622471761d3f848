//! What the provider knows of the cluster (section 25 of `docs/behaviour/aws.md`).

use crate::cluster::{ClusterVersion, cluster_cidr, is_ipv6};
use crate::services::{CallResult, Eks};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The cluster the nodes join.
#[derive(Debug)]
pub struct ClusterFacts {
    /// Name.
    pub name: String,
    /// Region.
    pub region: String,
    /// URL of the API server.
    pub endpoint: String,
    /// CA bundle as base64 text.
    pub ca_bundle: String,
    /// Address of the DNS Service, if there is one.
    pub kube_dns: Option<String>,
    version: Mutex<ClusterVersion>,
    cidr: Mutex<Option<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClusterFacts {
    /// A cluster with this name, region, URL, CA bundle, address of DNS and version.
    pub fn new(
        name: &str,
        region: &str,
        endpoint: &str,
        ca_bundle: &str,
        kube_dns: Option<&str>,
        version: ClusterVersion,
    ) -> Self {
        Self {
            name: name.to_owned(),
            region: region.to_owned(),
            endpoint: endpoint.to_owned(),
            ca_bundle: ca_bundle.to_owned(),
            kube_dns: kube_dns.map(str::to_owned),
            version: Mutex::new(version),
            cidr: Mutex::default(),
        }
    }

    /// The version known now.
    pub fn version(&self) -> ClusterVersion {
        *locked(&self.version)
    }

    /// Takes over a version. Returns whether it is another one.
    pub fn set_version(&self, version: ClusterVersion) -> bool {
        std::mem::replace(&mut *locked(&self.version), version) != version
    }

    /// The addresses of Services, if they were asked for already.
    pub fn cidr(&self) -> Option<String> {
        locked(&self.cidr).clone()
    }

    /// Asks EKS for the addresses of Services, unless they are known: they never change (AWS-336).
    pub async fn resolve_cidr(&self, eks: &dyn Eks) -> CallResult<()> {
        if self.cidr().is_some() {
            return Ok(());
        }
        let found = eks.cluster(&self.name).await?;
        let cidr = cluster_cidr(found.service_ipv4_cidr.as_deref(), found.service_ipv6_cidr.as_deref());
        *locked(&self.cidr) = cidr.map(str::to_owned);
        Ok(())
    }

    /// Whether the cluster has IPv6 addresses.
    pub fn is_ipv6(&self) -> bool {
        is_ipv6(self.kube_dns.as_deref())
    }
}
