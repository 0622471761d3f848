//! A simulated cloud whose instances are not Nodes: they boot, join as Nodes after a while or never, take time to terminate, and fail as clouds
//! do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use kerf_api::{NodeClaim, NodePool};
use kerf_chaos::Observation;
use kerf_cloud::{
    CloudError, CloudProvider, DriftReason, FakeCloud, Interruption, InterruptionKind, Launched, Profile, RepairPolicy,
    SignalQueue, TypeBuilder, Vocabulary,
};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::{Interner, sym};
use kerf_model::price::Price;
use kerf_runtime::client::delete_exactly;
use kerf_runtime::{Clock, Rng};
use kerf_sandbox::{KUBELET, SIMULATED_NODE};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

/// How often what goes wrong, between 0 and 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct CloudFaults {
    /// No capacity for a launch.
    pub(crate) no_capacity: f64,
    /// Any call is throttled.
    pub(crate) throttled: f64,
    /// Any call fails for no reason given.
    pub(crate) unavailable: f64,
    /// A launch takes up to two minutes to be answered.
    pub(crate) slow: f64,
    /// A launch or an end is carried out, the answer is lost.
    pub(crate) answer_lost: f64,
    /// An end is confirmed and nothing is done.
    pub(crate) end_lost: f64,
    /// An instance ends by itself soon after it was launched.
    pub(crate) vanish: f64,
    /// An instance never joins.
    pub(crate) dud: f64,
}

/// The cloud; clones share it.
#[derive(Clone)]
pub(crate) struct Cloud(Arc<Shared>);

struct Shared {
    /// Chooses types and names their amounts; its own instances are not used.
    chooser: FakeCloud,
    profile: Profile,
    client: Client,
    clock: Clock,
    rng: Rng,
    observation: Observation,
    signals: SignalQueue,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: CloudFaults,
    instances: BTreeMap<String, Instance>,
    launches: u64,
}

#[derive(Clone)]
struct Instance {
    claim_uid: String,
    launched: Launched,
    stopping: bool,
}

/// A dozen types in three zones, 1 to 16 cpu.
pub(crate) fn catalogue(interner: &Interner) -> Arc<Catalogue> {
    let mut types = Vec::new();
    for (family, gib) in [("c", 2), ("m", 8)] {
        for cpu in [1, 2, 4, 8, 16_i64] {
            let mut builder = TypeBuilder::new(interner, &format!("{family}{cpu}"))
                .label("kubernetes.io/arch", "amd64")
                .label("kubernetes.io/os", "linux")
                .capacity(sym::CPU, cpu * 1000)
                .capacity(sym::MEMORY, cpu * (gib << 30))
                .capacity(sym::PODS, 40)
                .overhead(sym::CPU, 100);
            for zone in ["a", "b", "c"] {
                let cents = (4 * cpu + cpu * gib / 2) as f64 / 100.0;
                let price = |factor: f64| Price::from_per_hour(cents * factor).unwrap_or_default();
                builder = builder
                    .offering(zone, "spot", price(0.4))
                    .offering(zone, "on-demand", price(1.0));
            }
            types.push(builder.build());
        }
    }
    Arc::new(Catalogue { types })
}

impl Cloud {
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        rng: Rng,
        interner: &Arc<Interner>,
        observation: Observation,
    ) -> Self {
        let profile = Profile {
            name: "chaos",
            node_classes: vec![kerf_cloud::FAKE_NODE_CLASS],
            vocabulary: Vocabulary::new(kerf_api::LabelRules::core()),
            repair_policies: ["False", "Unknown"]
                .map(|status| RepairPolicy::new("Ready", status, Duration::from_secs(600)))
                .into(),
        };
        let chooser = FakeCloud::new(Arc::clone(interner), catalogue(interner)).with_profile(profile.clone());
        Self(Arc::new(Shared {
            chooser,
            profile,
            client,
            clock,
            rng,
            observation,
            signals: SignalQueue::default(),
            state: Mutex::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_faults(&self, faults: CloudFaults) {
        self.state().faults = faults;
    }

    fn happens(&self, chance: impl Fn(&CloudFaults) -> f64) -> bool {
        let chance = chance(&self.state().faults);
        chance > 0.0 && self.0.rng.unit() < chance
    }

    fn between(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(1000 * least + self.0.rng.below(1000 * (most - least)))
    }

    /// Instances that run, by id.
    pub(crate) fn running(&self) -> Vec<String> {
        let state = self.state();
        let running = state.instances.iter().filter(|(_, instance)| !instance.stopping);
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Ends an instance without any event.
    pub(crate) fn vanish(&self, id: &str) {
        if let Some(instance) = self.state().instances.get_mut(id) {
            instance.stopping = true;
        }
        self.end(id.to_owned(), Duration::ZERO);
    }

    /// Announces that an instance will be taken away, and takes it away two minutes later.
    pub(crate) fn reclaim(&self, id: &str) {
        self.0
            .signals
            .raise(InterruptionKind::SpotReclaim, [id.to_owned()], self.0.clock.now());
        let (cloud, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(120)).await;
            cloud.vanish(&id);
        });
    }

    async fn launch(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let known = |state: &State| {
            let mut all = state.instances.values();
            all.find(|instance| instance.claim_uid == uid && !instance.stopping)
                .map(|instance| instance.launched.clone())
        };
        if let Some(known) = known(&self.state()) {
            return Ok(known);
        }
        let mut launched = self.0.chooser.create(claim).await?;
        let id = {
            let mut state = self.state();
            state.launches += 1;
            format!("chaos://i-{:04}", state.launches)
        };
        launched.provider_id.clone_from(&id);
        launched
            .labels
            .extend(claim.metadata.labels.clone().unwrap_or_default());
        launched.created = Some(self.0.clock.now());
        let instance = Instance {
            claim_uid: uid.clone(),
            launched: launched.clone(),
            stopping: false,
        };
        self.state().instances.insert(id.clone(), instance);
        self.0
            .observation
            .launched(&id, claim.metadata.name.as_deref().unwrap_or_default());
        let is_dud = self.happens(|faults| faults.dud);
        let boot = self.between(10, 60);
        if !is_dud {
            tokio::spawn(self.clone().join(launched.clone(), boot));
        }
        if self.happens(|faults| faults.vanish) {
            let (cloud, after) = (self.clone(), self.between(0, 120));
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                cloud.vanish(&id);
            });
        }
        Ok(launched)
    }

    /// Joins as a Node, if the instance still runs by then.
    async fn join(self, launched: Launched, after: Duration) {
        tokio::time::sleep(after).await;
        let runs = |state: &State| {
            state
                .instances
                .get(&launched.provider_id)
                .is_some_and(|known| !known.stopping)
        };
        if !runs(&self.state()) {
            return;
        }
        let name = node_name(&launched.provider_id);
        let mut labels = launched.labels.clone();
        labels.retain(|key, _| !key.starts_with("karpenter.") || key == "karpenter.sh/capacity-type");
        labels.insert("kubernetes.io/hostname".to_owned(), name.clone());
        let amounts = |list: &kerf_api::node_spec::ResourceList| {
            let each = list
                .iter()
                .map(|(name, amount)| (name.clone(), json!(amount.as_written())));
            each.collect::<serde_json::Map<_, _>>()
        };
        let node = json!({
            "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED_NODE: "fake"}},
            "spec": {
                "providerID": launched.provider_id,
                "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
            },
            "status": {"capacity": amounts(&launched.capacity), "allocatable": amounts(&launched.allocatable)},
        });
        let node: Node = serde_json::from_value(node).expect("a Node");
        let nodes: Api<Node> = Api::all(self.0.client.clone());
        nodes.create(&PostParams::default(), &node).await.expect("joined");
    }

    /// Ends an instance after a while; its kubelet falls silent, and the cloud's controller removes its Node later.
    fn end(&self, id: String, after: Duration) {
        let cloud = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            if cloud.state().instances.remove(&id).is_none() {
                return;
            }
            cloud.0.observation.gone(&id);
            let nodes: Api<Node> = Api::all(cloud.0.client.clone());
            let name = node_name(&id);
            let stopped = json!({"metadata": {"annotations": {KUBELET: "stopped"}}});
            let Ok(node) = nodes
                .patch(&name, &PatchParams::default(), &Patch::Merge(stopped))
                .await
            else {
                return;
            };
            tokio::time::sleep(cloud.between(20, 90)).await;
            // It may be gone by then.
            let _ = delete_exactly(&nodes, &node.metadata).await;
        });
    }

    fn refuse(&self) -> Result<(), CloudError> {
        if self.happens(|faults| faults.throttled) {
            return Err(CloudError::Retryable {
                message: "request limit exceeded (injected)".into(),
                after: Some(Duration::from_secs(2)),
            });
        }
        if self.happens(|faults| faults.unavailable) {
            return Err(CloudError::other("internal error (injected)"));
        }
        Ok(())
    }

    async fn create_slowly(self, claim: NodeClaim) -> Result<Launched, CloudError> {
        self.refuse()?;
        if self.happens(|faults| faults.no_capacity) {
            return Err(CloudError::insufficient_capacity("injected"));
        }
        if self.happens(|faults| faults.slow) {
            tokio::time::sleep(self.between(1, 120)).await;
        }
        let launched = self.launch(&claim).await?;
        if self.happens(|faults| faults.answer_lost) {
            return Err(CloudError::other("connection reset before the answer (injected)"));
        }
        Ok(launched)
    }

    fn known(&self, provider_id: &str) -> Option<Launched> {
        let state = self.state();
        let instance = state.instances.get(provider_id).filter(|instance| !instance.stopping)?;
        Some(instance.launched.clone())
    }
}

fn node_name(provider_id: &str) -> String {
    provider_id.trim_start_matches("chaos://").to_owned()
}

#[async_trait]
impl CloudProvider for Cloud {
    fn profile(&self) -> &Profile {
        &self.0.profile
    }

    /// Goes on when the caller dies, as a request on its way does.
    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        let launch = tokio::spawn(self.clone().create_slowly(claim.clone()));
        launch
            .await
            .unwrap_or_else(|_| Err(CloudError::other("the launch panicked")))
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        self.refuse()?;
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
        let gone = || CloudError::not_found("no such instance");
        let id = id.ok_or_else(gone)?;
        let stops = {
            let state = self.state();
            state.instances.get(&id).ok_or_else(gone)?.stopping
        };
        if !stops && !self.happens(|faults| faults.end_lost) {
            self.0.observation.ending(&id);
            if let Some(instance) = self.state().instances.get_mut(&id) {
                instance.stopping = true;
            }
            self.end(id, self.between(3, 40));
        }
        if self.happens(|faults| faults.answer_lost) {
            return Err(CloudError::other("connection reset before the answer (injected)"));
        }
        Ok(())
    }

    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        self.refuse()?;
        self.known(provider_id)
            .ok_or_else(|| CloudError::not_found(provider_id))
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        self.refuse()?;
        let state = self.state();
        let listed = state.instances.values().map(|instance| Launched {
            deleting: instance.stopping,
            ..instance.launched.clone()
        });
        Ok(listed.collect())
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        self.refuse()?;
        self.0.chooser.instance_types(pool).await
    }

    async fn is_drifted(&self, _claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        self.refuse()?;
        Ok(None)
    }

    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        Ok(self.0.signals.receive().await)
    }

    async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        self.0.signals.acknowledge(handled);
        Ok(())
    }
}
