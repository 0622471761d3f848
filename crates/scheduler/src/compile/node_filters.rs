//! Which nodes a spread constraint counts (SCH-205).

use crate::compile::labels::labels_satisfy;
use crate::compile::prepared::NodeFilterContent;
use crate::compile::problem::Problem;
use crate::compile::requirements::ReqId;
use crate::compile::templates::Template;
use crate::compile::topology::{NodeFilterId, TopologyKey};
use kerf_model::intern::Sym;
use kerf_model::node::Node;
use kerf_model::taint::first_untolerated;

impl Problem<'_> {
    /// Returns whether a spread constraint counts a node (SCH-205).
    pub(crate) fn node_passes(&self, filter: Option<NodeFilterId>, node: &Node) -> bool {
        let Some(filter) = filter.map(|filter| &self.groups.filters[filter]) else {
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

    /// Returns whether the labels and the name of a node satisfy a requirement set.
    pub(crate) fn node_satisfies(&self, set: ReqId, node: &Node) -> bool {
        let set = self.req_sets.get(set);
        set.contradiction.is_none()
            && set.allows_host(node.hostname, self.interner())
            && labels_satisfy(node, &set.labels, self.interner())
    }

    /// Returns whether some node of a template may pass a node filter.
    pub(crate) fn template_passes(&self, filter: NodeFilterId, template: &Template) -> bool {
        let filter = &self.groups.filters[filter];
        let compatible = |set: &ReqId| {
            let set = self.req_sets.get(*set);
            let known = |key| self.may_be_undefined(key);
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
                own.map_or_else(|| self.may_be_undefined(key), |own| !own.is_does_not_exist())
            })
        };
        let tolerated = |tolerations: &Vec<_>| first_untolerated(&template.pool.taints, tolerations).is_none();
        (filter.any_of.is_empty() || filter.any_of.iter().any(compatible))
            && filter.keys.iter().all(has)
            && filter.tolerations.as_ref().is_none_or(tolerated)
    }

    /// The content of a node filter, for use as a key across questions.
    pub(crate) fn filter(&self, filter: Option<NodeFilterId>) -> Option<NodeFilterContent> {
        let filter = &self.groups.filters[filter?];
        let sets = filter.any_of.iter().map(|set| self.req_sets.get(*set).clone());
        let keys = filter.keys.iter().filter_map(|key| self.key(*key));
        Some((sets.collect(), filter.tolerations.clone(), keys.collect()))
    }

    /// The label key of a topology key; `None` for the hostname.
    fn key(&self, key: TopologyKey) -> Option<Sym> {
        let table = key.table()?;
        Some(self.keys.tables[table].key)
    }
}
