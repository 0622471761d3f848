//! StatefulSets: numbered pods with volumes of their own, made and replaced in order.

use super::template::{self, PodName, label};
use crate::object::{controlled_by, is_available, is_deleting, is_finished, is_ready, scaled, short_hash, uid};
use crate::store::key_of;
use crate::world::{World, enqueue_own_and_pods, queue};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};
use kerf_runtime::{ObjectKey, Outcome, ReconcileError};
use kube::ResourceExt;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) fn start(world: &Arc<World>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    enqueue_own_and_pods(&queue, &world.stateful_sets, &world.pods);
    world.run(tasks, "statefulset", queue, |world, key| async move {
        let Some(set) = world.stateful_sets.get(&key) else {
            return Ok(Outcome::Done);
        };
        let Some(spec) = set.spec.clone() else {
            return Ok(Outcome::Done);
        };
        let replicas = Replicas::of(&world, &set, &spec);
        if set.metadata.deletion_timestamp.is_none() {
            step(&world, &set, &spec, &replicas).await?;
        }
        write_status(&world, &set, &spec).await
    });
}

/// The pods of a set by ordinal.
struct Replicas {
    pods: BTreeMap<i32, Arc<Pod>>,
    /// The ordinals wanted.
    wanted: std::ops::Range<i32>,
    revision: String,
}

impl Replicas {
    fn of(world: &World, set: &StatefulSet, spec: &StatefulSetSpec) -> Self {
        let prefix = format!("{}-", set.name_any());
        let ordinal = |pod: &Pod| pod.name_any().strip_prefix(&prefix).and_then(|n| n.parse().ok());
        let pods = world
            .controlled_pods(uid(set))
            .into_iter()
            .filter_map(|pod| Some((ordinal(&pod)?, pod)));
        let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        Self {
            pods: pods.collect(),
            wanted: first..first + spec.replicas.unwrap_or(1),
            revision: format!("{}-{}", set.name_any(), short_hash(&spec.template)),
        }
    }

    fn is_current(&self, pod: &Pod) -> bool {
        pod.labels().get(REVISION_LABEL) == Some(&self.revision)
    }
}

/// One step towards the wanted pods. With ordered management it stops at the first pod that is not as it should be.
async fn step(
    world: &World,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replicas: &Replicas,
) -> Result<(), ReconcileError> {
    let ordered = spec.pod_management_policy.as_deref() != Some("Parallel");
    for ordinal in replicas.wanted.clone() {
        match replicas.pods.get(&ordinal) {
            Some(pod) if is_finished(pod) && !is_deleting(&**pod) => {
                world.delete(&world.pods, &**pod, None).await?;
            }
            Some(pod) if !is_deleting(&**pod) && is_ready(pod) => continue,
            Some(_) => {}
            None => create(world, set, spec, ordinal, &replicas.revision).await?,
        }
        if ordered {
            return Ok(());
        }
    }
    let surplus: Vec<_> = replicas
        .pods
        .iter()
        .filter(|(n, _)| !replicas.wanted.contains(n))
        .collect();
    for (_, pod) in surplus.iter().rev() {
        if !is_deleting(&***pod) {
            world.delete(&world.pods, &***pod, None).await?;
        }
        if ordered {
            return Ok(());
        }
    }
    update(world, spec, replicas).await
}

/// Replaces pods of older templates from the highest ordinal down, one at a time unless `maxUnavailable` says more.
async fn update(world: &World, spec: &StatefulSetSpec, replicas: &Replicas) -> Result<(), ReconcileError> {
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return Ok(());
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
    let total = spec.replicas.unwrap_or(1);
    let at_once = rolling
        .and_then(|rolling| rolling.max_unavailable.as_ref())
        .map_or(1, |v| scaled(v, total, false));
    let healthy = |pod: &Pod| is_ready(pod) && !is_deleting(pod);
    let mut unavailable = i32::try_from(replicas.pods.values().filter(|pod| !healthy(pod)).count()).unwrap_or(i32::MAX);
    for (_, pod) in replicas
        .pods
        .range(replicas.wanted.start + partition..replicas.wanted.end)
        .rev()
    {
        if unavailable >= at_once.max(1) {
            return Ok(());
        }
        if !replicas.is_current(pod) && !is_deleting(&**pod) {
            world.delete(&world.pods, &**pod, None).await?;
            unavailable += 1;
        }
    }
    Ok(())
}

async fn create(
    world: &World,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    ordinal: i32,
    revision: &str,
) -> Result<(), ReconcileError> {
    let name = format!("{}-{ordinal}", set.name_any());
    let mut pod = template::pod(set, &spec.template, PodName::Exact(name.clone()));
    label(&mut pod, "statefulset.kubernetes.io/pod-name", &name);
    label(&mut pod, "apps.kubernetes.io/pod-index", &ordinal.to_string());
    label(&mut pod, REVISION_LABEL, revision);
    let pod_spec = template::spec_mut(&mut pod);
    pod_spec.hostname = Some(name.clone());
    pod_spec.subdomain.clone_from(&spec.service_name);
    for claim in spec.volume_claim_templates.iter().flatten() {
        let claim_name = format!("{}-{name}", claim.name_any());
        let volumes = pod_spec.volumes.get_or_insert_with(Vec::new);
        volumes.retain(|volume| volume.name != claim.name_any());
        volumes.push(Volume {
            name: claim.name_any(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name.clone(),
                read_only: None,
            }),
            ..Volume::default()
        });
        ensure_claim(world, set, spec, claim, &claim_name).await?;
    }
    match world.create(&world.pods, &pod).await {
        // The old pod of that name is still on its way out.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other?),
    }
}

async fn ensure_claim(
    world: &World,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PersistentVolumeClaim,
    name: &str,
) -> Result<(), ReconcileError> {
    let namespace = set.namespace().unwrap_or_default();
    if world.claims.get(&ObjectKey::new(&*namespace, name)).is_some() {
        return Ok(());
    }
    let mut claim = template.clone();
    claim.metadata.name = Some(name.to_owned());
    claim.metadata.namespace = Some(namespace);
    claim.status = None;
    let labels = claim.metadata.labels.get_or_insert_with(BTreeMap::new);
    labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
    let retention = spec.persistent_volume_claim_retention_policy.as_ref();
    if retention.and_then(|retention| retention.when_deleted.as_deref()) == Some("Delete") {
        claim.metadata.owner_references = Some(vec![controlled_by(set)]);
    }
    match world.create(&world.claims, &claim).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other?),
    }
}

async fn write_status(world: &World, set: &StatefulSet, spec: &StatefulSetSpec) -> Result<Outcome, ReconcileError> {
    let replicas = Replicas::of(world, set, spec);
    let min_ready_s = spec.min_ready_seconds.unwrap_or(0);
    let now = world.now();
    let live: Vec<_> = replicas
        .pods
        .values()
        .filter(|pod| !is_deleting(&***pod) && !is_finished(pod))
        .collect();
    let count = |holds: &dyn Fn(&Pod) -> bool| live.iter().filter(|pod| holds(pod)).count();
    let (ready, available) = (count(&is_ready), count(&|pod| is_available(pod, min_ready_s, now)));
    let updated = count(&|pod| replicas.is_current(pod));
    let known = set.status.as_ref().and_then(|status| status.current_revision.clone());
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    let complete = updated == wanted && live.len() == wanted && ready == wanted;
    let current = if complete {
        replicas.revision.clone()
    } else {
        known.unwrap_or_else(|| replicas.revision.clone())
    };
    let of_current = count(&|pod| pod.labels().get(REVISION_LABEL) == Some(&current));
    let positive = |count: usize| (count > 0).then_some(count);
    let status = json!({
        "observedGeneration": set.metadata.generation, "replicas": live.len(), "readyReplicas": positive(ready),
        "availableReplicas": available, "currentReplicas": positive(of_current), "updatedReplicas": positive(updated),
        "currentRevision": current, "updateRevision": replicas.revision, "collisionCount": 0,
    });
    if crate::world::says_more(&json!(set.status), &status) {
        match world
            .patch_status(&world.stateful_sets, &key_of(set), &json!({"status": status}))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => other?,
        }
    }
    Ok(if ready > available {
        Outcome::RequeueAfter(Duration::from_secs(u64::try_from(min_ready_s).unwrap_or(1).max(1)))
    } else {
        Outcome::Done
    })
}
