//! Custom resources: what a stored CustomResourceDefinition adds to the registry.

use std::sync::Arc;

use serde_json::Value;

use super::resource::{CrdVersion, Names, Resource, Rules, ScalePaths, Verbs, api_version};
use crate::json;
use crate::schema::CompiledCrd;
use crate::storage::TableId;

/// Serves the version `version` of the definition `crd` from `table`.
pub(crate) fn custom_resource(
    crd: &Value,
    version: &Value,
    table: TableId,
    compiled: Option<Arc<CompiledCrd>>,
) -> Resource {
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
        storage_api_version: api_version(&group, &name(stored)),
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
