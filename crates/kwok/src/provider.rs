//! The provider: Node objects are its instances (KWK-060).

use crate::interruption_annotations::{InterruptionAnnotations, node_of};
use crate::machine::{PROVIDER_ID_PREFIX, choose_machine};
use crate::node_writer::NodeWriter;
use crate::pool_annotations::{MachineFaults, Registration};
use crate::type_definition::is_reservation_id_key;
use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_api::conditions::{READY, node_claim};
use kerf_api::{Condition, KwokNodeClass, LabelRules, NodeClaim, NodeClassKind, NodePool, kwok_node_class, labels};
use kerf_cloud::{
    CloudError, CloudProvider, DriftReason, Interruption, InterruptionKind, Launched, Profile, RepairPolicy,
    SignalQueue, Vocabulary, claim_name,
};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_runtime::client::{ApiErrorKind, SharedReads, delete_exactly, describe, found};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The provider's name (KWK-001).
pub const PROVIDER_NAME: &str = "kwok";
/// The kind of its node classes.
pub const NODE_CLASS: NodeClassKind = NodeClassKind {
    group: kwok_node_class::GROUP,
    version: kwok_node_class::VERSION,
    kind: kwok_node_class::KIND,
    plural: "kwoknodeclasses",
};
/// How long a node may be unready before it is repaired (KWK-008).
const REPAIR_TOLERATION: Duration = Duration::from_secs(10 * 60);

/// The vocabulary of a catalogue: every label of a type or an offering is well-known (KWK-004).
pub fn vocabulary(catalogue: &Catalogue, interner: &Interner) -> Vocabulary {
    let mut keys = BTreeSet::new();
    for kind in &catalogue.types {
        keys.extend(kind.requirements.iter().map(|one| one.key));
        keys.extend(
            kind.offerings
                .iter()
                .flat_map(|offering| &offering.requirements)
                .map(|one| one.key),
        );
    }
    let mut keys: Vec<&str> = keys.into_iter().map(|key| interner.text(key)).collect();
    keys.sort_unstable();
    let reservation = keys
        .iter()
        .find(|key| is_reservation_id_key(key))
        .map(|key| (*key).to_owned());
    let rules = LabelRules::kwok().with_well_known(keys);
    Vocabulary {
        reserved_only_labels: reservation.iter().cloned().collect(),
        reservation_id_label: reservation,
        ..Vocabulary::new(rules)
    }
}

/// What this provider calls unhealthy (KWK-008).
pub fn repair_policies() -> Vec<RepairPolicy> {
    ["False", "Unknown"]
        .map(|status| RepairPolicy::new(READY, status, REPAIR_TOLERATION))
        .into()
}

/// Nodes without machines, written through the Kubernetes API.
pub struct KwokProvider {
    client: Client,
    profile: Profile,
    interner: Arc<Interner>,
    catalogue: Arc<Catalogue>,
    node_writer: NodeWriter,
    signals: SignalQueue,
    annotations: Option<InterruptionAnnotations>,
    classes: SharedReads<Arc<KwokNodeClass>>,
    pools: SharedReads<MachineFaults>,
}

impl KwokProvider {
    /// A provider that launches the types of a catalogue, for every pool alike (KWK-009).
    pub fn new(client: Client, interner: Arc<Interner>, catalogue: Arc<Catalogue>) -> Self {
        let vocabulary = vocabulary(&catalogue, &interner);
        Self {
            node_writer: NodeWriter::new(client.clone()),
            client,
            profile: Profile {
                name: PROVIDER_NAME,
                node_classes: vec![NODE_CLASS],
                vocabulary,
                repair_policies: repair_policies(),
            },
            interner,
            catalogue,
            signals: SignalQueue::default(),
            annotations: None,
            classes: SharedReads::default(),
            pools: SharedReads::default(),
        }
    }

    /// Also obeys annotations: raises interruptions for annotated Nodes ([`INTERRUPTION`](crate::INTERRUPTION)), and lets machines of
    /// annotated NodePools fail ([`REGISTRATION`](crate::REGISTRATION), [`REPORTED_CAPACITY`](crate::REPORTED_CAPACITY)). This costs a
    /// watch of Nodes, and a request for each launch.
    #[must_use]
    pub fn with_interruption_annotations(mut self) -> Self {
        self.annotations = Some(InterruptionAnnotations::new(self.client.clone()));
        self
    }

    /// Raises an interruption signal about nodes, as a cloud would; nothing else happens to them.
    pub fn interrupt(&self, kind: InterruptionKind, provider_ids: impl IntoIterator<Item = String>, now: Timestamp) {
        self.signals.raise(kind, provider_ids, now);
    }

    /// Deletes a Node; succeeds if it is gone already.
    async fn delete_node(&self, name: &str) -> Result<(), CloudError> {
        let deleted = found(self.nodes().delete(name, &DeleteParams::default()).await);
        deleted
            .map(drop)
            .map_err(|error| api_error(&format!("deleting Node {name}"), &error))
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The registration delay of the claim's node class. The error says that the class is missing or not ready (KWK-039, KWK-040).
    async fn registration_delay(&self, claim: &NodeClaim) -> Result<Duration, CloudError> {
        let name = &claim.spec.node_class_ref.name;
        let (api, key) = (Api::<KwokNodeClass>::all(self.client.clone()), name.clone());
        let get = async move || api.get(&key).await.map(Arc::new);
        let class = self.classes.read(name, get).await;
        let class = class.map_err(|error| match ApiErrorKind::of(&error) {
            ApiErrorKind::NotFound => CloudError::insufficient_capacity(describe(&error)),
            _ => api_error(&format!("getting KWOKNodeClass {name}"), &error),
        })?;
        let conditions = class.status.iter().flat_map(|status| &status.conditions);
        match conditions.into_iter().find(|condition| condition.type_ == READY) {
            Some(ready) if ready.is_false() => Err(CloudError::NodeClassNotReady(ready.message().into())),
            _ => Ok(class.node_registration_delay().to_std()),
        }
    }

    /// How the machines of the claim's pool fail: not at all unless the provider reads annotations and the pool exists. Reads metadata only,
    /// so that a pool with a spec that cannot be read still gets machines.
    async fn machine_faults(&self, claim: &NodeClaim) -> Result<MachineFaults, CloudError> {
        let labels = claim.metadata.labels.as_ref();
        let pool = labels.and_then(|labels| labels.get(labels::NODE_POOL));
        let (Some(pool), Some(_)) = (pool, &self.annotations) else {
            return Ok(MachineFaults::default());
        };
        let (api, key) = (Api::<NodePool>::all(self.client.clone()), pool.clone());
        let get = async move || {
            let pool = api.get_metadata_opt(&key).await?;
            Ok(pool.map(|pool| MachineFaults::of(&pool.metadata)).unwrap_or_default())
        };
        let faults = self.pools.read(pool, get).await;
        faults.map_err(|error| api_error("getting the NodePool of a claim", &error))
    }

    /// Removes the Node of a claim that never registered: no controller would (LIF-073), and its claim is about to go.
    async fn remove_unregistered(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        let status = claim.status.as_ref();
        let registered = status.and_then(|status| status.conditions.iter().find(|c| c.type_ == node_claim::REGISTERED));
        let name = status
            .and_then(|status| status.provider_id.as_deref())
            .and_then(node_name);
        let (false, Some(name)) = (registered.is_some_and(Condition::is_true), name) else {
            return Ok(());
        };
        self.delete_node(name).await
    }
}

/// Turns an API error into the provider's own: retryable or other, which is all a caller distinguishes.
fn api_error(doing: &str, error: &kube::Error) -> CloudError {
    let message = format!("{doing}, {}", describe(error)).into();
    match ApiErrorKind::of(error) {
        ApiErrorKind::TooManyRequests | ApiErrorKind::Retryable => CloudError::Retryable { message, after: None },
        _ => CloudError::Other(message),
    }
}

/// The Node name in a provider id; `None` if the id is not KWOK's.
fn node_name(provider_id: &str) -> Option<&str> {
    provider_id
        .strip_prefix(PROVIDER_ID_PREFIX)
        .filter(|name| !name.is_empty())
}

/// A Node as an instance; `None` for nodes of other providers (KWK-002).
fn instance(node: Node) -> Option<Launched> {
    let provider_id = node.spec?.provider_id.filter(|id| id.starts_with(PROVIDER_ID_PREFIX))?;
    let name = node.metadata.name?;
    let status = node.status.unwrap_or_default();
    let amounts = |list: Option<BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>| {
        let each = list.into_iter().flatten();
        each.filter_map(|(name, amount)| Some((name, amount.0.parse().ok()?)))
            .collect()
    };
    Some(Launched {
        node_name: Some(name.clone()),
        name,
        provider_id,
        labels: node.metadata.labels.unwrap_or_default(),
        annotations: node.metadata.annotations.unwrap_or_default(),
        capacity: amounts(status.capacity),
        allocatable: amounts(status.allocatable),
        created: node.metadata.creation_timestamp.map(|time| time.0),
        // A Node on its way out is still an instance (KWK-058).
        ..Launched::default()
    })
}

#[async_trait]
impl CloudProvider for KwokProvider {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        let labels = &self.profile.vocabulary.labels;
        let mut machine = choose_machine(claim, &self.catalogue, labels, &self.interner)?;
        let delay = self.registration_delay(claim).await?;
        let faults = self.machine_faults(claim).await?;
        faults.apply(&mut machine.node);
        match faults.registration {
            Registration::Normal => self.node_writer.write_after(machine.node, delay),
            Registration::Late(more) => self.node_writer.write_after(machine.node, delay + more),
            Registration::Never => {}
        }
        Ok(machine.launched)
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        if let Some(name) = provider_id.and_then(node_name) {
            self.node_writer.cancel(name);
        }
        self.remove_unregistered(claim).await?;
        // An instance that was listed without a claim: its Node is all there is of it. A claim that is being deleted already needs no call.
        if claim.metadata.uid.is_none() || claim.metadata.deletion_timestamp.is_some() {
            return Err(CloudError::not_found("instance terminated"));
        }
        let name = claim_name(claim)?;
        let claims = Api::<NodeClaim>::all(self.client.clone());
        match delete_exactly(&claims, &claim.metadata).await {
            Ok(_) => Err(CloudError::not_found("instance terminated")),
            Err(error) => Err(api_error(&format!("deleting NodeClaim {name}"), &error)),
        }
    }

    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        let gone = || CloudError::not_found(format!("no node has the provider id {provider_id}"));
        let name = node_name(provider_id).ok_or_else(gone)?;
        let node = self
            .nodes()
            .get(name)
            .await
            .map_err(|error| match ApiErrorKind::of(&error) {
                ApiErrorKind::NotFound => gone(),
                _ => api_error(&format!("getting Node {name}"), &error),
            })?;
        if node.metadata.deletion_timestamp.is_some() {
            return Err(gone());
        }
        instance(node).ok_or_else(gone)
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        let nodes = self.nodes().list(&ListParams::default()).await;
        let nodes = nodes.map_err(|error| api_error("listing Nodes", &error))?;
        Ok(nodes.items.into_iter().filter_map(instance).collect())
    }

    async fn instance_types(&self, _pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        Ok(Arc::clone(&self.catalogue))
    }

    async fn is_drifted(&self, _claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        Ok(None)
    }

    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        let Some(annotations) = &self.annotations else {
            return Ok(self.signals.receive().await);
        };
        tokio::select! {
            biased;
            raised = self.signals.receive() => Ok(raised),
            annotated = annotations.receive() => annotated.map_err(|error| api_error("watching Nodes", &error)),
        }
    }

    async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        match (&self.annotations, node_of(handled)) {
            (Some(annotations), Some(node)) => {
                let taken = annotations.acknowledge(node).await;
                taken.map_err(|error| api_error(&format!("patching Node {node}"), &error))
            }
            _ => {
                self.signals.acknowledge(handled);
                Ok(())
            }
        }
    }
}
