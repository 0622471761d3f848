//! Metrics about pods: their state, and how long they wait (`metrics.pod`, OPS-134 to OPS-144, OPS-257, OPS-258).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kerf_api::labels;
use kerf_model::pod::{Phase, Pod};
use kerf_runtime::metrics::{Gauge, Histogram, MetricDef, Sample, Series, Summary, catalogue};
use kerf_runtime::{ObjectKey, Outcome, RateLimit, ReconcileError};
use kerf_state::lean::LeanNode;
use kerf_state::{PodMeasures, PodTime};

use super::pod_progress::Awaited;
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

/// `metrics.pod`. Durations are recorded when a pod changes. What changes with time is computed at scrape time: updating thousands of gauges
/// every few seconds would cost more than all decisions.
pub(crate) struct PodReport {
    context: Context,
    work: WorkLoop<ObjectKey>,
    series: Series,
    durations: Durations,
    /// The steps that pods have still to reach. `None` until this process leads.
    awaited: Mutex<Option<BTreeMap<ObjectKey, Awaited>>>,
}

/// How long pods took.
struct Durations {
    startup: Summary,
    bound: Histogram,
    provisioning_startup: Histogram,
    provisioning_bound: Histogram,
}

impl PodReport {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let metrics = &context.metrics;
        let this = Arc::new(Self {
            work: WorkLoop::new(context, "metrics.pod", RateLimit::DEFAULT)
                .for_kind::<k8s_openapi::api::core::v1::Pod>(),
            series: Series::default(),
            durations: Durations {
                startup: metrics.summary(&catalogue::PODS_STARTUP_DURATION),
                bound: metrics.histogram(&catalogue::PODS_BOUND_DURATION),
                provisioning_startup: metrics.histogram(&catalogue::PODS_PROVISIONING_STARTUP_DURATION),
                provisioning_bound: metrics.histogram(&catalogue::PODS_PROVISIONING_BOUND_DURATION),
            },
            awaited: Mutex::default(),
            context: context.clone(),
        });
        let looked_at = Arc::downgrade(&this);
        let refresh = move || looked_at.upgrade().map(|this| this.refresh()).is_some();
        metrics.before_scrape(refresh);
        this
    }

    fn awaited(&self) -> MutexGuard<'_, Option<BTreeMap<ObjectKey, Awaited>>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what a pod has reached.
    fn report(&self, key: &ObjectKey) {
        let cluster = &self.context.cluster;
        let found = cluster.measured_pod(&key.namespace, &key.name);
        let mut all = self.awaited();
        let all = all.get_or_insert_default();
        let Some((pod, measures)) = found else {
            all.remove(key);
            return;
        };
        let mut awaited = all.remove(key).filter(|awaited| !awaited.is_of_another(&pod));
        let awaited = awaited.get_or_insert_with(|| Awaited::new(&pod));
        let reached = awaited.advance(&pod, &measures);
        let schedulable = self.time(key).and_then(|time| time.schedulable);
        let record = |at: Option<Timestamp>, whole: &dyn Fn(f64), since_placed: &Histogram| {
            let Some(at) = at else { return };
            whole(seconds(pod.created, at));
            if let Some(placed) = schedulable {
                since_placed.observe(&[], seconds(placed, at));
            }
        };
        let durations = &self.durations;
        let startup = |took| durations.startup.observe(&[], took);
        record(reached.ready, &startup, &durations.provisioning_startup);
        let bound = |took| durations.bound.observe(&[], took);
        record(reached.bound, &bound, &durations.provisioning_bound);
        if reached.settled {
            cluster.note_times(&pod, |times| times.forget(&pod.namespace, &pod.name));
        }
        if !awaited.is_over() {
            all.insert(key.clone(), awaited.clone());
        }
    }

    fn time(&self, key: &ObjectKey) -> Option<PodTime> {
        let cluster = &self.context.cluster;
        cluster.with_times(|times| times.get(&key.namespace, &key.name).cloned())
    }

    fn refresh(&self) {
        let awaited = self.awaited();
        let Some(awaited) = &*awaited else { return };
        let now = self.context.now();
        let gauges = Gauges::new(&self.context);
        let mut keys = BTreeSet::new();
        for (pod, measures) in self.context.cluster.measured_pods() {
            let key = ObjectKey::new(&*pod.namespace, &*pod.name);
            let node = pod.node_name.as_ref().and_then(|node| self.context.cluster.node(node));
            let mut samples = vec![gauges.state.sample(state_labels(&pod, &measures, node.as_deref()), 1.0)];
            let waits = awaited.get(&key).filter(|awaited| !awaited.is_of_another(&pod));
            if let Some(waits) = waits {
                let time = self.time(&key).unwrap_or_default();
                samples.extend(gauges.waiting(&pod, &measures, waits, &time, now));
            }
            let name = pod.key();
            self.series.replace(&name, samples);
            keys.insert(name);
        }
        self.series.retain(&keys);
    }
}

/// A gauge family.
struct Family {
    gauge: Gauge,
    name: &'static str,
}

impl Family {
    fn new(context: &Context, def: &'static MetricDef) -> Self {
        Self {
            gauge: context.metrics.gauge(def),
            name: &def.name,
        }
    }

    fn sample(&self, labels: Vec<String>, value: f64) -> Sample {
        Sample {
            gauge: self.gauge.clone(),
            family: self.name,
            labels,
            value,
        }
    }
}

/// The gauges that are computed at scrape time.
struct Gauges {
    state: Family,
    unstarted: Family,
    unbound: Family,
    provisioning_unstarted: Family,
    provisioning_unbound: Family,
    undecided: Family,
}

impl Gauges {
    fn new(context: &Context) -> Self {
        let family = |def| Family::new(context, def);
        Self {
            state: family(&catalogue::PODS_STATE),
            unstarted: family(&catalogue::PODS_UNSTARTED_TIME),
            unbound: family(&catalogue::PODS_UNBOUND_TIME),
            provisioning_unstarted: family(&catalogue::PODS_PROVISIONING_UNSTARTED_TIME),
            provisioning_unbound: family(&catalogue::PODS_PROVISIONING_UNBOUND_TIME),
            undecided: family(&catalogue::PODS_PROVISIONING_UNDECIDED_TIME),
        }
    }

    /// How long a pod has waited for what it has not reached yet.
    fn waiting(
        &self,
        pod: &Pod,
        measures: &PodMeasures,
        awaited: &Awaited,
        time: &PodTime,
        now: Timestamp,
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |family: &Family, from: Option<Timestamp>, to: Timestamp| {
            let labels = vec![pod.name.to_string(), pod.namespace.to_string()];
            samples.extend(from.map(|from| family.sample(labels, seconds(from, to))));
        };
        if awaited.start {
            add(&self.unstarted, Some(pod.created), now);
            add(&self.provisioning_unstarted, time.schedulable, now);
        }
        if awaited.binding {
            // OPS-257: the time stands still from the binding on.
            let until = measures.bound.unwrap_or(now);
            add(&self.unbound, Some(pod.created), until);
            add(&self.provisioning_unbound, time.schedulable, until);
        }
        if time.decided.is_none() && pod.node_name.is_none() && !pod.phase.is_terminal() {
            add(&self.undecided, time.acknowledged, now);
        }
        samples
    }
}

/// The labels of `karpenter_pods_state` in the order of the family (OPS-134, OPS-262).
fn state_labels(pod: &Pod, measures: &PodMeasures, node: Option<&LeanNode>) -> Vec<String> {
    let of_node = node.and_then(|node| node.metadata.labels.as_ref());
    let label = |key: &str| of_node.and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
    let phase = match pod.phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
        Phase::Unknown => "Unknown",
    };
    let pool = label(labels::NODE_POOL);
    let managed = (!pool.is_empty()).to_string();
    vec![
        pod.name.to_string(),
        pod.namespace.to_string(),
        measures.owner.as_deref().unwrap_or_default().to_owned(),
        pod.node_name.as_deref().unwrap_or_default().to_owned(),
        pod.node_name.is_some().to_string(),
        pool,
        label(labels::ZONE),
        label(labels::ARCH),
        label(labels::CAPACITY_TYPE),
        label(labels::INSTANCE_TYPE),
        phase.to_owned(),
        (pod.ready == Some(true)).to_string(),
        managed,
    ]
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

impl Reconciler for PodReport {
    type Key = ObjectKey;

    fn work(&self) -> &WorkLoop<ObjectKey> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<ObjectKey> {
        match change {
            Change::Pod(pod) => vec![ObjectKey::new(&*pod.namespace, &*pod.name)],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        self.report(key);
        Ok(Outcome::Done)
    }
}
