//! Metrics and events about conditions, and how long objects take to end (OPS-170 to OPS-175, OPS-208, OPS-209, OPS-213).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::NodeClassKind;
use kerf_api::{
    CapacityBuffer, Condition, ConditionStatus, Conditioned, EC2NodeClass, NodeClaim, NodeClassRef, NodePool,
    ec2_node_class,
};
use kerf_runtime::metrics::{
    Capped, Counter, Gauge, Histogram, LabelNames, MetricDef, Sample, Series, catalogue, status_conditions,
};
use kerf_runtime::{Event, EventType, ObjectKey, ObjectRef, Outcome, RateLimit, ReconcileError};
use kerf_state::NodeClass;
use kerf_state::lean::{LeanCondition, LeanNode};
use kube::Resource;

use crate::changes::{Change, Diff};
use crate::cluster::Cluster;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

/// A kind whose conditions are reported (OPS-098).
pub(crate) trait Reported: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {
    /// The kind in metric names.
    const KIND: &'static str;
    /// The controller's name.
    const CONTROLLER: &'static str;
    /// Whether the deprecated families, with group and kind as labels, show it as well (OPS-172).
    const IN_DEPRECATED_FAMILIES: bool;
    /// The names of its gauges, which live as long as the process.
    const GAUGES: GaugeNames;
    /// The object of that name.
    fn find(cluster: &Cluster, key: &ObjectKey) -> Option<Arc<Self>>;
    /// The object of this kind that a change is about.
    fn of(change: &Change) -> Option<Cow<'_, Diff<Self>>>
    where
        Self: Sized;
    /// Its conditions.
    fn reported_conditions(&self) -> Cow<'_, [Condition]>;
    /// Whether nothing that is reported differs from another state of the object.
    fn looks_like(&self, _other: &Self) -> bool {
        false
    }
}

/// The names of the gauges of one kind.
pub(crate) struct GaugeNames {
    count: &'static str,
    current: &'static str,
    going: &'static str,
}

impl Reported for NodeClaim {
    const KIND: &'static str = "nodeclaim";
    const CONTROLLER: &'static str = "operatorpkg.nodeclaim.status";
    const IN_DEPRECATED_FAMILIES: bool = true;
    const GAUGES: GaugeNames = GaugeNames {
        count: "operator_nodeclaim_status_condition_count",
        current: "operator_nodeclaim_status_condition_current_status_seconds",
        going: "operator_nodeclaim_termination_current_time_seconds",
    };
    fn find(cluster: &Cluster, key: &ObjectKey) -> Option<Arc<Self>> {
        cluster.claim(&key.name)
    }
    fn of(change: &Change) -> Option<Cow<'_, Diff<Self>>> {
        if let Change::Claim(diff) = change {
            Some(Cow::Borrowed(diff))
        } else {
            None
        }
    }
    fn reported_conditions(&self) -> Cow<'_, [Condition]> {
        Cow::Borrowed(self.conditions())
    }
}

impl Reported for NodePool {
    const KIND: &'static str = "nodepool";
    const CONTROLLER: &'static str = "operatorpkg.nodepool.status";
    const IN_DEPRECATED_FAMILIES: bool = true;
    const GAUGES: GaugeNames = GaugeNames {
        count: "operator_nodepool_status_condition_count",
        current: "operator_nodepool_status_condition_current_status_seconds",
        going: "operator_nodepool_termination_current_time_seconds",
    };
    fn find(cluster: &Cluster, key: &ObjectKey) -> Option<Arc<Self>> {
        cluster.pool(&key.name)
    }
    fn of(change: &Change) -> Option<Cow<'_, Diff<Self>>> {
        if let Change::Pool(diff) = change {
            Some(Cow::Borrowed(diff))
        } else {
            None
        }
    }
    fn reported_conditions(&self) -> Cow<'_, [Condition]> {
        Cow::Borrowed(self.conditions())
    }
}

impl Reported for LeanNode {
    const KIND: &'static str = "node";
    const CONTROLLER: &'static str = "operatorpkg.node.status";
    const IN_DEPRECATED_FAMILIES: bool = false;
    const GAUGES: GaugeNames = GaugeNames {
        count: "operator_node_status_condition_count",
        current: "operator_node_status_condition_current_status_seconds",
        going: "operator_node_termination_current_time_seconds",
    };
    fn find(cluster: &Cluster, key: &ObjectKey) -> Option<Arc<Self>> {
        cluster.node(&key.name)
    }
    fn of(change: &Change) -> Option<Cow<'_, Diff<Self>>> {
        if let Change::Node(diff) = change {
            Some(Cow::Borrowed(diff))
        } else {
            None
        }
    }
    fn reported_conditions(&self) -> Cow<'_, [Condition]> {
        let read = |one: &LeanCondition| {
            let status = match one.status.as_str() {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            let since = one.last_transition_time.as_ref();
            let since = since.or(self.metadata.creation_timestamp.as_ref());
            let since = since.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            Condition::new(&one.kind, status, &one.reason, &one.message, since)
        };
        self.status.conditions.iter().map(read).collect()
    }
    /// Kubelets write their Node every few minutes though nothing has changed.
    fn looks_like(&self, other: &Self) -> bool {
        let same = |(a, b): (&LeanCondition, &LeanCondition)| {
            (&a.kind, &a.status, &a.reason, &a.last_transition_time)
                == (&b.kind, &b.status, &b.reason, &b.last_transition_time)
        };
        let (a, b) = (&self.metadata, &other.metadata);
        a.uid == b.uid
            && a.deletion_timestamp == b.deletion_timestamp
            && a.finalizers == b.finalizers
            && a.labels == b.labels
            && self.status.conditions.len() == other.status.conditions.len()
            && self.status.conditions.iter().zip(&other.status.conditions).all(same)
    }
}

impl Reported for CapacityBuffer {
    const KIND: &'static str = "capacitybuffer";
    const CONTROLLER: &'static str = "operatorpkg.capacitybuffer.status";
    const IN_DEPRECATED_FAMILIES: bool = true;
    const GAUGES: GaugeNames = GaugeNames {
        count: "operator_capacitybuffer_status_condition_count",
        current: "operator_capacitybuffer_status_condition_current_status_seconds",
        going: "operator_capacitybuffer_termination_current_time_seconds",
    };
    fn find(cluster: &Cluster, key: &ObjectKey) -> Option<Arc<Self>> {
        cluster.capacity_buffer(&key.namespace, &key.name)
    }
    fn of(change: &Change) -> Option<Cow<'_, Diff<Self>>> {
        if let Change::Buffer(diff) = change {
            Some(Cow::Borrowed(diff))
        } else {
            None
        }
    }
    fn reported_conditions(&self) -> Cow<'_, [Condition]> {
        Cow::Borrowed(
            self.status
                .as_ref()
                .map(|status| status.conditions.as_slice())
                .unwrap_or_default(),
        )
    }
}

/// The reported fields of an EC2NodeClass, as an object of that kind (AWS-377).
fn reported_class(class: &NodeClass) -> Option<Arc<EC2NodeClass>> {
    if class.kind.group != ec2_node_class::GROUP || class.kind.kind != ec2_node_class::KIND {
        return None;
    }
    let mut object = EC2NodeClass::new(&class.name, Default::default());
    object.metadata.uid = Some(class.uid.clone());
    object.metadata.deletion_timestamp = class.reported.deleted.map(Time);
    object.metadata.finalizers = Some(class.reported.finalizers.clone());
    object.status.conditions = class.reported.conditions.clone();
    Some(Arc::new(object))
}

impl Reported for EC2NodeClass {
    const KIND: &'static str = "ec2nodeclass";
    const CONTROLLER: &'static str = "operatorpkg.ec2nodeclass.status";
    const IN_DEPRECATED_FAMILIES: bool = true;
    const GAUGES: GaugeNames = GaugeNames {
        count: "operator_ec2nodeclass_status_condition_count",
        current: "operator_ec2nodeclass_status_condition_current_status_seconds",
        going: "operator_ec2nodeclass_termination_current_time_seconds",
    };
    fn find(cluster: &Cluster, key: &ObjectKey) -> Option<Arc<Self>> {
        let reference = NodeClassRef {
            group: ec2_node_class::GROUP.to_owned(),
            kind: ec2_node_class::KIND.to_owned(),
            name: key.name.clone(),
        };
        reported_class(&*cluster.node_class(&reference)?)
    }
    fn of(change: &Change) -> Option<Cow<'_, Diff<Self>>> {
        let Change::Class(diff) = change else { return None };
        let side = |class: &Option<Arc<NodeClass>>| reported_class(class.as_deref()?);
        let (before, after) = (side(&diff.before), side(&diff.after));
        // A change of a class of another kind has neither.
        (before.is_some() || after.is_some()).then_some(Cow::Owned(Diff {
            name: diff.name().to_owned(),
            before,
            after,
            listed: diff.listed,
        }))
    }
    fn reported_conditions(&self) -> Cow<'_, [Condition]> {
        Cow::Borrowed(&self.status.conditions)
    }
}

/// The largest number of pairs of type and reason of a kind's conditions that get series of their own in counters and histograms, whose series
/// are never removed. Kubernetes, cloud providers and node-problem-detector write a few dozen; an agent may write any text.
const CONDITION_TEXTS_MAX: usize = 200;

/// `operatorpkg.<kind>.status`.
pub(crate) struct ConditionReport<K> {
    context: Context,
    work: WorkLoop<ObjectKey>,
    series: Series,
    families: Families,
    /// Types and reasons in counters.
    types_and_reasons: Capped<2>,
    /// Types in histograms.
    types: Capped<1>,
    /// Objects as last reported.
    known: Mutex<BTreeMap<ObjectKey, Arc<K>>>,
}

/// The metric families that show a kind.
struct Families {
    own: ConditionFamilies,
    /// The object's label behind each extra metric label of its own families, in order.
    extra: Vec<String>,
    /// The deprecated ones (OPS-172).
    deprecated: Option<ConditionFamilies>,
}

/// Six families about conditions and termination.
struct ConditionFamilies {
    names: GaugeNames,
    transition: Histogram,
    count: Gauge,
    current: Gauge,
    transitions: Counter,
    going: Gauge,
    gone: Histogram,
}

impl Families {
    fn new<K: Reported>(context: &Context) -> Self {
        let (own, metrics) = (status_conditions(K::KIND), &context.metrics);
        let deprecated = || ConditionFamilies {
            names: GaugeNames {
                count: &catalogue::STATUS_CONDITION_COUNT.name,
                current: &catalogue::STATUS_CURRENT_STATUS_SECONDS.name,
                going: &catalogue::TERMINATION_CURRENT_TIME.name,
            },
            transition: metrics.histogram(&catalogue::STATUS_TRANSITION_SECONDS),
            count: metrics.gauge(&catalogue::STATUS_CONDITION_COUNT),
            current: metrics.gauge(&catalogue::STATUS_CURRENT_STATUS_SECONDS),
            transitions: metrics.counter(&catalogue::STATUS_TRANSITIONS),
            going: metrics.gauge(&catalogue::TERMINATION_CURRENT_TIME),
            gone: metrics.histogram(&catalogue::TERMINATION_DURATION),
        };
        Self {
            extra: extra_labels(context, &own.termination_duration_seconds),
            own: ConditionFamilies {
                names: K::GAUGES,
                transition: metrics.histogram(&own.transition_seconds),
                count: metrics.gauge(&own.condition_count),
                current: metrics.gauge(&own.current_status_seconds),
                transitions: metrics.counter(&own.transitions_total),
                going: metrics.gauge(&own.termination_current_time_seconds),
                gone: metrics.histogram(&own.termination_duration_seconds),
            },
            deprecated: K::IN_DEPRECATED_FAMILIES.then(deprecated),
        }
    }

    /// The families, each with the labels that it has besides those about the condition.
    fn with_labels<K: Reported>(&self, object: &K) -> Vec<(&ConditionFamilies, Vec<String>)> {
        let labels = object.meta().labels.as_ref();
        let value = |key: &String| labels.and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
        let own = (&self.own, self.extra.iter().map(value).collect());
        let deprecated = self.deprecated.as_ref().map(|families| {
            let labels = vec![K::group(&()).into_owned(), K::kind(&()).into_owned()];
            (families, labels)
        });
        std::iter::once(own).chain(deprecated).collect()
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
            families: Families::new::<K>(context),
            types_and_reasons: Capped::new(CONDITION_TEXTS_MAX),
            types: Capped::new(CONDITION_TEXTS_MAX),
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
        for (key, object) in &*known {
            self.series.replace(&series_key(key), self.samples(key, object, now));
        }
    }

    fn report(&self, key: &ObjectKey) -> Outcome {
        let now = self.context.now();
        let object = K::find(&self.context.cluster, key);
        let before = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match &object {
                Some(object) => known.insert(key.clone(), Arc::clone(object)),
                None => known.remove(key),
            }
        };
        let same = |a: &K, b: &K| a.meta().uid == b.meta().uid;
        if let Some(before) = &before
            && object.as_ref().is_none_or(|object| !same(before, object))
        {
            self.gone(before, now);
        }
        let Some(object) = object else {
            self.series.remove(&series_key(key));
            return Outcome::Done;
        };
        let before = before.filter(|before| same(before, &object));
        self.changes(before.as_deref(), &object);
        Outcome::Done
    }

    fn changes(&self, before: Option<&K>, object: &K) {
        let families = self.families.with_labels(object);
        let (was, is) = (before.map(K::reported_conditions), object.reported_conditions());
        for Transition { from, to } in transitions(was.as_deref().unwrap_or_default(), &is) {
            let [kind, reason] = self.types_and_reasons.show([&to.type_, to.reason()]);
            let status = to.status.as_str();
            for (families, labels) in &families {
                families.transitions.inc(&with(&[kind, status, reason], labels));
            }
            // OPS-213
            let Some(from) = from else { continue };
            let lasted = seconds(from.transitioned(), to.transitioned());
            let [kind] = self.types.show([&to.type_]);
            for (families, labels) in &families {
                let labels = with(&[kind, from.status.as_str()], labels);
                families.transition.observe(&labels, lasted);
            }
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
        let took = seconds(deleted.0, now);
        for (families, labels) in self.families.with_labels(object) {
            families.gone.observe(&with(&[], &labels), took);
        }
    }

    fn publish(&self, object: &K, reason: String, message: String) {
        let Some(object) = ObjectRef::of(object) else { return };
        self.context.recorder.publish(Event {
            object,
            kind: EventType::Normal,
            reason: reason.into(),
            message,
            dedupe: Vec::new(),
            dedupe_timeout: None,
        });
    }

    fn samples(&self, key: &ObjectKey, object: &K, now: Timestamp) -> Vec<Sample> {
        let meta = object.meta();
        let own = |more: &[&str]| -> Vec<String> {
            let place = [key.namespace.clone(), key.name.clone()];
            place
                .into_iter()
                .chain(more.iter().map(|text| (*text).to_owned()))
                .collect()
        };
        let mut samples = Vec::new();
        for (families, labels) in self.families.with_labels(object) {
            let names = &families.names;
            let mut add = |gauge: &Gauge, family, own: Vec<String>, value| {
                samples.push(Sample {
                    gauge: gauge.clone(),
                    family,
                    labels: own.into_iter().chain(labels.iter().cloned()).collect(),
                    value,
                });
            };
            for condition in &*object.reported_conditions() {
                let own = own(&[&condition.type_, condition.status.as_str(), condition.reason()]);
                add(&families.count, names.count, own.clone(), 1.0);
                let lasts = seconds(condition.transitioned(), now);
                add(&families.current, names.current, own, lasts);
            }
            if let Some(deleted) = &meta.deletion_timestamp {
                add(&families.going, names.going, own(&[]), seconds(deleted.0, now));
            }
        }
        samples
    }
}

/// The key under which the series of an object are stored.
fn series_key(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

fn with<'a>(own: &[&'a str], extra: &'a [String]) -> Vec<&'a str> {
    own.iter().copied().chain(extra.iter().map(String::as_str)).collect()
}

impl<K: Reported> Reconciler for ConditionReport<K> {
    type Key = ObjectKey;

    fn work(&self) -> &WorkLoop<ObjectKey> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<ObjectKey> {
        let Some(diff) = K::of(change) else { return Vec::new() };
        if let (Some(before), Some(after)) = (&diff.before, &diff.after)
            && before.looks_like(after)
        {
            return Vec::new();
        }
        let meta = diff.last().map(|object| object.meta());
        let key = meta.and_then(|meta| {
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            Some(ObjectKey::new(namespace, meta.name.as_deref()?))
        });
        key.into_iter().collect()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        Ok(self.report(key))
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
