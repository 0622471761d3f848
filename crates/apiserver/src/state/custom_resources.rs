//! Serving custom resources: a stored definition adds its resources to the registry, a deleted one removes them.

use std::sync::Arc;

use serde_json::Value;

use super::{ObjectRef, State};
use crate::json;
use crate::registry::custom_resource;
use crate::schema::CompiledCrd;
use crate::storage::FieldPath;

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
                let at = ObjectRef { table, key };
                if let Some(object) = self.get(&at).map(|o| o.to_value()) {
                    self.erase(&at, object);
                }
            }
        }
        self.registry.remove(group, plural);
        self.documents = None;
    }
}
