//! The deadline by which the node of a claim has to be empty (LIF-068, LIF-097), read from the claim.

use jiff::Timestamp;
use kerf_api::{NodeClaim, annotations};
use kerf_lifecycle::deadline;
pub(crate) use kerf_lifecycle::deadline::{default_text, expiring_message, rfc3339};

/// The annotation that names the deadline cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "annotation {} of NodeClaim {} is {text:?}, which is no RFC 3339 time: write one such as 2026-11-20T14:00:00Z, or remove it",
    annotations::TERMINATION_TIMESTAMP,
    claim.as_deref().unwrap_or("without a name")
)]
pub(crate) struct DeadlineError {
    claim: Option<String>,
    text: String,
}

/// The deadline of a claim's node; `None` where there is none.
pub(crate) fn deadline(claim: &NodeClaim) -> Result<Option<Timestamp>, DeadlineError> {
    deadline::deadline(written(claim)).map_err(|error| DeadlineError {
        claim: claim.metadata.name.clone(),
        text: error.text,
    })
}

/// The deadline to write onto a deleted claim; `None` when it needs none or has one.
pub(crate) fn first_deadline(claim: &NodeClaim) -> Option<Timestamp> {
    let deleted = claim.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let grace_period = claim.spec.termination_grace_period.as_ref();
    let grace_period = grace_period.map(|period| period.value().to_signed());
    deadline::first_deadline(deleted, grace_period, written(claim))
}

fn written(claim: &NodeClaim) -> Option<&str> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(annotations::TERMINATION_TIMESTAMP).map(String::as_str)
}
