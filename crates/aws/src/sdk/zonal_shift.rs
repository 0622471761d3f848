//! ARC zonal shift on the SDK.

use super::errors::api_error;
use super::values::time;
use crate::services::{CallResult, ZonalShiftService};
use crate::zonal_shift::Shift;
use async_trait::async_trait;
use aws_sdk_arczonalshift::types::{AppliedStatus, ZonalShiftInResource};

pub(super) struct SdkZonalShift(pub(super) aws_sdk_arczonalshift::Client);

fn shift(from: &ZonalShiftInResource) -> Option<Shift> {
    Some(Shift {
        zone_id: from.away_from().to_owned(),
        expires: time(Some(from.expiry_time()))?,
        applied: *from.applied_status() == AppliedStatus::Applied,
    })
}

#[async_trait]
impl ZonalShiftService for SdkZonalShift {
    async fn shifts(&self, cluster_arn: &str) -> CallResult<Vec<Shift>> {
        let answer = self
            .0
            .get_managed_resource()
            .resource_identifier(cluster_arn)
            .send()
            .await;
        let answer = answer.map_err(|error| api_error(&error))?;
        Ok(answer.zonal_shifts().iter().filter_map(shift).collect())
    }
}
