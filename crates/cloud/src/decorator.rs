//! The one delegation all decorators of a provider share.

use crate::error::CloudError;
use crate::hook::RegistrationHook;
use crate::interruption::{Interruption, InterruptionKind};
use crate::pool_overlays::PoolOverlays;
use crate::provider::{CloudProvider, DriftReason, Launched, Profile};
use async_trait::async_trait;
use jiff::Timestamp;
use kerf_api::{NodeClaim, NodePool};
use kerf_model::instance_type::Catalogue;
use std::sync::Arc;

/// A provider around another provider. Every method forwards to [`inner`](Self::inner), so that an implementation states only what it
/// changes. Whatever implements this trait is a [`CloudProvider`].
#[async_trait]
pub trait Decorator: Send + Sync {
    /// The provider below.
    fn inner(&self) -> &Arc<dyn CloudProvider>;

    /// Decorates [`CloudProvider::profile`].
    fn profile(&self) -> &Profile {
        self.inner().profile()
    }

    /// Decorates [`CloudProvider::create`].
    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        self.inner().create(claim).await
    }

    /// Decorates [`CloudProvider::delete`].
    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        self.inner().delete(claim).await
    }

    /// Decorates [`CloudProvider::get`].
    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        self.inner().get(provider_id).await
    }

    /// Decorates [`CloudProvider::list`].
    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        self.inner().list().await
    }

    /// Decorates [`CloudProvider::instance_types`].
    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        self.inner().instance_types(pool).await
    }

    /// Decorates [`CloudProvider::is_drifted`].
    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        self.inner().is_drifted(claim).await
    }

    /// Decorates [`CloudProvider::registration_hooks`].
    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        self.inner().registration_hooks()
    }

    /// Decorates [`CloudProvider::interruptions`].
    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        self.inner().interruptions().await
    }

    /// Decorates [`CloudProvider::acknowledge`].
    async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        self.inner().acknowledge(handled).await
    }

    /// Decorates [`CloudProvider::note_interruption`].
    fn note_interruption(&self, claim: &NodeClaim, kind: InterruptionKind, now: Timestamp) {
        self.inner().note_interruption(claim, kind, now);
    }

    /// Decorates [`CloudProvider::use_overlays`].
    fn use_overlays(&self, overlays: &Arc<PoolOverlays>) {
        self.inner().use_overlays(overlays);
    }
}

#[async_trait]
impl<D: Decorator> CloudProvider for D {
    fn profile(&self) -> &Profile {
        Decorator::profile(self)
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        Decorator::create(self, claim).await
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        Decorator::delete(self, claim).await
    }

    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        Decorator::get(self, provider_id).await
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        Decorator::list(self).await
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        Decorator::instance_types(self, pool).await
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        Decorator::is_drifted(self, claim).await
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        Decorator::registration_hooks(self)
    }

    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        Decorator::interruptions(self).await
    }

    async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        Decorator::acknowledge(self, handled).await
    }

    fn note_interruption(&self, claim: &NodeClaim, kind: InterruptionKind, now: Timestamp) {
        Decorator::note_interruption(self, claim, kind, now);
    }

    fn use_overlays(&self, overlays: &Arc<PoolOverlays>) {
        Decorator::use_overlays(self, overlays);
    }
}
