//! What the server serves, as documents: versions, groups, resources, OpenAPI.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::json;
use crate::openapi::{self, DocumentedResource};
use crate::registry::{Registry, Resource, Verbs, api_version};

/// The OpenAPI documents by path, made at the first request and dropped when the registry changes.
pub(crate) type Documents = BTreeMap<String, Bytes>;

/// The document at `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.0+kerf", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
        "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
    })
}

/// The list of paths at `/`.
pub(crate) fn root(registry: &Registry) -> Value {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for (group, versions) in groups(registry).iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.keys().map(|v| format!("/apis/{group}/{v}")));
    }
    paths.sort();
    json!({"paths": paths})
}

/// Resources by group and version.
type Groups = BTreeMap<String, BTreeMap<String, Vec<Arc<Resource>>>>;

fn groups(registry: &Registry) -> Groups {
    let mut groups = Groups::new();
    for resource in registry.iter() {
        let versions = groups.entry(resource.group.clone()).or_default();
        versions
            .entry(resource.version.clone())
            .or_default()
            .push(Arc::clone(resource));
    }
    groups
}

/// Versions in order of priority: stable, beta, alpha; the newest of each first.
fn by_priority<'a>(versions: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut versions: Vec<&String> = versions.collect();
    versions.sort_by_key(|v| {
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let rest = v.strip_prefix('v').unwrap_or(v);
        let major: u32 = digits(rest).parse().unwrap_or(0);
        let (stage, at) = match (rest.find("beta"), rest.find("alpha")) {
            (Some(at), _) => (1, Some(at + 4)),
            (_, Some(at)) => (2, Some(at + 5)),
            (None, None) => (0, None),
        };
        let minor: u32 = at
            .and_then(|at| rest.get(at..))
            .and_then(|t| t.parse().ok())
            .unwrap_or(0);
        (stage, std::cmp::Reverse(major), std::cmp::Reverse(minor))
    });
    versions
}

/// An `APIGroup` object; the preferred version is the first by priority.
fn group<'a>(name: &str, versions: impl Iterator<Item = &'a String>) -> Value {
    let versions: Vec<Value> = by_priority(versions)
        .iter()
        .map(|v| json!({"groupVersion": format!("{name}/{v}"), "version": v}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

/// The `APIGroupList` at `/apis`.
pub(crate) fn group_list(registry: &Registry) -> Value {
    let groups: Vec<Value> = groups(registry)
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, versions)| group(name, versions.keys()))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// The `APIGroup` called `name`; `None` when nothing is served in it.
pub(crate) fn api_group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = groups(registry);
    let versions = groups.get(name).filter(|_| !name.is_empty())?;
    let mut group = group(name, versions.keys());
    json::set(&mut group, &["kind"], "APIGroup".into());
    json::set(&mut group, &["apiVersion"], "v1".into());
    Some(group)
}

/// A subresource with its kind and verbs.
struct Subresource {
    name: &'static str,
    group: String,
    version: String,
    kind: String,
    verbs: &'static [&'static str],
}

fn subresources(resource: &Resource) -> Vec<Subresource> {
    let mut list = Vec::new();
    let read_write: &[&str] = &["get", "patch", "update"];
    let mut add = |name, group: &str, version: &str, kind: &str, verbs| {
        let (group, version, kind) = (group.to_owned(), version.to_owned(), kind.to_owned());
        list.push(Subresource {
            name,
            group,
            version,
            kind,
            verbs,
        });
    };
    if resource.is("", "pods") {
        add("binding", "", "v1", "Binding", &["create"]);
        add("eviction", "policy", "v1", "Eviction", &["create"]);
    }
    if resource.scale.is_some() {
        add("scale", "autoscaling", "v1", "Scale", read_write);
    }
    if resource.status {
        add("status", &resource.group, &resource.version, &resource.kind, read_write);
    }
    list
}

/// The `APIResourceList` of a group version; `None` when nothing is served under it.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for resource in registry.iter().filter(|r| r.group == group && r.version == version) {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs.names(),
        });
        if !resource.short_names.is_empty() {
            json::set(&mut entry, &["shortNames"], json!(resource.short_names));
        }
        if !resource.categories.is_empty() {
            json::set(&mut entry, &["categories"], json!(resource.categories));
        }
        list.push(entry);
        for sub in subresources(resource) {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs,
            });
            if sub.group != group || sub.version != version {
                json::set(&mut entry, &["group"], sub.group.into());
                json::set(&mut entry, &["version"], sub.version.into());
            }
            list.push(entry);
        }
    }
    if list.is_empty() {
        return None;
    }
    let group_version = api_version(group, version);
    let document = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list,
    });
    Some(document)
}

/// The aggregated discovery document of the groups that `wanted` selects by name.
pub(crate) fn aggregated(registry: &Registry, wanted: impl Fn(&str) -> bool) -> Value {
    let items: Vec<Value> = groups(registry)
        .iter()
        .filter(|(group, _)| wanted(group))
        .map(|(group, versions)| {
            let list: Vec<Value> = by_priority(versions.keys())
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = versions
                        .get(*version)
                        .into_iter()
                        .flatten()
                        .map(|r| aggregated_resource(r))
                        .collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": list})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let subresources: Vec<Value> = subresources(resource)
        .iter()
        .map(|s| {
            let response = kind(&s.group, &s.version, &s.kind);
            json!({"subresource": s.name, "responseKind": response, "verbs": s.verbs})
        })
        .collect();
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind(&resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs.names(),
    });
    if !resource.short_names.is_empty() {
        json::set(&mut entry, &["shortNames"], json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        json::set(&mut entry, &["categories"], json!(resource.categories));
    }
    if !subresources.is_empty() {
        json::set(&mut entry, &["subresources"], Value::Array(subresources));
    }
    entry
}

/// The OpenAPI documents of all served group versions.
pub(crate) fn open_api(registry: &Registry) -> Documents {
    let mut documents = Documents::new();
    for (group, versions) in &groups(registry) {
        for (version, resources) in versions {
            let described: Vec<DocumentedResource<'_>> = resources
                .iter()
                .filter(|r| r.verbs == Verbs::All)
                .map(|r| described(r))
                .collect();
            if !described.is_empty() {
                let document = openapi::document(group, version, &described);
                documents.insert(openapi::document_path(group, version), document.to_string().into());
            }
        }
    }
    documents
}

fn described(resource: &Resource) -> DocumentedResource<'_> {
    DocumentedResource {
        plural: &resource.plural,
        kind: &resource.kind,
        namespaced: resource.namespaced,
        status: resource.status,
        scale: resource.scale.is_some(),
        custom: resource
            .crd
            .as_ref()
            .and_then(|c| c.compiled.as_ref()?.version(&resource.version)),
    }
}
