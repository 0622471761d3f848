//! What an onlooker sees: pods, nodes, prices and decisions, and whether anything was broken on the way.

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kerf_api::NodeClaim;
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
    pub(super) async fn look(&mut self) -> Result<(Sample, Vec<Decision>), kube::Error> {
        let all = ListParams::default();
        let claims = Api::<NodeClaim>::all(self.client.clone()).list(&all).await?.items;
        self.pods = Api::<Pod>::all(self.client.clone()).list(&all).await?.items;
        self.nodes = Api::<Node>::all(self.client.clone()).list(&all).await?.items;
        let decided = self.note_claims(&claims).await?;
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

    async fn note_claims(&mut self, claims: &[NodeClaim]) -> Result<Vec<Decision>, kube::Error> {
        let there: BTreeSet<String> = claims.iter().map(ResourceExt::name_any).collect();
        let launched: Vec<&NodeClaim> = claims
            .iter()
            .filter(|claim| {
                machine(claim).is_some()
                    && self
                        .claims
                        .get(&claim.name_any())
                        .is_none_or(|seen| seen.machine.is_none())
            })
            .collect();
        let mut leaving: Vec<String> = claims
            .iter()
            .filter(|claim| claim.metadata.deletion_timestamp.is_some())
            .map(ResourceExt::name_any)
            .chain(self.claims.keys().filter(|name| !there.contains(*name)).cloned())
            .filter(|name| self.claims.get(name).is_none_or(|seen| !seen.leaving))
            .collect();
        leaving.sort();
        let mut decided = Vec::new();
        for claim in launched {
            let name = claim.name_any();
            let Some((kind, zone, capacity)) = machine(claim) else {
                continue;
            };
            let price = self
                .prices
                .get(&(kind.clone(), zone.clone(), capacity.clone()))
                .copied()
                .unwrap_or_default();
            let why = match self.event(&name, "DisruptionLaunching").await? {
                Some(reason) => format!("replaces a node ({reason})"),
                None => asked_for(claim),
            };
            self.claims.insert(
                name.clone(),
                Claim {
                    machine: Some(kind.clone()),
                    leaving: false,
                },
            );
            decided.push(Decision {
                what: format!("launch {name} ({kind}, {zone}, {capacity}, {price} $/h)"),
                why,
            });
        }
        for name in leaving {
            let why = self
                .event(&name, "DisruptionTerminating")
                .await?
                .unwrap_or_else(|| "deleted".to_owned());
            let seen = self.claims.entry(name.clone()).or_insert(Claim {
                machine: None,
                leaving: false,
            });
            seen.leaving = true;
            let kind = seen.machine.as_deref().unwrap_or("never launched");
            decided.push(Decision {
                what: format!("remove {name} ({kind})"),
                why,
            });
        }
        Ok(decided)
    }

    /// What the event of a claim with this reason says after the colon: why it is disrupted, or for what it is launched.
    async fn event(&self, claim: &str, reason: &str) -> Result<Option<String>, kube::Error> {
        let params = ListParams::default().fields(&format!(
            "reason={reason},involvedObject.kind=NodeClaim,involvedObject.name={claim}"
        ));
        let events = Api::<Event>::all(self.client.clone()).list(&params).await?;
        let message = events.items.into_iter().find_map(|event| event.message);
        Ok(message.and_then(|message| Some(message.split_once(": ")?.1.to_owned())))
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

/// What a claim was made to hold, daemons included.
fn asked_for(claim: &NodeClaim) -> String {
    let requests = claim.spec.resources.clone().unwrap_or_default().requests;
    let amount = |name: &str| {
        requests
            .get(name)
            .map(ToString::to_string)
            .unwrap_or_else(|| "0".to_owned())
    };
    format!(
        "for {} pods asking for {} cpu and {} memory",
        amount("pods"),
        amount("cpu"),
        amount("memory")
    )
}
