//! A decorator that applies node overlays to the catalogues of a provider.

use crate::decorator::Decorator;
use crate::error::CloudError;
use crate::overlay::Evaluation;
use crate::pool_overlays::PoolOverlays;
use crate::provider::CloudProvider;
use async_trait::async_trait;
use kerf_api::NodePool;
use kerf_model::instance_type::Catalogue;
use std::sync::Arc;

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
