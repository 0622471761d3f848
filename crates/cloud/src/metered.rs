//! A provider whose calls are measured (OPS-167, OPS-168).

use crate::decorator::Decorator;
use crate::error::CloudError;
use crate::provider::{CloudProvider, DriftReason, Launched};
use async_trait::async_trait;
use kerf_api::{NodeClaim, NodePool};
use kerf_model::instance_type::Catalogue;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A call that is measured and may be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "the names are those of the calls")]
pub enum Method {
    Create,
    Delete,
    Get,
    List,
    GetInstanceTypes,
    IsDrifted,
}

impl Method {
    /// The `method` label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Delete => "Delete",
            Self::Get => "Get",
            Self::List => "List",
            Self::GetInstanceTypes => "GetInstanceTypes",
            Self::IsDrifted => "IsDrifted",
        }
    }
}

/// One finished call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    /// The controller that made it.
    pub controller: &'static str,
    /// What was called.
    pub method: Method,
    /// The provider's name.
    pub provider: &'static str,
    /// How long it took.
    pub took: Duration,
    /// The `error` label of a failed call (OPS-168).
    pub error: Option<&'static str>,
}

/// A receiver of measurements.
pub trait CallObserver: Send + Sync {
    /// Takes one measurement.
    fn observe(&self, call: Call);
}

impl<F: Fn(Call) + Send + Sync> CallObserver for F {
    fn observe(&self, call: Call) {
        self(call);
    }
}

/// Measures the calls one controller makes to another provider.
#[derive(Clone)]
pub struct MeteredProvider {
    inner: Arc<dyn CloudProvider>,
    observer: Arc<dyn CallObserver>,
    controller: &'static str,
}

impl MeteredProvider {
    /// Around another provider, for the named controller.
    pub fn new(inner: Arc<dyn CloudProvider>, observer: Arc<dyn CallObserver>, controller: &'static str) -> Self {
        Self {
            inner,
            observer,
            controller,
        }
    }

    /// A copy that measures for another controller.
    #[must_use]
    pub fn for_controller(&self, controller: &'static str) -> Self {
        Self {
            controller,
            ..self.clone()
        }
    }

    async fn measured<T>(
        &self,
        method: Method,
        call: impl Future<Output = Result<T, CloudError>> + Send,
    ) -> Result<T, CloudError> {
        let start = Instant::now();
        let result = call.await;
        self.observer.observe(Call {
            controller: self.controller,
            method,
            provider: self.inner.profile().name,
            took: start.elapsed(),
            error: result.as_ref().err().map(CloudError::metric_label),
        });
        result
    }
}

#[async_trait]
impl Decorator for MeteredProvider {
    fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.inner
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        self.measured(Method::Create, self.inner.create(claim)).await
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        self.measured(Method::Delete, self.inner.delete(claim)).await
    }

    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        self.measured(Method::Get, self.inner.get(provider_id)).await
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        self.measured(Method::List, self.inner.list()).await
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        self.measured(Method::GetInstanceTypes, self.inner.instance_types(pool))
            .await
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        self.measured(Method::IsDrifted, self.inner.is_drifted(claim)).await
    }
}
