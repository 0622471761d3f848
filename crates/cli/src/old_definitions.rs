//! Refuses to run with definitions that lack fields this version reads or writes: the API server would drop them silently.

use crate::definition_fields::{lacking, remedy, schema, versions};
use kerf_api::{Crd, Provider};
use kerf_runtime::options::FeatureGates;
use kube::Client;
use kube::core::Request;
use kube::core::params::GetParams;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long the start waits for the documents of schemas.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Fails if a definition that this controller uses is older than this version of Kerf. What cannot be read is not judged: definitions that are
/// missing are reported while their kinds are listed (OPS-058).
pub(crate) async fn refuse_old_definitions(
    client: &Client,
    provider: Provider,
    gates: FeatureGates,
) -> anyhow::Result<()> {
    let end = Instant::now() + TIMEOUT;
    let mut documents: BTreeMap<(String, String), Option<Value>> = BTreeMap::new();
    let mut old = Vec::new();
    for crd in used(provider, gates) {
        let Some(group) = crd.value.pointer("/spec/group").and_then(Value::as_str) else {
            continue;
        };
        for version in versions(&crd.value) {
            let Some(name) = version.get("name").and_then(Value::as_str) else {
                continue;
            };
            let key = (group.to_owned(), name.to_owned());
            if !documents.contains_key(&key) {
                let document = published(client, group, name, end).await?;
                documents.insert(key.clone(), document);
            }
            let Some(document) = documents.get(&key).and_then(Option::as_ref) else {
                continue;
            };
            if let Some(fields) = lacks(&crd, version, document) {
                let remedy = remedy(provider);
                old.push(format!(
                    "{} is older than this version of Kerf: it lacks {fields}; {remedy}",
                    crd.name
                ));
            }
        }
    }
    anyhow::ensure!(old.is_empty(), "{}", old.join("; "));
    Ok(())
}

/// The definitions that a controller with a provider and feature gates reads or writes objects of.
fn used(provider: Provider, gates: FeatureGates) -> Vec<Crd> {
    let all = kerf_api::crds(provider).into_iter();
    all.filter(|crd| match crd.name {
        "nodepools.karpenter.sh" | "nodeclaims.karpenter.sh" | "ec2nodeclasses.karpenter.k8s.aws" => true,
        "nodeoverlays.karpenter.sh" => gates.node_overlay,
        "capacitybuffers.autoscaling.x-k8s.io" => gates.capacity_buffer,
        _ => false,
    })
    .collect()
}

/// The document with the schemas of a group and version, which everyone who may use discovery may read. `None` if it cannot be read.
async fn published(client: &Client, group: &str, version: &str, end: Instant) -> anyhow::Result<Option<Value>> {
    let request = Request::new(format!("/openapi/v3/apis/{group}")).get(version, &GetParams::default())?;
    match tokio::time::timeout_at(end, client.request::<Value>(request)).await {
        Ok(Ok(document)) => Ok(Some(document)),
        Ok(Err(error)) => {
            let error = kerf_runtime::client::describe(&error);
            tracing::debug!(error, group, "the age of custom resource definitions is not known");
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}

/// The fields of a definition's version that the published schema of its kind lacks.
fn lacks(crd: &Crd, version: &Value, document: &Value) -> Option<String> {
    let kind = crd.value.pointer("/spec/names/kind")?.as_str()?;
    let schemas = document.pointer("/components/schemas")?.as_object()?;
    let is_of_kind = |schema: &&Value| {
        let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        kinds
            .into_iter()
            .flatten()
            .any(|named| named.get("kind").and_then(Value::as_str) == Some(kind))
    };
    let published = schemas.values().find(is_of_kind)?;
    // Metadata is a reference to another schema there.
    let mut wanted = schema(version).clone();
    for inherited in ["metadata", "apiVersion", "kind"] {
        if let Some(properties) = wanted.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove(inherited);
        }
    }
    lacking(&wanted, published)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The document of an API server whose NodePools are as a change leaves them.
    fn document(pools: &Crd, change: impl FnOnce(&mut Value)) -> Value {
        let mut pool = schema(first(pools)).clone();
        pool["properties"]["metadata"] = json!({"$ref": "#/components/schemas/meta"});
        pool["x-kubernetes-group-version-kind"] =
            json!([{"group": "karpenter.sh", "kind": "NodePool", "version": "v1"}]);
        change(&mut pool);
        json!({"components": {"schemas": {"sh.karpenter.v1.NodePool": pool, "meta": {}}}})
    }

    fn first(crd: &Crd) -> &Value {
        versions(&crd.value).next().expect("a version")
    }

    #[test]
    fn a_schema_without_a_field_is_old() {
        let crds = used(Provider::Kwok, FeatureGates::default());
        let pools = crds.iter().find(|crd| crd.name == "nodepools.karpenter.sh");
        let pools = pools.expect("NodePools");
        let lacks = |document: &Value| lacks(pools, first(pools), document);
        assert_eq!(lacks(&document(pools, |_| {})), None);
        let old = document(pools, |pool| {
            let spec = pool["properties"]["spec"]["properties"]
                .as_object_mut()
                .expect("fields");
            spec.remove("replicas").expect("a field");
        });
        assert_eq!(lacks(&old).as_deref(), Some("spec.replicas"));
        // Kinds that are not published are not reported.
        assert_eq!(lacks(&json!({"components": {"schemas": {}}})), None);
    }

    #[test]
    fn the_kinds_of_the_provider_and_of_gates_that_are_on_are_judged() {
        let names = |provider, gates| {
            let all = used(provider, gates).into_iter();
            all.map(|crd| crd.name).collect::<Vec<_>>()
        };
        let off = FeatureGates::default();
        let on = FeatureGates {
            node_overlay: true,
            capacity_buffer: true,
            ..off
        };
        let always = ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"];
        assert_eq!(names(Provider::Kwok, off), always);
        let gated = ["nodeoverlays.karpenter.sh", "capacitybuffers.autoscaling.x-k8s.io"];
        assert_eq!(names(Provider::Kwok, on), [always, gated].concat());
        assert_eq!(
            names(Provider::Aws, off),
            [&always[..], &["ec2nodeclasses.karpenter.k8s.aws"]].concat()
        );
    }
}
