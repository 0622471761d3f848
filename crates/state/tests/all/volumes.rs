//! Volumes of pods: which claims may be used, which driver attaches them, where they can be reached.

use crate::fixture::{mirror, now, pending, running, texts, yaml};
use kerf_model::intern::sym;
use kerf_model::pod::Pod;
use kerf_model::requirement::Requirements;
use kerf_state::lean::{LeanPv, LeanPvc, LeanStorageClass};
use kerf_state::{Conventions, Mirror, MirrorOptions};
use std::sync::Arc;

const USES_DATA: &str = "{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}";

fn pvc(name: &str, spec: &str, more: &str) -> LeanPvc {
    yaml(&format!(
        "{{metadata: {{name: {name}, namespace: default{more}}}, spec: {spec}}}"
    ))
}

fn class(name: &str, rest: &str) -> LeanStorageClass {
    yaml(&format!(
        "{{metadata: {{name: {name}}}, provisioner: ebs.csi.aws.com, {rest}}}"
    ))
}

fn only(mirror: &mut Mirror) -> Arc<Pod> {
    Arc::clone(&mirror.snapshot(now()).pending[0])
}

fn faults(mirror: &mut Mirror) -> Vec<String> {
    texts(&only(mirror).faults)
}

// SCH-023, SCH-169, SCH-170, SCH-171, SCH-172
#[test]
fn claims_are_validated_and_judged_anew_when_something_changes() {
    let mut mirror = mirror();
    mirror.apply(pending("a", USES_DATA));
    assert_eq!(
        faults(&mut mirror),
        ["getting persistent volume claim, PersistentVolumeClaim \"data\" not found (PersistentVolumeClaim=data)"]
    );
    mirror.apply(pvc("data", "{}", ""));
    assert_eq!(faults(&mut mirror), ["unbound pvc must define a storage class"]);
    mirror.apply(pvc("data", "{storageClassName: fast}", ""));
    assert_eq!(
        faults(&mut mirror),
        ["failed to validate pvc, failed to get storage class, StorageClass.storage.k8s.io \"fast\" not found"]
    );
    mirror.apply(class("fast", "volumeBindingMode: Immediate"));
    assert_eq!(
        faults(&mut mirror),
        ["failed to validate pvc, pvc with immediate volume binding mode must be bound"]
    );
    mirror.apply(class("fast", "volumeBindingMode: WaitForFirstConsumer"));
    assert!(faults(&mut mirror).is_empty());
    mirror.apply(pvc("data", "{storageClassName: fast, volumeName: pv-1}", ""));
    assert_eq!(
        faults(&mut mirror),
        ["failed to validate pvc, PersistentVolume \"pv-1\" not found"]
    );
    mirror.apply(yaml::<LeanPv>(
        "{metadata: {name: pv-1, deletionTimestamp: '2026-01-01T00:00:00Z'}}",
    ));
    assert_eq!(
        faults(&mut mirror),
        ["failed to validate pvc, persistentvolume is being deleted"]
    );
    mirror.apply(yaml::<LeanPv>("{metadata: {name: pv-1}}"));
    assert_eq!(
        faults(&mut mirror),
        ["pvc is considered unbound because it does not contain annotation"]
    );
    let bound = ", annotations: {pv.kubernetes.io/bind-completed: 'yes'}";
    mirror.apply(pvc("data", "{storageClassName: gone, volumeName: pv-1}", bound));
    assert!(faults(&mut mirror).is_empty(), "a bound claim's class may be missing");
    mirror.apply(pvc(
        "data",
        "{volumeName: pv-1}",
        &format!("{bound}, deletionTimestamp: '2026-01-01T00:00:00Z'"),
    ));
    assert_eq!(faults(&mut mirror), ["persistentvolumeclaim is being deleted"]);
    mirror.apply(yaml::<LeanPvc>(
        "{metadata: {name: data, namespace: default}, spec: {volumeName: pv-1}, status: {phase: Lost}}",
    ));
    assert_eq!(
        faults(&mut mirror),
        ["persistentvolumeclaim bound to non-existent persistentvolume"]
    );
}

// SCH-169
#[test]
fn ephemeral_volumes_have_a_claim_of_their_own_and_others_none() {
    let mut mirror = mirror();
    mirror.apply(pending(
        "a",
        "{volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {}}}, {name: c, configMap: {}}]}",
    ));
    let found = faults(&mut mirror);
    assert!(found.len() == 1 && found[0].contains("\"a-scratch\""), "{found:?}");
}

// SCH-172, SCH-173
#[test]
fn what_the_provider_does_not_support_is_refused() {
    let mut conventions = Conventions::default();
    conventions
        .unsupported_provisioners
        .insert("ebs.csi.aws.com".to_owned());
    conventions.unsupported_topology_keys.insert("odd".to_owned());
    let options = MirrorOptions {
        conventions,
        offline: false,
    };
    let mut mirror = Mirror::new(Arc::default(), &options);
    mirror.apply(pending("a", USES_DATA));
    mirror.apply(pvc("data", "{storageClassName: fast}", ""));
    mirror.apply(class(
        "fast",
        "volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: odd, values: [a]}]}]",
    ));
    assert_eq!(
        faults(&mut mirror),
        ["failed to validate pvc, storage class uses unsupported topology key"]
    );
    mirror.apply(class("fast", "volumeBindingMode: WaitForFirstConsumer"));
    assert_eq!(
        faults(&mut mirror),
        ["failed to validate pvc, provisioner is not supported"]
    );
    mirror.apply(yaml::<LeanPv>(
        "{metadata: {name: pv-1}, spec: {csi: {driver: ebs.csi.aws.com}}}",
    ));
    let bound = ", annotations: {pv.kubernetes.io/bind-completed: 'yes'}";
    mirror.apply(pvc("data", "{volumeName: pv-1}", bound));
    assert_eq!(
        faults(&mut mirror),
        ["failed to validate pvc, provisioner is not supported"]
    );
}

// SCH-174
#[test]
fn drivers() {
    let mut mirror = mirror();
    let claims = ["csi", "in-tree", "nfs", "translated", "no-class"];
    let volumes: Vec<String> = claims
        .iter()
        .map(|name| format!("{{name: {name}, persistentVolumeClaim: {{claimName: {name}}}}}"))
        .collect();
    mirror.apply(pending("a", &format!("{{volumes: [{}]}}", volumes.join(", "))));
    for (name, source) in [
        ("csi", "{csi: {driver: d}}"),
        ("in-tree", "{awsElasticBlockStore: {volumeID: v}}"),
        ("nfs", "{nfs: {}}"),
    ] {
        mirror.apply(pvc(name, &format!("{{volumeName: {name}}}"), ""));
        mirror.apply(yaml::<LeanPv>(&format!(
            "{{metadata: {{name: {name}}}, spec: {source}}}"
        )));
    }
    mirror.apply(pvc("translated", "{storageClassName: old}", ""));
    mirror.apply(yaml::<LeanStorageClass>(
        "{metadata: {name: old}, provisioner: kubernetes.io/aws-ebs}",
    ));
    mirror.apply(pvc("no-class", "{}", ""));
    let pod = only(&mut mirror);
    let drivers: Vec<_> = pod.volumes.iter().map(|volume| volume.driver.as_deref()).collect();
    assert_eq!(
        drivers,
        [Some("d"), Some("ebs.csi.aws.com"), None, Some("ebs.csi.aws.com"), None]
    );
}

// SCH-176
#[test]
fn a_bound_pod_whose_claim_is_missing_uses_nothing() {
    let mut mirror = mirror();
    mirror.apply(crate::fixture::node("n", "", "[]"));
    let mut pod = running("a", "n", "'1'");
    pod.spec.volumes = yaml("[{name: v, persistentVolumeClaim: {claimName: data}}]");
    mirror.apply(pod);
    let snapshot = mirror.snapshot(now());
    assert!(snapshot.nodes[0].pods[0].volumes.is_empty() && snapshot.nodes[0].pods[0].faults.is_empty());
    mirror.apply(pvc("data", "{}", ""));
    assert_eq!(
        &*mirror.snapshot(now()).nodes[0].pods[0].volumes[0].claim,
        "default/data"
    );
}

fn topology(volume: &str) -> (Mirror, Vec<Requirements>) {
    let mut mirror = mirror();
    mirror.apply(pending("a", USES_DATA));
    mirror.apply(pvc(
        "data",
        "{volumeName: pv-1}",
        ", annotations: {pv.kubernetes.io/bind-completed: 'yes'}",
    ));
    mirror.apply(yaml::<LeanPv>(&format!("{{metadata: {{name: pv-1}}, spec: {volume}}}")));
    let pod = only(&mut mirror);
    assert!(pod.faults.is_empty(), "{:?}", pod.faults);
    (mirror, pod.volumes[0].topology.clone())
}

// SCH-178, SCH-181
#[test]
fn where_a_bound_volume_can_be_reached() {
    let terms = "{nodeAffinity: {required: {nodeSelectorTerms: [
        {matchExpressions: [{key: failure-domain.beta.kubernetes.io/zone, operator: In, values: [a]}]}, {},
        {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}]}}}";
    let (mirror, found) = topology(terms);
    let printed: Vec<String> = found.iter().map(|term| term.print(mirror.interner())).collect();
    assert_eq!(
        printed,
        [
            "topology.kubernetes.io/zone In [a]",
            "topology.kubernetes.io/zone In [b]"
        ]
    );
    assert!(topology("{}").1.is_empty());
}

// SCH-178
#[test]
fn where_an_unbound_volume_may_be_made() {
    let mut mirror = mirror();
    mirror.apply(pending("a", USES_DATA));
    mirror.apply(pvc("data", "{storageClassName: fast}", ""));
    mirror.apply(class(
        "fast",
        "volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions:
         [{key: topology.kubernetes.io/zone, values: [a, b]}]}, {}]",
    ));
    let pod = only(&mut mirror);
    assert_eq!(pod.volumes[0].topology.len(), 1);
    assert_eq!(pod.volumes[0].topology[0].get(sym::ZONE).unwrap().values.len(), 2);
}

// SCH-179, DIS-108
#[test]
fn the_hostname_of_a_local_disk_is_dropped_and_of_another_volume_kept() {
    let terms = "nodeAffinity: {required: {nodeSelectorTerms: [
        {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}]},
        {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}}";
    for source in ["local: {path: /x}", "hostPath: {path: /x}"] {
        let (_, found) = topology(&format!("{{{source}, {terms}}}"));
        assert_eq!(found.len(), 2);
        assert!(found[0].is_empty(), "an unconstrained alternative");
        assert!(found[1].get(sym::HOSTNAME).is_none() && found[1].get(sym::ZONE).is_some());
    }
    let (_, found) = topology(&format!("{{csi: {{driver: d}}, {terms}}}"));
    assert!(found[0].get(sym::HOSTNAME).is_some());
}
