//! Once quiet, every pod that fits somewhere runs. Worlds are made so that every pod fits the pool it names, or any pool; only a limit may
//! stand in the way.

use super::Invariant;
use crate::view::{Pod, Pool, View};

/// The largest type of the worlds' catalogue has this much cpu, in thousandths.
const LARGEST_CPU_M: i64 = 16_000;

pub(crate) struct Running;

/// Whether the pool could have a machine for the pod, whatever its limit.
fn suits(pool: &Pool, pod: &Pod) -> bool {
    !pool.deleting
        && pod
            .selector
            .iter()
            .all(|(key, value)| pool.labels.get(key) == Some(value))
}

/// Whether the pool's limit may stand in the way: a machine of the largest type does not fit under it any more.
fn is_limited(seen: &View, pool: &Pool) -> bool {
    let used: i64 = seen.claims_of(&pool.name).map(|claim| claim.cpu_m).sum();
    pool.cpu_limit_m.is_some_and(|limit| used + LARGEST_CPU_M > limit)
}

fn could_hold(seen: &View, pool: &Pool, pod: &Pod) -> bool {
    suits(pool, pod) && !is_limited(seen, pool) && !pool.is_static
}

impl Invariant for Running {
    fn name(&self) -> &'static str {
        "every pod that fits somewhere runs"
    }

    fn quiet(&self, seen: &View) -> Vec<String> {
        let waiting = seen
            .pods
            .values()
            .filter(|pod| !pod.is_finished() && (pod.phase != "Running" || !pod.ready));
        let fits = |pod: &&Pod| {
            // A daemon's place is one certain node, which may be full by the time the daemon's pod is created.
            pod.node.is_some() || !pod.is_daemon() && seen.pools.values().any(|pool| could_hold(seen, pool, pod))
        };
        waiting
            .filter(fits)
            .map(|pod| format!("{} does not run: {} on {:?}", pod.key, pod.phase, pod.node))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_may_wait_only_for_a_limit() {
        let mut seen = View::default();
        let pod = Pod {
            selector: [("team".to_owned(), "a".to_owned())].into(),
            phase: "Pending".into(),
            ..Pod::default()
        };
        seen.pods.insert("p".into(), pod);
        let pool = |team: &str, limit: Option<i64>| Pool {
            labels: [("team".to_owned(), team.to_owned())].into(),
            cpu_limit_m: limit,
            ..Pool::default()
        };
        seen.pools.insert("a".into(), pool("a", None));
        assert_eq!(Running.quiet(&seen).len(), 1);
        seen.pools.insert("a".into(), pool("a", Some(8_000)));
        assert!(Running.quiet(&seen).is_empty());
        seen.pools.insert("a".into(), pool("b", None));
        assert!(Running.quiet(&seen).is_empty());
    }
}
