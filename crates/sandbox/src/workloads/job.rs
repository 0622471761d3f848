//! The Job controller: pods that run to completion.
//!
//! A finished pod can be removed with its node, so the job's status holds the counts. A pod keeps a finalizer until it is counted; until the
//! finalizer is removed, the status lists the pod as uncounted or counted but not released.

use super::pod_creation::create_pod;
use super::template::{self, PodName, annotate, label};
use crate::context::{ActorContext, active, enqueue_own_and_pods, queue};
use crate::object::{controller, is_deleting, is_finished, is_ready, phase, seconds, uid};
use crate::store::key_of;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use kerf_runtime::{ObjectKey, Outcome, ReconcileError};
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    enqueue_own_and_pods(&queue, &context.jobs, &context.pods);
    context.run(tasks, "job", queue, |context, key| async move {
        let Some(job) = context.jobs.get(&key) else {
            release_orphans(&context, &key).await?;
            return Ok(Outcome::Done);
        };
        let Some(spec) = job.spec.clone() else {
            return Ok(Outcome::Done);
        };
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        count_ended(&context, &job).await?;
        let Some(job) = context.jobs.get(&key) else {
            return Ok(Outcome::Done);
        };
        if let Some(end) = ended(&job) {
            return expire(&context, &job, &spec, end).await;
        }
        reconcile(&context, &job, &spec).await
    });
}

/// When the job completed or failed.
fn ended(job: &Job) -> Option<jiff::Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let mut last = conditions
        .iter()
        .filter(|c| matches!(&*c.type_, "Complete" | "Failed") && c.status == "True");
    last.next().map(|condition| {
        condition
            .last_transition_time
            .as_ref()
            .map_or(jiff::Timestamp::MIN, |time| time.0)
    })
}

async fn expire(
    context: &ActorContext,
    job: &Job,
    spec: &JobSpec,
    end: jiff::Timestamp,
) -> Result<Outcome, ReconcileError> {
    let Some(keep_s) = spec.ttl_seconds_after_finished else {
        return Ok(Outcome::Done);
    };
    let at = end
        .saturating_add(jiff::SignedDuration::from_secs(keep_s.into()))
        .unwrap_or(jiff::Timestamp::MAX);
    let left = context.clock.until(at);
    if left > Duration::ZERO {
        return Ok(Outcome::RequeueAfter(left));
    }
    context.delete(&context.jobs, job, None).await?;
    Ok(Outcome::Done)
}

/// The progress of a job.
struct Progress {
    active: Vec<Arc<Pod>>,
    succeeded: i32,
    failed: i32,
    /// The completed indexes of an indexed job.
    done: BTreeSet<i32>,
}

fn index(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok()
}

impl Progress {
    /// The progress from the status, which counts every finished pod, and from the pods that still run.
    fn of(context: &ActorContext, job: &Job) -> Self {
        let status = job.status.clone().unwrap_or_default();
        Self {
            succeeded: status.succeeded.unwrap_or(0),
            failed: status.failed.unwrap_or(0),
            active: active(context.controlled_pods(uid(job))),
            done: parse_indexes(status.completed_indexes.as_deref().unwrap_or_default()),
        }
    }
}

/// `1,3-5` as numbers.
fn parse_indexes(text: &str) -> BTreeSet<i32> {
    let ranges = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    });
    ranges.flatten().collect()
}

/// Numbers as `1,3-5`.
fn print_indexes(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let text = ranges.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}

fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// Whether the pod will never run again: it finished, or it was deleted and nothing but its finalizers is left.
fn is_over(pod: &Pod) -> bool {
    is_finished(pod) || (is_deleting(pod) && pod.metadata.deletion_grace_period_seconds.unwrap_or(0) == 0)
}

/// Counts pods that finished since the last reconcile, then removes their finalizers.
async fn count_ended(context: &ActorContext, job: &Job) -> Result<(), ReconcileError> {
    let pods = context.controlled_pods(uid(job));
    let over: Vec<&Pod> = pods
        .iter()
        .map(|pod| &**pod)
        .filter(|pod| is_tracked(pod) && is_over(pod))
        .collect();
    let known = job.status.clone().unwrap_or_default();
    let held = known.uncounted_terminated_pods.clone().unwrap_or_default();
    let held: Vec<String> = held.succeeded.into_iter().chain(held.failed).flatten().collect();
    let is_new = |pod: &Pod| !held.iter().any(|known| known == uid(pod));
    let new: Vec<&Pod> = over.iter().copied().filter(|pod| is_new(pod)).collect();
    if !new.is_empty() {
        let mut done = parse_indexes(known.completed_indexes.as_deref().unwrap_or_default());
        let (good, bad): (Vec<&Pod>, Vec<&Pod>) = new.into_iter().partition(|pod| phase(pod) == "Succeeded");
        let again = good
            .iter()
            .filter(|pod| index(pod).is_some_and(|index| !done.insert(index)))
            .count();
        let plus = |old: Option<i32>, more: usize| old.unwrap_or(0) + i32::try_from(more).unwrap_or(i32::MAX);
        let uids = |pods: &[&Pod]| pods.iter().map(|pod| uid(*pod).to_owned()).collect::<Vec<_>>();
        let status = json!({
            "succeeded": plus(known.succeeded, good.len() - again), "failed": plus(known.failed, bad.len()),
            "completedIndexes": (!done.is_empty()).then(|| print_indexes(&done)),
            "uncountedTerminatedPods": {"succeeded": uids(&good), "failed": uids(&bad)},
        });
        write(context, job, status).await?;
    }
    for pod in &over {
        release(context, pod).await?;
    }
    let forgotten = json!({"uncountedTerminatedPods": {"succeeded": null, "failed": null}});
    if !over.is_empty() || !held.is_empty() {
        write(context, job, forgotten).await?;
    }
    Ok(())
}

async fn release(context: &ActorContext, pod: &Pod) -> Result<(), ReconcileError> {
    let kept: Vec<_> = pod
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != TRACKING)
        .collect();
    let patch = json!({"metadata": {"finalizers": kept}});
    match context.patch(&context.pods, &key_of(pod), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => other?,
    }
    // A deleted pod is removed with its last finalizer.
    if is_deleting(pod) && kept.is_empty() && pod.metadata.deletion_grace_period_seconds.unwrap_or(0) == 0 {
        context.pods.record_delete(&key_of(pod), uid(pod));
    }
    Ok(())
}

/// Removes the finalizers of the pods of a deleted job: no controller counts them any more.
async fn release_orphans(context: &ActorContext, key: &ObjectKey) -> Result<(), ReconcileError> {
    let of_job = |pod: &Pod| controller(pod).is_some_and(|owner| owner.kind == "Job" && owner.name == key.name);
    for pod in context.pods.in_namespace(&key.namespace) {
        if is_tracked(&pod) && of_job(&pod) {
            release(context, &pod).await?;
        }
    }
    Ok(())
}

async fn write(context: &ActorContext, job: &Job, status: Value) -> Result<(), ReconcileError> {
    match context
        .patch_status(&context.jobs, &key_of(job), &json!({"status": status}))
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other?),
    }
}

async fn reconcile(context: &ActorContext, job: &Job, spec: &JobSpec) -> Result<Outcome, ReconcileError> {
    let progress = Progress::of(context, job);
    let parallelism = spec.parallelism.unwrap_or(1);
    let suspended = spec.suspend == Some(true);
    let completions = spec.completions;
    let complete = match completions {
        Some(completions) => progress.succeeded >= completions,
        // Without `completions`, the first successful pod completes the job.
        None => progress.succeeded > 0 && progress.active.is_empty(),
    };
    let failed = progress.failed > spec.backoff_limit.unwrap_or(6);
    let mut refused = Ok(());
    if complete || failed || suspended {
        for pod in &progress.active {
            context.delete(&context.pods, &**pod, None).await?;
        }
    } else {
        let left = completions.map_or(if progress.succeeded > 0 { 0 } else { parallelism }, |n| {
            n - progress.succeeded
        });
        let wanted = usize::try_from(parallelism.min(left)).unwrap_or(0);
        if progress.active.len() > wanted {
            for pod in progress.active.iter().skip(wanted) {
                context.delete(&context.pods, &**pod, None).await?;
            }
        }
        let mut taken: BTreeSet<i32> = progress.active.iter().filter_map(|pod| index(pod)).collect();
        taken.extend(&progress.done);
        for _ in progress.active.len()..wanted {
            let free = (0..completions.unwrap_or(0)).find(|index| !taken.contains(index));
            taken.extend(free);
            refused = create_pod(context, job, "job-controller", &worker(job, spec, free)).await;
            if refused.is_err() {
                break;
            }
        }
    }
    // The status counts the pods also where the next one was refused.
    let outcome = write_status(context, job, spec, complete, failed).await?;
    refused?;
    Ok(outcome)
}

fn worker(job: &Job, spec: &JobSpec, index: Option<i32>) -> Pod {
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let prefix = match index.filter(|_| indexed) {
        Some(index) => format!("{}-{index}-", job.name_any()),
        None => format!("{}-", job.name_any()),
    };
    let mut pod = template::pod(job, &spec.template, PodName::Prefix(prefix));
    pod.metadata
        .finalizers
        .get_or_insert_with(Vec::new)
        .push(TRACKING.to_owned());
    for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
        label(&mut pod, key, uid(job));
    }
    for key in ["batch.kubernetes.io/job-name", "job-name"] {
        label(&mut pod, key, &job.name_any());
    }
    if let Some(index) = index.filter(|_| indexed) {
        label(&mut pod, INDEX, &index.to_string());
        annotate(&mut pod, INDEX, &index.to_string());
    }
    pod
}

async fn write_status(
    context: &ActorContext,
    job: &Job,
    spec: &JobSpec,
    complete: bool,
    failed: bool,
) -> Result<Outcome, ReconcileError> {
    let progress = Progress::of(context, job);
    let known = job.status.clone().unwrap_or_default();
    let now = seconds(context.now());
    let ready = progress.active.iter().filter(|pod| is_ready(pod)).count();
    let condition = |kind: &str, reason: &str, message: &str| -> Value {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now})
    };
    let mut status = json!({
        "active": progress.active.len(), "ready": ready,
        "startTime": known.start_time.clone().or_else(|| (spec.suspend != Some(true)).then(|| now.clone())),
    });
    if complete {
        status["completionTime"] = json!(now);
        let message = "Reached expected number of succeeded pods";
        let reason = "CompletionsReached";
        status["conditions"] = json!([
            condition("SuccessCriteriaMet", reason, message),
            condition("Complete", reason, message)
        ]);
    } else if failed {
        let message = "Job has reached the specified backoff limit";
        let reason = "BackoffLimitExceeded";
        status["conditions"] = json!([
            condition("FailureTarget", reason, message),
            condition("Failed", reason, message)
        ]);
    }
    context.update_status(&context.jobs, job, &known, status).await?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_ranges() {
        let indexes: BTreeSet<i32> = [0, 1, 2, 4, 6, 7].into();
        assert_eq!(print_indexes(&indexes), "0-2,4,6,7");
        assert_eq!(parse_indexes("0-2,4,6,7"), indexes);
        assert_eq!(parse_indexes(""), BTreeSet::new());
    }
}
