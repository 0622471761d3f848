//! How much room a CapacityBuffer asks for, and the virtual pods that keep it (section 25 of `docs/behaviour/scheduling.md`).

use crate::convert::{Converter, amounts, default_from_limits, floor};
use crate::lean::{LeanCondition, LeanPod, LeanPodStatus, LeanPodTemplate, LeanPodTemplateObject, LeanWorkloadSpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kerf_api::CapacityBuffer;
use kerf_api::conditions::capacity_buffer::NO_REFERENCE_MESSAGE;
use kerf_model::intern::sym;
use kerf_model::pod::Pod;
use std::sync::Arc;

/// The pod template that a buffer refers to.
#[derive(Clone, Debug)]
pub struct Referent {
    /// The template of one pod.
    pub template: LeanPodTemplate,
    /// How many replicas the workload has; `None` for a PodTemplate.
    pub replicas: Option<i32>,
}

impl From<LeanWorkloadSpec> for Referent {
    fn from(LeanWorkloadSpec { replicas, template }: LeanWorkloadSpec) -> Self {
        Self {
            template,
            replicas: Some(replicas.unwrap_or(1)),
        }
    }
}

impl From<LeanPodTemplateObject> for Referent {
    fn from(object: LeanPodTemplateObject) -> Self {
        Self {
            template: object.template,
            replicas: None,
        }
    }
}

/// The kinds of objects a buffer may refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are the kinds' own")]
pub enum ReferentKind {
    PodTemplate,
    Deployment,
    StatefulSet,
    ReplicaSet,
}

impl ReferentKind {
    /// As in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodTemplate => "PodTemplate",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::ReplicaSet => "ReplicaSet",
        }
    }
}

/// Why the reference of a buffer is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidReference {
    /// It names neither a PodTemplate nor a workload.
    #[error("{}", NO_REFERENCE_MESSAGE)]
    Absent,
    /// The group of the workload is not `apps`.
    #[error("unsupported scalableRef API group {0:?}")]
    Group(String),
    /// The kind is none of `apps` that has a pod template and replicas.
    #[error("unsupported kind {0:?}")]
    Kind(String),
}

/// The kind and name of the object in the buffer's namespace that describes its pods. A PodTemplate is preferred if both are named
/// (SCH-380).
pub fn reference(buffer: &CapacityBuffer) -> Result<(ReferentKind, &str), InvalidReference> {
    if let Some(reference) = &buffer.spec.pod_template_ref {
        return Ok((ReferentKind::PodTemplate, &reference.name));
    }
    let reference = buffer.spec.scalable_ref.as_ref().ok_or(InvalidReference::Absent)?;
    let group = reference.api_group.as_deref().unwrap_or_default();
    if !matches!(group, "" | "apps") {
        return Err(InvalidReference::Group(group.to_owned()));
    }
    let kinds = [
        ReferentKind::Deployment,
        ReferentKind::StatefulSet,
        ReferentKind::ReplicaSet,
    ];
    let kind = kinds.into_iter().find(|kind| kind.as_str() == reference.kind);
    let kind = kind.ok_or_else(|| InvalidReference::Kind(reference.kind.clone()))?;
    Ok((kind, &reference.name))
}

/// The largest number of virtual pods of one buffer. Each is a pod in memory and in every plan, and any user who may create a buffer chooses the
/// number. The solver places so many in a fraction of a second (`cargo bench --bench diverse`).
pub const REPLICAS_MAX: i32 = 10_000;

/// A buffer asks for more than [`REPLICAS_MAX`] pods.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0} virtual pods are asked for; at most 10000 are kept. Lower spec.replicas or spec.percentage, or set spec.limits"
)]
pub struct TooManyReplicas(pub i32);

/// How many virtual pods a buffer asks for: the larger of `replicas` and the percentage of the workload, capped by `limits`; `limits` alone
/// decide if neither is given (SCH-381). A percentage of a workload without replicas is 0.
pub(crate) fn replicas(
    converter: &mut Converter,
    buffer: &CapacityBuffer,
    referent: &Referent,
) -> Result<i32, TooManyReplicas> {
    let spec = &buffer.spec;
    let share = match (spec.percentage, referent.replicas) {
        (Some(percentage), Some(replicas)) => Some(share(replicas, percentage)),
        _ => None,
    };
    let wanted = spec.replicas.into_iter().chain(share).max();
    let room = room(converter, buffer, referent);
    let replicas = match (wanted, room) {
        (Some(wanted), Some(room)) => wanted.min(room),
        (wanted, room) => wanted.or(room).unwrap_or(0),
    };
    match replicas {
        too_many if too_many > REPLICAS_MAX => Err(TooManyReplicas(too_many)),
        replicas => Ok(replicas),
    }
}

/// Part of a workload's replicas, rounded up.
fn share(replicas: i32, percentage: i32) -> i32 {
    let part = (i64::from(replicas) * i64::from(percentage)).max(0);
    i32::try_from((part + 99) / 100).unwrap_or(i32::MAX)
}

/// How many pods the limits have room for; `None` if they limit no resource that a pod requests.
fn room(converter: &mut Converter, buffer: &CapacityBuffer, referent: &Referent) -> Option<i32> {
    let pod = converter.pod(&lean_pod(buffer, referent, Timestamp::UNIX_EPOCH))?.pod;
    let limits = amounts(&buffer.spec.limits, converter.interner(), floor);
    let resources = limits.iter().filter(|(name, _)| *name != sym::PODS);
    let bounds = resources.filter_map(|(name, limit)| {
        let each = pod.shape.requests.get(name);
        (each > 0).then(|| i32::try_from((limit / each).max(0)).unwrap_or(i32::MAX))
    });
    bounds.min()
}

/// The virtual pods of a buffer (SCH-386).
pub(crate) fn virtual_pods(
    converter: &mut Converter,
    buffer: &CapacityBuffer,
    referent: &Referent,
    replicas: i32,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    let Some(facts) = converter.pod(&lean_pod(buffer, referent, now)) else {
        return Vec::new();
    };
    let pod = facts.pod;
    let (name, uid) = (&pod.name, &pod.uid);
    let key: Arc<str> = format!("{}/{name}", pod.namespace).into();
    let numbered = |number: i32| {
        Arc::new(Pod {
            uid: format!("{uid}-{number}").into(),
            name: format!("capacity-buffer-{name}-{number}").into(),
            capacity_buffer: Some(Arc::clone(&key)),
            ..pod.clone()
        })
    };
    (1..=replicas).map(numbered).collect()
}

/// A pod of the template that waits for capacity, with the name and unique id of the buffer. It has no volumes of claims, because they are made for real pods only (SCH-387).
fn lean_pod(buffer: &CapacityBuffer, referent: &Referent, now: Timestamp) -> LeanPod {
    let LeanPodTemplate { metadata, mut spec } = referent.template.clone();
    default_from_limits(&mut spec);
    spec.node_name.clear();
    spec.priority = Some(i32::MIN);
    spec.volumes
        .retain(|volume| volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none());
    let unschedulable = LeanCondition {
        kind: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: "Unschedulable".to_owned(),
        ..LeanCondition::default()
    };
    LeanPod {
        metadata: ObjectMeta {
            name: buffer.metadata.name.clone(),
            namespace: buffer.metadata.namespace.clone(),
            uid: buffer.metadata.uid.clone(),
            creation_timestamp: Some(Time(now)),
            labels: Some(metadata.labels),
            ..ObjectMeta::default()
        },
        spec,
        status: LeanPodStatus {
            conditions: vec![unschedulable],
            ..LeanPodStatus::default()
        },
    }
}
