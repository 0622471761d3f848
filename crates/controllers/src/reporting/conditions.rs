//! Metrics and events about conditions, and how long objects take to end (OPS-170 to OPS-175, OPS-208, OPS-209, OPS-213).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kerf_api::NodeClassKind;
use kerf_api::{Condition, ConditionStatus, Conditioned, NodeClaim, NodePool};
use kerf_runtime::metrics::{
    Counter, Gauge, Histogram, LabelNames, MetricDef, Sample, Series, catalogue, status_conditions,
};
use kerf_runtime::{Event, EventType, ObjectRef, Outcome, RateLimit, ReconcileError};

use crate::changes::{Change, Diff};
use crate::cluster::Cluster;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

/// A kind whose conditions are reported.
pub(crate) trait Reported: Conditioned + Send + Sync + 'static {
    /// The kind in metric names.
    const KIND: &'static str;
    /// The controller's name.
    const CONTROLLER: &'static str;
    /// The object of that name.
    fn find(cluster: &Cluster, name: &str) -> Option<Arc<Self>>;
    /// The object of this kind that a change is about.
    fn of(change: &Change) -> Option<&Diff<Self>>
    where
        Self: Sized;
}

impl Reported for NodeClaim {
    const KIND: &'static str = "nodeclaim";
    const CONTROLLER: &'static str = "operatorpkg.nodeclaim.status";
    fn find(cluster: &Cluster, name: &str) -> Option<Arc<Self>> {
        cluster.claim(name)
    }
    fn of(change: &Change) -> Option<&Diff<Self>> {
        if let Change::Claim(diff) = change {
            Some(diff)
        } else {
            None
        }
    }
}

impl Reported for NodePool {
    const KIND: &'static str = "nodepool";
    const CONTROLLER: &'static str = "operatorpkg.nodepool.status";
    fn find(cluster: &Cluster, name: &str) -> Option<Arc<Self>> {
        cluster.pool(name)
    }
    fn of(change: &Change) -> Option<&Diff<Self>> {
        if let Change::Pool(diff) = change {
            Some(diff)
        } else {
            None
        }
    }
}

/// `operatorpkg.<kind>.status`.
pub(crate) struct ConditionReport<K> {
    context: Context,
    work: WorkLoop<String>,
    series: Series,
    families: Families,
    /// Objects as last reported.
    known: Mutex<BTreeMap<String, Arc<K>>>,
}

/// The metric families of one kind, and the deprecated ones with group and kind as labels (OPS-172).
struct Families {
    defs: Defs,
    transition: Histogram,
    count: Gauge,
    current: Gauge,
    transitions: Counter,
    going: Gauge,
    gone: Histogram,
    twin_transition: Histogram,
    twin_count: Gauge,
    twin_current: Gauge,
    twin_transitions: Counter,
    twin_going: Gauge,
    twin_gone: Histogram,
    /// The object's label behind each extra metric label, in order.
    extra: Vec<String>,
}

/// Names of gauge families, which live as long as the process.
struct Defs {
    count: &'static str,
    current: &'static str,
    going: &'static str,
}

impl Families {
    fn new(context: &Context, kind: &str) -> Self {
        let (own, metrics) = (status_conditions(kind), &context.metrics);
        let names = match kind {
            "nodeclaim" => Defs {
                count: "operator_nodeclaim_status_condition_count",
                current: "operator_nodeclaim_status_condition_current_status_seconds",
                going: "operator_nodeclaim_termination_current_time_seconds",
            },
            _ => Defs {
                count: "operator_nodepool_status_condition_count",
                current: "operator_nodepool_status_condition_current_status_seconds",
                going: "operator_nodepool_termination_current_time_seconds",
            },
        };
        Self {
            defs: names,
            extra: extra_labels(context, &own.termination_duration_seconds),
            transition: metrics.histogram(&own.transition_seconds),
            count: metrics.gauge(&own.condition_count),
            current: metrics.gauge(&own.current_status_seconds),
            transitions: metrics.counter(&own.transitions_total),
            going: metrics.gauge(&own.termination_current_time_seconds),
            gone: metrics.histogram(&own.termination_duration_seconds),
            twin_transition: metrics.histogram(&catalogue::STATUS_TRANSITION_SECONDS),
            twin_count: metrics.gauge(&catalogue::STATUS_CONDITION_COUNT),
            twin_current: metrics.gauge(&catalogue::STATUS_CURRENT_STATUS_SECONDS),
            twin_transitions: metrics.counter(&catalogue::STATUS_TRANSITIONS),
            twin_going: metrics.gauge(&catalogue::TERMINATION_CURRENT_TIME),
            twin_gone: metrics.histogram(&catalogue::TERMINATION_DURATION),
        }
    }
}

/// Which labels of an object a family shows besides its own (OPS-171).
fn extra_labels(context: &Context, def: &MetricDef) -> Vec<String> {
    let classes = context
        .provider
        .profile()
        .node_classes
        .iter()
        .map(NodeClassKind::label_key);
    let keys = classes.chain([
        "karpenter.sh/nodepool".to_owned(),
        "karpenter.sh/initialized".to_owned(),
    ]);
    let keys: BTreeMap<String, String> = keys.map(|key| (LabelNames::long(&key), key)).collect();
    let names = context.metrics.label_names(def);
    names
        .into_iter()
        .map(|name| keys.get(&name).cloned().unwrap_or_default())
        .collect()
}

/// A changed condition.
#[derive(Clone, PartialEq, Debug)]
struct Transition<'a> {
    /// Its former state, if it was seen before.
    from: Option<&'a Condition>,
    to: &'a Condition,
}

/// The conditions that differ between two states of an object (OPS-174). A condition that is missing counts as Unknown.
fn transitions<'a>(before: &'a [Condition], after: &'a [Condition]) -> Vec<Transition<'a>> {
    let was = |to: &Condition| before.iter().find(|from| from.type_ == to.type_);
    let changed = after.iter().map(|to| Transition { from: was(to), to });
    let status = |from: Option<&Condition>| from.map_or(ConditionStatus::Unknown, |from| from.status);
    changed.filter(|one| status(one.from) != one.to.status).collect()
}

/// The text of the event about a changed condition (OPS-208).
fn message(from: &Condition, to: &Condition) -> String {
    let (old, new) = (from.status, to.status);
    let text = format!(
        "Status condition transitioned, Type: {}, Status: {old} -> {new}, Reason: {}",
        to.type_,
        to.reason()
    );
    if to.message().is_empty() {
        text
    } else {
        format!("{text}, Message: {}", to.message())
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}

impl<K: Reported> ConditionReport<K> {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let this = Arc::new(Self {
            work: WorkLoop::new(context, K::CONTROLLER, RateLimit::DEFAULT)
                .for_kind::<K>()
                .workers(10),
            series: Series::default(),
            families: Families::new(context, K::KIND),
            known: Mutex::default(),
            context: context.clone(),
        });
        // OPS-173: gauges that change with time are computed at scrape time. Updating thousands of them every few seconds would cost
        // more than all decisions.
        let looked_at = Arc::downgrade(&this);
        let refresh = move || looked_at.upgrade().map(|this| this.refresh()).is_some();
        context.metrics.before_scrape(refresh);
        this
    }

    fn refresh(&self) {
        let now = self.context.now();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, object) in &*known {
            self.series.replace(name, self.samples(name, object, now));
        }
    }

    fn report(&self, name: &str) -> Outcome {
        let now = self.context.now();
        let object = K::find(&self.context.cluster, name);
        let before = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match &object {
                Some(object) => known.insert(name.to_owned(), Arc::clone(object)),
                None => known.remove(name),
            }
        };
        let same = |a: &K, b: &K| a.meta().uid == b.meta().uid;
        if let Some(before) = &before
            && object.as_ref().is_none_or(|object| !same(before, object))
        {
            self.gone(before, now);
        }
        let Some(object) = object else {
            self.series.remove(name);
            return Outcome::Done;
        };
        let before = before.filter(|before| same(before, &object));
        self.changes(before.as_deref(), &object);
        Outcome::Done
    }

    fn changes(&self, before: Option<&K>, object: &K) {
        let families = &self.families;
        let extra = self.extra(object);
        for Transition { from, to } in transitions(before.map_or(&[], K::conditions), object.conditions()) {
            let (kind, status, reason) = (to.type_.as_str(), to.status.as_str(), to.reason());
            families.transitions.inc(&with(&[kind, status, reason], &extra));
            families
                .twin_transitions
                .inc(&[kind, status, reason, &K::group(&()), &K::kind(&())]);
            // OPS-213
            let Some(from) = from else { continue };
            let lasted = seconds(from.transitioned(), to.transitioned());
            let old = from.status.as_str();
            families.transition.observe(&with(&[kind, old], &extra), lasted);
            families
                .twin_transition
                .observe(&[kind, old, &K::group(&()), &K::kind(&())], lasted);
            self.publish(object, to.type_.clone(), message(from, to));
        }
        let finalizers =
            |object: &K| -> BTreeSet<String> { object.meta().finalizers.iter().flatten().cloned().collect() };
        let left = before.map(finalizers).unwrap_or_default();
        for finalizer in left.difference(&finalizers(object)) {
            self.publish(object, "Finalized".to_owned(), format!("Finalized {finalizer}"));
        }
    }

    /// Publishes the end of an object and observes how long it took (OPS-175).
    fn gone(&self, object: &K, now: Timestamp) {
        for finalizer in object.meta().finalizers.iter().flatten() {
            self.publish(object, "Finalized".to_owned(), format!("Finalized {finalizer}"));
        }
        let Some(deleted) = &object.meta().deletion_timestamp else {
            return;
        };
        let (extra, took) = (self.extra(object), seconds(deleted.0, now));
        self.families.gone.observe(&with(&[], &extra), took);
        self.families.twin_gone.observe(&[&K::group(&()), &K::kind(&())], took);
    }

    fn publish(&self, object: &K, reason: String, message: String) {
        self.context.recorder.publish(Event {
            object: ObjectRef::of(object),
            kind: EventType::Normal,
            reason: reason.into(),
            message,
            dedupe: Vec::new(),
            dedupe_timeout: None,
        });
    }

    fn extra(&self, object: &K) -> Vec<String> {
        let labels = object.meta().labels.as_ref();
        let value = |key: &String| labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
        self.families.extra.iter().map(value).collect()
    }

    fn samples(&self, name: &str, object: &K, now: Timestamp) -> Vec<Sample> {
        let (families, extra) = (&self.families, self.extra(object));
        let (group, kind) = (K::group(&()).into_owned(), K::kind(&()).into_owned());
        let mut samples = Vec::new();
        let mut both = |own: (&Gauge, &'static str), twin: (&Gauge, &'static str), labels: Vec<String>, value: f64| {
            let chained = |more: &[String]| labels.iter().chain(more).cloned().collect();
            samples.push(Sample {
                gauge: own.0.clone(),
                family: own.1,
                labels: chained(&extra),
                value,
            });
            samples.push(Sample {
                gauge: twin.0.clone(),
                family: twin.1,
                labels: chained(&[group.clone(), kind.clone()]),
                value,
            });
        };
        let of = |parts: [&str; 5]| parts.map(str::to_owned).to_vec();
        for condition in object.conditions() {
            let labels = of([
                "",
                name,
                &condition.type_,
                condition.status.as_str(),
                condition.reason(),
            ]);
            both(
                (&families.count, families.defs.count),
                (&families.twin_count, &catalogue::STATUS_CONDITION_COUNT.name),
                labels.clone(),
                1.0,
            );
            both(
                (&families.current, families.defs.current),
                (&families.twin_current, &catalogue::STATUS_CURRENT_STATUS_SECONDS.name),
                labels,
                seconds(condition.transitioned(), now),
            );
        }
        if let Some(deleted) = &object.meta().deletion_timestamp {
            both(
                (&families.going, families.defs.going),
                (&families.twin_going, &catalogue::TERMINATION_CURRENT_TIME.name),
                vec![String::new(), name.to_owned()],
                seconds(deleted.0, now),
            );
        }
        samples
    }
}

fn with<'a>(own: &[&'a str], extra: &'a [String]) -> Vec<&'a str> {
    own.iter().copied().chain(extra.iter().map(String::as_str)).collect()
}

impl<K: Reported> Reconciler for ConditionReport<K> {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        let object = K::of(change).and_then(Diff::last);
        object
            .and_then(|object| object.meta().name.clone())
            .into_iter()
            .collect()
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        Ok(self.report(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: ConditionStatus) -> Condition {
        Condition::new(type_, status, "Because", "", Timestamp::UNIX_EPOCH)
    }

    // OPS-174
    #[test]
    fn a_condition_nobody_has_seen_counts_as_unknown() {
        use ConditionStatus::{False, True, Unknown};
        let before = [condition("A", True), condition("B", False)];
        let after = [
            condition("A", False),
            condition("B", False),
            condition("C", Unknown),
            condition("D", True),
        ];
        let changed = transitions(&before, &after);
        let names: Vec<(&str, Option<ConditionStatus>)> = changed
            .iter()
            .map(|one| (one.to.type_.as_str(), one.from.map(|from| from.status)))
            .collect();
        assert_eq!(names, [("A", Some(True)), ("D", None)]);
    }

    // OPS-208
    #[test]
    fn a_transition_is_reported_in_one_sentence() {
        let (from, mut to) = (
            condition("Ready", ConditionStatus::Unknown),
            condition("Ready", ConditionStatus::True),
        );
        let text = "Status condition transitioned, Type: Ready, Status: Unknown -> True, Reason: Because";
        assert_eq!(message(&from, &to), text);
        to.message = Some("all is well".to_owned());
        assert_eq!(message(&from, &to), format!("{text}, Message: all is well"));
    }
}
