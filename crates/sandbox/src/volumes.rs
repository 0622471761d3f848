//! The volume controllers: claims are provisioned and bound, at once or on the node of their first pod; ephemeral volumes get claims.

use crate::context::{ActorContext, queue};
use crate::object::{annotation, controlled_by, is_deleting, reference, short_hash, uid};
use crate::store::key_of;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume,
    PersistentVolumeClaim, PersistentVolumeSpec, Pod, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_runtime::{ObjectKey, Outcome, ReconcileError};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;

pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const ZONE: &str = "topology.kubernetes.io/zone";
/// The provisioner of classes whose volumes an administrator creates.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

pub(crate) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    let keys = queue.clone();
    context.claims.listen(move |change| keys.add(change.key.clone()));
    // Claims may wait for a new class or volume.
    let (keys, own) = (queue.clone(), Arc::downgrade(context));
    let retry = move || {
        let Some(context) = own.upgrade() else { return };
        for claim in context.claims.all().iter().filter(|claim| !is_bound(claim)) {
            keys.add(key_of(&**claim));
        }
    };
    let also = retry.clone();
    context.classes.listen(move |_| retry());
    context.volumes.listen(move |_| also());
    context.run(tasks, "persistentvolume", queue, |context, key| async move {
        match context.claims.get(&key) {
            Some(claim) if !is_deleting(&*claim) => bind(&context, &claim).await?,
            Some(_) => {}
            None => reclaim(&context, &key).await?,
        }
        Ok(Outcome::Done)
    });
    let queue = crate::context::queue();
    let keys = queue.clone();
    context.pods.listen(move |change| {
        if change.old.is_none() && change.new.is_some_and(|pod| ephemeral(pod).next().is_some()) {
            keys.add(change.key.clone());
        }
    });
    context.run(tasks, "ephemeral.volume", queue, |context, key| async move {
        let Some(pod) = context.pods.get(&key).filter(|pod| !is_deleting(&**pod)) else {
            return Ok(Outcome::Done);
        };
        claim_ephemeral(&context, &pod).await
    });
}

fn ephemeral(pod: &Pod) -> impl Iterator<Item = (&str, &k8s_openapi::api::core::v1::PersistentVolumeClaimTemplate)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| {
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        Some((volume.name.as_str(), template))
    })
}

/// The names of all claims a pod mounts.
pub(crate) fn claim_names(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let named = volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()));
    let own = ephemeral(pod).map(|(volume, _)| format!("{}-{volume}", pod.name_any()));
    named.chain(own).collect()
}

pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    volume_name(claim).is_some() && annotation(claim, BIND_COMPLETED).is_some()
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim
        .spec
        .as_ref()?
        .volume_name
        .as_deref()
        .filter(|name| !name.is_empty())
}

/// Whether the class has the binding mode WaitForFirstConsumer.
pub(crate) fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

pub(crate) fn class_of(context: &ActorContext, claim: &PersistentVolumeClaim) -> Option<Arc<StorageClass>> {
    let name = claim
        .spec
        .as_ref()?
        .storage_class_name
        .as_deref()
        .filter(|name| !name.is_empty())?;
    context.classes.named(name)
}

async fn claim_ephemeral(context: &ActorContext, pod: &Pod) -> Result<Outcome, ReconcileError> {
    for (volume, template) in ephemeral(pod) {
        let meta = template.metadata.clone().unwrap_or_default();
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(format!("{}-{volume}", pod.name_any())),
                namespace: pod.namespace(),
                labels: meta.labels,
                annotations: meta.annotations,
                owner_references: Some(vec![controlled_by(pod)]),
                ..ObjectMeta::default()
            },
            spec: Some(template.spec.clone()),
            status: None,
        };
        match context.create(&context.claims, &claim).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => other?,
        }
    }
    Ok(Outcome::Done)
}

async fn bind(context: &ActorContext, claim: &PersistentVolumeClaim) -> Result<(), ReconcileError> {
    if is_bound(claim) {
        return Ok(());
    }
    if let Some(name) = volume_name(claim) {
        return match context.volumes.named(name) {
            Some(volume) => join(context, claim, &volume).await,
            None => Ok(()),
        };
    }
    let Some(class) = class_of(context, claim) else {
        return Ok(());
    };
    let node = annotation(claim, SELECTED_NODE).and_then(|name| context.nodes.named(name));
    if waits_for_consumer(&class) && node.is_none() {
        return Ok(());
    }
    if class.provisioner == NO_PROVISIONER {
        return match static_volume(context, claim, &class) {
            Some(volume) => join(context, claim, &volume).await,
            None => Ok(()),
        };
    }
    let volume = provision(context, claim, &class, node.as_deref()).await?;
    join(context, claim, &volume).await
}

/// The first unclaimed volume of the class by name.
fn static_volume(
    context: &ActorContext,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Option<Arc<PersistentVolume>> {
    let free = |volume: &Arc<PersistentVolume>| {
        let spec = volume.spec.as_ref();
        let of_class = spec.and_then(|spec| spec.storage_class_name.as_deref()) == Some(&class.name_any());
        let holder = spec.and_then(|spec| spec.claim_ref.as_ref());
        let meant = |holder: &k8s_openapi::api::core::v1::ObjectReference| {
            holder.name == claim.metadata.name && holder.namespace == claim.metadata.namespace
        };
        of_class && !is_deleting(&**volume) && holder.is_none_or(meant)
    };
    context.volumes.all().into_iter().find(free)
}

/// The zone of a new volume: that of the selected node, else one the class allows, else one that has nodes.
fn zone(
    context: &ActorContext,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&Node>,
) -> Option<String> {
    if let Some(node) = node {
        return node.labels().get(ZONE).cloned();
    }
    let terms = class.allowed_topologies.iter().flatten();
    let expressions = terms.flat_map(|term| term.match_label_expressions.iter().flatten());
    let allowed: BTreeSet<String> = expressions
        .filter(|e| e.key == ZONE)
        .flat_map(|e| e.values.clone())
        .collect();
    let present = context
        .nodes
        .all()
        .iter()
        .filter_map(|node| node.labels().get(ZONE).cloned())
        .collect();
    let zones: Vec<String> = if allowed.is_empty() { present } else { allowed }.into_iter().collect();
    // Real provisioners spread volumes over zones by the claim's name.
    let pick = short_hash(&claim.name_any()).bytes().map(usize::from).sum::<usize>();
    zones.get(pick.checked_rem(zones.len())?).cloned()
}

async fn provision(
    context: &ActorContext,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: Option<&Node>,
) -> Result<Arc<PersistentVolume>, ReconcileError> {
    let name = format!("pvc-{}", uid(claim));
    if let Some(known) = context.volumes.named(&name) {
        return Ok(known);
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let required = zone(context, claim, class, node).map(|zone| NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: Some(vec![NodeSelectorRequirement {
                key: ZONE.to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![zone]),
            }]),
            match_fields: None,
        }],
    });
    let volume = PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), class.provisioner.clone())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: spec.resources.and_then(|resources| resources.requests),
            claim_ref: Some(reference(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: class.provisioner.clone(),
                volume_handle: name,
                ..CSIPersistentVolumeSource::default()
            }),
            node_affinity: required.map(|required| VolumeNodeAffinity {
                required: Some(required),
            }),
            persistent_volume_reclaim_policy: Some(class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned())),
            storage_class_name: Some(class.name_any()),
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    };
    let api: Api<PersistentVolume> = Api::all(context.client.clone());
    let made = api.create(&PostParams::default(), &volume).await?;
    context.volumes.record_write(made.clone());
    Ok(Arc::new(made))
}

/// Binds claim and volume to each other, the volume first, so that a claim that is Bound always has its volume.
async fn join(
    context: &ActorContext,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), ReconcileError> {
    let spec = volume.spec.as_ref();
    if let Some(holder) = spec.and_then(|spec| spec.claim_ref.as_ref())
        && (holder.name != claim.metadata.name || holder.uid.as_deref().is_some_and(|other| other != uid(claim)))
    {
        return Ok(());
    }
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let params = PatchParams::default();
    let name = volume.name_any();
    let hold = json!({"spec": {"claimRef": reference(claim)}});
    context
        .volumes
        .record_write(volumes.patch(&name, &params, &Patch::Merge(hold)).await?);
    let bound = json!({"status": {"phase": "Bound"}});
    context
        .volumes
        .record_write(volumes.patch_status(&name, &params, &Patch::Merge(bound)).await?);
    let patch = json!({
        "metadata": {"annotations": {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}},
        "spec": {"volumeName": name},
    });
    let key = key_of(claim);
    context.patch(&context.claims, &key, &patch).await?;
    let status = json!({"status": {
        "phase": "Bound",
        "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
        "capacity": spec.and_then(|spec| spec.capacity.clone()),
    }});
    context.patch_status(&context.claims, &key, &status).await?;
    Ok(())
}

/// Deletes a volume whose claim is deleted, or marks it Released.
async fn reclaim(context: &ActorContext, key: &ObjectKey) -> Result<(), ReconcileError> {
    let api: Api<PersistentVolume> = Api::all(context.client.clone());
    for volume in context.volumes.all() {
        let Some(spec) = &volume.spec else { continue };
        let held = spec.claim_ref.as_ref().is_some_and(|holder| {
            holder.uid.is_some()
                && holder.name.as_deref() == Some(&key.name)
                && holder.namespace.as_deref() == Some(&key.namespace)
        });
        if !held || is_deleting(&*volume) {
            continue;
        }
        let name = volume.name_any();
        if spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") {
            match api.delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => drop(other?),
            }
        } else {
            let released = json!({"status": {"phase": "Released"}});
            let patched = api
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(released))
                .await?;
            context.volumes.record_write(patched);
        }
    }
    Ok(())
}
