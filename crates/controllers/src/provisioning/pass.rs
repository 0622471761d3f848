//! One decision: what is to be placed, and how the solver is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_model::nodepool::Eligibility;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::options::{self, Options};
use kerf_runtime::{CancellationToken, ReconcileError};
use kerf_scheduler::{
    EffectiveZone, MinValuesPolicy, PinnedPlacements, PinnedRequest, PreferencePolicy, Prepared, Request, ReservedMode,
    WhatIf,
};
use tokio::time::Instant;

use super::planned::planned;
use crate::cluster::Cluster;
use crate::context::{Context, Tuning};
use crate::plan_check::violations;

/// The pods of a pass, pending ones first (SCH-031).
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) pods: Vec<Arc<Pod>>,
    /// How many of them are pending.
    pub(crate) pending: usize,
}

impl Batch {
    /// Keeps some of its pods, in the same order.
    pub(crate) fn narrow(&mut self, pods: Vec<Arc<Pod>>) {
        self.pending = pods.iter().filter(|pod| pod.node_name.is_none()).count();
        self.pods = pods;
    }
}

/// What a snapshot wants placed: pods that wait, and pods that have to move because their node goes (SCH-025). Those a claim was made
/// for already are left out.
pub(crate) fn batch(snapshot: &Snapshot, cluster: &Cluster, now: Timestamp) -> Batch {
    let mut pods = snapshot.pending.clone();
    let pending = pods.len();
    let going = snapshot.nodes.iter().filter(|node| node.marked_for_deletion);
    let moving = going.flat_map(|node| &node.pods);
    let moving = moving.filter(|pod| pod.node_name.is_some() && kerf_disruption::reschedulable_now(pod, snapshot, now));
    pods.extend(moving.filter(|pod| cluster.promised_to(pod).is_none()).cloned());
    Batch { pods, pending }
}

/// Whether any pool may get new nodes (SCH-049).
pub(crate) fn has_dynamic_pool(snapshot: &Snapshot) -> bool {
    snapshot
        .pools
        .iter()
        .any(|pool| pool.eligibility == Eligibility::Eligible)
}

/// How provisioning solves (SCH-050).
pub(crate) fn solver_options(options: &Options, tuning: &Tuning) -> kerf_scheduler::Options {
    kerf_scheduler::Options {
        preference_policy: match options.preference_policy {
            options::PreferencePolicy::Respect => PreferencePolicy::Respect,
            options::PreferencePolicy::Ignore => PreferencePolicy::Ignore,
        },
        min_values_policy: match options.min_values_policy {
            options::MinValuesPolicy::Strict => MinValuesPolicy::Strict,
            options::MinValuesPolicy::BestEffort => MinValuesPolicy::BestEffort,
        },
        reserved: match options.feature_gates.reserved_capacity {
            true => ReservedMode::Strict,
            false => ReservedMode::Off,
        },
        packing: tuning.packing,
        // SCH-004
        threads: options.simulation_workers(),
        ..kerf_scheduler::Options::default()
    }
}

/// What came of a pass.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) plan: Plan,
    /// The pods of the batch by the zone they can use (SCH-350).
    pub(crate) zones: BTreeMap<EffectiveZone, usize>,
}

/// Solves. What was read before is taken from the index, and what this pass reads left there; nothing is decided once the process stops.
pub(crate) async fn solve(
    context: &Context,
    snapshot: &Arc<Snapshot>,
    batch: &Batch,
    shutdown: &CancellationToken,
) -> Result<Option<Decision>, ReconcileError> {
    let options = solver_options(&context.options, &context.tuning);
    let began = Instant::now();
    let shutdown = shutdown.clone();
    let (snapshot, pods, index) = (Arc::clone(snapshot), batch.pods.clone(), context.index.clone());
    let (verify, deadline) = (context.tuning.verify, context.tuning.deadline);
    let planned = context.cluster.with_times(|times| planned(&snapshot, &pods, times));
    let work = move || {
        let stop = || began.elapsed() >= deadline || shutdown.is_cancelled();
        let prepared = index.read(&snapshot, &options);
        let request = Request::new(&snapshot, &pods);
        let what_if = WhatIf::from(&request);
        let zones = prepared.effective_zones(&what_if, &options);
        let mut plan = prepared.solve(&what_if, &options, &stop);
        if verify && !stop() {
            report_difference(&request, &plan, &options);
        }
        if (!plan.launches.is_empty() || plan.left_over() > 0)
            && let Some(other) = held_plan(&prepared, &snapshot, &pods, &planned, &options, &stop)
            && other.is_better_than(&plan)
            && violations(&snapshot, &pods, &other, &options).is_empty()
        {
            plan = other;
        }
        if verify {
            // The plan is carried out all the same: kube-scheduler has the last word on every placement.
            for violation in violations(&snapshot, &pods, &plan, &options) {
                tracing::error!(%violation, "plan breaks a rule");
            }
        }
        (!shutdown.is_cancelled()).then_some(Decision { plan, zones })
    };
    context.compute(work).await
}

/// The plan that leaves pods where the passes before put them, if they put any on machines on their way.
fn held_plan(
    prepared: &Prepared,
    snapshot: &Snapshot,
    pods: &[Arc<Pod>],
    planned: &PinnedPlacements,
    options: &kerf_scheduler::Options,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Plan> {
    let held = PinnedRequest::new(snapshot, pods, planned)?;
    let request = Request::new(&held.snapshot, &held.rest);
    let plan = prepared
        .next(&held.snapshot, options)
        .solve(&WhatIf::from(&request), options, stop);
    Some(held.complete(plan))
}

/// Judges what was taken over from earlier passes: a fresh reading has to give the same plan. A difference is a bug of the solver.
fn report_difference(request: &Request<'_>, plan: &Plan, options: &kerf_scheduler::Options) {
    if kerf_scheduler::solve(request, options, &|| false) != *plan {
        tracing::error!("plan differs from that of a fresh reading");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Watched;
    use crate::provisioning::record;
    use kerf_model::plan::Unschedulable;
    use kerf_runtime::metrics::catalogue;
    use kerf_state::lean::LeanPod;
    use kerf_state::{Conventions, Converter, Placed, PodTimes};
    use serde_json::json;

    // SCH-050
    #[test]
    fn provisioning_is_strict_about_reservations_and_follows_the_policies() {
        let mut options = Options::default();
        let of = |options: &Options| solver_options(options, &Tuning::default());
        let plain = of(&options);
        assert_eq!(
            (plain.reserved, plain.min_values_policy, plain.preference_policy),
            (ReservedMode::Strict, MinValuesPolicy::Strict, PreferencePolicy::Respect)
        );
        options.min_values_policy = options::MinValuesPolicy::BestEffort;
        options.preference_policy = options::PreferencePolicy::Ignore;
        options.cpu_requests = 3500;
        let other = of(&options);
        assert_eq!(
            (
                other.reserved,
                other.min_values_policy,
                other.preference_policy,
                other.threads
            ),
            (
                ReservedMode::Strict,
                MinValuesPolicy::BestEffort,
                PreferencePolicy::Ignore,
                4
            )
        );
        options.feature_gates.reserved_capacity = false;
        assert_eq!(of(&options).reserved, ReservedMode::Off);
    }

    // SCH-048: the one thing that ends a pass besides the deadline is the end of the process; then nothing is decided.
    #[tokio::test(start_paused = true)]
    async fn a_pass_that_is_cut_off_decides_nothing() {
        let context = Context::without_api();
        let snapshot = context.cluster.snapshot(Timestamp::UNIX_EPOCH);
        let batch = Batch {
            pods: Vec::new(),
            pending: 0,
        };
        let shutdown = CancellationToken::new();
        let decided = async || {
            solve(&context, &snapshot, &batch, &shutdown)
                .await
                .expect("no error")
                .is_some()
        };
        assert!(decided().await);
        shutdown.cancel();
        assert!(!decided().await);
    }

    // SCH-484
    #[tokio::test]
    async fn a_deferred_pod_counts_as_decided_and_as_without_a_place() {
        let context = Context::without_api();
        let mut converter = Converter::new(Arc::clone(&context.interner), &Conventions::default());
        let mut deferred = |name: &str, is_there: bool| {
            let pod =
                json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": []}});
            let pod: LeanPod = serde_json::from_value(pod).expect("a pod");
            let converted = Arc::new(converter.pod(&pod).pod);
            if is_there {
                context.cluster.tell(Watched::apply(&context.cluster, pod));
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
        };
        let decide = |times: &mut PodTimes| times.decide("default", "placed-before", Some(placed), seen);
        context.cluster.note_times(&pod("placed-before"), decide);
        record::record(&context, &snapshot, &plan, seen + jiff::SignedDuration::from_secs(3));
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
        assert!(gauge.get(&[record::CONTROLLER]) < 1.0);
    }
}
