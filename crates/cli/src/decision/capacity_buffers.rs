//! CapacityBuffers of manifests or of a cluster, and the virtual pods that keep their room.

use crate::manifests::{InputError, Object};
use jiff::Timestamp;
use kerf_api::CapacityBuffer;
use kerf_state::Mirror;
use kerf_state::capacity_buffer::{Referent, ReferentKind, reference};
use kerf_state::lean::{LeanDeployment, LeanPodTemplateObject};
use serde_json::Value;

/// CapacityBuffers, each with what describes its pods, or why that is not known.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Result<Found, Box<InputError>>>);

/// A buffer and what describes its pods.
struct Found {
    /// The buffer's kind, namespace and name.
    title: String,
    buffer: CapacityBuffer,
    referent: Referent,
}

impl Buffers {
    /// Takes CapacityBuffers and PodTemplates out of `objects`. Buffers of other strategies belong to another controller (SCH-379).
    pub(super) fn take(&mut self, objects: &mut Vec<Object>) {
        let buffers = objects.iter().filter(|object| object.kind == "CapacityBuffer");
        self.0
            .extend(buffers.filter_map(|object| found(object, objects).transpose()));
        objects.retain(|object| !["CapacityBuffer", "PodTemplate"].contains(&&*object.kind));
    }

    /// Has the mirror keep room for the virtual pods. Buffers that cannot be resolved are added to `errors`.
    pub(super) fn keep(self, mirror: &mut Mirror, now: Timestamp, errors: &mut Vec<InputError>) {
        let mut resolved = Vec::new();
        for found in self.0 {
            match found {
                Ok(found) => resolved.push(found),
                Err(error) => errors.push(*error),
            }
        }
        mirror.reset(resolved.iter().map(|found| found.buffer.clone()).collect::<Vec<_>>());
        for Found {
            title,
            buffer,
            referent,
        } in resolved
        {
            match mirror.buffer_replicas(&buffer, &referent) {
                Ok(replicas) => mirror.keep_buffer(&buffer, &referent, replicas, now),
                Err(error) => errors.push(InputError::new("", error.to_string()).object(title)),
            }
        }
    }
}

/// The buffer and what it refers to; nothing for a buffer of another strategy.
fn found(object: &Object, objects: &[Object]) -> Result<Option<Found>, Box<InputError>> {
    let buffer: CapacityBuffer = decode(object)?;
    if !buffer.is_active() || buffer.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let (kind, name) = reference(&buffer).map_err(|invalid| {
        let remedy = "name a PodTemplate, Deployment, StatefulSet or ReplicaSet of its namespace";
        Box::new(object.error("spec", invalid.to_string()).remedy(remedy))
    })?;
    let is_it =
        |other: &&Object| other.kind == kind.as_str() && other.name == name && other.namespace == object.namespace;
    let Some(referent) = objects.iter().find(is_it) else {
        let field = match kind {
            ReferentKind::PodTemplate => "spec.podTemplateRef",
            ReferentKind::Deployment | ReferentKind::StatefulSet | ReferentKind::ReplicaSet => "spec.scalableRef",
        };
        let error = object.error(field, format!("{} \"{name}\" is not in the input", kind.as_str()));
        return Err(Box::new(error.remedy("add it to the input, or correct the reference")));
    };
    let referent = match kind {
        ReferentKind::PodTemplate => decode::<LeanPodTemplateObject>(referent)?.into(),
        // The three kinds have the number of pods and their template in the same fields.
        ReferentKind::Deployment | ReferentKind::StatefulSet | ReferentKind::ReplicaSet => {
            decode::<LeanDeployment>(referent)?.spec.into()
        }
    };
    Ok(Some(Found {
        title: object.title(),
        buffer,
        referent,
    }))
}

fn decode<K: serde::de::DeserializeOwned>(object: &Object) -> Result<K, Box<InputError>> {
    let read: Result<K, serde_path_to_error::Error<serde_json::Error>> =
        serde_path_to_error::deserialize(Value::clone(&object.value));
    read.map_err(|problem| {
        let error = object.error(
            &problem.path().to_string(),
            format!("cannot be read: {}", problem.inner()),
        );
        Box::new(error.remedy("correct it"))
    })
}
