//! The NodeOverlays of all pools as last evaluated.

use crate::overlay::{Evaluation, PoolOverlay};
use kerf_model::instance_type::Catalogue;
use kerf_model::price::Price;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The NodeOverlays of all pools as last evaluated. The decorator and the provider below share them: catalogues and launches agree.
#[derive(Default)]
pub struct PoolOverlays(Mutex<Published>);

#[derive(Default)]
struct Published {
    pools: BTreeMap<Arc<str>, Arc<PoolOverlay>>,
    type_prices: Arc<BTreeMap<String, Price>>,
    /// The last results, at most one per pool: original catalogue, overlay, changed catalogue.
    applied: Vec<(Arc<Catalogue>, Arc<PoolOverlay>, Arc<Catalogue>)>,
}

impl PoolOverlays {
    fn published(&self) -> MutexGuard<'_, Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A catalogue with the overlays of a pool; `None` if the pool was not evaluated yet. The same catalogue gives the same result.
    pub fn apply(&self, pool: &str, catalogue: &Arc<Catalogue>) -> Option<Arc<Catalogue>> {
        let mut published = self.published();
        let overlay = published.pools.get(pool).cloned()?;
        if overlay.is_empty() {
            return Some(Arc::clone(catalogue));
        }
        Some(published.apply(catalogue, &overlay))
    }

    /// The prices that overlays set for instance types by name alone: see [`Evaluation::type_prices`].
    pub fn type_prices(&self) -> Arc<BTreeMap<String, Price>> {
        Arc::clone(&self.published().type_prices)
    }

    pub(crate) fn knows(&self, pool: &str) -> bool {
        self.published().pools.contains_key(pool)
    }

    pub(crate) fn publish(&self, evaluation: &Evaluation) {
        let mut pools: BTreeMap<Arc<str>, Arc<PoolOverlay>> = BTreeMap::new();
        for (name, overlay) in &evaluation.pools {
            let equal = pools.values().find(|known| *known == overlay).unwrap_or(overlay);
            let equal = Arc::clone(equal);
            pools.insert(Arc::clone(name), equal);
        }
        *self.published() = Published {
            pools,
            type_prices: Arc::new(evaluation.type_prices.clone()),
            applied: Vec::new(),
        };
    }
}

impl Published {
    fn apply(&mut self, catalogue: &Arc<Catalogue>, overlay: &Arc<PoolOverlay>) -> Arc<Catalogue> {
        let same = |(original, with, _): &&(Arc<Catalogue>, Arc<PoolOverlay>, Arc<Catalogue>)| {
            Arc::ptr_eq(original, catalogue) && Arc::ptr_eq(with, overlay)
        };
        if let Some((_, _, result)) = self.applied.iter().find(same) {
            return Arc::clone(result);
        }
        let result = overlay.apply(catalogue);
        if self.applied.len() >= self.pools.len() {
            self.applied.remove(0);
        }
        self.applied
            .push((Arc::clone(catalogue), Arc::clone(overlay), Arc::clone(&result)));
        result
    }
}
