//! The Deployment controller: one replica set per template, scaled by the rollout.

use super::rollout;
use crate::context::{ActorContext, enqueue_own_and_controlled, queue};
use crate::object::{annotation, controlled_by, controller, short_hash, uid};
use crate::store::key_of;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_runtime::{ObjectKey, Outcome, ReconcileError};
use kube::ResourceExt;
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;

pub(super) const HASH_LABEL: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

pub(super) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    enqueue_own_and_controlled(&queue, &context.deployments, &context.replica_sets);
    // The Recreate strategy waits until the last old pod is removed.
    let (keys, own) = (queue.clone(), Arc::downgrade(context));
    context.pods.listen(move |change| {
        let (Some(context), None) = (own.upgrade(), change.new) else {
            return;
        };
        let Some(owner) = change
            .last()
            .and_then(controller)
            .filter(|owner| owner.kind == "ReplicaSet")
        else {
            return;
        };
        let set = context
            .replica_sets
            .get(&ObjectKey::new(&*change.key.namespace, &*owner.name));
        if let Some(owner) = set.as_deref().and_then(controller) {
            keys.add(ObjectKey::new(&*change.key.namespace, &*owner.name));
        }
    });
    context.run(tasks, "deployment", queue, |context, key| async move {
        let Some(deployment) = context.deployments.get(&key) else {
            return Ok(Outcome::Done);
        };
        if deployment.metadata.deletion_timestamp.is_none() {
            reconcile(&context, &deployment).await?;
        }
        Ok(Outcome::Done)
    });
}

/// A deployment with its replica sets.
pub(super) struct Fleet {
    pub(super) hash: String,
    /// By revision.
    pub(super) sets: Vec<Arc<ReplicaSet>>,
}

impl Fleet {
    fn of(context: &ActorContext, deployment: &Deployment) -> Self {
        let mut sets = context.controlled_sets(uid(deployment));
        sets.retain(|set| set.metadata.deletion_timestamp.is_none());
        sets.sort_by_key(|set| (revision(set), set.creation_timestamp(), set.name_any()));
        let template = deployment.spec.as_ref().map(|spec| &spec.template);
        Self {
            hash: short_hash(&template),
            sets,
        }
    }

    pub(super) fn is_new(&self, set: &ReplicaSet) -> bool {
        set.labels().get(HASH_LABEL) == Some(&self.hash)
    }

    pub(super) fn new_set(&self) -> Option<&Arc<ReplicaSet>> {
        self.sets.iter().find(|set| self.is_new(set))
    }

    pub(super) fn old_sets(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.sets.iter().filter(|set| !self.is_new(set))
    }
}

pub(super) fn revision(set: &ReplicaSet) -> i64 {
    annotation(set, REVISION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

async fn reconcile(context: &ActorContext, deployment: &Deployment) -> Result<(), ReconcileError> {
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
    if paused {
        rollout::scale_to(context, deployment, &Fleet::of(context, deployment)).await?;
    } else {
        ensure_new_set(context, deployment).await?;
        let fleet = Fleet::of(context, deployment);
        rollout::step(context, deployment, &fleet).await?;
        clean_up(context, deployment, &Fleet::of(context, deployment)).await?;
    }
    rollout::write_status(context, deployment, &Fleet::of(context, deployment)).await
}

/// The replica set of the current template, created if it is missing, with the highest revision.
async fn ensure_new_set(context: &ActorContext, deployment: &Deployment) -> Result<(), ReconcileError> {
    let fleet = Fleet::of(context, deployment);
    let highest_old = fleet.old_sets().map(|set| revision(set)).max().unwrap_or(0);
    let current = match fleet.new_set() {
        Some(set) if revision(set) > highest_old => revision(set),
        Some(set) => {
            let revision = (highest_old + 1).to_string();
            let patch = json!({"metadata": {"annotations": {REVISION: revision}}});
            context.patch(&context.replica_sets, &key_of(&**set), &patch).await?;
            highest_old + 1
        }
        None => {
            context
                .create(&context.replica_sets, &new_set(deployment, &fleet, highest_old + 1))
                .await?;
            highest_old + 1
        }
    };
    let current = current.to_string();
    if annotation(deployment, REVISION) != Some(&current) {
        let patch = json!({"metadata": {"annotations": {REVISION: current}}});
        context.patch(&context.deployments, &key_of(deployment), &patch).await?;
    }
    Ok(())
}

fn new_set(deployment: &Deployment, fleet: &Fleet, revision: i64) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let with_hash = |labels: Option<std::collections::BTreeMap<String, String>>| {
        let mut labels = labels.unwrap_or_default();
        labels.insert(HASH_LABEL.to_owned(), fleet.hash.clone());
        Some(labels)
    };
    let mut meta = spec.template.metadata.clone().unwrap_or_default();
    meta.labels = with_hash(meta.labels);
    let mut selector = spec.selector.clone();
    selector.match_labels = with_hash(selector.match_labels);
    let (surge, _) = rollout::bounds(deployment);
    let others: i32 = fleet.old_sets().map(|set| replicas(set)).sum();
    let first = rollout::room_for_new(deployment, others, 0);
    let annotations = [
        (REVISION, revision.to_string()),
        (DESIRED, wanted(deployment).to_string()),
        (MAX_REPLICAS, (wanted(deployment) + surge).to_string()),
    ];
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", deployment.name_any(), fleet.hash)),
            namespace: deployment.namespace(),
            labels: meta.labels.clone(),
            annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).into()),
            owner_references: Some(vec![controlled_by(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(first),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(PodTemplateSpec {
                metadata: Some(meta),
                spec: spec.template.spec,
            }),
        }),
        status: None,
    }
}

/// Deletes the oldest empty replica sets beyond the revision history limit.
async fn clean_up(context: &ActorContext, deployment: &Deployment, fleet: &Fleet) -> Result<(), ReconcileError> {
    let limit = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.revision_history_limit)
        .unwrap_or(10);
    let empty =
        |set: &&Arc<ReplicaSet>| replicas(set) == 0 && set.status.as_ref().is_none_or(|status| status.replicas == 0);
    let idle: Vec<_> = fleet.old_sets().filter(empty).collect();
    let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    for set in idle.into_iter().take(surplus) {
        context.delete(&context.replica_sets, &**set, None).await?;
    }
    Ok(())
}
