//! Observes the demo's cluster through its API: pods, nodes, prices, decisions, and broken invariants.

use super::machine_change::{Machine, MachineChange, PODS_WAIT, Verb};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kerf_api::NodeClaim;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::price::Price;
use kerf_runtime::client::name_of;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The cluster at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) nodes: usize,
    pub(super) price: Price,
}

/// A NodeClaim at the last observation.
#[derive(Default)]
struct Claim {
    machine: Option<Machine>,
    /// Whether the Ready condition of its Node was ever Unknown.
    lost_kubelet: bool,
    /// Whether its removal was reported.
    removed: bool,
}

/// Lists objects and compares them with those of the observation before.
pub(super) struct Observer {
    client: Client,
    prices: HashMap<(String, String, String), Price>,
    claims: BTreeMap<String, Claim>,
    protected: BTreeMap<String, bool>,
    pub(super) decisions: Vec<MachineChange>,
    pub(super) broken: BTreeSet<String>,
    pub(super) pods: Vec<Pod>,
    pub(super) nodes: Vec<Node>,
}

/// Reasons of the events that say why a machine is interrupted.
const INTERRUPTIONS: [&str; 4] = [
    "SpotInterrupted",
    "InstanceUnhealthy",
    "InstanceStopping",
    "InstanceTerminating",
];
const DO_NOT_DISRUPT: &str = kerf_api::annotations::DO_NOT_DISRUPT;

impl Observer {
    pub(super) fn new(client: Client, catalogue: &Catalogue, interner: &Interner) -> Self {
        let mut prices = HashMap::new();
        for instance_type in &catalogue.types {
            for offering in &instance_type.offerings {
                let text = |id: Option<_>| id.map(|id| interner.text(id).to_owned()).unwrap_or_default();
                let key = (
                    interner.text(instance_type.name).to_owned(),
                    text(offering.zone()),
                    text(offering.capacity_type()),
                );
                prices.insert(key, offering.price);
            }
        }
        Self {
            client,
            prices,
            claims: BTreeMap::new(),
            protected: BTreeMap::new(),
            decisions: Vec::new(),
            broken: BTreeSet::new(),
            pods: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Lists everything once. Returns the sample and the decisions since the last observation.
    pub(super) async fn observe(&mut self) -> Result<(Sample, Vec<MachineChange>), kube::Error> {
        let all = ListParams::default();
        let claims = Api::<NodeClaim>::all(self.client.clone()).list(&all).await?.items;
        self.pods = Api::<Pod>::all(self.client.clone()).list(&all).await?.items;
        self.nodes = Api::<Node>::all(self.client.clone()).list(&all).await?.items;
        let decided = self.decisions_since(&claims).await?;
        self.check_protected();
        let price = self.nodes.iter().filter_map(|node| self.price(node)).sum();
        let phase = |pod: &Pod| {
            pod.status
                .as_ref()
                .and_then(|status| status.phase.clone())
                .unwrap_or_default()
        };
        let sample = Sample {
            running: self.pods.iter().filter(|pod| phase(pod) == "Running").count(),
            waiting: self.pods.iter().filter(|pod| phase(pod) == "Pending").count(),
            nodes: self.nodes.len(),
            price,
        };
        self.decisions.extend(decided.iter().cloned());
        Ok((sample, decided))
    }

    fn price(&self, node: &Node) -> Option<Price> {
        let label = |key: &str| node.labels().get(key).cloned();
        let machine = (
            label("node.kubernetes.io/instance-type")?,
            label("topology.kubernetes.io/zone")?,
            label("karpenter.sh/capacity-type")?,
        );
        self.prices.get(&machine).copied()
    }

    async fn decisions_since(&mut self, claims: &[NodeClaim]) -> Result<Vec<MachineChange>, kube::Error> {
        let name = |claim: &NodeClaim| claim.metadata.name.clone();
        let there: BTreeSet<String> = claims.iter().filter_map(name).collect();
        // Removals come first: most launches replace them.
        let (mut decided, mut launched) = (Vec::new(), Vec::new());
        for claim in claims {
            let name = name_of(claim)?;
            let lost_kubelet = self.is_kubelet_lost(claim);
            let seen = self.claims.entry(name.to_owned()).or_default();
            seen.lost_kubelet |= lost_kubelet;
            let known = seen.machine.is_some();
            if let Some(machine) = self.machine(claim).filter(|_| !known) {
                launched.push(self.launched(name, claim, machine.clone()).await?);
                if let Some(seen) = self.claims.get_mut(name) {
                    seen.machine = Some(machine);
                }
            }
        }
        let deleted = claims
            .iter()
            .filter(|claim| claim.metadata.deletion_timestamp.is_some());
        let gone = self.claims.keys().filter(|name| !there.contains(*name)).cloned();
        let removed: BTreeSet<String> = deleted.filter_map(name).chain(gone).collect();
        for name in removed {
            let cause = self.cause(&name).await?;
            let Some(seen) = self.claims.get_mut(&name).filter(|seen| !seen.removed) else {
                continue;
            };
            seen.removed = true;
            decided.push(MachineChange {
                verb: Verb::Remove,
                claim: name,
                machine: seen.machine.clone().unwrap_or_default(),
                why: cause.clone(),
                cause,
            });
        }
        decided.append(&mut launched);
        Ok(decided)
    }

    async fn launched(&self, name: &str, claim: &NodeClaim, machine: Machine) -> Result<MachineChange, kube::Error> {
        let events = self.events(name).await?;
        let replaces = events
            .get("DisruptionLaunching")
            .and_then(|message| message.split_once(": "));
        let (cause, why) = match replaces {
            Some((_, reason)) => (reason.to_owned(), format!("replacement ({reason})")),
            None => (PODS_WAIT.to_owned(), requested(claim)),
        };
        Ok(MachineChange {
            verb: Verb::Launch,
            claim: name.to_owned(),
            machine,
            cause,
            why,
        })
    }

    /// Why a claim is removed; empty if that was reported before.
    async fn cause(&self, claim: &str) -> Result<String, kube::Error> {
        let seen = self.claims.get(claim);
        if seen.is_some_and(|seen| seen.removed) {
            return Ok(String::new());
        }
        let events = self.events(claim).await?;
        let voluntary = events
            .get("DisruptionTerminating")
            .and_then(|message| message.split_once(": "));
        let announced = INTERRUPTIONS.iter().find_map(|reason| events.get(*reason));
        Ok(match (voluntary, announced) {
            (Some((_, reason)), _) => reason.to_owned(),
            (None, Some(message)) => message.clone(),
            (None, None) if seen.is_some_and(|seen| seen.lost_kubelet) => "auto-repair: its kubelet stopped".to_owned(),
            (None, None) => "deleted".to_owned(),
        })
    }

    /// The messages of a claim's events by reason.
    async fn events(&self, claim: &str) -> Result<BTreeMap<String, String>, kube::Error> {
        let fields = format!("involvedObject.kind=NodeClaim,involvedObject.name={claim}");
        let events = Api::<Event>::all(self.client.clone());
        let events = events.list(&ListParams::default().fields(&fields)).await?;
        let messages = events
            .items
            .into_iter()
            .filter_map(|event| Some((event.reason?, event.message?)));
        Ok(messages.collect())
    }

    /// Whether the Ready condition of the claim's Node is Unknown.
    fn is_kubelet_lost(&self, claim: &NodeClaim) -> bool {
        let name = claim.status.as_ref().and_then(|status| status.node_name.as_deref());
        let node = self.nodes.iter().find(|node| node.metadata.name.as_deref() == name);
        let status = node.and_then(|node| node.status.as_ref());
        let mut conditions = status
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default()
            .iter();
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
    }

    /// The machine of a claim that is launched.
    fn machine(&self, claim: &NodeClaim) -> Option<Machine> {
        let launched = claim
            .status
            .as_ref()?
            .provider_id
            .as_ref()
            .is_some_and(|id| !id.is_empty());
        let label = |key: &str| claim.labels().get(key).cloned();
        let place = (
            label("node.kubernetes.io/instance-type")?,
            label("topology.kubernetes.io/zone")?,
            label("karpenter.sh/capacity-type")?,
        );
        let price = self.prices.get(&place).copied().unwrap_or_default();
        let (kind, zone, capacity_type) = place;
        launched.then_some(Machine {
            kind,
            zone,
            capacity_type,
            price,
        })
    }

    /// A pod that must not be disrupted may only leave by finishing.
    fn check_protected(&mut self) {
        let mut there = BTreeSet::new();
        for pod in self.pods.iter().filter(|pod| {
            pod.annotations()
                .get(DO_NOT_DISRUPT)
                .is_some_and(|value| value == "true")
        }) {
            let (Some(uid), Some(name)) = (pod.uid(), &pod.metadata.name) else {
                continue;
            };
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref())
                .unwrap_or_default();
            let finished = matches!(phase, "Succeeded" | "Failed");
            if pod.metadata.deletion_timestamp.is_some() && !finished {
                self.broken
                    .insert(format!("pod {name} was evicted although it must not be disrupted"));
            }
            self.protected.insert(uid.clone(), finished);
            there.insert(uid);
        }
        for (uid, finished) in &self.protected {
            if !finished && !there.contains(uid) {
                self.broken
                    .insert(format!("pod {uid} that must not be disrupted is gone"));
            }
        }
    }

    /// Checks at the end that every node has its claim and every claim its node.
    pub(super) async fn check_leaks(&mut self) -> Result<(), kube::Error> {
        let claims = Api::<NodeClaim>::all(self.client.clone())
            .list(&ListParams::default())
            .await?
            .items;
        let ids: BTreeSet<&str> = claims
            .iter()
            .filter_map(|claim| claim.status.as_ref()?.provider_id.as_deref())
            .collect();
        let machines: BTreeSet<&str> = self
            .nodes
            .iter()
            .filter_map(|node| node.spec.as_ref()?.provider_id.as_deref())
            .collect();
        self.broken.extend(
            machines
                .difference(&ids)
                .map(|id| format!("machine {id} has no NodeClaim")),
        );
        self.broken.extend(
            ids.difference(&machines)
                .map(|id| format!("NodeClaim for {id} has no machine")),
        );
        Ok(())
    }
}

/// What the pods of a claim request, DaemonSets included.
fn requested(claim: &NodeClaim) -> String {
    let requests = claim.spec.resources.clone().unwrap_or_default().requests;
    let amount = |name: &str| requests.get(name).map_or(0.0, kerf_units::quantity::Quantity::to_f64);
    let gib = amount("memory") / f64::from(1 << 30);
    format!("for {} pods: {} cpu, {gib:.1} GiB", amount("pods"), amount("cpu"))
}
