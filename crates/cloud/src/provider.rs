//! What a provider is and must do.

use crate::error::CloudError;
use crate::hook::RegistrationHook;
use crate::interruption::{Interruption, InterruptionKind};
use crate::vocabulary::Vocabulary;
use async_trait::async_trait;
use jiff::Timestamp;
use kerf_api::node_spec::ResourceList;
use kerf_api::{NodeClaim, NodeClassRef, NodePool};
use kerf_model::instance_type::Catalogue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A cloud. Calls may be repeated at any time: `create` for a claim that was launched already answers with the same instance, `delete`
/// of an instance that is going or gone is no error of its own.
///
/// [`Decorator`](crate::Decorator) forwards every method of this trait; a new one is added there as well.
#[async_trait]
pub trait CloudProvider: Send + Sync {
    /// What does not change while the process runs.
    fn profile(&self) -> &Profile;

    /// Launches an instance for a claim (LIF-021). The claim's uid identifies the launch.
    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError>;

    /// Asks for the end of a claim's instance; answers [`CloudError::NodeClaimNotFound`] once it is gone (LIF-074, LIF-075).
    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError>;

    /// One instance; one that is gone or going is [`CloudError::NodeClaimNotFound`].
    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError>;

    /// All instances of this cluster, those going away included.
    async fn list(&self) -> Result<Vec<Launched>, CloudError>;

    /// The instance types nodes of a pool can have. The same `Arc` as long as nothing changed.
    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError>;

    /// Whether the provider's side of a claim's node is not any more what its class asks for.
    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError>;

    /// What must be done before a node may register; nothing where the list is empty.
    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &[]
    }

    /// Waits for signals about instances; a provider that has none never answers. A signal is delivered again after a restart, or later,
    /// until it is acknowledged.
    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        std::future::pending().await
    }

    /// Tells that a signal was acted upon.
    async fn acknowledge(&self, _handled: &Interruption) -> Result<(), CloudError> {
        Ok(())
    }

    /// Tells which claim a signal was about, so that the provider avoids what the instance came from for a time.
    fn note_interruption(&self, _claim: &NodeClaim, _kind: InterruptionKind, _now: Timestamp) {}
}

/// What does not change about a provider while the process runs.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// The node classes it serves; claims and pools of others are not its business.
    pub node_classes: Vec<NodeClassKind>,
    /// Its additions to the scheduler's vocabulary.
    pub vocabulary: Vocabulary,
    /// Node conditions that mean a node must be replaced (LIF-145).
    pub repair_policies: Vec<RepairPolicy>,
}

impl Profile {
    /// Whether a reference is to a class this provider serves.
    pub fn serves(&self, class: &NodeClassRef) -> bool {
        self.node_classes
            .iter()
            .any(|kind| kind.group == class.group && kind.kind == class.kind)
    }
}

/// A kind of node class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeClassKind {
    /// API group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural, as in paths.
    pub plural: &'static str,
}

impl NodeClassKind {
    /// The label that carries a class's name on claims and nodes: `<group>/<lowercase kind>`.
    pub fn label_key(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_lowercase())
    }
}

/// A node condition that, once it lasted long enough, means the node must be replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairPolicy {
    /// The condition's type.
    pub condition_type: String,
    /// The status that is bad: `True`, `False` or `Unknown`.
    pub status: String,
    /// How long it may last.
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
    /// The provider's name for it.
    pub name: String,
    /// The name of the Node it will be, where the provider knows it.
    pub node_name: Option<String>,
    /// The identity that claims and Nodes carry.
    pub provider_id: String,
    /// The image it was started from.
    pub image_id: Option<String>,
    /// Labels for the claim; its own win (LIF-022).
    pub labels: BTreeMap<String, String>,
    /// Annotations for the claim; these win (LIF-022).
    pub annotations: BTreeMap<String, String>,
    /// What it has.
    pub capacity: ResourceList,
    /// What of it pods can use.
    pub allocatable: ResourceList,
    /// When it was started.
    pub created: Option<Timestamp>,
    /// Whether it is on its way out.
    pub deleting: bool,
}
