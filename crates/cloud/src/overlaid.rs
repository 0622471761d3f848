//! A decorator that applies node overlays to the catalogues of a provider.

use crate::decorator::Decorator;
use crate::error::CloudError;
use crate::overlay::{Evaluation, PoolOverlay};
use crate::provider::CloudProvider;
use async_trait::async_trait;
use kerf_api::NodePool;
use kerf_model::instance_type::Catalogue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The NodeOverlays of all pools as last evaluated. The decorator and the provider below share them: catalogues and launches agree.
#[derive(Default)]
pub struct PoolOverlays(Mutex<Published>);

#[derive(Default)]
struct Published {
    pools: BTreeMap<Arc<str>, Arc<PoolOverlay>>,
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

    fn knows(&self, pool: &str) -> bool {
        self.published().pools.contains_key(pool)
    }

    fn publish(&self, evaluation: &Evaluation) {
        let mut pools: BTreeMap<Arc<str>, Arc<PoolOverlay>> = BTreeMap::new();
        for (name, overlay) in &evaluation.pools {
            let equal = pools.values().find(|known| *known == overlay).unwrap_or(overlay);
            let equal = Arc::clone(equal);
            pools.insert(Arc::clone(name), equal);
        }
        *self.published() = Published {
            pools,
            applied: Vec::new(),
        };
    }
}

/// Applies the last published evaluation to the catalogues of another provider. A pool that was not evaluated has no catalogue: its call
/// fails with [`CloudError::AwaitingOverlays`] (SCH-374).
pub struct OverlayProvider {
    inner: Arc<dyn CloudProvider>,
    overlays: Arc<PoolOverlays>,
}

impl OverlayProvider {
    /// Around another provider, with nothing evaluated yet.
    pub fn new(inner: Arc<dyn CloudProvider>) -> Self {
        let overlays = Arc::<PoolOverlays>::default();
        inner.use_overlays(&overlays);
        Self { inner, overlays }
    }

    /// The provider below, whose catalogues evaluation starts from.
    pub fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.inner
    }

    /// Replaces the evaluation of all pools at once (SCH-376); pools with equal overlays share their catalogue.
    pub fn publish(&self, evaluation: &Evaluation) {
        self.overlays.publish(evaluation);
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
        let awaiting = || CloudError::AwaitingOverlays(name.into());
        if !self.overlays.knows(name) {
            return Err(awaiting());
        }
        let catalogue = self.inner.instance_types(pool).await?;
        self.overlays.apply(name, &catalogue).ok_or_else(awaiting)
    }
}
