//! Reporting of what rounds of disruption found: events, metrics and log lines (section 12 of `docs/behaviour/disruption.md`).

use kerf_decide::{Evaluation, Method, SortedNodes, Validation};
use kerf_disruption::{Allowance, Command, Invalid, Judgement, UnconsolidatableNode, dollars};
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{Event, ObjectRef};

use super::events;
use crate::context::Context;
use crate::decision_inputs::DecisionInputs;
use crate::protection_events::protection_event;

/// The value of the gauge where no budget limits (DIS-071).
const NO_LIMIT: u32 = i32::MAX.unsigned_abs();

/// Reports the evaluation of a method. A search that the shutdown ended did not time out.
pub(super) fn evaluation(context: &Context, inputs: &DecisionInputs, evaluation: &Evaluation, shuts_down: bool) {
    let (method, snapshot) = (evaluation.method, &inputs.snapshot);
    sorted(context, inputs, &evaluation.sorted);
    staying(context, snapshot, method, &evaluation.staying);
    let eligible = context.metrics.gauge(&catalogue::DISRUPTION_ELIGIBLE_NODES);
    eligible.set(&[method.reason().label()], evaluation.eligible as f64);
    if let Some(of_pools) = &evaluation.allowance {
        allowance(context, method, of_pools);
    }
    refused_plans(method, &evaluation.refused_plans);
    if !evaluation.first_pools.is_empty() {
        let pools: Vec<&str> = evaluation.first_pools.iter().map(|pool| &**pool).collect();
        tracing::debug!(
            nodepools = pools.join(", "),
            "prioritizing nodepools that have not yet been considered due to timeouts in previous runs"
        );
    }
    if let Some(until) = evaluation.paused_until {
        tracing::debug!(
            method = method.name(),
            %until,
            "consolidation waits until the pods it moved have settled"
        );
    }
    if evaluation.timed_out && !shuts_down {
        timeout(context, evaluation);
    }
    for one in &evaluation.judgements {
        judgement(context, one);
    }
    for (command, judgement) in evaluation.commands.iter().zip(&evaluation.approvals) {
        approval(context, snapshot, method, command, judgement);
    }
}

/// Logs the plan checker's objections.
fn refused_plans(method: Method, objections: &[String]) {
    for violations in objections {
        tracing::error!(
            violations,
            method = method.name(),
            "a plan breaks a rule and is not carried out"
        );
    }
}

/// Reports that a search ran out of time (DIS-163, DIS-176).
fn timeout(context: &Context, evaluation: &Evaluation) {
    let timeouts = context.metrics.counter(&catalogue::DISRUPTION_CONSOLIDATION_TIMEOUTS);
    timeouts.inc(&[evaluation.method.consolidation_type()]);
    match evaluation.method {
        Method::MultiNodeConsolidation => tracing::debug!(
            candidates = evaluation.eligible,
            "the search for nodes that go together ran out of time"
        ),
        _ => tracing::debug!(
            evaluated = evaluation.evaluated,
            "abandoning single-node consolidation due to timeout"
        ),
    }
}

/// Reports the blockers of nodes and the protections of pods (DIS-031, DIS-053).
pub(super) fn sorted(context: &Context, inputs: &DecisionInputs, sorted: &SortedNodes) {
    let blocked = sorted.candidates.blocked.iter();
    for (index, blocker) in blocked.filter(|(_, blocker)| blocker.is_event()) {
        node(context, &inputs.snapshot, *index, || blocker.message(), events::blocked);
    }
    let annotated = sorted.annotated.iter();
    for event in annotated.filter_map(|pod| protection_event(pod, inputs.now)) {
        context.recorder.publish(event);
    }
}

/// Reports why candidates stay (DIS-116, DIS-150, DIS-241).
fn staying(context: &Context, snapshot: &Snapshot, method: Method, staying: &[UnconsolidatableNode]) {
    for staying in staying {
        let event = match method {
            Method::StaticDrift | Method::Drift => events::blocked,
            Method::Emptiness => events::unconsolidatable,
            Method::MultiNodeConsolidation | Method::SingleNodeConsolidation if staying.why.is_event() => {
                events::unconsolidatable
            }
            Method::MultiNodeConsolidation | Method::SingleNodeConsolidation => continue,
        };
        node(context, snapshot, staying.index, || staying.why.message(), event);
    }
}

/// Publishes an event on the Node and the NodeClaim of a machine, unless the same one was published lately.
fn node(
    context: &Context,
    snapshot: &Snapshot,
    index: usize,
    message: impl Fn() -> String,
    event: fn(ObjectRef, String) -> Event,
) {
    let Some(node) = snapshot.nodes.get(index) else { return };
    let recorder = &context.recorder;
    for object in events::objects(context, node) {
        let mut event = event(object, String::new());
        // Most nodes have the same obstacle as ten seconds ago, so the message is rendered only if the event is due.
        if recorder.is_due(&event) {
            event.message = message();
            recorder.publish(event);
        }
    }
}

/// Reports what budgets allow (DIS-084, DIS-085).
fn allowance(context: &Context, method: Method, allowance: &Allowance) {
    let allowed = context.metrics.gauge(&catalogue::NODEPOOLS_ALLOWED_DISRUPTIONS);
    let consumed = context.metrics.gauge(&catalogue::NODEPOOLS_NODES_CONSUMING_BUDGETS);
    for pool in allowance.pools() {
        let labels = [&*pool.pool, method.reason().as_str()];
        allowed.set(&labels, f64::from(pool.allowed.min(NO_LIMIT)));
        consumed.set(&labels, f64::from(pool.consumed));
        if pool.is_closed() {
            context.recorder.publish(events::budget_closed(pool, method.reason()));
        }
    }
}

/// Publishes how a Balanced pool's savings compare with the disruption (DIS-210 to DIS-214).
fn judgement(context: &Context, judgement: &Judgement) {
    let moves = context.metrics.counter(&catalogue::CONSOLIDATION_MOVES);
    let scores = context.metrics.histogram(&catalogue::CONSOLIDATION_SCORE);
    let word = |approved| if approved { "approved" } else { "rejected" };
    for verdict in &judgement.by_pool {
        let policy = verdict.policy.as_str();
        moves.inc(&[word(judgement.approved()), &verdict.pool, policy]);
        let Some(score) = &verdict.score else { continue };
        scores.observe(&[word(score.approved), &verdict.pool, policy], score.value);
        tracing::debug!(
            nodepool = &*verdict.pool,
            score = score.value,
            savings_fraction = score.savings_fraction(),
            disruption_fraction = score.disruption_fraction(),
            savings = score.savings.per_hour(),
            disruption_cost = score.disruption.as_pods(),
            nodepool_total_cost = score.totals.price.per_hour(),
            nodepool_total_disruption_cost = score.totals.disruption.as_pods(),
            threshold = 1.0 / f64::from(kerf_disruption::SCORE_DIVISOR),
            k = kerf_disruption::SCORE_DIVISOR,
            approved = score.approved,
            decision = judgement.decision.as_str(),
            candidates = judgement.candidates,
            "consolidation score"
        );
    }
}

/// Publishes the scores of a command that Balanced pools approved: on the pools for nodes that go together, else on the node (DIS-211,
/// DIS-212).
fn approval(context: &Context, snapshot: &Snapshot, method: Method, command: &Command, judgement: &Judgement) {
    for verdict in &judgement.by_pool {
        let Some(score) = &verdict.score else { continue };
        let objects = match method {
            Method::MultiNodeConsolidation => {
                let pool = snapshot.pools.iter().find(|pool| pool.name == verdict.pool);
                pool.map(|pool| events::pool(pool)).into_iter().collect()
            }
            _ => objects(context, command),
        };
        for object in objects {
            let event = events::consolidation_approved(object, score.to_string());
            context.recorder.publish(event);
        }
    }
}

fn objects(context: &Context, command: &Command) -> Vec<ObjectRef> {
    let nodes = command.candidates.iter();
    nodes
        .flat_map(|candidate| events::objects(context, &candidate.node))
        .collect()
}

/// Reports a command that waits to be validated (DIS-142).
pub(super) fn waiting(context: &Context, method: Method, command: &Command) {
    if !method.consolidates() || command.replacements.is_empty() {
        return;
    }
    for candidate in &command.candidates {
        let text = command.of_node(&candidate.node.name);
        let message = format!(
            "Consolidation candidate: {text} (savings: {})",
            dollars(command.savings())
        );
        for object in events::objects(context, &candidate.node) {
            let event = events::consolidation_candidate(object, message.clone(), &text);
            context.recorder.publish(event);
        }
    }
}

/// Reports the validation of a command.
pub(super) fn validation(
    context: &Context,
    inputs: &DecisionInputs,
    method: Method,
    command: &Command,
    validation: &Validation,
) {
    if method == Method::Emptiness {
        sorted(context, inputs, &validation.sorted);
    }
    allowance(context, method, &validation.allowance);
    refused_plans(method, &validation.refused_plans);
    let failed = context.metrics.counter(&catalogue::DISRUPTION_FAILED_VALIDATIONS);
    failed.add(&[method.consolidation_type()], validation.failed as f64);
    let short = command.short();
    let why = match &validation.result {
        Err(why) => why,
        Ok(left) if validation.planned_anew => {
            tracing::debug!(command = %short, left = %left.short(), "starting what is left of a consolidation command");
            return;
        }
        Ok(_) => return,
    };
    match why {
        Invalid::NoLongerEmpty => {
            tracing::debug!(command = %short, "abandoning empty node consolidation attempt due to pod churn, command is no longer valid");
        }
        invalid => {
            tracing::debug!(command = %short, reason = %invalid, "abandoning consolidation attempt, command is no longer valid");
            rejection(context, command, invalid);
        }
    }
}

/// Counts and publishes why a command that waited is not carried out (DIS-179, DIS-188).
fn rejection(context: &Context, command: &Command, invalid: &Invalid) {
    let savings = dollars(command.savings());
    for candidate in &command.candidates {
        let (text, reason) = (command.of_node(&candidate.node.name), invalid.reason());
        let message = format!("Consolidation rejected: {text}, reason: {reason} (savings: {savings})");
        for object in events::objects(context, &candidate.node) {
            let event = events::consolidation_rejected(object, message.clone(), &text, reason);
            context.recorder.publish(event);
        }
    }
}
