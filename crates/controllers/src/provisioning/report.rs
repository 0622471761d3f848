//! Reports what a pass decided: events, nominations, metrics and log lines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kerf_decide::{Batch, Provision};
use kerf_model::instance_type::InstanceType;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::plan::{Cause, Plan};
use kerf_model::pod::{Pod, PodFault};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::catalogue;
use kerf_scheduler::{EffectiveZone, Nominees};
use kerf_state::{Placed, PodTimes};

use super::{events, relaxation_log};
use crate::context::Context;
use crate::creation::create::listed;
use crate::protection_events::protection_event;

/// The `controller` label of provisioning passes (SCH-352).
pub(crate) const CONTROLLER: &str = "provisioner";
/// How many pods a log line names.
const PODS_NAMED: usize = 5;

/// How long pods placed on a node keep disruption away from it (SCH-072).
pub(crate) fn nomination(batch_max: Duration) -> Duration {
    (batch_max * 2).max(Duration::from_secs(10))
}

/// Records a plan, except its claims, which are recorded one by one as they are created.
pub(crate) fn record(context: &Context, snapshot: &Snapshot, plan: &Plan, now: Timestamp) {
    ignored(context, plan, now);
    relaxation_log::relaxed(plan, &snapshot.interner);
    refused(context, plan, now);
    placed(context, snapshot, plan, now);
    for (name, min_values) in &plan.empty_pools {
        if let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == *name) {
            context
                .recorder
                .publish(events::no_compatible_instance_types(pool, *min_values));
        }
    }
    let nominees = Nominees::of(plan, context.nominated_pods_max());
    for launch in &plan.launches {
        let healthy = is_healthy(snapshot.pools.iter().find(|pool| pool.name == launch.pool));
        for pod in launch.pods.iter().filter(|pod| pod.node_name.is_none()) {
            decide(
                context,
                pod,
                Some(Placed {
                    healthy_pool: healthy,
                    claim: None,
                    nominated: nominees.contain(pod),
                }),
                now,
            );
        }
    }
    if !plan.launches.is_empty() {
        tracing::info!(
            nodeclaims = plan.launches.len(),
            pods = plan.launched_pods(),
            "hourly-price" = plan.price().per_hour(),
            "computed new nodeclaim(s) to fit pod(s)"
        );
        let placed = plan.placed_pods();
        if placed > 0 {
            tracing::info!(
                nodes = plan.existing.len(),
                pods = placed,
                "computed unready node(s) will fit pod(s)"
            );
        }
    }
}

/// Records when untried pods that joined a pass were first seen (SCH-034).
pub(crate) fn acknowledge(context: &Context, pods: &[Arc<Pod>], now: Timestamp) {
    for pod in pods {
        let seen = |times: &mut PodTimes| times.acknowledge(&pod.namespace, &pod.name, now);
        context.cluster.note_times(pod, seen);
    }
}

/// Logs the pods that a pass plans (SCH-354).
pub(crate) fn found(pods: &[Arc<Pod>], took: Duration) {
    tracing::info!(Pods = %named(pods), duration = ?took, "found provisionable pod(s)");
}

/// The first pods by name, and how many others there are.
fn named(pods: &[Arc<Pod>]) -> String {
    let names: Vec<String> = pods.iter().take(PODS_NAMED).map(|pod| pod.key()).collect();
    match pods.len().saturating_sub(names.len()) {
        0 => listed(&names, PODS_NAMED),
        rest => format!("{} and {rest} other(s)", names.join(", ")),
    }
}

/// Publishes events about do-not-disrupt annotations of pods on nodes that go (SCH-027, SCH-028).
pub(crate) fn protections(context: &Context, snapshot: &Snapshot, now: Timestamp) {
    let going = snapshot.nodes.iter().filter(|node| node.marked_for_deletion);
    let pods = going.flat_map(|node| &node.pods);
    for pod in pods.filter(|pod| kerf_disruption::reschedulable(pod)) {
        if let Some(event) = protection_event(pod, now) {
            context.recorder.publish(event);
        }
    }
}

/// Shows how many pods wait while a pass is computed (SCH-346). Clears the gauges about the pods of the last pass (OPS-252).
pub(crate) fn solving(context: &Context, id: &str, pending: usize) {
    let depth = context.metrics.gauge(&catalogue::SCHEDULER_QUEUE_DEPTH);
    // Only this loop has series of this family with this controller, so all older ones are removed.
    depth.clear();
    depth.set(&[CONTROLLER, id], pending as f64);
    for of_last_pass in [
        &catalogue::SCHEDULER_UNSCHEDULABLE_PODS,
        &catalogue::SCHEDULER_PENDING_PODS_BY_ZONE,
    ] {
        context.metrics.gauge(of_last_pass).clear();
    }
}

/// Measures a pass (SCH-345 to SCH-347): how many pods it was about, how long it took, and how many it did not reach.
pub(crate) fn solved(context: &Context, id: &str, batch: &Batch, plan: &Plan, took: Duration) {
    let deleting = batch.pods.len() - batch.pending;
    tracing::debug!(
        "pending-pods" = batch.pending,
        "deleting-pods" = deleting,
        "computing scheduling decision for provisionable pod(s)"
    );
    let took = took.as_secs_f64();
    let durations = context.metrics.histogram(&catalogue::SCHEDULING_DURATION);
    durations.observe(&[CONTROLLER], took);
    let depth = context.metrics.gauge(&catalogue::SCHEDULER_QUEUE_DEPTH);
    let left = plan.unattempted.len();
    depth.set(&[CONTROLLER, id], left as f64);
    if left > 0 {
        tracing::debug!(duration = took, "scheduling-id" = id, "scheduling simulation timed out");
    }
}

/// Logs the plan checker's objections, and a plan that a solver without memory would not make. Both are bugs of the solver.
pub(crate) fn faults(decision: &Provision) {
    for violation in &decision.violations {
        tracing::error!(%violation, "plan breaks a rule");
    }
    if decision.differs {
        tracing::error!("plan differs from that of a fresh reading");
    }
}

/// Counts the pods of the last solve by the zones they can use (SCH-350).
pub(crate) fn zones(context: &Context, zones: &BTreeMap<EffectiveZone, usize>) {
    let gauge = context.metrics.gauge(&catalogue::SCHEDULER_PENDING_PODS_BY_ZONE);
    gauge.clear();
    for (zone, count) in zones {
        gauge.set(&[CONTROLLER, zone.label()], *count as f64);
    }
}

/// Logs how many types the limits of each pool exclude by themselves (SCH-355).
pub(crate) fn breached_limits(snapshot: &Snapshot) {
    for pool in snapshot
        .pools
        .iter()
        .filter(|pool| pool.eligibility == Eligibility::Eligible)
    {
        let Ok(catalogue) = &pool.catalogue else {
            continue;
        };
        let breaches = |kind: &&InstanceType| pool.exceeded_limit(&kind.capacity).is_some();
        let excluded = catalogue.types.iter().filter(breaches).count();
        if excluded > 0 {
            tracing::debug!(
                NodePool = %pool.name,
                "instance-types-excluded" = excluded,
                "instance-types-total" = catalogue.types.len(),
                "instance types were excluded because they would breach limits"
            );
        }
    }
}

/// Logs that there is no pool to launch from (SCH-049). No event is published (SCH-339).
pub(crate) fn no_pools(context: &Context, pods: &[Arc<Pod>], now: Timestamp) {
    tracing::info!("no dynamic nodepools found");
    for pod in pods.iter().filter(|pod| pod.node_name.is_none() && !pod.is_virtual()) {
        decide(context, pod, None, now);
    }
}

/// Logs pods that are invalid and therefore not planned (SCH-014, SCH-015).
fn ignored(context: &Context, plan: &Plan, now: Timestamp) {
    let gauge = context.metrics.gauge(&catalogue::SCHEDULER_IGNORED_PODS);
    gauge.set(&[], plan.ignored.len() as f64);
    for (pod, faults) in &plan.ignored {
        let reasons: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let reasons = reasons.join("; ");
        tracing::debug!(Pod = %pod.key(), reasons, "ignoring pod");
        decide(context, pod, None, now);
        if !faults.contains(&PodFault::OptedOut) {
            context.recorder.publish(events::failed_scheduling(pod, &reasons));
        }
    }
}

/// Publishes, logs and counts the pods without a place (SCH-340, SCH-344, SCH-349, SCH-356).
fn refused(context: &Context, plan: &Plan, now: Timestamp) {
    let failed = || plan.unschedulable.iter().filter(|one| !one.deferred);
    let gauge = context.metrics.gauge(&catalogue::SCHEDULER_UNSCHEDULABLE_PODS);
    gauge.set(&[CONTROLLER], failed().count() as f64);
    for one in &plan.unschedulable {
        if one.pod.node_name.is_none() {
            decide(context, &one.pod, None, now);
        }
    }
    let deferred = plan.unschedulable.iter().filter(|one| one.deferred);
    let deferred: Vec<Arc<Pod>> = deferred.map(|one| Arc::clone(&one.pod)).collect();
    if !deferred.is_empty() {
        // SCH-298
        tracing::debug!(Pods = %named(&deferred), "deferring pod(s) until reserved capacity is known");
    }
    for one in failed() {
        let message = one.message();
        let waits_for_reservation = one
            .refusals
            .iter()
            .any(|refusal| matches!(refusal.cause, Cause::ReservationUnavailable | Cause::ReservationLost));
        if !waits_for_reservation {
            tracing::error!(Pod = %one.pod.key(), error = %message, "could not schedule pod");
        }
        context.recorder.publish(events::failed_scheduling(&one.pod, &message));
    }
}

/// Nominates the existing nodes that pods were placed on, and publishes it on the pods (SCH-072, SCH-328).
pub(crate) fn placed(context: &Context, snapshot: &Snapshot, plan: &Plan, now: Timestamp) {
    let hold = nomination(context.options.batch_max_duration);
    let until = now
        .saturating_add(SignedDuration::try_from(hold).unwrap_or(SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX);
    let nominees = Nominees::of(plan, context.nominated_pods_max());
    for placement in &plan.existing {
        let Some(node) = snapshot.node(&placement.node) else {
            continue;
        };
        context.cluster.nominate(&placement.node, until);
        let pool = node
            .pool
            .and_then(|label| snapshot.pools.iter().find(|pool| pool.label == label));
        for pod in &placement.pods {
            context.recorder.publish(events::nominated(
                pod,
                node.claim_name.as_deref(),
                node.node_name.as_deref(),
            ));
            if pod.node_name.is_none() {
                let placed = Placed {
                    healthy_pool: is_healthy(pool),
                    claim: node.claim_name.clone(),
                    nominated: nominees.contain(pod),
                };
                decide(context, pod, Some(placed), now);
            } else if let Some(claim) = &node.claim_name {
                let planned = |times: &mut PodTimes| times.planned_onto(&pod.namespace, &pod.name, claim);
                context.cluster.note_times(pod, planned);
            }
        }
    }
}

fn is_healthy(pool: Option<&Arc<NodePool>>) -> bool {
    pool.is_some_and(|pool| pool.registration_healthy == Some(true))
}

/// SCH-078 to SCH-081; only for pods that are not bound.
fn decide(context: &Context, pod: &Pod, placed: Option<Placed>, now: Timestamp) {
    let decide = |times: &mut PodTimes| times.decide(&pod.namespace, &pod.name, placed, now);
    if let Some(took) = context.cluster.note_times(pod, decide).flatten() {
        let histogram = context.metrics.histogram(&catalogue::PODS_SCHEDULING_DECISION_DURATION);
        histogram.observe(&[], took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use kerf_model::plan::{Launch, Placement, Unschedulable};
    use kerf_sandbox::CapturedLog;
    use kerf_state::lean::{LeanNode, LeanPod};
    use kerf_state::{Conventions, Converter};
    use kerf_testkit::objects;
    use serde_json::json;

    use super::*;
    use crate::cluster::Watched;

    // SCH-072, LIF-200
    #[test]
    fn a_nomination_lasts_two_windows_and_ten_seconds_at_least() {
        for (batch_max, lasts) in [(10, 20), (1, 10), (300, 600)] {
            let nominated = nomination(Duration::from_secs(batch_max));
            assert_eq!(nominated, Duration::from_secs(lasts), "{batch_max} s");
        }
    }

    // SCH-081
    #[tokio::test]
    async fn bound_and_virtual_pods_get_no_success_times() {
        let context = Context::without_api();
        let mut converter = Converter::new(Arc::clone(&context.interner), &Conventions::default());
        let node =
            json!({"metadata": {"name": "n", "uid": "n", "resourceVersion": "1"}, "spec": {"providerID": "p://n"}});
        let node: LeanNode = serde_json::from_value(node).expect("a node");
        context.cluster.notify(Watched::apply(&context.cluster, node));
        let mut pod = |name: String, node: &str| {
            let mut pod = objects::stored("default", objects::pod(&name, "1"));
            pod["spec"]["nodeName"] = json!(node);
            let pod: LeanPod = serde_json::from_value(pod).expect("a pod");
            let converted = converter.pod(&pod).expect("a name").pod;
            context.cluster.notify(Watched::apply(&context.cluster, pod));
            converted
        };
        let mut pods = |place: &str| {
            let mut virtual_pod = pod(format!("virtual-{place}"), "");
            virtual_pod.capacity_buffer = Some("default/buffer".into());
            let real = [pod(format!("new-{place}"), ""), pod(format!("bound-{place}"), "n")];
            real.into_iter().chain([virtual_pod]).map(Arc::new).collect::<Vec<_>>()
        };
        let pool = json!({"metadata": {"name": "web", "uid": "web"}, "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}});
        let pool = serde_json::from_value(pool).expect("a pool");
        let mut converter = Converter::new(Arc::clone(&context.interner), &Conventions::default());
        let mut launch = Launch::of_template(&Arc::new(converter.pool(&pool, true).expect("a name").pool));
        launch.pods = pods("launch");
        let now = Timestamp::UNIX_EPOCH;
        let snapshot = context.cluster.snapshot(now);
        let existing = Placement {
            node: Arc::clone(&snapshot.nodes.first().expect("the node").name),
            pods: pods("node"),
        };
        let refused = |pod| Unschedulable {
            pod,
            refusals: [].into(),
            deferred: false,
        };
        let plan = Plan {
            launches: vec![launch],
            existing: vec![existing],
            unschedulable: pods("nowhere").into_iter().map(refused).collect(),
            ..Plan::default()
        };
        record(&context, &snapshot, &plan.without_virtual_pods(), now);
        no_pools(&context, &pods("late"), now);
        let times = |name: &str| context.cluster.with_times(|times| times.get("default", name).cloned());
        for place in ["launch", "node"] {
            let new = times(&format!("new-{place}")).expect("it has times");
            assert_eq!((new.decided, new.schedulable), (Some(now), Some(now)), "{place}");
        }
        for place in ["nowhere", "late"] {
            let new = times(&format!("new-{place}")).expect("it has times");
            assert_eq!((new.decided, new.schedulable), (Some(now), None), "{place}");
        }
        for place in ["launch", "node", "nowhere", "late"] {
            let bound = times(&format!("bound-{place}")).unwrap_or_default();
            assert_eq!(
                (bound.decided, bound.schedulable, bound.healthy),
                (None, None, None),
                "{place}"
            );
            assert_eq!(times(&format!("virtual-{place}")), None, "{place}");
        }
    }

    #[tokio::test]
    async fn a_pass_says_what_waiting_nodes_hold_and_that_its_time_was_up() {
        let context = Context::without_api();
        let class = json!({"group": "g", "kind": "k", "name": "n"});
        let pool = json!({"metadata": {"name": "web", "uid": "web"}, "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}}});
        let pool: kerf_api::NodePool = serde_json::from_value(pool).expect("a pool");
        let mut converter = Converter::new(Arc::clone(&context.interner), &Conventions::default());
        let launch = Launch::of_template(&converter.pool(&pool, true).expect("a name").pool);
        let pods: Vec<Arc<Pod>> = ["a", "b"].map(|name| Arc::new(Pod::new("default", name))).into();
        let on_waiting_nodes = vec![Placement {
            node: "starting".into(),
            pods: pods.clone(),
        }];
        let plan = |launches: Vec<Launch>| Plan {
            existing: on_waiting_nodes.clone(),
            launches,
            unattempted: pods.clone(),
            ..Plan::default()
        };
        let (log, now) = (CapturedLog::start(), Timestamp::UNIX_EPOCH);
        let snapshot = context.cluster.snapshot(now);
        record(&context, &snapshot, &plan(Vec::new()), now);
        let told = || log.lines("computed unready node(s) will fit pod(s)");
        assert_eq!(told().len(), 0, "nothing is launched");
        record(&context, &snapshot, &plan(vec![launch]), now);
        let told = told();
        assert_eq!(told.len(), 1);
        assert_eq!(
            (&told[0]["level"], &told[0]["nodes"], &told[0]["pods"]),
            (&json!("INFO"), &json!(1), &json!(2))
        );
        let batch = Batch {
            pods: pods.clone(),
            pending: 2,
        };
        solved(&context, "id-1", &batch, &plan(Vec::new()), Duration::from_secs(60));
        let cut_short = log.lines("scheduling simulation timed out");
        assert_eq!(cut_short.len(), 1);
        assert_eq!(
            (&cut_short[0]["level"], &cut_short[0]["scheduling-id"]),
            (&json!("DEBUG"), &json!("id-1"))
        );
        assert!(!cut_short[0]["duration"].is_null());
    }

    // OPS-252
    #[tokio::test]
    async fn what_the_last_pass_left_over_is_absent_while_the_next_is_computed() {
        let context = Context::without_api();
        let series = || {
            let metrics = context.metrics.encode();
            let of_passes = ["unschedulable_pods_count{", "pending_pods_by_effective_zone_count{"];
            let is_one = |line: &&str| of_passes.iter().any(|family| line.contains(family));
            metrics.lines().filter(is_one).map(str::to_owned).collect::<Vec<_>>()
        };
        let now = Timestamp::UNIX_EPOCH;
        record(&context, &context.cluster.snapshot(now), &Plan::default(), now);
        zones(&context, &[(EffectiveZone::Flexible, 2)].into());
        let shown = series();
        assert_eq!(shown.len(), 2, "{shown:?}");
        assert!(
            shown.iter().all(|line| line.contains("controller=\"provisioner\"")),
            "{shown:?}"
        );
        solving(&context, "id", 3);
        assert_eq!(series(), [""; 0]);
    }

    // SCH-484
    #[tokio::test]
    async fn a_deferred_pod_counts_as_decided_and_as_without_a_place() {
        let context = Context::without_api();
        let mut converter = Converter::new(Arc::clone(&context.interner), &Conventions::default());
        let mut deferred = |name: &str, is_there: bool| {
            let pod = objects::stored("default", objects::pod(name, "1"));
            let pod: LeanPod = serde_json::from_value(pod).expect("a pod");
            let converted = Arc::new(converter.pod(&pod).expect("a name").pod);
            if is_there {
                context.cluster.notify(Watched::apply(&context.cluster, pod));
            }
            Unschedulable {
                pod: converted,
                refusals: [].into(),
                deferred: true,
            }
        };
        let plan = Plan {
            unschedulable: vec![
                deferred("new", true),
                deferred("placed-before", true),
                deferred("gone", false),
            ],
            ..Plan::default()
        };
        let seen = Timestamp::UNIX_EPOCH;
        let snapshot = context.cluster.snapshot(seen);
        let pod = |name: &str| context.cluster.pod("default", name).expect("it is known");
        let acknowledge = |times: &mut PodTimes| times.acknowledge("default", "new", seen);
        context.cluster.note_times(&pod("new"), acknowledge);
        let placed = Placed {
            healthy_pool: true,
            claim: Some("claim".into()),
            nominated: false,
        };
        let decide = |times: &mut PodTimes| times.decide("default", "placed-before", Some(placed), seen);
        context.cluster.note_times(&pod("placed-before"), decide);
        let log = CapturedLog::start();
        record(&context, &snapshot, &plan, seen + jiff::SignedDuration::from_secs(3));
        // SCH-355
        let told = log.lines("deferring pod(s) until reserved capacity is known");
        assert_eq!(told.len(), 1, "{:?}", log.all());
        assert_eq!(
            (&told[0]["level"], &told[0]["Pods"]),
            (
                &json!("DEBUG"),
                &json!("default/new, default/placed-before, default/gone")
            )
        );
        let histogram = context.metrics.histogram(&catalogue::PODS_SCHEDULING_DECISION_DURATION);
        assert_eq!(histogram.count(&[]), 1);
        let of = |name: &str| context.cluster.with_times(|times| times.get("default", name).cloned());
        let before = of("placed-before").expect("known");
        assert_eq!((before.schedulable, before.healthy, before.claim), (None, None, None));
        assert_eq!(
            of("new").and_then(|time| time.decided),
            Some(seen + jiff::SignedDuration::from_secs(3))
        );
        assert_eq!(of("gone"), None, "nobody would forget it again");
        // It is no failure otherwise.
        let gauge = context.metrics.gauge(&catalogue::SCHEDULER_UNSCHEDULABLE_PODS);
        assert!(gauge.get(&[CONTROLLER]) < 1.0);
    }
}
