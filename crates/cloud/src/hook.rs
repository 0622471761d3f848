//! Conditions a provider puts on the registration of a node (LIF-034 to LIF-037).

use crate::error::CloudError;
use async_trait::async_trait;
use kerf_api::NodeClaim;
use std::collections::BTreeMap;
use std::time::Duration;

/// Something that must be done before a node that has joined may take pods. Until all hooks of a provider are ready, the Node keeps its
/// unregistered taint.
#[async_trait]
pub trait RegistrationHook: Send + Sync {
    /// Its name, as the claim's condition shows it.
    fn name(&self) -> &str;

    /// Prepares a claim whose Node has joined. Called on every attempt to register the node until all hooks are ready in one attempt, so it
    /// must be repeatable. An error is retried like `Pending`.
    async fn register(&self, claim: &NodeClaim) -> Result<HookOutcome, CloudError>;
}

/// The result of a hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HookOutcome {
    /// The hook is ready; what it adds to claim and Node.
    Ready {
        /// Labels to set.
        labels: BTreeMap<String, String>,
        /// Annotations to set.
        annotations: BTreeMap<String, String>,
    },
    /// Not ready; when to call it again, `None` for after a back-off.
    Pending(Option<Duration>),
}

impl HookOutcome {
    /// Ready, with nothing to add.
    pub const READY: Self = Self::Ready {
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
}
