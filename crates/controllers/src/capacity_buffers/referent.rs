//! What a CapacityBuffer refers to: a PodTemplate or a workload.

use kerf_api::CapacityBuffer;
use kerf_api::conditions::capacity_buffer as conditions;
use kerf_runtime::client::{ApiErrorKind, describe};
use kerf_state::capacity_buffer::{Referent, TooManyReplicas};
use kerf_state::lean::{LeanDeployment, LeanPodTemplateObject, LeanReplicaSet, LeanStatefulSet, LeanWorkloadSpec};
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
    /// One word for programs.
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Whether it is worth another try at once, with growing pauses; else it is looked at again after the usual time.
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

/// Finds what a buffer refers to. A PodTemplate is preferred if both are named (SCH-380).
pub(super) async fn find(client: &Client, buffer: &CapacityBuffer) -> Result<Found, Unresolved> {
    let namespace = buffer.namespace().unwrap_or_else(|| "default".to_owned());
    if let Some(reference) = &buffer.spec.pod_template_ref {
        let object: LeanPodTemplateObject = get(client, &namespace, &reference.name)
            .await
            .map_err(|error| Unresolved::of(&error, conditions::POD_TEMPLATE_NOT_FOUND))?;
        return Ok(Found {
            template: Some((reference.name.clone(), object.metadata.generation)),
            referent: Referent {
                template: object.template,
                replicas: None,
            },
        });
    }
    let Some(reference) = &buffer.spec.scalable_ref else {
        return Err(Unresolved {
            retry: false,
            ..Unresolved::failed(conditions::NO_REFERENCE_MESSAGE.to_owned())
        });
    };
    let group = reference.api_group.as_deref().unwrap_or_default();
    if !matches!(group, "" | "apps") {
        return Err(Unresolved::failed(format!(
            "unsupported scalableRef API group {group:?}"
        )));
    }
    let name = &reference.name;
    let spec = match reference.kind.as_str() {
        "Deployment" => get::<LeanDeployment>(client, &namespace, name)
            .await
            .map(|found| found.spec),
        "StatefulSet" => get::<LeanStatefulSet>(client, &namespace, name)
            .await
            .map(|found| found.spec),
        "ReplicaSet" => get::<LeanReplicaSet>(client, &namespace, name)
            .await
            .map(|found| found.spec),
        other => return Err(Unresolved::failed(format!("unsupported kind {other:?}"))),
    };
    let LeanWorkloadSpec { replicas, template } =
        spec.map_err(|error| Unresolved::of(&error, conditions::SCALABLE_REF_NOT_FOUND))?;
    Ok(Found {
        template: None,
        referent: Referent {
            template,
            replicas: Some(replicas.unwrap_or(1)),
        },
    })
}

async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + std::fmt::Debug,
{
    Api::<K>::namespaced(client.clone(), namespace).get(name).await
}
