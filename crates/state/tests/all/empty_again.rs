//! A mirror of an empty cluster holds nothing of what was in it: memory follows the cluster down as well as up.

use crate::fixture::{claim, mirror, node, now, pending, running, yaml};
use jiff::SignedDuration;
use kerf_api::{NodeClaim, NodePool};
use kerf_model::resources::Resources;
use kerf_state::lean::{LeanDaemonSet, LeanNode, LeanPdb, LeanPod, LeanPv, LeanPvc};
use kerf_state::{Mirror, Mirrored, Now, Placed};
use std::sync::Arc;
use std::time::Duration;

/// Begins all names; the printed mirror shows where one is left.
const MARK: &str = "gone-";

/// Puts an object in, and returns what takes it out.
fn put<K: Mirrored + Clone + 'static>(mirror: &mut Mirror, object: K) -> Box<dyn Fn(&mut Mirror)> {
    mirror.apply(object.clone());
    Box::new(move |mirror| mirror.delete(&object))
}

#[test]
fn nothing_is_left_of_objects_that_are_deleted() {
    let mut mirror = mirror();
    let pool: NodePool = yaml(
        "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: gone-pool, uid: gone-pool}, spec: {limits: {cpu: '9'},
          template: {spec: {requirements: [], nodeClassRef: {group: g, kind: K, name: k}}}}}",
    );
    let pdb: LeanPdb = yaml(
        "{metadata: {name: gone-pdb, namespace: default, uid: gone-pdb}, spec: {selector: {matchLabels: {app: gone-app}}}}",
    );
    let pvc: LeanPvc = yaml("{metadata: {name: gone-data, namespace: default}, spec: {volumeName: gone-pv}}");
    let mut user = pending("gone-waiting", "{}");
    user.spec.volumes = yaml("[{name: v, persistentVolumeClaim: {claimName: gone-data}}]");
    let labels =
        ", karpenter.sh/nodepool: gone-pool, karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true'";
    let mut takes_out = vec![
        put(&mut mirror, pool),
        put(&mut mirror, pdb),
        put(&mut mirror, pvc),
        put(
            &mut mirror,
            yaml::<LeanPv>("{metadata: {name: gone-pv}, spec: {csi: {driver: ebs}}}"),
        ),
        put(
            &mut mirror,
            yaml::<LeanDaemonSet>("{metadata: {name: gone-agent, namespace: default, uid: gone-agent}}"),
        ),
        put(&mut mirror, claim("gone-planned", None, "")),
        put(&mut mirror, claim("gone-claim", Some("cloud://gone-node"), "")),
        put(&mut mirror, node("gone-node", labels, "[]")),
        put(&mut mirror, user),
        put(&mut mirror, running("gone-running", "gone-node", "'1'")),
    ];
    // Everything that the process remembers about them.
    let pods: Vec<_> = ["gone-waiting", "gone-running"]
        .iter()
        .map(|name| mirror.pod("default", name).expect("a pod"))
        .collect();
    for pod in &pods {
        let times = mirror.times_of(pod).expect("it is known");
        times.acknowledge(&pod.namespace, &pod.name, now());
        let placed = Placed {
            healthy_pool: true,
            claim: Some(Arc::from("gone-planned")),
            nominated: true,
        };
        times.decide(&pod.namespace, &pod.name, Some(placed), now());
    }
    assert!(mirror.promise("gone-planned", &pods[..1], Resources::new()));
    mirror.note_launched(&pods[..1], None, now());
    mirror.snapshot(now());
    mirror.nominate("gone-node", now() + SignedDuration::from_secs(20));
    mirror.mark_for_deletion("cloud://gone-node");
    mirror.set_pending_disruption("gone-claim", true);
    mirror.reserve_claims("gone-pool", None, 2);
    mirror.release_claims("gone-pool", 2);
    mirror.wrote(claim("gone-claim", Some("cloud://gone-node"), ""));
    assert!(format!("{mirror:?}").contains(MARK));

    while let Some(take_out) = takes_out.pop() {
        take_out(&mut mirror);
    }
    // The next lists are empty as well.
    mirror.reset::<NodeClaim>(Vec::new());
    mirror.reset::<LeanNode>(Vec::new());
    mirror.reset::<LeanPod>(Vec::new());
    mirror.expire(Now {
        wall: now() + SignedDuration::from_hours(2),
        uptime: Duration::from_secs(7200),
    });
    mirror.snapshot(now() + SignedDuration::from_hours(2));
    let left = format!("{mirror:#?}");
    let lines: Vec<&str> = left.lines().filter(|line| line.contains(MARK)).collect();
    assert_eq!(lines, [""; 0], "of {} lines", left.lines().count());
}
