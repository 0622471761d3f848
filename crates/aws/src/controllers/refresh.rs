//! Keeps what AWS says up to date: prices, instance types, the version of the cluster (AWS-177, AWS-222, AWS-335).

use crate::provider::{AwsCloud, read_version};
use kerf_runtime::ReconcileError;

/// Asks for prices on demand and as spot, both at once: the controller `providers.pricing`. What one of them answers counts also if the
/// other fails.
pub async fn refresh_prices(cloud: &AwsCloud) -> Result<(), ReconcileError> {
    let (on_demand, spot) = futures::join!(
        cloud.market.refresh_on_demand(&*cloud.services.price_list),
        cloud.market.refresh_spot(&*cloud.services.ec2, cloud.clock.now())
    );
    let errors: Vec<String> = [("on-demand", on_demand), ("spot", spot)]
        .into_iter()
        .filter_map(|(of, answer)| {
            let error = answer.err()?;
            Some(format!("{of} prices stay as they are: {error}"))
        })
        .collect();
    ReconcileError::of_all(&errors)
}

/// Asks for instance types and their zones: the controller `providers.instancetype`.
pub async fn refresh_instance_types(cloud: &AwsCloud) -> Result<(), ReconcileError> {
    Ok(cloud.types.refresh(&*cloud.services.ec2).await?)
}

/// Asks for the version of the cluster: the controller `providers.version`. A version that is not supported is an error when it is first
/// seen.
pub async fn refresh_version(cloud: &AwsCloud) -> Result<(), ReconcileError> {
    let version = read_version(&cloud.services, &cloud.options, &cloud.client).await?;
    let is_new = cloud.cluster.set_version(version);
    if is_new && !version.is_supported() {
        return Err(ReconcileError::message(format!(
            "Kubernetes {version} is not supported"
        )));
    }
    Ok(())
}
