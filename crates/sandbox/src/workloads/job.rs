//! Jobs: pods that run to completion.

use super::template::{self, PodName, annotate, label};
use crate::object::{is_active, is_deleting, is_ready, phase, seconds, uid};
use crate::store::key_of;
use crate::world::{World, enqueue_own_and_pods, queue};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;
use kerf_runtime::{Outcome, ReconcileError};
use kube::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn start(world: &Arc<World>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    enqueue_own_and_pods(&queue, &world.jobs, &world.pods);
    world.run(tasks, "job", queue, |world, key| async move {
        let Some(job) = world.jobs.get(&key) else {
            return Ok(Outcome::Done);
        };
        let Some(spec) = job.spec.clone() else {
            return Ok(Outcome::Done);
        };
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        if let Some(end) = ended(&job) {
            return expire(&world, &job, &spec, end).await;
        }
        reconcile(&world, &job, &spec).await
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

async fn expire(world: &World, job: &Job, spec: &JobSpec, end: jiff::Timestamp) -> Result<Outcome, ReconcileError> {
    let Some(keep_s) = spec.ttl_seconds_after_finished else {
        return Ok(Outcome::Done);
    };
    let at = end
        .saturating_add(jiff::SignedDuration::from_secs(keep_s.into()))
        .unwrap_or(jiff::Timestamp::MAX);
    let left = world.clock.until(at);
    if left > Duration::ZERO {
        return Ok(Outcome::RequeueAfter(left));
    }
    world.delete(&world.jobs, job, None).await?;
    Ok(Outcome::Done)
}

/// How far a job is.
struct Progress {
    active: Vec<Arc<Pod>>,
    succeeded: i32,
    failed: i32,
    /// Of indexed jobs: the indexes that are done.
    done: BTreeSet<i32>,
}

fn index(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok()
}

impl Progress {
    fn of(world: &World, job: &Job, spec: &JobSpec) -> Self {
        let pods = world.controlled_pods(uid(job));
        let succeeded: Vec<_> = pods.iter().filter(|pod| phase(pod) == "Succeeded").collect();
        let done: BTreeSet<i32> = succeeded.iter().filter_map(|pod| index(pod)).collect();
        // A pod that was deleted while it ran has failed as well.
        let failed = pods
            .iter()
            .filter(|pod| phase(pod) == "Failed" || (is_deleting(&***pod) && phase(pod) != "Succeeded"));
        let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let indexed = spec.completion_mode.as_deref() == Some("Indexed");
        Self {
            succeeded: count(if indexed { done.len() } else { succeeded.len() }),
            failed: count(failed.count()),
            active: pods.iter().filter(|pod| is_active(pod)).cloned().collect(),
            done,
        }
    }
}

async fn reconcile(world: &World, job: &Job, spec: &JobSpec) -> Result<Outcome, ReconcileError> {
    let progress = Progress::of(world, job, spec);
    let parallelism = spec.parallelism.unwrap_or(1);
    let suspended = spec.suspend == Some(true);
    let completions = spec.completions;
    let complete = match completions {
        Some(completions) => progress.succeeded >= completions,
        // Without a number of completions the first success decides.
        None => progress.succeeded > 0 && progress.active.is_empty(),
    };
    let failed = progress.failed > spec.backoff_limit.unwrap_or(6);
    if complete || failed || suspended {
        for pod in &progress.active {
            world.delete(&world.pods, &**pod, None).await?;
        }
    } else {
        let left = completions.map_or(if progress.succeeded > 0 { 0 } else { parallelism }, |n| {
            n - progress.succeeded
        });
        let wanted = usize::try_from(parallelism.min(left)).unwrap_or(0);
        if progress.active.len() > wanted {
            for pod in progress.active.iter().skip(wanted) {
                world.delete(&world.pods, &**pod, None).await?;
            }
        }
        let mut taken: BTreeSet<i32> = progress.active.iter().filter_map(|pod| index(pod)).collect();
        taken.extend(&progress.done);
        for _ in progress.active.len()..wanted {
            let free = (0..completions.unwrap_or(0)).find(|index| !taken.contains(index));
            taken.extend(free);
            world.create(&world.pods, &worker(job, spec, free)).await?;
        }
    }
    write_status(world, job, spec, complete, failed).await
}

fn worker(job: &Job, spec: &JobSpec, index: Option<i32>) -> Pod {
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let prefix = match index.filter(|_| indexed) {
        Some(index) => format!("{}-{index}-", job.name_any()),
        None => format!("{}-", job.name_any()),
    };
    let mut pod = template::pod(job, &spec.template, PodName::Prefix(prefix));
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
    world: &World,
    job: &Job,
    spec: &JobSpec,
    complete: bool,
    failed: bool,
) -> Result<Outcome, ReconcileError> {
    let progress = Progress::of(world, job, spec);
    let known = job.status.clone().unwrap_or_default();
    let now = seconds(world.now());
    let ready = progress.active.iter().filter(|pod| is_ready(pod)).count();
    let condition = |kind: &str, reason: &str, message: &str| -> Value {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now})
    };
    let mut status = json!({
        "active": progress.active.len(), "ready": ready, "succeeded": (progress.succeeded > 0).then_some(progress.succeeded),
        "failed": (progress.failed > 0).then_some(progress.failed),
        "startTime": known.start_time.clone().or_else(|| (spec.suspend != Some(true)).then(|| now.clone())),
        "uncountedTerminatedPods": {},
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
    if crate::world::says_more(&json!(known), &status) {
        match world
            .patch_status(&world.jobs, &key_of(job), &json!({"status": status}))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => other?,
        }
    }
    Ok(Outcome::Done)
}
