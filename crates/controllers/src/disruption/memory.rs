//! What consolidation remembers from turn to turn, so that it does not search again where nothing has changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_disruption::Survey;
use kerf_model::snapshot::Snapshot;
use tokio::time::Instant;

use super::methods::Method;
use super::sorting::Sorting;

/// Nothing is taken as unchanged for longer than this (DIS-126).
const FORGET: Duration = Duration::from_secs(300);

/// What an evaluation was based on: while it is the same, another one finds the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Basis {
    /// What LIF-207 counts.
    pub(super) epoch: u64,
    /// The claims that could be chosen from, by unique id.
    pub(super) eligible: Vec<Arc<str>>,
    /// The nodes pods could not be moved to.
    pub(super) closed: Vec<usize>,
}

/// What consolidation remembers from turn to turn.
#[derive(Debug, Default)]
pub(super) struct Memory {
    remembered: Mutex<Remembered>,
    /// What the nodes were sorted into.
    pub(super) sorting: Sorting,
}

#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// What the last search for several nodes that found nothing was based on, and when (DIS-124).
    pub(super) multi: Option<(Basis, Instant)>,
    /// The same for single nodes.
    pub(super) single: Option<(Basis, Instant)>,
    /// Pools no candidate of which was reached in time (DIS-177).
    pub(super) unseen: BTreeSet<Arc<str>>,
    /// What the last search for several nodes found out about each alone, for the turn that follows it.
    pub(super) survey: Option<(Arc<Snapshot>, Vec<usize>, Survey)>,
}

impl Remembered {
    fn quiet(&mut self, method: Method) -> &mut Option<(Basis, Instant)> {
        match method {
            Method::Multi => &mut self.multi,
            _ => &mut self.single,
        }
    }
}

impl Memory {
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Remembered) -> T) -> T {
        look(&mut self.remembered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_quiet(&self, method: Method, basis: &Basis) -> bool {
        self.with(|all| {
            let quiet = all.quiet(method).as_ref();
            quiet.is_some_and(|(last, at)| last == basis && at.elapsed() < FORGET)
        })
    }
}

/// Whether an evaluation need not be repeated while nothing changes (DIS-125, DIS-172): it found nothing, every candidate had budget, and it
/// was finished.
pub(super) const fn is_settled(found: bool, constrained: bool, timed_out: bool) -> bool {
    !found && !constrained && !timed_out
}

#[cfg(test)]
mod tests {
    use kerf_api::{NodeClaim, NodePool};
    use kerf_cloud::TypeBuilder;
    use kerf_model::instance_type::Catalogue;
    use kerf_model::intern::sym;
    use kerf_model::price::Price;
    use kerf_runtime::CancellationToken;
    use kerf_runtime::metrics::catalogue::DISRUPTION_FAILED_VALIDATIONS;
    use kerf_state::lean::{LeanNode, LeanPod};
    use serde_json::{Value, from_value, json};

    use super::super::methods::Turn;
    use super::super::registry::Registry;
    use super::*;
    use crate::cluster::Watched;
    use crate::context::Context;

    fn basis(epoch: u64, eligible: &[&str], closed: &[usize]) -> Basis {
        Basis {
            epoch,
            eligible: eligible.iter().map(|uid| Arc::from(*uid)).collect(),
            closed: closed.to_vec(),
        }
    }

    // DIS-124, DIS-126, DIS-315
    #[tokio::test(start_paused = true)]
    async fn a_method_rests_while_nothing_has_changed_for_five_minutes_at_most() {
        let memory = Memory::default();
        let seen = basis(7, &["a", "b"], &[3]);
        assert!(!memory.is_quiet(Method::Multi, &seen));
        memory.with(|all| all.multi = Some((seen.clone(), Instant::now())));
        assert!(memory.is_quiet(Method::Multi, &seen));
        assert!(!memory.is_quiet(Method::Single, &seen), "each has a memory of its own");
        for changed in [
            basis(8, &["a", "b"], &[3]),
            basis(7, &["a"], &[3]),
            basis(7, &["a", "b"], &[]),
        ] {
            assert!(!memory.is_quiet(Method::Multi, &changed), "{changed:?}");
        }
        tokio::time::advance(FORGET).await;
        assert!(!memory.is_quiet(Method::Multi, &seen));
    }

    // DIS-125, DIS-172
    #[test]
    fn only_a_finished_search_in_vain_is_remembered() {
        assert!(is_settled(false, false, false));
        assert!(!is_settled(true, false, false));
        assert!(!is_settled(false, true, false));
        assert!(!is_settled(false, false, true));
    }

    fn know<K: Watched + serde::de::DeserializeOwned>(context: &Context, object: Value) {
        let object: K = from_value(object).expect("an object of that kind");
        context.cluster.tell(Watched::apply(&context.cluster, object));
    }

    fn bound(context: &Context, pod: &str, node: &str, cpu: &str, annotations: &Value) {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true});
        let requests = json!({"cpu": cpu});
        let pod = json!({
            "metadata": {"namespace": "shop", "name": pod, "uid": pod, "annotations": annotations, "ownerReferences": [owner]},
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}]},
            "status": {"phase": "Running"},
        });
        know::<LeanPod>(context, pod);
    }

    /// Two nodes of two cores in a pool that consolidates, with half a core asked for on each.
    fn two_nodes() -> Context {
        let context = Context::without_api();
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let condition =
            |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"});
        let pool = json!({
            "metadata": {"name": "web", "uid": "web"}, "status": {"conditions": [condition("Ready")]},
            "spec": {
                "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
                "template": {"spec": {"requirements": [], "nodeClassRef": class}},
            },
        });
        know::<NodePool>(&context, pool);
        let price = Price::from_per_hour(0.1).expect("a price");
        let small = TypeBuilder::new(&context.interner, "small").offering("a", "on-demand", price);
        let small = small.capacity(sym::CPU, 2000).capacity(sym::PODS, 110).build();
        let catalogue = Catalogue { types: vec![small] };
        context.cluster.set_catalogue("web", Ok(Arc::new(catalogue)));
        let labels = json!({
            "karpenter.sh/nodepool": "web", "karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "a",
            "node.kubernetes.io/instance-type": "small", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        });
        for name in ["web-1", "web-2"] {
            let (id, amounts) = (format!("p://{name}"), json!({"cpu": "2", "pods": "110"}));
            let claim = json!({
                "metadata": {"name": name, "uid": name, "labels": labels},
                "spec": {"requirements": [], "nodeClassRef": class},
                "status": {"providerID": id, "conditions": [condition("Initialized"), condition("Consolidatable")]},
            });
            know::<NodeClaim>(&context, claim);
            let node = json!({
                "metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"providerID": id},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [condition("Ready")]},
            });
            know::<LeanNode>(&context, node);
            bound(&context, &format!("little-{name}"), name, "500m", &json!({}));
        }
        context
    }

    // DIS-177
    #[tokio::test(start_paused = true)]
    async fn pools_not_reached_are_remembered_until_a_search_was_in_vain() {
        let (context, registry, memory) = (two_nodes(), Registry::default(), Memory::default());
        let shutdown = CancellationToken::new();
        let turn = Turn {
            context: &context,
            registry: &registry,
            memory: &memory,
            shutdown: &shutdown,
        };
        let commands = async || turn.decide(Method::Single).await.expect("no error").len();
        let unseen = || memory.with(|all| all.unseen.clone());
        let others = BTreeSet::from([Arc::from("others")]);
        memory.with(|all| all.unseen.clone_from(&others));
        assert_eq!(
            (commands().await, unseen()),
            (1, others.clone()),
            "there is something to do"
        );
        let protected = json!({"karpenter.sh/do-not-disrupt": "true"});
        let big_pods = |annotations: &Value| {
            for node in ["web-1", "web-2"] {
                bound(&context, &format!("big-{node}"), node, "1400m", annotations);
            }
        };
        let late = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            big_pods(&protected);
        };
        let (stand, ()) = tokio::join!(commands(), late);
        assert_eq!((stand, unseen()), (0, others), "it did not stand");
        let failed = context.metrics.counter(&DISRUPTION_FAILED_VALIDATIONS);
        assert_eq!(failed.get(&["single"]).to_string(), "1");
        // They could go now, but to no other place than a machine that costs as much.
        big_pods(&json!({}));
        assert_eq!((commands().await, unseen()), (0, BTreeSet::new()));
    }
}
