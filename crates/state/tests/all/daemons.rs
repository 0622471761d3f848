//! DaemonSets: the pod that stands for all of theirs.

use crate::fixture::{mirror, now, yaml};
use kerf_model::intern::{Interner, sym};
use kerf_state::lean::{LeanDaemonSet, LeanPod};
use kerf_state::{Conventions, Mirror, MirrorOptions};
use std::sync::Arc;

fn daemon_set(affinity: &str) -> LeanDaemonSet {
    yaml(&format!(
        "{{metadata: {{name: logs, namespace: kube-system, uid: ds}}, spec: {{template: {{spec: {{affinity: {affinity},
           containers: [{{name: a, resources: {{requests: {{memory: 1Gi}}, limits: {{cpu: 200m, memory: 2Gi}}}}}}]}}}}}}}}"
    ))
}

fn daemon_pod(name: &str, created: &str, cpu: &str) -> LeanPod {
    yaml(&format!(
        "{{metadata: {{name: {name}, namespace: kube-system, uid: {name}, creationTimestamp: '{created}',
            ownerReferences: [{{apiVersion: apps/v1, kind: DaemonSet, name: logs, uid: ds, controller: true}}]}},
          spec: {{containers: [{{name: a, resources: {{requests: {{cpu: {cpu}}}}}}}], affinity: {{nodeAffinity:
            {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchFields:
            [{{key: metadata.name, operator: In, values: [n]}}]}}]}}}}}}}}}}"
    ))
}

fn cpu(mirror: &mut Mirror) -> i64 {
    mirror.snapshot(now()).daemons[0].shape.requests.get(sym::CPU)
}

// SCH-121, SCH-153
#[test]
fn without_a_pod_the_template_counts_with_limits_for_missing_requests() {
    let mut mirror = mirror();
    mirror.apply(daemon_set("{}"));
    let snapshot = mirror.snapshot(now());
    let requests = &snapshot.daemons[0].shape.requests;
    assert_eq!((requests.get(sym::CPU), requests.get(sym::MEMORY)), (200, 1 << 30));
}

// SCH-071, LIF-205
#[test]
fn the_newest_pod_it_controls_stands_for_all() {
    let mut mirror = mirror();
    mirror.apply(daemon_set("{}"));
    mirror.apply(daemon_pod("old", "2026-01-01T00:00:00Z", "300m"));
    assert_eq!(cpu(&mut mirror), 300);
    mirror.apply(daemon_pod("new", "2026-01-02T00:00:00Z", "400m"));
    mirror.apply(daemon_pod("older", "2025-01-02T00:00:00Z", "500m"));
    let mut foreign = daemon_pod("foreign", "2026-02-01T00:00:00Z", "600m");
    foreign.metadata.owner_references = None;
    mirror.apply(foreign);
    assert_eq!(cpu(&mut mirror), 400);
    mirror.delete(&daemon_pod("new", "2026-01-02T00:00:00Z", "400m"));
    assert_eq!(cpu(&mut mirror), 300);
    mirror.delete(&daemon_set("{}"));
    assert!(mirror.snapshot(now()).daemons.is_empty());
}

// SCH-153
#[test]
fn the_pin_to_a_node_is_dropped_and_the_templates_affinity_used() {
    let mut mirror = mirror();
    mirror.apply(daemon_set("{}"));
    mirror.apply(daemon_pod("a", "2026-01-01T00:00:00Z", "300m"));
    assert!(mirror.snapshot(now()).daemons[0].shape.required_terms.is_empty());
    mirror.apply(daemon_set(
        "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions:
          [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]}}}",
    ));
    let snapshot = mirror.snapshot(now());
    assert_eq!(snapshot.daemons[0].shape.required_terms[0][0].key, sym::ARCH);
    assert_eq!(cpu(&mut mirror), 300);
}

// SCH-161
#[test]
fn daemons_with_resource_claims_are_expected_only_where_claims_are_served() {
    for (refuse, expected) in [(true, 0), (false, 1)] {
        let conventions = Conventions {
            refuse_resource_claims: refuse,
            ..Conventions::default()
        };
        let options = MirrorOptions {
            conventions,
            ..MirrorOptions::default()
        };
        let mut mirror = Mirror::new(Arc::new(Interner::default()), &options);
        let with_claims: LeanDaemonSet = yaml(
            "{metadata: {name: logs, namespace: kube-system, uid: ds},
              spec: {template: {spec: {resourceClaims: [{name: gpu}], containers: [{name: a}]}}}}",
        );
        mirror.apply(with_claims);
        mirror.apply(daemon_pod("a", "2026-01-01T00:00:00Z", "300m"));
        assert_eq!(mirror.snapshot(now()).daemons.len(), expected, "refused: {refuse}");
        // Without them it counts again.
        mirror.apply(daemon_set("{}"));
        assert_eq!(cpu(&mut mirror), 300);
    }
}
