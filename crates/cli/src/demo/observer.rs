//! What an onlooker sees: pods, nodes, prices and decisions, and whether anything was broken on the way.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kerf_api::NodeClaim;
use kerf_api::conditions::node_claim;
use kerf_api::status::Conditioned;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::price::Price;
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

/// Something Kerf did, with its reason.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) at: Timestamp,
    pub(super) what: String,
    pub(super) why: String,
}

/// A NodeClaim as last seen.
struct Claim {
    machine: Option<String>,
    leaving: bool,
}

/// Watches by looking.
pub(super) struct Observer {
    client: Client,
    prices: HashMap<(String, String, String), Price>,
    claims: BTreeMap<String, Claim>,
    protected: BTreeMap<String, bool>,
    pub(super) decisions: Vec<Decision>,
    pub(super) broken: BTreeSet<String>,
    pub(super) pods: Vec<Pod>,
    pub(super) nodes: Vec<Node>,
}

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

    /// Looks once; gives back the sample and what was decided since the last look.
    pub(super) async fn look(&mut self, now: Timestamp) -> Result<(Sample, Vec<Decision>), kube::Error> {
        let all = ListParams::default();
        let claims = Api::<NodeClaim>::all(self.client.clone()).list(&all).await?.items;
        self.pods = Api::<Pod>::all(self.client.clone()).list(&all).await?.items;
        self.nodes = Api::<Node>::all(self.client.clone()).list(&all).await?.items;
        let decided = self.note_claims(&claims, now).await?;
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

    async fn note_claims(&mut self, claims: &[NodeClaim], now: Timestamp) -> Result<Vec<Decision>, kube::Error> {
        let mut decided = Vec::new();
        let unseen = claims.iter().any(|claim| {
            machine(claim).is_some()
                && self
                    .claims
                    .get(&claim.name_any())
                    .is_none_or(|seen| seen.machine.is_none())
        });
        let nominated = if unseen {
            self.nominations().await?
        } else {
            HashMap::new()
        };
        for claim in claims {
            let name = claim.name_any();
            let seen = self.claims.entry(name.clone()).or_insert(Claim {
                machine: None,
                leaving: false,
            });
            if seen.machine.is_none()
                && let Some(machine) = machine(claim)
            {
                let price = self.prices.get(&machine).copied().unwrap_or_default();
                let (kind, zone, capacity) = machine;
                seen.machine = Some(kind.clone());
                let why = match nominated.get(&name) {
                    Some(1) => "for 1 waiting pod".to_owned(),
                    Some(pods) => format!("for {pods} waiting pods"),
                    None => "replaces a node that goes".to_owned(),
                };
                decided.push(Decision {
                    at: now,
                    what: format!("launch {name} ({kind}, {zone}, {capacity}, {price} $/h)"),
                    why,
                });
            }
            if claim.metadata.deletion_timestamp.is_some() && !seen.leaving {
                seen.leaving = true;
                let reason = claim
                    .condition(node_claim::DISRUPTION_REASON)
                    .filter(|condition| condition.is_true());
                let why = reason.map_or_else(|| "deleted".to_owned(), |condition| condition.reason().to_owned());
                let kind = seen.machine.clone().unwrap_or_else(|| "never launched".to_owned());
                decided.push(Decision {
                    at: now,
                    what: format!("remove {name} ({kind})"),
                    why,
                });
            }
        }
        Ok(decided)
    }

    /// How many pods were promised to each claim, from the events people see too.
    async fn nominations(&self) -> Result<HashMap<String, usize>, kube::Error> {
        let params = ListParams::default().fields("reason=Nominated");
        let events = Api::<Event>::all(self.client.clone()).list(&params).await?;
        let mut pods: HashMap<String, BTreeSet<String>> = HashMap::new();
        for event in events.items {
            let message = event.message.unwrap_or_default();
            let claim = message
                .split(['/', ' ', ','])
                .find(|word| self.claims.contains_key(*word))
                .map(str::to_owned);
            let claim = claim.or_else(|| {
                let at = message.find("nodeclaim/")? + "nodeclaim/".len();
                Some(message[at..].split([',', ' ']).next()?.to_owned())
            });
            if let Some(claim) = claim {
                pods.entry(claim)
                    .or_default()
                    .insert(event.involved_object.name.unwrap_or_default());
            }
        }
        Ok(pods.into_iter().map(|(claim, pods)| (claim, pods.len())).collect())
    }

    /// A pod that must not be disrupted may only leave by finishing.
    fn check_protected(&mut self) {
        let mut there = BTreeSet::new();
        for pod in self.pods.iter().filter(|pod| {
            pod.annotations()
                .get(DO_NOT_DISRUPT)
                .is_some_and(|value| value == "true")
        }) {
            let uid = pod.uid().unwrap_or_default();
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref())
                .unwrap_or_default();
            let finished = matches!(phase, "Succeeded" | "Failed");
            if pod.metadata.deletion_timestamp.is_some() && !finished {
                self.broken.insert(format!(
                    "pod {} was evicted although it must not be disrupted",
                    pod.name_any()
                ));
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

    /// Once everything is quiet: every node has its claim and every claim its node.
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

fn machine(claim: &NodeClaim) -> Option<(String, String, String)> {
    let launched = claim
        .status
        .as_ref()
        .is_some_and(|status| status.provider_id.as_ref().is_some_and(|id| !id.is_empty()));
    let label = |key: &str| claim.labels().get(key).cloned();
    let machine = (
        label("node.kubernetes.io/instance-type")?,
        label("topology.kubernetes.io/zone")?,
        label("karpenter.sh/capacity-type")?,
    );
    launched.then_some(machine)
}
