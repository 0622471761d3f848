//! The loops that run the provider's own controllers, each at its pace (sections 4 to 24 and 32 of `docs/behaviour/aws.md`).

use super::tagging::needs_tags;
use super::{ClassHash, NodeClassController, Tagging, ZonalShiftController, discover_memory};
use crate::errors::ApiError;
use crate::provider::AwsCloud;
use futures::future::BoxFuture;
use kerf_api::NodeClaim;
use kerf_api::ec2_node_class::{GROUP, KIND};
use kerf_runtime::{CancellationToken, Controller, Metrics, ProviderLoops, ProviderNews, Queue, RateLimit, Seed};
use kube::Resource;
use std::sync::Arc;

/// Workers of the controllers of classes (AWS-052, AWS-055).
const CLASS_WORKERS: usize = 10;

/// All controllers of the provider.
pub struct AwsLoops {
    pub(super) cloud: Arc<AwsCloud>,
    pub(super) shifts: Option<Arc<ZonalShiftController>>,
    metrics: Metrics,
    seed: Seed,
    classes: Queue<String>,
    hashes: Queue<String>,
    claims: Queue<String>,
    nodes: Queue<String>,
}

/// The controllers of an account. Reads zonal shifts where the option asks for them; a cluster that ARC does not know is an error, with which
/// the process cannot start (AWS-329). Nothing else is called before the loops run.
pub async fn start(cloud: &Arc<AwsCloud>, metrics: &Metrics, seed: Seed) -> Result<Arc<AwsLoops>, ApiError> {
    let queue = |name, limit| Queue::with_metrics(limit, name, metrics);
    Ok(Arc::new(AwsLoops {
        shifts: ZonalShiftController::start(cloud).await?.map(Arc::new),
        cloud: Arc::clone(cloud),
        metrics: metrics.clone(),
        seed,
        classes: queue(CLASS, RateLimit::SHARED),
        hashes: queue(HASH, RateLimit::DEFAULT),
        claims: queue(TAGGING, RateLimit::DEFAULT),
        nodes: queue(CAPACITY, RateLimit::DEFAULT),
    }))
}

const CLASS: &str = "nodeclass";
const HASH: &str = "nodeclass.hash";
const TAGGING: &str = "nodeclaim.tagging";
const CAPACITY: &str = "providers.instancetype.capacity";

impl ProviderLoops for AwsLoops {
    fn notify(&self, news: ProviderNews<'_>) {
        match news {
            ProviderNews::Class { name } => {
                self.classes.add(name.to_owned());
                self.hashes.add(name.to_owned());
            }
            // A class that is being deleted waits for the last of its claims.
            ProviderNews::Claim { claim, gone: true } => {
                self.classes.add(claim.spec.node_class_ref.name.clone());
            }
            ProviderNews::Claim { claim, gone: false } => {
                if let Some(name) = claim.metadata.name.as_ref().filter(|_| needs_tags(claim)) {
                    self.claims.add(name.clone());
                }
            }
            ProviderNews::Registered { node } => self.nodes.add(node.to_owned()),
        }
    }

    fn run(self: Arc<Self>, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let all = self
                .of_objects(&shutdown)
                .into_iter()
                .chain(self.all_periodic(&shutdown));
            futures::future::join_all(all).await;
        })
    }
}

impl AwsLoops {
    pub(super) fn controller(&self, name: &str) -> Controller {
        Controller::new(name).metrics(&self.metrics).seed(self.seed)
    }

    /// The controllers of objects.
    fn of_objects(&self, shutdown: &CancellationToken) -> Vec<BoxFuture<'static, ()>> {
        let of_classes = |name: &str| self.controller(name).for_kind(GROUP, KIND).workers(CLASS_WORKERS);
        let of_claims = self
            .controller(TAGGING)
            .for_kind(NodeClaim::group(&()), NodeClaim::kind(&()));
        let of_nodes = self.controller(CAPACITY).for_kind("", "Node");
        let cloud = &self.cloud;
        let class = of_classes(CLASS).run(
            self.classes.clone(),
            Arc::new(NodeClassController::new(cloud)),
            |class, name| async move { class.reconcile(&name).await },
            shutdown.clone(),
        );
        let hash = of_classes(HASH).run(
            self.hashes.clone(),
            Arc::new(ClassHash::new(Arc::clone(cloud))),
            |hash, name| async move { hash.reconcile(&name).await },
            shutdown.clone(),
        );
        let tagging = of_claims.run(
            self.claims.clone(),
            Arc::new(Tagging::new(Arc::clone(cloud))),
            |tagging, name| async move { tagging.reconcile(&name).await },
            shutdown.clone(),
        );
        let memory = of_nodes.run(
            self.nodes.clone(),
            Arc::clone(cloud),
            |cloud, name| async move { discover_memory(&cloud, &name).await },
            shutdown.clone(),
        );
        vec![Box::pin(class), Box::pin(hash), Box::pin(tagging), Box::pin(memory)]
    }
}
