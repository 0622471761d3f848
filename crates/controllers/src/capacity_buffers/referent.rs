//! What a CapacityBuffer refers to: a PodTemplate or a workload.

use kerf_api::CapacityBuffer;
use kerf_api::conditions::capacity_buffer as conditions;
use kerf_runtime::client::{ApiErrorKind, describe};
use kerf_state::capacity_buffer::{InvalidReference, Referent, ReferentKind, TooManyReplicas, reference};
use kerf_state::lean::{LeanDeployment, LeanPodTemplateObject, LeanReplicaSet, LeanStatefulSet};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// What a buffer refers to.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) referent: Referent,
    /// Name and generation of the PodTemplate, if it is one.
    pub(super) template: Option<(String, Option<i64>)>,
}

/// Why a reference leads nowhere.
#[derive(Debug)]
pub(super) struct Unresolved {
    /// The reason of the condition, one word.
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Whether to retry with growing pauses; else the buffer is resolved again after the usual time.
    pub(super) retry: bool,
}

impl Unresolved {
    fn failed(message: String) -> Self {
        Self {
            reason: conditions::RESOLUTION_FAILED,
            message,
            retry: true,
        }
    }

    /// The buffer asks for more pods than are kept.
    pub(super) fn too_many(error: TooManyReplicas) -> Self {
        Self {
            retry: false,
            ..Self::failed(error.to_string())
        }
    }

    fn of(error: &kube::Error, not_found: &'static str) -> Self {
        match ApiErrorKind::of(error) {
            ApiErrorKind::NotFound => Self {
                reason: not_found,
                message: describe(error),
                retry: false,
            },
            _ => Self::failed(describe(error)),
        }
    }
}

/// Finds what a buffer refers to.
pub(super) async fn find(client: &Client, buffer: &CapacityBuffer) -> Result<Found, Unresolved> {
    let namespace = buffer.namespace().unwrap_or_else(|| "default".to_owned());
    let (kind, name) = reference(buffer).map_err(|invalid| Unresolved {
        retry: invalid != InvalidReference::Absent,
        ..Unresolved::failed(invalid.to_string())
    })?;
    let workload = match kind {
        ReferentKind::PodTemplate => {
            let object: LeanPodTemplateObject = get(client, &namespace, name)
                .await
                .map_err(|error| Unresolved::of(&error, conditions::POD_TEMPLATE_NOT_FOUND))?;
            return Ok(Found {
                template: Some((name.to_owned(), object.metadata.generation)),
                referent: object.into(),
            });
        }
        ReferentKind::Deployment => get::<LeanDeployment>(client, &namespace, name)
            .await
            .map(|found| found.spec),
        ReferentKind::StatefulSet => get::<LeanStatefulSet>(client, &namespace, name)
            .await
            .map(|found| found.spec),
        ReferentKind::ReplicaSet => get::<LeanReplicaSet>(client, &namespace, name)
            .await
            .map(|found| found.spec),
    };
    let workload = workload.map_err(|error| Unresolved::of(&error, conditions::SCALABLE_REF_NOT_FOUND))?;
    Ok(Found {
        template: None,
        referent: workload.into(),
    })
}

async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + std::fmt::Debug,
{
    Api::<K>::namespaced(client.clone(), namespace).get(name).await
}
