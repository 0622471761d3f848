//! Measures how much more plans cost than the lower bound of their cost. Passes do not wait for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_decide::Provision;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kerf_scheduler::{Request, cost_bound_of_kinds, cost_gap};
use tokio::time::Instant;

use crate::changes::Change;
use crate::context::Context;
use crate::decision_inputs::decision_settings;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "provisioner.gap";
/// The least time between two measurements, so that they take a small part of the processor time.
const MEASURE_EVERY: Duration = Duration::from_secs(5 * 60);
/// The most kinds of pods with different requests in a plan that is measured. The time grows faster than their number: 200 kinds take 2.4 s
/// with EC2's instance types.
const KINDS_MAX: usize = 50;

/// Measures the last plan that launches nodes, at most once in five minutes.
pub(crate) struct PlanGap {
    context: Context,
    work: WorkLoop<()>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    plan: Option<(Arc<Snapshot>, Provision)>,
    not_before: Option<Instant>,
}

impl PlanGap {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, NAME, RateLimit::DEFAULT),
            context: context.clone(),
            waiting: Mutex::default(),
        })
    }

    /// Measures a decision soon, unless another one replaces it before.
    pub(crate) fn measure(&self, snapshot: &Arc<Snapshot>, decision: Provision) {
        let launches = decision.plan.as_ref().is_ok_and(|plan| !plan.launches.is_empty());
        if launches && !self.context.options.disable_cluster_state_observability {
            self.waiting().plan = Some((Arc::clone(snapshot), decision));
            self.work.add(());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconciler for PlanGap {
    type Key = ();

    fn work(&self) -> &WorkLoop<()> {
        &self.work
    }

    fn keys_of(&self, _change: &Change) -> Vec<()> {
        Vec::new()
    }

    async fn reconcile(&self, _key: &()) -> Result<Outcome, ReconcileError> {
        let now = Instant::now();
        let (snapshot, decision) = {
            let mut waiting = self.waiting();
            let left = waiting.not_before.map(|until| until.saturating_duration_since(now));
            // A key with a delay of zero would be handed out again at once.
            if let Some(left) = left.filter(|left| !left.is_zero()) {
                return Ok(Outcome::RequeueAfter(left));
            }
            let Some(plan) = waiting.plan.take() else {
                return Ok(Outcome::Done);
            };
            waiting.not_before = Some(now + MEASURE_EVERY);
            plan
        };
        let solver = decision_settings(&self.context.options, &self.context.tuning).solver;
        let work = move || {
            let plan = decision.plan.ok()?;
            let request = Request::new(&snapshot, &decision.batch.pods);
            cost_gap(cost_bound_of_kinds(&request, &solver, &plan, KINDS_MAX)?, &plan)
        };
        let gauge = self.context.metrics.gauge(&catalogue::PLAN_GAP);
        match self.context.compute(work).await? {
            Some(gap) => gauge.set(&[], gap),
            // The gap of an earlier plan says nothing about this one.
            None => gauge.remove(&[]),
        }
        Ok(Outcome::Done)
    }
}
