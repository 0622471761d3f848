//! Would nodes drift on the day of the swap, because Kerf computes another hash of their NodePool's template?

use super::facts::{Facts, title};
use super::finding::{Finding, Level};
use kerf_api::hash::{NODE_POOL_HASH_VERSION, has_drifted};
use kerf_api::{NodeClaim, NodePool, annotations, labels};
use std::collections::BTreeMap;

const CHECK: &str = "drift";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = facts
        .pools
        .iter()
        .filter_map(|pool| judge(pool, &facts.claims))
        .collect();
    if findings.is_empty() {
        let (pools, claims) = (facts.pools.len(), facts.claims.len());
        let message = format!("the hashes of {pools} NodePools and {claims} NodeClaims stay as they are");
        findings.push(Finding::new(Level::Ok, CHECK, message));
    }
    findings
}

fn judge(pool: &NodePool, claims: &[NodeClaim]) -> Option<Finding> {
    let none = BTreeMap::new();
    let name = pool.metadata.name.as_ref();
    let object = title("NodePool", None, name.map(String::as_str));
    let before = pool.metadata.annotations.as_ref().unwrap_or(&none);
    let version = before.get(annotations::NODE_POOL_HASH_VERSION).map(String::as_str);
    let hash = pool.drift_hash();
    if version != Some(NODE_POOL_HASH_VERSION) {
        let written = version.unwrap_or("none");
        let message = format!(
            "hash version is {written}, Kerf's is {NODE_POOL_HASH_VERSION}: Kerf writes the hashes of the pool and its claims anew, and nothing drifts"
        );
        return Some(Finding::new(Level::Note, CHECK, message).on(object));
    }
    if before.get(annotations::NODE_POOL_HASH) == Some(&hash) {
        return None;
    }
    let mut after = before.clone();
    after.insert(annotations::NODE_POOL_HASH.to_owned(), hash.clone());
    let of_pool = claims.iter().filter(|claim| {
        let labels = claim.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get(labels::NODE_POOL));
        label.is_some() && label == name
    });
    let drifting = of_pool.filter(|claim| {
        let claim = claim.metadata.annotations.as_ref().unwrap_or(&none);
        has_drifted(&after, claim) && !has_drifted(before, claim)
    });
    let count = drifting.count();
    let old = before.get(annotations::NODE_POOL_HASH).map_or("none", String::as_str);
    let message = format!("hash is {old}, Kerf computes {hash}");
    Some(
        match count {
            0 => Finding::new(
                Level::Warning,
                CHECK,
                format!("{message}; no NodeClaim drifts because of it"),
            ),
            count => {
                let reason = "the pool was changed while no controller ran, or this is a defect of Kerf";
                Finding::new(
                    Level::Problem,
                    CHECK,
                    format!("{message}: {count} NodeClaims would drift; {reason}"),
                )
            }
        }
        .on(object),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    fn pool(version: &str, hash: Option<&str>) -> NodePool {
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let template = json!({"spec": {"nodeClassRef": class, "requirements": []}});
        let mut pool: NodePool =
            serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"template": template}}))
                .expect("a pool");
        let hash = hash.map_or_else(|| pool.drift_hash(), str::to_owned);
        pool.metadata.annotations = Some(marks(version, &hash));
        pool
    }

    fn marks(version: &str, hash: &str) -> BTreeMap<String, String> {
        BTreeMap::from([
            (annotations::NODE_POOL_HASH_VERSION.to_owned(), version.to_owned()),
            (annotations::NODE_POOL_HASH.to_owned(), hash.to_owned()),
        ])
    }

    fn claim(hash: &str) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.labels = Some([(labels::NODE_POOL.to_owned(), "web".to_owned())].into());
        claim.metadata.annotations = Some(marks("v3", hash));
        claim
    }

    fn result(pool: NodePool, claims: Vec<NodeClaim>) -> (Level, String) {
        let mut facts = Facts::new(Timestamp::UNIX_EPOCH, None);
        facts.pools = vec![pool];
        facts.claims = claims;
        let [finding] = check(&facts).try_into().expect("one finding");
        (finding.result, finding.message)
    }

    #[test]
    fn equal_hashes_and_other_versions_do_not_drift() {
        assert_eq!(result(pool("v3", None), vec![claim("7")]).0, Level::Ok);
        let (level, message) = result(pool("v2", Some("1")), vec![claim("1")]);
        assert_eq!(level, Level::Note);
        assert!(message.contains("nothing drifts"), "{message}");
    }

    #[test]
    fn claims_that_would_drift_are_counted() {
        // The second one drifted before.
        let (level, message) = result(pool("v3", Some("1")), vec![claim("1"), claim("2"), claim("1")]);
        assert_eq!(level, Level::Problem);
        assert!(message.contains(": 2 NodeClaims would drift"), "{message}");
        assert_eq!(result(pool("v3", Some("1")), vec![claim("2")]).0, Level::Warning);
    }
}
