//! Metrics about pools: limits, usage and cost (`metrics.nodepool`, OPS-128, OPS-129).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::{NodePool, ResourceList};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::{Counter, Gauge, Sample, Series, catalogue};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kerf_state::{PoolCost, pool_cost};

use super::units;
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

/// How often a pool is measured when nothing about it changes.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// `metrics.nodepool`.
pub(crate) struct PoolReport {
    context: Context,
    work: WorkLoop<String>,
    series: Series,
    limit: Gauge,
    usage: Gauge,
    cost: Gauge,
    errors: Counter,
    /// The nodes of unknown price that were counted, by pool.
    unpriced: Mutex<BTreeMap<String, BTreeSet<Arc<str>>>>,
}

impl PoolReport {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let gauge = |def| context.metrics.gauge(def);
        Arc::new(Self {
            work: WorkLoop::new(context, "metrics.nodepool", RateLimit::DEFAULT).for_kind::<NodePool>(),
            series: Series::default(),
            limit: gauge(&catalogue::NODEPOOLS_LIMIT),
            usage: gauge(&catalogue::NODEPOOLS_USAGE),
            cost: gauge(&catalogue::NODEPOOLS_COST),
            errors: context.metrics.counter(&catalogue::NODEPOOLS_COST_TRACKER_ERRORS),
            unpriced: Mutex::default(),
            context: context.clone(),
        })
    }

    fn report(&self, name: &str) -> Outcome {
        let Some(pool) = self.context.cluster.pool(name) else {
            self.series.remove(name);
            self.unpriced().remove(name);
            return Outcome::Done;
        };
        let snapshot = self.context.cluster.snapshot(self.context.now());
        self.series.replace(name, self.samples(name, &pool, &snapshot));
        Outcome::RequeueAfter(MEASURE_EVERY)
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
            value: self.cost(snapshot, name),
        });
        samples
    }

    /// The cost of a pool per hour. Each node of unknown price is logged and counted once (LIF-218, LIF-219).
    fn cost(&self, snapshot: &Snapshot, pool: &str) -> f64 {
        let PoolCost { price, unpriced } = pool_cost(snapshot, pool);
        let unpriced: BTreeSet<Arc<str>> = unpriced.into_iter().collect();
        let mut told = self.unpriced();
        let before = told.insert(pool.to_owned(), unpriced.clone()).unwrap_or_default();
        for machine in unpriced.difference(&before) {
            tracing::error!(NodePool = pool, Node = %machine, "the price of its offering is unknown, it counts nothing in the pool's cost");
            self.errors.inc(&[pool]);
        }
        price.per_hour()
    }

    fn unpriced(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<Arc<str>>>> {
        self.unpriced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconciler for PoolReport {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Pool(pool) => vec![pool.name().to_owned()],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        Ok(self.report(name))
    }
}
