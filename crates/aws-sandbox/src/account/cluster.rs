//! The EKS cluster, and the zones that traffic is shifted away from.

use super::Account;
use super::refusal::{Answer, Refusal};
use kerf_aws::services::ClusterDescription;
use kerf_aws::zonal_shift::Shift;

/// An EKS cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EksCluster {
    /// Name.
    pub name: String,
    /// What EKS says of it.
    pub description: ClusterDescription,
    /// Its CA as base64 text.
    pub certificate: String,
    /// The shifts of its zones; `None` if zonal shift does not know the cluster.
    pub shifts: Option<Vec<Shift>>,
}

impl Account {
    /// A cluster by its name.
    pub fn cluster(&self, name: &str) -> Answer<&EksCluster> {
        let found = self.clusters.iter().find(|cluster| cluster.name == name);
        found.ok_or_else(|| {
            let message = format!("No cluster found for name: {name}.");
            Refusal::new("ResourceNotFoundException", message).with_status(404)
        })
    }

    /// The cluster with the shifts of its zones.
    pub fn managed_resource(&self, arn: &str) -> Answer<(&EksCluster, &[Shift])> {
        let found = self.clusters.iter().find(|cluster| cluster.description.arn == arn);
        let managed = found.and_then(|cluster| Some((cluster, cluster.shifts.as_deref()?)));
        managed.ok_or_else(|| {
            let message = format!("The resource {arn} is not registered.");
            Refusal::new("ResourceNotFoundException", message).with_status(404)
        })
    }
}
