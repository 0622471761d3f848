//! Which machines a spread constraint looks at (SCH-205).

use crate::labels::labels_satisfy;
use crate::prepared::Filter;
use crate::requirements::ReqId;
use crate::templates::Template;
use crate::topology::{FilterId, TopologyKey};
use crate::world::World;
use kerf_model::intern::Sym;
use kerf_model::node::Node;
use kerf_model::taint::first_untolerated;

impl World<'_> {
    /// Whether a spread constraint looks at a node (SCH-205).
    pub(crate) fn node_passes(&self, filter: Option<FilterId>, node: &Node) -> bool {
        let Some(filter) = filter.map(|filter| &self.groups.filters[filter as usize]) else {
            return true;
        };
        let labels = filter.any_of.is_empty() || filter.any_of.iter().any(|set| self.node_satisfies(*set, node));
        let has = |key: &TopologyKey| self.key(*key).is_none_or(|key| node.label(key).is_some());
        labels
            && filter.keys.iter().all(has)
            && filter
                .tolerations
                .as_ref()
                .is_none_or(|tolerations| first_untolerated(&node.taints, tolerations).is_none())
    }

    /// Whether a node's labels satisfy a requirement set.
    pub(crate) fn node_satisfies(&self, set: ReqId, node: &Node) -> bool {
        let set = self.req_sets.get(set);
        set.contradiction.is_none()
            && set.allows_host(node.hostname, self.interner())
            && labels_satisfy(node, &set.labels, self.interner())
    }

    /// Whether some machine of a template may be one a spread constraint looks at.
    pub(super) fn template_passes(&self, filter: FilterId, template: &Template) -> bool {
        let filter = &self.groups.filters[filter as usize];
        let compatible = |set: &ReqId| {
            let set = self.req_sets.get(*set);
            let known = |key| self.is_known(key);
            set.contradiction.is_none()
                && set.allows_new_host()
                && template
                    .requirements
                    .compatible(&set.labels, known, self.interner())
                    .is_ok()
        };
        let has = |key: &TopologyKey| {
            self.key(*key).is_none_or(|key| {
                let own = template.requirements.get(key);
                own.map_or_else(|| self.is_known(key), |own| !own.is_does_not_exist())
            })
        };
        let tolerated = |tolerations: &Vec<_>| first_untolerated(&template.pool.taints, tolerations).is_none();
        (filter.any_of.is_empty() || filter.any_of.iter().any(compatible))
            && filter.keys.iter().all(has)
            && filter.tolerations.as_ref().is_none_or(tolerated)
    }

    /// A node filter by content.
    pub(super) fn filter(&self, filter: Option<FilterId>) -> Option<Filter> {
        let filter = &self.groups.filters[filter? as usize];
        let sets = filter.any_of.iter().map(|set| self.req_sets.get(*set).clone());
        let keys = filter.keys.iter().filter_map(|key| self.key(*key));
        Some((sets.collect(), filter.tolerations.clone(), keys.collect()))
    }

    /// The label a topology key stands for, unless it is the hostname.
    fn key(&self, key: TopologyKey) -> Option<Sym> {
        let table = key.table()?;
        Some(self.keys.tables[table as usize].key)
    }
}
