//! Refuses to run with definitions that lack fields this version writes: the API server would drop them silently.

use crate::definition_fields::{REMEDY, lacking, schema, versions};
use kerf_api::{Crd, Provider};
use kube::Client;
use kube::core::Request;
use kube::core::params::GetParams;
use serde_json::Value;
use std::time::Duration;

/// The document with the schemas of NodePools and NodeClaims, as path and name. Everyone who may use discovery may read it.
const DOCUMENT: (&str, &str) = ("/openapi/v3/apis/karpenter.sh", VERSION);
const VERSION: &str = "v1";
/// How long the start waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The kinds without which the controller does nothing.
const REQUIRED: [&str; 2] = ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"];

/// Fails if the cluster's NodePools or NodeClaims are older than this version of Kerf. What cannot be read is not judged: definitions that are
/// missing are reported while their kinds are listed (OPS-058).
pub(crate) async fn refuse_old_definitions(client: &Client) -> anyhow::Result<()> {
    let (path, name) = DOCUMENT;
    let request = Request::new(path).get(name, &GetParams::default())?;
    let document = match tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await {
        Ok(Ok(document)) => document,
        Ok(Err(error)) => {
            let error = kerf_runtime::client::describe(&error);
            tracing::debug!(error, "the age of custom resource definitions is not known");
            return Ok(());
        }
        Err(_) => return Ok(()),
    };
    let crds = kerf_api::crds(Provider::Kwok);
    let old: Vec<String> = crds
        .iter()
        .filter(|crd| REQUIRED.contains(&crd.name))
        .filter_map(|crd| {
            let fields = lacks(crd, &document)?;
            Some(format!(
                "{} is older than this version of Kerf: it lacks {fields}; {REMEDY}",
                crd.name
            ))
        })
        .collect();
    anyhow::ensure!(old.is_empty(), "{}", old.join("; "));
    Ok(())
}

/// The fields that the published schema of a definition's kind lacks.
fn lacks(crd: &Crd, document: &Value) -> Option<String> {
    let kind = crd.value.pointer("/spec/names/kind")?.as_str()?;
    let wanted = versions(&crd.value).find(|version| version.get("name").and_then(Value::as_str) == Some(VERSION))?;
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
    let mut wanted = schema(wanted).clone();
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
    fn published(change: impl FnOnce(&mut Value)) -> Value {
        let crds = kerf_api::crds(Provider::Kwok);
        let pools = crds.iter().find(|crd| crd.name == REQUIRED[0]).expect("NodePools");
        let mut pool = schema(versions(&pools.value).next().expect("a version")).clone();
        pool["properties"]["metadata"] = json!({"$ref": "#/components/schemas/meta"});
        pool["x-kubernetes-group-version-kind"] =
            json!([{"group": "karpenter.sh", "kind": "NodePool", "version": "v1"}]);
        change(&mut pool);
        json!({"components": {"schemas": {"sh.karpenter.v1.NodePool": pool, "meta": {}}}})
    }

    #[test]
    fn a_schema_without_a_field_is_old() {
        let crds = kerf_api::crds(Provider::Kwok);
        let pools = crds.iter().find(|crd| crd.name == REQUIRED[0]).expect("NodePools");
        assert_eq!(lacks(pools, &published(|_| {})), None);
        let old = published(|pool| {
            let spec = pool["properties"]["spec"]["properties"]
                .as_object_mut()
                .expect("fields");
            spec.remove("replicas").expect("a field");
        });
        assert_eq!(lacks(pools, &old).as_deref(), Some("spec.replicas"));
        // Kinds that are not published are not reported.
        assert_eq!(lacks(pools, &json!({"components": {"schemas": {}}})), None);
    }
}
