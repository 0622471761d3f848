//! How much room CapacityBuffers ask for, and the virtual pods that keep it.

use crate::fixture::{now, pending, yaml};
use kerf_api::CapacityBuffer;
use kerf_model::intern::{Interner, sym};
use kerf_state::capacity_buffer::{REPLICAS_MAX, Referent, TooManyReplicas};
use kerf_state::{Mirror, MirrorOptions};
use std::sync::Arc;

fn mirror() -> Mirror {
    Mirror::new(Arc::new(Interner::default()), &MirrorOptions::default())
}

fn buffer(name: &str, spec: &str) -> CapacityBuffer {
    yaml(&format!(
        "{{metadata: {{name: {name}, namespace: shop, uid: uid-{name}, resourceVersion: '1'}}, spec: {spec}}}"
    ))
}

/// Pods with a cpu in the container and half of one in a sidecar; memory is requested by its limit.
fn referent(replicas: Option<i32>) -> Referent {
    let template = yaml(
        "{metadata: {labels: {app: web}, annotations: {a: b}}, spec: {
           nodeName: somewhere, priority: 5,
           containers: [{name: c, resources: {requests: {cpu: '1'}, limits: {memory: 1Gi}}}],
           initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 500m}}}],
           volumes: [{name: a, persistentVolumeClaim: {claimName: x}}, {name: b, ephemeral: {}}, {name: c, emptyDir: {}}]}}",
    );
    Referent { template, replicas }
}

// SCH-381, API-223, API-236
#[test]
fn the_larger_of_replicas_and_percentage_counts_up_to_the_limits() {
    let mut mirror = mirror();
    for (spec, workload, expected) in [
        ("{}", None, 0),
        ("{}", Some(10), 0),
        ("{replicas: 3}", None, 3),
        ("{replicas: 0}", None, 0),
        ("{percentage: 20}", Some(10), 2),
        ("{percentage: 20}", Some(11), 3),
        ("{percentage: 1}", Some(3), 1),
        ("{percentage: 0}", Some(10), 0),
        ("{percentage: 20}", Some(0), 0),
        ("{percentage: 150}", Some(10), 15),
        // A PodTemplate has no replicas.
        ("{percentage: 20}", None, 0),
        ("{replicas: 1, percentage: 20}", Some(10), 2),
        ("{replicas: 5, percentage: 20}", Some(10), 5),
        ("{limits: {cpu: '4'}}", None, 2),
        ("{limits: {cpu: 4500m}}", None, 3),
        ("{limits: {cpu: '30', memory: 5Gi}}", None, 5),
        ("{replicas: 9, limits: {cpu: 4500m}}", None, 3),
        ("{replicas: 2, limits: {cpu: 4500m}}", None, 2),
        ("{limits: {nvidia.com/gpu: '4'}}", None, 0),
        ("{replicas: 2, limits: {nvidia.com/gpu: '1'}}", None, 2),
        ("{percentage: 50, limits: {cpu: '4'}}", Some(0), 0),
    ] {
        let found = mirror.buffer_replicas(&buffer("spare", spec), &referent(workload));
        assert_eq!(found, Ok(expected), "{spec} of {workload:?}");
    }
}

#[test]
fn a_buffer_of_any_size_is_refused_instead_of_filling_the_memory() {
    let mut mirror = mirror();
    for (spec, workload, asked) in [
        ("{replicas: 2147483647}", None, i32::MAX),
        ("{replicas: 10001}", None, 10_001),
        ("{percentage: 2147483647}", Some(i32::MAX), i32::MAX),
        ("{limits: {cpu: '1e15'}}", None, i32::MAX),
    ] {
        let found = mirror.buffer_replicas(&buffer("spare", spec), &referent(workload));
        assert_eq!(found, Err(TooManyReplicas(asked)), "{spec}");
    }
    let most = mirror.buffer_replicas(&buffer("spare", "{replicas: 10000}"), &referent(None));
    assert_eq!(most, Ok(REPLICAS_MAX));
    assert!(
        TooManyReplicas(10_001)
            .to_string()
            .contains(&format!("at most {REPLICAS_MAX} are kept"))
    );
}

// SCH-386, SCH-387, SCH-388
#[test]
fn virtual_pods_wait_among_the_others() {
    let mut mirror = mirror();
    let spare = buffer("spare", "{}");
    mirror.apply(spare.clone());
    mirror.apply(pending("real", "{}"));
    mirror.keep_buffer(&spare, &referent(None), 2, now());
    let snapshot = mirror.snapshot(now());
    let keys: Vec<String> = snapshot.pending.iter().map(|pod| pod.key()).collect();
    assert_eq!(
        keys,
        [
            "default/real",
            "shop/capacity-buffer-spare-1",
            "shop/capacity-buffer-spare-2"
        ]
    );
    let pod = &snapshot.pending[2];
    assert_eq!(&*pod.uid, "uid-spare-2");
    assert_eq!(pod.capacity_buffer.as_deref(), Some("shop/spare"));
    assert!(pod.is_virtual() && !snapshot.pending[0].is_virtual());
    assert_eq!((pod.priority, pod.created), (i32::MIN, now()));
    assert_eq!((&pod.node_name, pod.volumes.len(), pod.faults.len()), (&None, 0, 0));
    assert_eq!(pod.shape.requests.get(sym::CPU), 1500);
    assert_eq!(pod.shape.requests.get(sym::MEMORY), 1 << 30);
    assert!(pod.labels.iter().any(|(key, _)| key == "app"));
}

// SCH-390
#[test]
fn virtual_pods_end_with_their_buffer() {
    let mut mirror = mirror();
    let count = |mirror: &mut Mirror| mirror.snapshot(now()).pending.len();
    let spare = buffer("spare", "{}");
    // A buffer that is gone gets none.
    mirror.keep_buffer(&spare, &referent(None), 2, now());
    assert_eq!(count(&mut mirror), 0);
    mirror.apply(spare.clone());
    mirror.keep_buffer(&spare, &referent(None), 2, now());
    assert_eq!(count(&mut mirror), 2);
    let epoch = mirror.consolidation_epoch();
    // The same again is no change.
    let before = mirror.snapshot(now());
    mirror.keep_buffer(&spare, &referent(None), 2, now());
    assert!(Arc::ptr_eq(&before, &mirror.snapshot(now())));
    assert_eq!(mirror.consolidation_epoch(), epoch);
    mirror.keep_buffer(&spare, &referent(None), 1, now());
    assert_eq!(count(&mut mirror), 1);
    assert!(mirror.consolidation_epoch() > epoch);
    mirror.keep_buffer(&spare, &referent(None), 0, now());
    assert_eq!(count(&mut mirror), 0);
    mirror.keep_buffer(&spare, &referent(None), 1, now());
    mirror.delete(&spare);
    assert_eq!(count(&mut mirror), 0);
    mirror.apply(spare.clone());
    mirror.keep_buffer(&spare, &referent(None), 1, now());
    mirror.drop_buffer("shop", "spare");
    assert_eq!(count(&mut mirror), 0);
}

// API-221
#[test]
fn the_time_of_a_condition_is_that_of_its_status() {
    let mut spare = buffer("spare", "{}");
    spare.metadata.generation = Some(3);
    let later = now() + std::time::Duration::from_secs(60);
    spare.set_condition("Provisioning", false, "A", "a", now());
    spare.set_condition("Provisioning", false, "B", "b", later);
    let only = |buffer: &CapacityBuffer| buffer.status.clone().unwrap().conditions.remove(0);
    let first = only(&spare);
    assert_eq!(
        (first.reason(), first.message(), first.observed_generation),
        ("B", "b", Some(3))
    );
    assert_eq!(first.last_transition_time.0, now());
    spare.set_condition("Provisioning", true, "B", "b", later);
    assert_eq!(only(&spare).last_transition_time.0, later);
    assert_eq!(spare.status.unwrap().conditions.len(), 1);
}
