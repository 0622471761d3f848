//! The interface of a cloud provider.

use crate::error::CloudError;
use crate::hook::RegistrationHook;
use crate::interruption::{Interruption, InterruptionKind};
use crate::pool_overlays::PoolOverlays;
use crate::vocabulary::Vocabulary;
use async_trait::async_trait;
use jiff::Timestamp;
use kerf_api::node_spec::ResourceList;
use kerf_api::{NodeClaim, NodeClassKind, NodeClassRef, NodePool};
use kerf_model::instance_type::Catalogue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A cloud provider. Calls may be repeated at any time: `create` for a claim that is launched already returns the same instance, and
/// `delete` may be called again while an instance terminates.
///
/// [`Decorator`](crate::Decorator) forwards every method of this trait; a new one is added there as well.
#[async_trait]
pub trait CloudProvider: Send + Sync {
    /// Facts about the provider that do not change while the process runs.
    fn profile(&self) -> &Profile;

    /// Launches an instance for a claim (LIF-021). The claim's uid identifies the launch: the same uid never gets two instances.
    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError>;

    /// Terminates a claim's instance. `Ok` means that it is terminating; [`CloudError::NodeClaimNotFound`] that it is gone (LIF-074,
    /// LIF-075).
    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError>;

    /// One instance; [`CloudError::NodeClaimNotFound`] if it is gone or terminating.
    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError>;

    /// All instances of this cluster, terminating ones included.
    async fn list(&self) -> Result<Vec<Launched>, CloudError>;

    /// The instance types nodes of a pool can have. Returns the same `Arc` as long as nothing changed.
    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError>;

    /// Why the instance of a claim no longer matches its node class; `None` if it matches.
    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError>;

    /// The hooks that must be ready before a node may register.
    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &[]
    }

    /// Waits for signals about instances; a provider without signals never returns. A signal is delivered again, also after a restart,
    /// until it is acknowledged.
    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        std::future::pending().await
    }

    /// Removes a signal that was acted upon.
    async fn acknowledge(&self, _handled: &Interruption) -> Result<(), CloudError> {
        Ok(())
    }

    /// Reports the claim of a signal, so that the provider avoids the instance's offering for a time.
    fn note_interruption(&self, _claim: &NodeClaim, _kind: InterruptionKind, _now: Timestamp) {}

    /// Hands over the NodeOverlays of all pools, once. A provider that chooses among offerings by price, or reports capacity from its
    /// catalogue, applies them to launches, too.
    fn use_overlays(&self, _overlays: &Arc<PoolOverlays>) {}
}

/// Facts about a provider that do not change while the process runs.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// The node classes it serves; claims and pools with other classes are ignored.
    pub node_classes: Vec<NodeClassKind>,
    /// Its additions to the scheduler's vocabulary.
    pub vocabulary: Vocabulary,
    /// Node conditions for which a node is replaced (LIF-145).
    pub repair_policies: Vec<RepairPolicy>,
}

impl Profile {
    /// Whether the provider serves the class a reference names.
    pub fn serves(&self, class: &NodeClassRef) -> bool {
        self.node_classes
            .iter()
            .any(|kind| kind.group == class.group && kind.kind == class.kind)
    }
}

/// A node condition for which a node is replaced once it has lasted long enough.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairPolicy {
    /// The condition's type.
    pub condition_type: String,
    /// The status that is bad: `True`, `False` or `Unknown`.
    pub status: String,
    /// How long the status is tolerated.
    pub toleration: Duration,
}

impl RepairPolicy {
    /// A policy.
    pub fn new(condition_type: &str, status: &str, toleration: Duration) -> Self {
        Self {
            condition_type: condition_type.to_owned(),
            status: status.to_owned(),
            toleration,
        }
    }
}

/// Why the provider calls a node drifted: the reason of the claim's `Drifted` condition.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DriftReason(pub Arc<str>);

/// An instance as the provider describes it, in the terms of a NodeClaim.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Launched {
    /// The name the provider gives it.
    pub name: String,
    /// The name of its Node, where the provider knows it before the Node joins.
    pub node_name: Option<String>,
    /// The provider id that claims and Nodes carry.
    pub provider_id: String,
    /// The image it was started from.
    pub image_id: Option<String>,
    /// Labels for the claim; the claim's own labels win (LIF-022).
    pub labels: BTreeMap<String, String>,
    /// Annotations for the claim; they win over the claim's own (LIF-022).
    pub annotations: BTreeMap<String, String>,
    /// Its capacity.
    pub capacity: ResourceList,
    /// The part of the capacity that pods can use.
    pub allocatable: ResourceList,
    /// When it was started.
    pub created: Option<Timestamp>,
    /// Whether it is terminating.
    pub deleting: bool,
}
