//! Conditions a provider puts on the registration of a node (LIF-034 to LIF-037).

use crate::error::CloudError;
use async_trait::async_trait;
use kerf_api::NodeClaim;
use std::collections::BTreeMap;
use std::time::Duration;

/// Something that must be done before a node that has joined may take pods. Until all hooks of a provider are ready the Node keeps the
/// taint that keeps pods away.
#[async_trait]
pub trait RegistrationHook: Send + Sync {
    /// Its name, as the claim's condition shows it.
    fn name(&self) -> &str;

    /// Looks at a claim whose Node has joined. Called on every attempt to register it, together with the other hooks, until all of them
    /// are ready in one attempt; so it must be repeatable. An error is tried again like `Pending`.
    async fn register(&self, claim: &NodeClaim) -> Result<HookOutcome, CloudError>;
}

/// What a hook answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HookOutcome {
    /// The node may register as far as this hook is concerned; what it adds to claim and Node.
    Ready {
        /// Labels to set.
        labels: BTreeMap<String, String>,
        /// Annotations to set.
        annotations: BTreeMap<String, String>,
    },
    /// Not yet; when to ask again, `None` for after a growing pause.
    Pending(Option<Duration>),
}

impl HookOutcome {
    /// Ready, with nothing to add.
    pub const READY: Self = Self::Ready {
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
}
