//! Drift hashes of pools, and of claims when the algorithm changes (DIS-221 to DIS-234).

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::hash::NODE_POOL_HASH_VERSION;
use kerf_api::{Conditioned, NodeClaim, NodePool, annotations, conditions, labels};
use kerf_runtime::client::{Lock, Part};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};

use super::write::write;
use crate::changes::Change;
use crate::claim_writes::write_object;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

/// `nodepool.hash`.
pub(crate) struct PoolHash {
    context: Context,
    work: WorkLoop<String>,
}

impl PoolHash {
    /// The controller.
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, "nodepool.hash", RateLimit::DEFAULT)
                .for_kind::<NodePool>()
                .workers(context.workers(10, 1000)),
            context: context.clone(),
        })
    }
}

fn annotation<'a>(all: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    all?.get(key).map(String::as_str)
}

fn stamp(all: &mut BTreeMap<String, String>, hash: Option<&str>) {
    all.insert(
        annotations::NODE_POOL_HASH_VERSION.to_owned(),
        NODE_POOL_HASH_VERSION.to_owned(),
    );
    if let Some(hash) = hash {
        all.insert(annotations::NODE_POOL_HASH.to_owned(), hash.to_owned());
    }
}

/// A claim of the pool with the hash of the current algorithm version; `None` when it has it already. A drifted claim keeps its hash and
/// stays drifted (DIS-231).
fn restamped(claim: &NodeClaim, pool: &str, hash: &str) -> Option<NodeClaim> {
    let meta = &claim.metadata;
    let of_pool = meta
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::NODE_POOL))
        .is_some_and(|name| name == pool);
    let version = annotation(meta.annotations.as_ref(), annotations::NODE_POOL_HASH_VERSION);
    if !of_pool || version == Some(NODE_POOL_HASH_VERSION) {
        return None;
    }
    let drifted = claim.condition(conditions::node_claim::DRIFTED).is_some();
    let mut after = claim.clone();
    stamp(
        after.metadata.annotations.get_or_insert_default(),
        (!drifted).then_some(hash),
    );
    Some(after)
}

impl Reconciler for PoolHash {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Pool(pool) if !pool.is_gone() => vec![pool.name().to_owned()],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let cluster = &self.context.cluster;
        let Some(pool) = cluster.pool(name) else {
            return Ok(Outcome::Done);
        };
        let hash = pool.drift_hash();
        if annotation(pool.metadata.annotations.as_ref(), annotations::NODE_POOL_HASH_VERSION)
            != Some(NODE_POOL_HASH_VERSION)
        {
            // Claims first: if one fails, the pool keeps its old version and everything is tried again (DIS-232).
            for claim in cluster.claims() {
                let Some(after) = restamped(&claim, name, &hash) else {
                    continue;
                };
                write_object(&self.context, &claim, &after, Lock::None).await?;
            }
        }
        let marks = |pool: &mut NodePool| stamp(pool.metadata.annotations.get_or_insert_default(), Some(&hash));
        write(&self.context, name, Part::Object, Lock::None, marks).await?;
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kerf_api::ConditionSet;

    use super::*;

    fn claim(version: Option<&str>) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.labels = Some([(labels::NODE_POOL.to_owned(), "web".to_owned())].into());
        let mut marks: BTreeMap<String, String> = [(annotations::NODE_POOL_HASH.to_owned(), "old".to_owned())].into();
        marks.extend(version.map(|version| (annotations::NODE_POOL_HASH_VERSION.to_owned(), version.to_owned())));
        claim.metadata.annotations = Some(marks);
        claim
    }

    fn marks(claim: &NodeClaim) -> (Option<&str>, Option<&str>) {
        let all = claim.metadata.annotations.as_ref();
        (
            annotation(all, annotations::NODE_POOL_HASH),
            annotation(all, annotations::NODE_POOL_HASH_VERSION),
        )
    }

    // DIS-231, DIS-233, API-201
    #[test]
    fn claims_of_another_version_are_marked_anew_but_drifted_ones_stay_drifted() {
        let after = restamped(&claim(Some("v2")), "web", "new").expect("marked");
        assert_eq!(marks(&after), (Some("new"), Some("v3")));
        let mut drifted = claim(None);
        ConditionSet::new(&mut drifted, Timestamp::UNIX_EPOCH).set_true("Drifted");
        let after = restamped(&drifted, "web", "new").expect("marked");
        assert_eq!(marks(&after), (Some("old"), Some("v3")));
    }

    // DIS-232, API-201
    #[test]
    fn claims_of_this_version_and_of_other_pools_are_left_alone() {
        assert_eq!(restamped(&claim(Some("v3")), "web", "new"), None);
        assert_eq!(restamped(&claim(Some("v2")), "batch", "new"), None);
    }
}
