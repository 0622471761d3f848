//! The outcome of a CreateFleet call: an instance, or the error of the claim (AWS-255).

use super::fleet_errors::FleetError;
use crate::errors::{ApiError, classify};
use kerf_cloud::CloudError;
use std::collections::BTreeSet;

/// The error of a claim for which no instance was launched. Without any error but missing capacity the claim is dropped and its pods are
/// scheduled again; anything else is retried and shown in the claim's condition.
pub fn failure(errors: &[FleetError]) -> CloudError {
    let is_capacity = |error: &ApiError| error.is_unfulfillable() || error.is_service_linked_role_missing();
    let distinct: BTreeSet<String> = errors.iter().map(|error| error.error.to_string()).collect();
    let distinct: Vec<String> = distinct.into_iter().collect();
    let text = distinct.join("; ");
    if errors.iter().all(|error| is_capacity(&error.error)) {
        return CloudError::insufficient_capacity(format!("with fleet error(s), {text}"));
    }
    let found = classify(&text);
    CloudError::Create {
        reason: found.reason.into(),
        message: format!("{}: {text}", found.message).into(),
    }
}

/// An answer of CreateFleet for one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetOutcome {
    /// Id of the instance.
    pub instance_id: String,
    /// Instance type of the override that was used.
    pub instance_type: String,
    /// Image of the override.
    pub image_id: String,
    /// Zone of the override.
    pub zone: String,
    /// Subnet of the override.
    pub subnet_id: Option<String>,
}
