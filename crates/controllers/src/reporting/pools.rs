//! Limits, usage and cost of pools (`metrics.nodepool`, OPS-128, OPS-129).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kerf_api::{NodePool, ResourceList};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::{Gauge, Sample, Series, catalogue};
use kerf_runtime::{CancellationToken, Outcome, Queue, RateLimit, ReconcileError};

use super::units;
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::Reconciler;

/// How often a pool is measured even if nothing about it changed.
const EVERY: Duration = Duration::from_secs(10);

/// `metrics.nodepool`.
pub(crate) struct PoolReport {
    context: Context,
    queue: Queue<String>,
    series: Series,
    limit: Gauge,
    usage: Gauge,
    cost: Gauge,
}

impl PoolReport {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let gauge = |def| context.metrics.gauge(def);
        Arc::new(Self {
            queue: context.queue("metrics.nodepool", RateLimit::DEFAULT),
            series: Series::default(),
            limit: gauge(&catalogue::NODEPOOLS_LIMIT),
            usage: gauge(&catalogue::NODEPOOLS_USAGE),
            cost: gauge(&catalogue::NODEPOOLS_COST),
            context: context.clone(),
        })
    }

    fn report(&self, name: &str) -> Outcome {
        let Some(pool) = self.context.cluster.pool(name) else {
            self.series.remove(name);
            return Outcome::Done;
        };
        let snapshot = self.context.cluster.snapshot(self.context.now());
        self.series.replace(name, self.samples(name, &pool, &snapshot));
        Outcome::RequeueAfter(EVERY)
    }

    fn samples(&self, name: &str, pool: &NodePool, snapshot: &Snapshot) -> Vec<Sample> {
        let amounts = |gauge: &Gauge, family: &'static str, list: &ResourceList| -> Vec<Sample> {
            let sample = |(resource, amount): (&String, _)| Sample {
                gauge: gauge.clone(),
                family,
                labels: vec![units::resource_type(resource), name.to_owned()],
                value: units::quantity(resource, amount),
            };
            list.iter().map(sample).collect()
        };
        let mut samples = amounts(&self.limit, &catalogue::NODEPOOLS_LIMIT.name, &pool.spec.limits);
        if let Some(status) = &pool.status {
            samples.extend(amounts(
                &self.usage,
                &catalogue::NODEPOOLS_USAGE.name,
                &status.resources,
            ));
        }
        samples.push(Sample {
            gauge: self.cost.clone(),
            family: &catalogue::NODEPOOLS_COST.name,
            labels: vec![name.to_owned()],
            value: cost(snapshot, name),
        });
        samples
    }
}

/// The sum of what the machines of a pool's claims cost per hour; one of unknown price counts nothing (LIF-217, LIF-218).
fn cost(snapshot: &Snapshot, pool: &str) -> f64 {
    let label = snapshot.interner.get(pool);
    let machines = snapshot
        .nodes
        .iter()
        .filter(|node| node.managed && node.pool.is_some() && node.pool == label);
    machines
        .filter_map(|node| node.price)
        .map(kerf_model::price::Price::per_hour)
        .sum()
}

#[async_trait]
impl Reconciler for PoolReport {
    fn name(&self) -> &'static str {
        "metrics.nodepool"
    }

    fn notify(&self, change: &Change) {
        if let Change::Pool(pool) = change {
            self.queue.add_with(pool.name().to_owned(), pool.priority());
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let controller = self
            .context
            .controller(self.name())
            .for_kind("karpenter.sh", "NodePool");
        let queue = self.queue.clone();
        let reconcile = move |name: String| {
            let this = Arc::clone(&self);
            async move { Ok::<_, ReconcileError>(this.report(&name)) }
        };
        controller.run(queue, reconcile, shutdown).await;
    }
}
