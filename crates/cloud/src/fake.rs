//! A cloud in memory, for tests of provider callers: instances without nodes.

use crate::choose::cheapest;
use crate::claim::{claim_name, launch_id};
use crate::error::CloudError;
use crate::interruption::Interruption;
use crate::provider::{CloudProvider, DriftReason, Launched, Profile};
use crate::requirement::requirements;
use crate::signals::SignalQueue;
use crate::vocabulary::Vocabulary;
use async_trait::async_trait;
use kerf_api::{LabelRules, NodeClaim, NodeClassKind, NodePool, kwok_node_class};
use kerf_model::instance_type::{Catalogue, InstanceType, allocatable};
use kerf_model::intern::Interner;
use kerf_model::resources::Resources;
use kerf_units::quantity::Quantity;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The node class of the fake cloud.
pub const FAKE_NODE_CLASS: NodeClassKind = NodeClassKind {
    group: kwok_node_class::GROUP,
    version: kwok_node_class::VERSION,
    kind: kwok_node_class::KIND,
    plural: "kwoknodeclasses",
};

/// Launches the cheapest type a claim allows, remembers it under the claim's uid, and takes two calls to delete it.
pub struct FakeCloud {
    profile: Profile,
    interner: Arc<Interner>,
    catalogue: Arc<Catalogue>,
    instances: Mutex<BTreeMap<String, Launched>>,
    drifted: Mutex<BTreeMap<String, DriftReason>>,
    /// The signals `interruptions` returns; a test raises them.
    pub signals: SignalQueue,
}

impl FakeCloud {
    /// A cloud with these types.
    pub fn new(interner: Arc<Interner>, catalogue: Arc<Catalogue>) -> Self {
        Self {
            profile: Profile {
                name: "fake",
                node_classes: vec![FAKE_NODE_CLASS],
                vocabulary: Vocabulary::new(LabelRules::core()),
                repair_policies: Vec::new(),
            },
            interner,
            catalogue,
            instances: Mutex::default(),
            drifted: Mutex::default(),
            signals: SignalQueue::default(),
        }
    }

    /// Replaces the profile.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Makes `is_drifted` return this reason for the claim.
    pub fn drift(&self, claim_name: &str, reason: &str) {
        let mut drifted = self.drifted.lock().unwrap_or_else(PoisonError::into_inner);
        drifted.insert(claim_name.to_owned(), DriftReason(reason.into()));
    }

    /// Removes an instance, as if it had been terminated by hand.
    pub fn kill(&self, provider_id: &str) {
        self.locked().retain(|_, instance| instance.provider_id != provider_id);
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Launched>> {
        self.instances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        let wanted = requirements(
            &claim.spec.requirements,
            &self.profile.vocabulary.labels,
            &self.interner,
        );
        let kinds = self.catalogue.types.iter();
        let kinds = kinds.filter(|kind| kind.requirements.intersects(&wanted, &self.interner).is_ok());
        let choice = cheapest(kinds, &wanted, |_| true, &self.interner);
        let choice = choice.ok_or_else(|| CloudError::insufficient_capacity("no compatible offering is available"))?;
        let name = claim_name(claim)?.to_owned();
        let offering = choice.offerings.first().map(|offering| &offering.requirements);
        let single = choice.kind.requirements.iter().chain(offering.into_iter().flatten());
        let labels = single.filter_map(|r| Some((self.text(r.key), self.text(r.single()?))));
        let (capacity, allocatable) = self.amounts(choice.kind);
        Ok(Launched {
            provider_id: format!("fake://{name}"),
            name,
            labels: labels.collect(),
            capacity,
            allocatable,
            ..Launched::default()
        })
    }

    fn text(&self, id: kerf_model::intern::Sym) -> String {
        self.interner.text(id).to_owned()
    }

    fn amounts(&self, kind: &InstanceType) -> (BTreeMap<String, Quantity>, BTreeMap<String, Quantity>) {
        let is_huge = |name| self.interner.text(name).starts_with("hugepages-");
        let left = allocatable(&kind.capacity, &kind.overhead, is_huge);
        (
            quantities(&kind.capacity, &self.interner),
            quantities(&left, &self.interner),
        )
    }
}

/// Amounts as quantities of the API, by resource name.
pub fn quantities(resources: &Resources, interner: &Interner) -> BTreeMap<String, Quantity> {
    let amount = |name, amount| match interner.text(name) {
        "cpu" => Quantity::from_millis(amount),
        "memory" | "ephemeral-storage" => Quantity::from_bytes(amount),
        _ => Quantity::from_units(amount),
    };
    resources
        .iter()
        .map(|(name, n)| (interner.text(name).to_owned(), amount(name, n)))
        .collect()
}

#[async_trait]
impl CloudProvider for FakeCloud {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        let id = launch_id(claim)?;
        if let Some(known) = self.locked().get(id) {
            return Ok(known.clone());
        }
        let launched = self.launch(claim)?;
        self.locked().insert(id.to_owned(), launched.clone());
        Ok(launched)
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        let id = launch_id(claim)?;
        let mut instances = self.locked();
        let gone = || CloudError::not_found("instance terminated");
        let instance = instances.get_mut(id).ok_or_else(gone)?;
        if instance.deleting {
            instances.remove(id);
            return Err(gone());
        }
        instance.deleting = true;
        Ok(())
    }

    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        let instances = self.locked();
        let mut live = instances.values().filter(|instance| !instance.deleting);
        let found = live.find(|instance| instance.provider_id == provider_id).cloned();
        found.ok_or_else(|| CloudError::not_found(provider_id))
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        Ok(self.locked().values().cloned().collect())
    }

    async fn instance_types(&self, _pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        Ok(Arc::clone(&self.catalogue))
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        let drifted = self.drifted.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(drifted.get(claim_name(claim)?).cloned())
    }

    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        Ok(self.signals.receive().await)
    }

    async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        self.signals.acknowledge(handled);
        Ok(())
    }
}
