//! The loops of a cloud provider, which run while this process leads.

use crate::shutdown::CancellationToken;
use futures::future::BoxFuture;
use kerf_api::NodeClaim;
use std::sync::Arc;

/// A change in the cluster that a provider's own controllers may act on. When leadership begins, every object is announced once.
#[derive(Clone, Copy, Debug)]
pub enum ProviderNews<'a> {
    /// A node class of the provider was created, changed or deleted.
    Class {
        /// Its name.
        name: &'a str,
    },
    /// A NodeClaim of the provider was created, changed or deleted.
    Claim {
        /// The claim as it is, or as it was last.
        claim: &'a NodeClaim,
        /// Whether it is gone.
        gone: bool,
    },
    /// A Node was created or registered.
    Registered {
        /// Its name.
        node: &'a str,
    },
}

/// Loops of a provider's own.
pub trait ProviderLoops: Send + Sync + 'static {
    /// Takes a change in. Must not block.
    fn notify(&self, news: ProviderNews<'_>);

    /// Works until `shutdown` is cancelled.
    fn run(self: Arc<Self>, shutdown: CancellationToken) -> BoxFuture<'static, ()>;
}
