//! The set of served resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::resource::Resource;
use crate::storage::TableId;

type GroupVersionPlural = (String, String, String);

/// Every served resource, by group, version and plural.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    resources: BTreeMap<GroupVersionPlural, Arc<Resource>>,
}

impl Registry {
    pub(crate) fn insert(&mut self, resource: Resource) {
        let key = (
            resource.group.clone(),
            resource.version.clone(),
            resource.plural.clone(),
        );
        self.resources.insert(key, Arc::new(resource));
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.resources
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
            .cloned()
    }

    /// Drops all versions of a custom resource.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.resources.retain(|(g, _, p), _| !(g == group && p == plural));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The resource whose objects a table holds, in its stored version.
    pub(crate) fn of_table(&self, table: TableId) -> Option<&Arc<Resource>> {
        self.iter()
            .find(|r| r.table == table && r.api_version() == r.storage_api_version)
    }
}
