//! The documents and their index.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::paths;
use crate::schema::CompiledVersion;

/// One resource of a document.
pub(crate) struct DocumentedResource<'a> {
    /// The plural name, as in paths.
    pub(crate) plural: &'a str,
    /// The kind.
    pub(crate) kind: &'a str,
    /// Whether its objects live in namespaces.
    pub(crate) namespaced: bool,
    /// Whether it has a status subresource.
    pub(crate) status: bool,
    /// Whether it has a scale subresource.
    pub(crate) scale: bool,
    /// The schema of a custom resource, `None` for a built-in kind.
    pub(crate) custom: Option<&'a CompiledVersion>,
}

/// The path of a group version below `/openapi/v3/`, as in `api/v1` and `apis/apps/v1`.
pub(crate) fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// The index served at `/openapi/v3`: document paths with a hash of each document's text, by which clients cache.
pub(crate) fn index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|(path, text)| {
            let url = format!("/openapi/v3/{path}?hash={:016X}", fnv1a(text.as_bytes()));
            (path.to_owned(), json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The document of one group version.
pub(crate) fn document(group: &str, version: &str, resources: &[DocumentedResource<'_>]) -> Value {
    let mut schemas = Schemas::default();
    let mut all_paths = Map::new();
    for resource in resources {
        let component = match resource.custom {
            Some(custom) => schemas.add_custom(group, version, resource.kind, custom),
            None => schemas.add_builtin(group, version, resource.kind),
        };
        if resource.scale {
            schemas.add_type("autoscaling.v1.Scale");
        }
        all_paths.extend(paths::of(group, version, resource, &component));
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": all_paths,
        "components": {"schemas": schemas.0},
    })
}

/// The component schemas collected so far, by name.
#[derive(Default)]
pub(super) struct Schemas(pub(super) BTreeMap<String, Value>);

impl Schemas {
    fn add_custom(&mut self, group: &str, version: &str, kind: &str, custom: &CompiledVersion) -> String {
        let component = custom_component(group, version, kind);
        let metadata = self.add_type("meta.v1.ObjectMeta");
        let mut schema = custom.raw_schema.clone();
        if let Value::Object(map) = &mut schema {
            map.insert(
                "x-kubernetes-group-version-kind".to_owned(),
                json!([gvk(group, version, kind)]),
            );
            let properties = map.entry("properties").or_insert_with(|| json!({}));
            properties["apiVersion"] = json!({"type": "string", "description": API_VERSION_TEXT});
            properties["kind"] = json!({"type": "string", "description": KIND_TEXT});
            properties["metadata"] = json!({"allOf": [{"$ref": reference(&metadata)}], "description": METADATA_TEXT});
        }
        self.0.insert(component.clone(), schema);
        self.add_list(group, version, kind, &component);
        component
    }

    pub(super) fn add_list(&mut self, group: &str, version: &str, kind: &str, component: &str) {
        let list = json!({
            "type": "object",
            "description": format!("{kind}List is a list of {kind}"),
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": API_VERSION_TEXT},
                "kind": {"type": "string", "description": KIND_TEXT},
                "metadata": {"type": "object", "description": "Where the list stands and how to go on with it."},
                "items": {"type": "array", "items": {"allOf": [{"$ref": reference(component)}], "default": {}},
                    "description": "The objects."},
            },
            "x-kubernetes-group-version-kind": [gvk(group, version, &format!("{kind}List"))],
        });
        self.0.insert(format!("{component}List"), list);
    }
}

pub(super) const API_VERSION_TEXT: &str = "The group and version this object is written in.";
pub(super) const KIND_TEXT: &str = "The kind of this object, in CamelCase. It cannot be changed.";
const METADATA_TEXT: &str = "Name, labels and everything else that all objects have.";

pub(super) fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

pub(super) fn reference(component: &str) -> String {
    format!("#/components/schemas/{component}")
}

/// The component of a custom kind: the group reversed, as in `sh.karpenter.v1.NodePool`.
pub(super) fn custom_component(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().filter(|p| !p.is_empty()).collect();
    parts.extend([version, kind]);
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::CompiledCrd;

    fn builtin<'a>(plural: &'a str, kind: &'a str) -> DocumentedResource<'a> {
        DocumentedResource {
            plural,
            kind,
            namespaced: true,
            status: true,
            scale: false,
            custom: None,
        }
    }

    #[test]
    fn builtin_kinds_carry_merge_keys_and_resolve() {
        let document = document("apps", "v1", &[builtin("deployments", "Deployment")]);
        let schemas = &document["components"]["schemas"];
        let pod_spec = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
        assert_eq!(pod_spec["containers"]["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(pod_spec["containers"]["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(pod_spec["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
        assert_eq!(pod_spec["tolerations"]["x-kubernetes-list-type"], "atomic");
        assert_eq!(
            schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
            json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
        );
        let replicas = &schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]["description"];
        assert!(
            replicas
                .as_str()
                .is_some_and(|text| text.starts_with("Number of desired pods.")),
            "{replicas}"
        );
        let text = document.to_string();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().expect("a name");
            assert!(schemas.get(name).is_some(), "{name} is referenced but not there");
        }
    }

    #[test]
    fn patches_declare_the_parameters_kubectl_looks_for() {
        let document = document("apps", "v1", &[builtin("deployments", "Deployment")]);
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        let names: Vec<&str> = patch["parameters"]
            .as_array()
            .expect("list")
            .iter()
            .filter_map(|p| p["name"].as_str())
            .collect();
        for wanted in ["dryRun", "fieldValidation", "fieldManager", "force"] {
            assert!(names.contains(&wanted), "{wanted}");
        }
        assert!(
            document["paths"]
                .get("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status")
                .is_some()
        );
        assert!(document["paths"].get("/apis/apps/v1/deployments").is_some());
    }

    #[test]
    fn custom_kinds_show_their_own_schema() {
        let crd = json!({
            "metadata": {"name": "nodepools.karpenter.sh"},
            "spec": {"group": "karpenter.sh", "scope": "Cluster", "names": {"plural": "nodepools", "kind": "NodePool"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"weight": {"type": "integer", "description": "how much"}}}}}}}]},
        });
        let compiled = CompiledCrd::compile(&crd).expect("a CRD");
        let pools = DocumentedResource {
            plural: "nodepools",
            kind: "NodePool",
            namespaced: false,
            status: true,
            scale: true,
            custom: compiled.version("v1"),
        };
        let document = document("karpenter.sh", "v1", &[pools]);
        let pool = &document["components"]["schemas"]["sh.karpenter.v1.NodePool"];
        assert_eq!(
            pool["properties"]["spec"]["properties"]["weight"]["description"],
            "how much"
        );
        assert_eq!(
            pool["x-kubernetes-group-version-kind"],
            json!([{"group": "karpenter.sh", "version": "v1", "kind": "NodePool"}])
        );
        assert!(
            document["components"]["schemas"]
                .get("sh.karpenter.v1.NodePoolList")
                .is_some()
        );
        assert!(
            document["paths"]
                .get("/apis/karpenter.sh/v1/nodepools/{name}/scale")
                .is_some()
        );
        let patch = &document["paths"]["/apis/karpenter.sh/v1/nodepools/{name}"]["patch"];
        let types = patch["requestBody"]["content"].as_object().expect("content types");
        assert!(
            !types.contains_key("application/strategic-merge-patch+json"),
            "custom resources refuse those"
        );
    }

    #[test]
    fn the_index_changes_with_the_documents() {
        let one = index([("api/v1", "a")]);
        assert!(
            one["paths"]["api/v1"]["serverRelativeURL"]
                .as_str()
                .is_some_and(|u| u.starts_with("/openapi/v3/api/v1?hash="))
        );
        assert_ne!(one, index([("api/v1", "b")]));
        assert_eq!(document_path("", "v1"), "api/v1");
        assert_eq!(document_path("apps", "v1"), "apis/apps/v1");
    }
}
