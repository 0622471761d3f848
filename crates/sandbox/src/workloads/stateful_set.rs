//! The StatefulSet controller: numbered pods with their own volume claims, created and replaced in order.

use super::pod_creation::create_pod;
use super::template::{self, PodName, label};
use crate::context::{ActorContext, enqueue_own_and_pods, queue};
use crate::object::{controlled_by, is_available, is_deleting, is_finished, is_ready, scaled_value, short_hash, uid};
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};
use kerf_runtime::{ObjectKey, Outcome, ReconcileError};
use kube::ResourceExt;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

const REVISION_LABEL: &str = "controller-revision-hash";

pub(super) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    enqueue_own_and_pods(&queue, &context.stateful_sets, &context.pods);
    context.run(tasks, "statefulset", queue, |context, key| async move {
        let Some(set) = context.stateful_sets.get(&key) else {
            return Ok(Outcome::Done);
        };
        let Some(spec) = set.spec.clone() else {
            return Ok(Outcome::Done);
        };
        let replicas = Replicas::of(&context, &set, &spec);
        let step = if set.metadata.deletion_timestamp.is_none() {
            step(&context, &set, &spec, &replicas).await
        } else {
            Ok(())
        };
        // The status counts the pods also where the next one was refused.
        let outcome = write_status(&context, &set, &spec).await?;
        step.map(|()| outcome)
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
    fn of(context: &ActorContext, set: &StatefulSet, spec: &StatefulSetSpec) -> Self {
        let prefix = format!("{}-", set.name_any());
        let ordinal = |pod: &Pod| pod.name_any().strip_prefix(&prefix).and_then(|n| n.parse().ok());
        let pods = context
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

/// One step towards the wanted pods. With ordered pod management it stops at the first pod that is not ready.
async fn step(
    context: &ActorContext,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    replicas: &Replicas,
) -> Result<(), ReconcileError> {
    let ordered = spec.pod_management_policy.as_deref() != Some("Parallel");
    for ordinal in replicas.wanted.clone() {
        match replicas.pods.get(&ordinal) {
            Some(pod) if is_finished(pod) && !is_deleting(&**pod) => {
                context.delete(&context.pods, &**pod, None).await?;
            }
            Some(pod) if !is_deleting(&**pod) && is_ready(pod) => continue,
            Some(_) => {}
            None => create(context, set, spec, ordinal, &replicas.revision).await?,
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
            context.delete(&context.pods, &***pod, None).await?;
        }
        if ordered {
            return Ok(());
        }
    }
    update(context, spec, replicas).await
}

/// Replaces pods of older templates from the highest ordinal down, one at a time unless `maxUnavailable` says more.
async fn update(context: &ActorContext, spec: &StatefulSetSpec, replicas: &Replicas) -> Result<(), ReconcileError> {
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return Ok(());
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
    let total = spec.replicas.unwrap_or(1);
    let at_once = rolling
        .and_then(|rolling| rolling.max_unavailable.as_ref())
        .map_or(1, |v| scaled_value(v, total, false));
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
            context.delete(&context.pods, &**pod, None).await?;
            unavailable += 1;
        }
    }
    Ok(())
}

async fn create(
    context: &ActorContext,
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
        ensure_claim(context, set, spec, claim, &claim_name).await?;
    }
    match create_pod(context, set, "statefulset-controller", &pod).await {
        // The old pod of that name is still being deleted.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other?),
    }
}

async fn ensure_claim(
    context: &ActorContext,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PersistentVolumeClaim,
    name: &str,
) -> Result<(), ReconcileError> {
    let namespace = set.namespace().unwrap_or_default();
    if context.claims.get(&ObjectKey::new(&*namespace, name)).is_some() {
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
    match context.create(&context.claims, &claim).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other?),
    }
}

async fn write_status(
    context: &ActorContext,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
) -> Result<Outcome, ReconcileError> {
    let replicas = Replicas::of(context, set, spec);
    let min_ready_s = spec.min_ready_seconds.unwrap_or(0);
    let now = context.now();
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
    context
        .update_status(&context.stateful_sets, set, &set.status, status)
        .await?;
    Ok(template::until_available(ready > available, min_ready_s))
}
