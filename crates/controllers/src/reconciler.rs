//! What a controller is.

use std::sync::Arc;

use async_trait::async_trait;
use kerf_runtime::CancellationToken;

use crate::changes::Change;

/// One of the process's loops. It runs only while this process leads (OPS-102). When that begins it is told of everything there is, as of objects
/// that are new, and of all changes from then on.
///
/// The common shape: a struct with the [`Context`](crate::Context) and a [`Queue`](kerf_runtime::Queue); `notify` puts keys into the
/// queue, `run` hands the queue to [`Context::controller`](crate::Context::controller) with a function that reconciles one key, and that
/// function asks a pure one what to do.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// The name in metrics and logs (OPS-100).
    fn name(&self) -> &'static str;

    /// Something changed. Must not wait.
    fn notify(&self, change: &Change);

    /// Works until `shutdown` is cancelled.
    async fn run(self: Arc<Self>, shutdown: CancellationToken);
}
