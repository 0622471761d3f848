//! The node class label on claims and their Nodes (the controllers `nodeclaim.hydration` and `node.hydration`; LIF-132).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kerf_api::NodeClaim;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};

use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::set_label;
use crate::context::Context;
use crate::node_writes::label_node;
use crate::reconciler::{Reconciler, WorkLoop};

/// Parallel reconciliations, as upstream has it: at least and at most (LIF-223).
const WORKERS: (usize, usize) = (1000, 5000);

/// The kind whose objects a loop labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Claim,
    Node,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Claim => "nodeclaim.hydration",
            Self::Node => "node.hydration",
        }
    }
}

/// Sets the label where it is missing or wrong.
pub(crate) struct Hydration {
    context: Context,
    side: Side,
    work: WorkLoop<String>,
}

impl Hydration {
    /// The loop for claims.
    pub(crate) fn of_claims(context: &Context) -> Arc<Self> {
        Self::new(context, Side::Claim)
    }

    /// The loop for Nodes.
    pub(crate) fn of_nodes(context: &Context) -> Arc<Self> {
        Self::new(context, Side::Node)
    }

    fn new(context: &Context, side: Side) -> Arc<Self> {
        let work = WorkLoop::new(context, side.name(), RateLimit::SHARED);
        let work = match side {
            Side::Claim => work.for_kind::<NodeClaim>(),
            Side::Node => work.for_kind::<Node>(),
        };
        Arc::new(Self {
            context: context.clone(),
            side,
            work: work.workers(context.workers(WORKERS.0, WORKERS.1)),
        })
    }

    async fn claim(&self, name: &str) -> Result<(), kube::Error> {
        let Some(claim) = self.context.cluster.claim(name) else {
            return Ok(());
        };
        let (key, value) = label_of(&claim);
        if claim_facts::label(claim.metadata.labels.as_ref(), &key) != value {
            set_label(&self.context, &claim, &key, value).await?;
        }
        Ok(())
    }

    async fn node(&self, name: &str) -> Result<(), kube::Error> {
        let Some(node) = self
            .context
            .cluster
            .node(name)
            .filter(|node| !node.spec.provider_id.is_empty())
        else {
            return Ok(());
        };
        let claims = self.context.cluster.claims_by_provider_id(&node.spec.provider_id);
        let [claim] = claims.as_slice() else {
            return Ok(());
        };
        let (key, value) = label_of(claim);
        if claim_facts::label(node.metadata.labels.as_ref(), &key) != value {
            label_node(&self.context, name, &key, value).await?;
        }
        Ok(())
    }
}

fn label_of(claim: &NodeClaim) -> (String, &str) {
    let class = &claim.spec.node_class_ref;
    (class.label_key(), &class.name)
}

impl Reconciler for Hydration {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match (self.side, change) {
            (Side::Claim, Change::Claim(claim)) if !claim.is_gone() => vec![claim.name().to_owned()],
            (Side::Node, Change::Node(node)) if !node.is_gone() => vec![node.name().to_owned()],
            (Side::Node, Change::Claim(claim)) => {
                let id = claim.last().and_then(|claim| claim_facts::provider_id(claim));
                let nodes = id.map_or_else(Vec::new, |id| self.context.cluster.nodes_by_provider_id(id));
                nodes.iter().filter_map(|node| node.metadata.name.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        match self.side {
            Side::Claim => self.claim(name).await?,
            Side::Node => self.node(name).await?,
        }
        Ok(Outcome::Done)
    }
}
