//! A decorator that applies node overlays to the catalogues of a provider.

use crate::decorator::Decorator;
use crate::error::CloudError;
use crate::overlay::{Evaluation, PoolOverlay};
use crate::provider::CloudProvider;
use async_trait::async_trait;
use kerf_api::NodePool;
use kerf_model::instance_type::Catalogue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Applies the last published evaluation to the catalogues of another provider. A pool that was not evaluated has no catalogue: its call
/// fails with [`CloudError::AwaitingOverlays`] (SCH-374).
pub struct OverlayProvider {
    inner: Arc<dyn CloudProvider>,
    published: Mutex<Published>,
}

#[derive(Default)]
struct Published {
    pools: BTreeMap<Arc<str>, Arc<PoolOverlay>>,
    /// The last results, at most one per pool: original catalogue, overlay, changed catalogue.
    applied: Vec<(Arc<Catalogue>, Arc<PoolOverlay>, Arc<Catalogue>)>,
}

impl OverlayProvider {
    /// Around another provider, with nothing evaluated yet.
    pub fn new(inner: Arc<dyn CloudProvider>) -> Self {
        Self {
            inner,
            published: Mutex::default(),
        }
    }

    /// The provider below, whose catalogues evaluation starts from.
    pub fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.inner
    }

    /// Replaces the evaluation of all pools at once (SCH-376); pools with equal overlays share their catalogue.
    pub fn publish(&self, evaluation: &Evaluation) {
        let mut pools: BTreeMap<Arc<str>, Arc<PoolOverlay>> = BTreeMap::new();
        for (name, overlay) in &evaluation.pools {
            let equal = pools.values().find(|known| *known == overlay).unwrap_or(overlay);
            let equal = Arc::clone(equal);
            pools.insert(Arc::clone(name), equal);
        }
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        *published = Published {
            pools,
            applied: Vec::new(),
        };
    }

    fn overlay(&self, pool: &str) -> Option<Arc<PoolOverlay>> {
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.pools.get(pool).cloned()
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

#[async_trait]
impl Decorator for OverlayProvider {
    fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.inner
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        let name = pool.metadata.name.as_deref();
        let name = name.ok_or_else(|| CloudError::other("the NodePool has no name"))?;
        let overlay = self
            .overlay(name)
            .ok_or_else(|| CloudError::AwaitingOverlays(name.into()))?;
        let catalogue = self.inner.instance_types(pool).await?;
        if overlay.is_empty() {
            return Ok(catalogue);
        }
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(published.apply(&catalogue, &overlay))
    }
}
