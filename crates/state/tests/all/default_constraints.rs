//! The topology spread constraints of pods that declare none (`docs/scheduler-config.md`).

use crate::fixture::yaml;
use kerf_api::SchedulerConfig;
use kerf_model::intern::Interner;
use kerf_model::pod::SpreadConstraint;
use kerf_model::selector::{LabelSelector, Match};
use kerf_state::lean::LeanPod;
use kerf_state::{Conventions, Converter};
use std::sync::Arc;

const ZONE: &str = "topology.kubernetes.io/zone";

/// The constraints of a pod with these labels and owner as flow YAML, and one constraint over zones configured.
fn spread(labels: &str, owner: &str, spec: &str) -> Vec<SpreadConstraint> {
    let config = format!(
        "podTopologySpread: {{defaultConstraints: [{{maxSkew: 2, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule, minDomains: 3}}]}}"
    );
    let config: SchedulerConfig = config.parse().unwrap();
    let conventions = Conventions {
        default_constraints: config.default_constraints,
        ..Conventions::default()
    };
    let pod: LeanPod = yaml(&format!(
        "{{metadata: {{name: p, namespace: default, uid: u, labels: {labels}, ownerReferences: [{owner}]}}, spec: {spec}}}"
    ));
    let facts = Converter::new(Arc::new(Interner::default()), &conventions)
        .pod(&pod)
        .unwrap();
    facts.pod.shape.spread.clone()
}

fn owner(version: &str, kind: &str, controller: bool) -> String {
    format!("{{apiVersion: {version}, kind: {kind}, name: web, uid: o, controller: {controller}}}")
}

fn selector(labels: &[(&str, &str)]) -> LabelSelector {
    LabelSelector::all(
        labels
            .iter()
            .map(|(key, value)| Match::any_of(*key, [Arc::from(*value)])),
    )
}

#[test]
fn pods_of_a_controller_are_spread_as_configured() {
    let replica_set = owner("apps/v1", "ReplicaSet", true);
    let found = spread("{app: web, pod-template-hash: abc}", &replica_set, "{}");
    let [constraint] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((constraint.max_skew, constraint.required), (2, true));
    assert_eq!(constraint.min_domains, Some(3));
    assert!(constraint.honor_node_affinity && !constraint.honor_taints);
    assert_eq!(
        constraint.selector,
        selector(&[("app", "web"), ("pod-template-hash", "abc")])
    );
    // The pods of a StatefulSet have labels that its selector does not have.
    let labels = "{app: db, controller-revision-hash: db-1, statefulset.kubernetes.io/pod-name: db-0, apps.kubernetes.io/pod-index: '0'}";
    let found = spread(labels, &owner("apps/v1", "StatefulSet", true), "{}");
    assert_eq!(found[0].selector, selector(&[("app", "db")]));
    let controller = owner("v1", "ReplicationController", true);
    assert_eq!(spread("{app: old}", &controller, "{}").len(), 1);
}

#[test]
fn other_pods_are_not() {
    let replica_set = owner("apps/v1", "ReplicaSet", true);
    let own = "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]}";
    let found = spread("{app: web}", &replica_set, own);
    assert_eq!(found.len(), 1, "it has constraints of its own");
    assert_eq!(found[0].max_skew, 1);
    for (why, labels, owner) in [
        ("nothing controls it", "{app: web}", String::new()),
        (
            "its owner does not control it",
            "{app: web}",
            owner("apps/v1", "ReplicaSet", false),
        ),
        (
            "no selector of a Job is read",
            "{app: web}",
            owner("batch/v1", "Job", true),
        ),
        (
            "another kind of that name",
            "{app: web}",
            owner("example.com/v1", "ReplicaSet", true),
        ),
        ("nothing selects it", "{}", replica_set),
        (
            "all its labels are those of one pod",
            "{statefulset.kubernetes.io/pod-name: db-0}",
            owner("apps/v1", "StatefulSet", true),
        ),
    ] {
        assert_eq!(spread(labels, &owner, "{}"), [], "{why}");
    }
}
