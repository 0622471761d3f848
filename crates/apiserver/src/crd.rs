//! Custom resource definitions: what a stored definition adds to the registry.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::json;
use crate::registry::{Names, Resource, Rules, ScalePaths, Verbs};
use crate::schema::CompiledCrd;
use crate::state::State;
use crate::storage::{FieldPath, TableId};

/// What the server needs to know of one version of a custom resource beside its names.
#[derive(Debug)]
pub(crate) struct CrdVersion {
    /// Schema and rules, compiled; shared by the definition's versions. A definition restored from disk always compiles,
    /// because it was accepted once.
    pub(crate) compiled: Option<Arc<CompiledCrd>>,
    /// `additionalPrinterColumns`.
    pub(crate) printer_columns: Vec<Value>,
}

impl State {
    /// Serves (or serves anew) the versions of a definition.
    pub(crate) fn serve_custom_resource(&mut self, crd: &Value) {
        let group = json::text(crd, &["spec", "group"]).unwrap_or_default().to_owned();
        let plural = json::text(crd, &["spec", "names", "plural"])
            .unwrap_or_default()
            .to_owned();
        self.registry.remove(&group, &plural);
        self.documents = None;
        let versions = json::items(crd, &["spec", "versions"]);
        let fields: Vec<FieldPath> = versions
            .iter()
            .flat_map(|v| json::items(v, &["selectableFields"]))
            .filter_map(|f| json::text(f, &["jsonPath"]))
            .map(|path| FieldPath::new(path.trim_start_matches('.'), path))
            .collect();
        let compiled = CompiledCrd::shared(crd).ok();
        let table = self.table_for(&group, &plural, &fields);
        for version in versions
            .iter()
            .filter(|v| json::at(v, &["served"]).as_bool() != Some(false))
        {
            let resource = custom_resource(crd, version, table, compiled.clone());
            self.registry.insert(resource);
        }
    }

    /// Stops serving a definition that was deleted. Its objects go with it.
    pub(crate) fn retire_custom_resource(&mut self, crd: &Value) {
        let group = json::text(crd, &["spec", "group"]).unwrap_or_default();
        let plural = json::text(crd, &["spec", "names", "plural"]).unwrap_or_default();
        if let Some(table) = self.table_id(group, plural) {
            let keys: Vec<Arc<str>> = self.table(table).range(None).map(|o| Arc::clone(&o.key)).collect();
            for key in keys {
                let at = crate::state::ObjectRef { table, key };
                if let Some(object) = self.get(&at).map(|o| o.to_value()) {
                    self.erase(&at, object);
                }
            }
        }
        self.registry.remove(group, plural);
        self.documents = None;
    }
}

fn custom_resource(crd: &Value, version: &Value, table: TableId, compiled: Option<Arc<CompiledCrd>>) -> Resource {
    let text = |path: &[&str]| json::text(crd, path).unwrap_or_default().to_owned();
    let strings = |path: &[&str]| {
        json::items(crd, path)
            .iter()
            .filter_map(|s| s.as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let group = text(&["spec", "group"]);
    let kind = text(&["spec", "names", "kind"]);
    let singular = json::text(crd, &["spec", "names", "singular"]).map_or_else(|| kind.to_lowercase(), str::to_owned);
    let list_kind =
        json::text(crd, &["spec", "names", "listKind"]).map_or_else(|| format!("{kind}List"), str::to_owned);
    let stored = json::items(crd, &["spec", "versions"])
        .iter()
        .find(|v| json::at(v, &["storage"]).as_bool() == Some(true))
        .unwrap_or(version);
    let name = |v: &Value| json::text(v, &["name"]).unwrap_or_default().to_owned();
    let scale = json::at(version, &["subresources", "scale"]);
    let path = |field: &str| json::text(scale, &[field]).map(|p| p.trim_start_matches('.').to_owned());
    Resource {
        storage_api_version: crate::registry::api_version(&group, &name(stored)),
        version: name(version),
        plural: text(&["spec", "names", "plural"]),
        singular,
        list_kind,
        namespaced: text(&["spec", "scope"]) == "Namespaced",
        short_names: strings(&["spec", "names", "shortNames"]),
        categories: strings(&["spec", "names", "categories"]),
        verbs: Verbs::All,
        status: version.pointer("/subresources/status").is_some(),
        scale: path("specReplicasPath")
            .zip(path("statusReplicasPath"))
            .map(|(spec_replicas, status_replicas)| ScalePaths {
                spec_replicas,
                status_replicas,
                label_selector: path("labelSelectorPath"),
            }),
        rules: Rules {
            generation: true,
            names: Names::DnsSubdomain,
            ..Rules::default()
        },
        table,
        crd: Some(Arc::new(CrdVersion {
            compiled,
            printer_columns: json::items(version, &["additionalPrinterColumns"]).to_vec(),
        })),
        group,
        kind,
    }
}

/// The status a definition has from its first moment: this server accepts names and serves at once.
pub(crate) fn established(crd: &Value, at: &str) -> Value {
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at, "reason": reason, "message": message});
    let names = json::at(crd, &["spec", "names"]).clone();
    let stored = json::items(crd, &["spec", "versions"])
        .iter()
        .filter(|v| json::at(v, &["storage"]).as_bool() == Some(true))
        .map(|v| json::at(v, &["name"]).clone());
    json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": names,
        "storedVersions": stored.collect::<Vec<_>>(),
    })
}

/// Fills in the names and the conversion a definition may leave out.
pub(crate) fn default(crd: &mut Value) {
    let kind = json::text(crd, &["spec", "names", "kind"])
        .unwrap_or_default()
        .to_owned();
    let names = json::object_mut(crd, &["spec", "names"]);
    json::default(names, "singular", kind.to_lowercase());
    json::default(names, "listKind", format!("{kind}List"));
    json::default(
        json::object_mut(crd, &["spec"]),
        "conversion",
        json!({"strategy": "None"}),
    );
}

/// Brings accepted names and stored versions up to date with a changed spec.
pub(crate) fn refresh_status(crd: &mut Value) {
    let since = json::items(crd, &["status", "conditions"])
        .first()
        .and_then(|c| json::text(c, &["lastTransitionTime"]))
        .unwrap_or_default()
        .to_owned();
    let status = established(crd, &since);
    json::set(
        crd,
        &["status", "acceptedNames"],
        json::at(&status, &["acceptedNames"]).clone(),
    );
    let mut versions = json::items(crd, &["status", "storedVersions"]).to_vec();
    for version in json::items(&status, &["storedVersions"]) {
        if !versions.contains(version) {
            versions.push(version.clone());
        }
    }
    json::set(crd, &["status", "storedVersions"], Value::Array(versions));
}
