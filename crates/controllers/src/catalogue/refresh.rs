//! Fetches the instance types of pools from the provider.

use std::sync::Arc;
use std::time::Duration;

use kerf_api::NodePool;
use kerf_cloud::CloudError;
use kerf_model::instance_type::{Catalogue, CatalogueFault};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};

use crate::changes::Change;
use crate::context::Context;
use crate::pools;
use crate::reconciler::{Reconciler, WorkLoop};

/// How often instance types are fetched when no pool changes, since prices and availability change. Providers answer from a cache, with
/// the same object as long as nothing changed.
const FETCH_EVERY: Duration = Duration::from_secs(60);

/// Fetches the types of all pools; every decision begins with it (SCH-139).
pub(crate) async fn refresh(context: &Context) {
    let pools = context.cluster.pools();
    let fetched = futures::future::join_all(pools.iter().map(|pool| fetch(context, pool))).await;
    for (pool, catalogue) in pools.iter().zip(fetched) {
        if let Some(name) = pool.metadata.name.as_deref() {
            store(context, name, catalogue);
        }
    }
}

async fn fetch(context: &Context, pool: &NodePool) -> Result<Arc<Catalogue>, CatalogueFault> {
    match context.provider.instance_types(pool).await {
        Ok(catalogue) if catalogue.types.is_empty() => Err(CatalogueFault::Empty),
        Ok(catalogue) => Ok(catalogue),
        Err(CloudError::AwaitingOverlays(_)) => Err(CatalogueFault::AwaitingOverlays),
        Err(error) => Err(CatalogueFault::Provider(error.to_string().into())),
    }
}

/// Keeps what was fetched for the pool of that name.
fn store(context: &Context, name: &str, catalogue: Result<Arc<Catalogue>, CatalogueFault>) {
    match &catalogue {
        // OPS-040
        Err(CatalogueFault::AwaitingOverlays) => {
            tracing::debug!(NodePool = name, "skipping, awaiting nodeoverlay evaluation");
        }
        Err(CatalogueFault::Empty) => tracing::info!(NodePool = name, "skipping, no resolved instance types found"),
        Err(fault) => tracing::error!(NodePool = name, error = %fault, "skipping, unable to resolve instance types"),
        Ok(_) => {}
    }
    // The pool may be gone by now.
    if context.cluster.pool(name).is_some() {
        context.cluster.set_catalogue(name, catalogue);
    }
}

/// Keeps catalogues up to date between decisions. Only Kerf has this; upstream asks its provider whenever it needs types.
pub(crate) struct CatalogueRefresh {
    context: Context,
    work: WorkLoop<String>,
}

impl CatalogueRefresh {
    /// The controller.
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, "nodepool.catalogue", RateLimit::SHARED)
                .for_kind::<NodePool>()
                .workers(10),
            context: context.clone(),
        })
    }
}

impl Reconciler for CatalogueRefresh {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Pool(pool) if !pool.is_gone() && (pool.is_new() || pool.generation_changed()) => {
                vec![pool.name().to_owned()]
            }
            Change::Class(class) => pools::pools_of_class(&self.context, class),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let Some(pool) = self.context.cluster.pool(name) else {
            return Ok(Outcome::Done);
        };
        let catalogue = fetch(&self.context, &pool).await;
        store(&self.context, name, catalogue);
        Ok(Outcome::RequeueAfter(FETCH_EVERY))
    }
}

#[cfg(test)]
mod tests {
    use kerf_sandbox::CapturedLog;
    use serde_json::json;

    use super::*;

    // OPS-040
    #[tokio::test]
    async fn a_pool_without_types_is_skipped_and_the_log_says_why() {
        let context = Context::without_api();
        let log = CapturedLog::start();
        for (fault, level, message) in [
            (
                CatalogueFault::AwaitingOverlays,
                "DEBUG",
                "skipping, awaiting nodeoverlay evaluation",
            ),
            (
                CatalogueFault::Empty,
                "INFO",
                "skipping, no resolved instance types found",
            ),
            (
                CatalogueFault::Provider("throttled".into()),
                "ERROR",
                "skipping, unable to resolve instance types",
            ),
        ] {
            store(&context, "web", Err(fault));
            let lines = log.lines(message);
            assert_eq!(lines.len(), 1, "{message}");
            assert_eq!(
                (&lines[0]["level"], &lines[0]["NodePool"]["name"]),
                (&json!(level), &json!("web"))
            );
        }
    }
}
