//! Which instances no claim owns (AWS-325).

use crate::instance::Instance;
use crate::provider_id::instance_id;
use crate::tags;
use jiff::{SignedDuration, Timestamp};
use kerf_api::NodeClaim;
use std::collections::BTreeSet;

/// Age from which an instance without claim may be removed: a claim gets its provider id a moment after the launch (AWS-325).
pub const ORPHAN_AGE: SignedDuration = SignedDuration::from_secs(30);

/// The id of a claim's instance.
fn instance_of(claim: &NodeClaim) -> Option<&str> {
    let status = claim.status.as_ref()?;
    instance_id(status.provider_id.as_deref()?).ok()
}

/// The ids of instances that no claim owns: old enough, not terminating, with the tags of the cluster (AWS-325). The claims must have been
/// listed after the instances.
///
/// A claim without a provider id owns what was launched for it, as while the API server refuses to store the id (deviation at AWS-325).
/// `launched_for` is the name of the claim that an instance was launched for, where that is known.
pub fn orphans<'a>(
    instances: &'a [Instance],
    claims: &[NodeClaim],
    launched_for: impl Fn(&str) -> Option<String>,
    cluster: &str,
    now: Timestamp,
) -> Vec<&'a str> {
    let owned: BTreeSet<&str> = claims.iter().filter_map(instance_of).collect();
    let waiting: BTreeSet<&str> = claims
        .iter()
        .filter(|claim| instance_of(claim).is_none())
        .filter_map(|claim| claim.metadata.name.as_deref())
        .collect();
    let is_owned =
        |id: &str| owned.contains(id) || launched_for(id).is_some_and(|claim| waiting.contains(claim.as_str()));
    let is_orphan = |instance: &&Instance| {
        let described = &instance.described;
        !instance.is_terminating()
            && now.duration_since(described.launched) > ORPHAN_AGE
            && tags::is_owned(&described.tags, cluster)
            && !is_owned(&described.id)
    };
    instances
        .iter()
        .filter(is_orphan)
        .map(|instance| instance.described.id.as_str())
        .collect()
}
