//! The metadata of a claim that a provider needs.

use crate::error::CloudError;
use kerf_api::NodeClaim;

/// The claim's name, which API servers always set; its absence is an error.
pub fn claim_name(claim: &NodeClaim) -> Result<&str, CloudError> {
    let name = claim.metadata.name.as_deref();
    name.ok_or_else(|| CloudError::other("the NodeClaim has no name"))
}

/// What identifies the launch of a claim: its uid, or its name where it was not created through an API server. Without both it is an error.
pub fn launch_id(claim: &NodeClaim) -> Result<&str, CloudError> {
    match claim.metadata.uid.as_deref() {
        Some(uid) => Ok(uid),
        None => claim_name(claim),
    }
}
