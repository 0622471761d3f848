//! NodePools with their catalogues and the resources that their machines use.

use super::store::Store;
use crate::convert::{PoolFacts, value};
use kerf_model::instance_type::{Catalogue, CatalogueFault};
use kerf_model::intern::{Sym, sym};
use kerf_model::node::Node;
use kerf_model::nodepool::NodePool;
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A catalogue with an index by type name.
#[derive(Debug)]
struct Indexed {
    catalogue: Arc<Catalogue>,
    types: BTreeMap<Sym, usize>,
}

/// Pools and their surroundings.
#[derive(Default, Debug)]
pub(super) struct Pools {
    pub(super) table: Store<PoolFacts, Arc<kerf_api::NodePool>>,
    catalogues: BTreeMap<Arc<str>, Result<Arc<Indexed>, CatalogueFault>>,
    /// By pool label.
    by_label: BTreeMap<Sym, Arc<str>>,
    /// SCH-068: by pool label; a pool that uses nothing is not there.
    usage: BTreeMap<Sym, Resources>,
}

impl Pools {
    /// Sets a pool's catalogue; false if that is no change.
    pub(super) fn set_catalogue(
        &mut self,
        pool: &Arc<str>,
        label: Sym,
        catalogue: Result<Arc<Catalogue>, CatalogueFault>,
    ) -> bool {
        let same = match (&catalogue, self.catalogues.get(pool)) {
            (Ok(new), Some(Ok(old))) => Arc::ptr_eq(new, &old.catalogue),
            (Err(new), Some(Err(old))) => new == old,
            (Ok(_), Some(Err(_)) | None) | (Err(_), Some(Ok(_)) | None) => false,
        };
        if same {
            return false;
        }
        let indexed = catalogue.map(|catalogue| {
            // Pools of one node class share the catalogue; they share its index too.
            let shared = self.catalogues.values().filter_map(|known| known.as_ref().ok());
            let known = shared
                .into_iter()
                .find(|known| Arc::ptr_eq(&known.catalogue, &catalogue));
            known.map_or_else(|| Arc::new(Indexed::new(catalogue)), Arc::clone)
        });
        self.catalogues.insert(Arc::clone(pool), indexed);
        self.by_label.insert(label, Arc::clone(pool));
        true
    }

    /// DIS-044: the price of the first offering that a machine's type, zone and capacity type name, available or not.
    pub(super) fn price(&self, labels: &[(Sym, Sym)]) -> Option<Price> {
        let pool = self.by_label.get(&value(labels, sym::NODEPOOL)?)?;
        let indexed = self.catalogues.get(pool)?.as_ref().ok()?;
        let at = *indexed.types.get(&value(labels, sym::INSTANCE_TYPE)?)?;
        let (zone, capacity_type) = (value(labels, sym::ZONE)?, value(labels, sym::CAPACITY_TYPE)?);
        let mut offerings = indexed.catalogue.types.get(at)?.offerings.iter();
        let named =
            offerings.find(|offering| offering.zone() == Some(zone) && offering.capacity_type() == Some(capacity_type));
        named.map(|offering| offering.price)
    }

    /// SCH-068: takes a machine's capacity out of its pool's usage, or puts it in.
    pub(super) fn account(&mut self, before: Option<&Node>, after: Option<&Node>) -> bool {
        let counted = |node: Option<&Node>| {
            let node = node.filter(|node| !node.marked_for_deletion)?;
            Some((node.pool?, node.capacity.clone()))
        };
        let (before, after) = (counted(before), counted(after));
        if before == after {
            return false;
        }
        if let Some((pool, capacity)) = before
            && let Some(used) = self.usage.get_mut(&pool)
        {
            used.subtract(&capacity);
            let left: Resources = used.iter().filter(|(_, amount)| *amount != 0).collect();
            *used = left;
            if used.is_empty() {
                self.usage.remove(&pool);
            }
        }
        if let Some((pool, mut capacity)) = after {
            capacity = capacity.iter().filter(|(_, amount)| *amount != 0).collect();
            self.usage.entry(pool).or_default().add(&capacity);
        }
        true
    }

    /// What a pool's machines use.
    pub(super) fn usage(&self, label: Sym) -> Resources {
        self.usage.get(&label).cloned().unwrap_or_default()
    }

    /// The pools as snapshots show them.
    pub(super) fn shown(&self) -> Vec<Arc<NodePool>> {
        self.table
            .iter()
            .map(|(_, facts)| Arc::new(self.with_usage(facts)))
            .collect()
    }

    /// One pool as snapshots hold it.
    pub(super) fn shown_pool(&self, name: &str) -> Option<NodePool> {
        Some(self.with_usage(self.table.named(&Arc::from(name))?))
    }

    fn with_usage(&self, facts: &PoolFacts) -> NodePool {
        let mut pool = facts.pool.clone();
        pool.usage = self.usage(pool.label);
        pool.catalogue = match self.catalogues.get(&pool.name) {
            Some(Ok(indexed)) => Ok(Arc::clone(&indexed.catalogue)),
            Some(Err(fault)) => Err(fault.clone()),
            None => Err(CatalogueFault::Provider("instance types were not fetched yet".into())),
        };
        pool
    }

    /// Forgets the catalogue of a pool that is gone.
    pub(super) fn forget(&mut self, pool: &Arc<str>, label: Sym) {
        self.catalogues.remove(pool);
        self.by_label.remove(&label);
    }
}

impl Indexed {
    fn new(catalogue: Arc<Catalogue>) -> Self {
        let types = catalogue
            .types
            .iter()
            .enumerate()
            .map(|(at, kind)| (kind.name, at))
            .collect();
        Self { catalogue, types }
    }
}
