//! In every order of events of different objects, the mirror ends in the state that a list of the final objects gives.

use crate::fixture::{claim, node, now, pending, running, yaml};
use kerf_api::NodeClaim;
use kerf_model::intern::Interner;
use kerf_model::snapshot::Snapshot;
use kerf_state::lean::{LeanDaemonSet, LeanNode, LeanPod, LeanPv, LeanPvc, LeanStorageClass};
use kerf_state::{Mirror, MirrorOptions};
use proptest::prelude::*;
use std::sync::Arc;

type Change = Box<dyn Fn(&mut Mirror)>;

fn put<K: kerf_state::Mirrored + Clone + 'static>(object: K) -> Change {
    Box::new(move |mirror| mirror.apply(object.clone()))
}

fn cut<K: kerf_state::Mirrored + Clone + 'static>(object: K) -> Change {
    Box::new(move |mirror| mirror.delete(&object))
}

const POOLED: &str = ", karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m";

fn using_data(mut pod: LeanPod) -> LeanPod {
    pod.spec.volumes = yaml("[{name: v, persistentVolumeClaim: {claimName: data}}]");
    pod
}

fn daemon_pod(name: &str, created: &str) -> LeanPod {
    let mut pod = running(name, "n-1", "100m");
    pod.metadata = yaml(&format!(
        "{{name: {name}, namespace: default, uid: {name}, creationTimestamp: '{created}',
           ownerReferences: [{{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: d, controller: true}}]}}"
    ));
    pod
}

/// The history of each object, in its own order, which a watch keeps.
fn histories() -> Vec<Vec<Change>> {
    let mut reused = running("a", "n-2", "'2'");
    reused.metadata.uid = Some("another".to_owned());
    let node_again = || {
        let mut node = node("n-3", POOLED, "[]");
        node.metadata.uid = Some("another".to_owned());
        node.spec.provider_id = "cloud://n-3-again".to_owned();
        node
    };
    vec![
        vec![
            put(claim("c-1", None, "")),
            put(claim("c-1", Some("cloud://n-1"), "")),
        ],
        vec![
            put(node("n-1", ", karpenter.sh/nodepool: default", "[]")),
            put(node("n-1", POOLED, "[]")),
            put(node("n-1", &format!("{POOLED}, karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true'"), "[]")),
        ],
        vec![put(claim("c-2", Some("cloud://old"), "")), put(claim("c-2", Some("cloud://n-2"), ""))],
        vec![put(node("n-2", &format!("{POOLED}, karpenter.sh/registered: 'true'"), "[]"))],
        vec![put(claim("c-3", Some("cloud://n-3"), "")), cut(claim("c-3", None, ""))],
        vec![put(node("n-3", POOLED, "[]")), put(node_again())],
        vec![put(pending("a", "{}")), put(running("a", "n-1", "'1'")), put(reused)],
        vec![put(using_data(pending("b", "{}"))), put(using_data(running("b", "n-1", "'1'")))],
        vec![put(running("gone", "n-2", "'1'")), cut(running("gone", "n-2", "'1'"))],
        vec![put(using_data(pending("waits", "{}")))],
        vec![put(yaml::<LeanPvc>("{metadata: {name: data, namespace: default}, spec: {storageClassName: fast}}")), put(yaml::<LeanPvc>(
            "{metadata: {name: data, namespace: default, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}, spec: {volumeName: pv}}",
        ))],
        vec![put(yaml::<LeanPv>(
            "{metadata: {name: pv}, spec: {csi: {driver: ebs}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions:
              [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}}}}",
        ))],
        vec![put(yaml::<LeanStorageClass>("{metadata: {name: fast}, provisioner: p, volumeBindingMode: WaitForFirstConsumer}"))],
        vec![put(yaml::<LeanDaemonSet>("{metadata: {name: d, namespace: default, uid: d}}"))],
        vec![put(daemon_pod("d-1", "2026-01-01T00:00:00Z"))],
        vec![put(daemon_pod("d-2", "2026-01-02T00:00:00Z")), cut(daemon_pod("d-2", "2026-01-02T00:00:00Z"))],
        vec![put(yaml::<kerf_api::NodePool>(
            "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {limits: {cpu: '9'}, template: {spec:
              {requirements: [], nodeClassRef: {group: g, kind: K, name: k}}}}}",
        ))],
    ]
}

/// Everything but the interner.
fn content(snapshot: &Snapshot) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        snapshot.nodes.clone(),
        snapshot.pending.clone(),
        snapshot.pools.clone(),
        snapshot.daemons.clone(),
        snapshot.pdbs.clone(),
        snapshot.namespaces.clone(),
    )
}

fn new_mirror(interner: &Arc<Interner>) -> Mirror {
    Mirror::new(Arc::clone(interner), &MirrorOptions::default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    // SCH-065, LIF-202, LIF-204
    #[test]
    fn any_interleaving_ends_the_same(turns in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 64)) {
        let interner = Arc::new(Interner::default());
        let mut expected = new_mirror(&interner);
        replay_lists(&mut expected);
        let mut mirror = new_mirror(&interner);
        let mut left: Vec<std::vec::IntoIter<Change>> = histories().into_iter().map(Vec::into_iter).collect();
        for (turn, look) in turns {
            left.retain(|history| !history.as_slice().is_empty());
            if left.is_empty() {
                break;
            }
            if let Some(change) = turn.get_mut(&mut left).next() {
                change(&mut mirror);
            }
            if look {
                mirror.snapshot(now());
            }
        }
        left.into_iter().flatten().for_each(|change| change(&mut mirror));
        prop_assert_eq!(content(&mirror.snapshot(now())), content(&expected.snapshot(now())));
    }
}

/// The final objects, kind by kind, as a first list brings them.
fn replay_lists(mirror: &mut Mirror) {
    let mut reused = running("a", "n-2", "'2'");
    reused.metadata.uid = Some("another".to_owned());
    let mut node_again = node("n-3", POOLED, "[]");
    node_again.metadata.uid = Some("another".to_owned());
    node_again.spec.provider_id = "cloud://n-3-again".to_owned();
    mirror.reset(vec![
        reused,
        using_data(running("b", "n-1", "'1'")),
        using_data(pending("waits", "{}")),
        daemon_pod("d-1", "2026-01-01T00:00:00Z"),
    ]);
    mirror.reset::<LeanNode>(vec![
        node(
            "n-1",
            &format!("{POOLED}, karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true'"),
            "[]",
        ),
        node("n-2", &format!("{POOLED}, karpenter.sh/registered: 'true'"), "[]"),
        node_again,
    ]);
    mirror.reset::<NodeClaim>(vec![
        claim("c-1", Some("cloud://n-1"), ""),
        claim("c-2", Some("cloud://n-2"), ""),
    ]);
    mirror.reset(vec![yaml::<LeanPvc>(
        "{metadata: {name: data, namespace: default, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}, spec: {volumeName: pv}}",
    )]);
    mirror.reset(vec![yaml::<LeanPv>(
        "{metadata: {name: pv}, spec: {csi: {driver: ebs}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions:
          [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}}}}",
    )]);
    mirror.reset(vec![yaml::<LeanStorageClass>(
        "{metadata: {name: fast}, provisioner: p, volumeBindingMode: WaitForFirstConsumer}",
    )]);
    mirror.reset(vec![yaml::<LeanDaemonSet>(
        "{metadata: {name: d, namespace: default, uid: d}}",
    )]);
    mirror.reset(vec![yaml::<kerf_api::NodePool>(
        "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {limits: {cpu: '9'}, template: {spec:
          {requirements: [], nodeClassRef: {group: g, kind: K, name: k}}}}}",
    )]);
}
