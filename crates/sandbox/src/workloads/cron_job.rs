//! The CronJob controller: creates Jobs by schedule and deletes the oldest finished ones. Schedules are in UTC.

use crate::context::{ActorContext, enqueue_own_and_controlled, queue};
use crate::object::{controlled_by, controller_uid, reference, seconds, uid};
use crate::store::key_of;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_runtime::{Outcome, ReconcileError};
use kerf_units::cron::CronSchedule;
use kube::ResourceExt;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// On a Job: the time of the schedule it was created for.
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Finished jobs kept unless the spec sets a limit, as in the API's defaults.
const SUCCESSFUL_KEPT: i32 = 3;
const FAILED_KEPT: i32 = 1;

pub(super) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    enqueue_own_and_controlled(&queue, &context.cron_jobs, &context.jobs);
    context.run(tasks, "cron_job", queue, |context, key| async move {
        let Some(cron_job) = context.cron_jobs.get(&key) else {
            return Ok(Outcome::Done);
        };
        if cron_job.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        reconcile(&context, &cron_job, &cron_job.spec).await
    });
}

/// Whether the job has this condition: `Complete` or `Failed`.
fn has_condition(job: &Job, kind: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}

fn is_finished(job: &Job) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

async fn reconcile(context: &ActorContext, cron_job: &CronJob, spec: &CronJobSpec) -> Result<Outcome, ReconcileError> {
    let mut jobs = context.jobs.in_namespace(&key_of(cron_job).namespace);
    jobs.retain(|job| controller_uid(&**job).as_deref() == Some(uid(cron_job)));
    delete_history(context, spec, &jobs).await?;
    let mut last = cron_job
        .status
        .as_ref()
        .and_then(|status| status.last_schedule_time.clone());
    let mut outcome = Outcome::Done;
    let schedule: Option<CronSchedule> = spec.schedule.parse().ok();
    if schedule.is_none() {
        let name = cron_job.name_any();
        tracing::warn!(
            cron_job = name,
            schedule = spec.schedule,
            "no jobs are created: the schedule is not a cron schedule"
        );
    }
    if let Some(schedule) = schedule.filter(|_| spec.suspend != Some(true)) {
        let now = context.now();
        let since = last.as_ref().or(cron_job.metadata.creation_timestamp.as_ref());
        let due = latest_due(
            &schedule,
            since.map_or(now, |time| time.0),
            spec.starting_deadline_seconds,
            now,
        );
        let active: Vec<Arc<Job>> = jobs.iter().filter(|job| !is_finished(job)).cloned().collect();
        match (due, spec.concurrency_policy.as_deref()) {
            // The end of the active job causes the next reconcile.
            (Some(_), Some("Forbid")) if !active.is_empty() => {}
            (Some(at), policy) => {
                if policy == Some("Replace") {
                    for job in active {
                        context.delete(&context.jobs, &*job, None).await?;
                    }
                }
                create_job(context, cron_job, spec, at).await?;
                last = Some(seconds(at));
            }
            (None, _) => {}
        }
        if let Some(next) = schedule.next_after(now) {
            outcome = Outcome::RequeueAfter(context.clock.until(next).max(Duration::from_millis(1)));
        }
    }
    write_status(context, cron_job, last).await?;
    Ok(outcome)
}

/// The latest scheduled time after `since` that is not later than `now` and not older than the starting deadline.
fn latest_due(schedule: &CronSchedule, since: Timestamp, deadline_s: Option<i64>, now: Timestamp) -> Option<Timestamp> {
    let since = match deadline_s {
        Some(deadline_s) => since.max(now.checked_sub(SignedDuration::from_secs(deadline_s)).unwrap_or(since)),
        None => since,
    };
    let times = std::iter::successors(schedule.next_after(since), |at| schedule.next_after(*at));
    times.take_while(|at| *at <= now).last()
}

async fn create_job(
    context: &ActorContext,
    cron_job: &CronJob,
    spec: &CronJobSpec,
    at: Timestamp,
) -> Result<(), ReconcileError> {
    let template = spec.job_template.metadata.clone().unwrap_or_default();
    let mut annotations = template.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_AT.to_owned(), at.to_string());
    let job = Job {
        metadata: ObjectMeta {
            // Like the controller manager: one name per minute, so that a job is created once.
            name: Some(format!("{}-{}", cron_job.name_any(), at.as_second().div_euclid(60))),
            namespace: cron_job.metadata.namespace.clone(),
            labels: template.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controlled_by(cron_job)]),
            ..ObjectMeta::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    };
    match context.create(&context.jobs, &job).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => Ok(other?),
    }
}

/// Deletes the oldest finished jobs beyond the history limits.
async fn delete_history(context: &ActorContext, spec: &CronJobSpec, jobs: &[Arc<Job>]) -> Result<(), ReconcileError> {
    for (condition, kept) in [
        (
            "Complete",
            spec.successful_jobs_history_limit.unwrap_or(SUCCESSFUL_KEPT),
        ),
        ("Failed", spec.failed_jobs_history_limit.unwrap_or(FAILED_KEPT)),
    ] {
        let mut finished: Vec<&Arc<Job>> = jobs.iter().filter(|job| has_condition(job, condition)).collect();
        finished.sort_by_key(|job| {
            let started = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (std::cmp::Reverse(started), std::cmp::Reverse(job.name_any()))
        });
        for job in finished.into_iter().skip(usize::try_from(kept).unwrap_or(0)) {
            context.delete(&context.jobs, &**job, None).await?;
        }
    }
    Ok(())
}

async fn write_status(
    context: &ActorContext,
    cron_job: &CronJob,
    last: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
) -> Result<(), ReconcileError> {
    let mut jobs = context.jobs.in_namespace(&key_of(cron_job).namespace);
    jobs.retain(|job| controller_uid(&**job).as_deref() == Some(uid(cron_job)));
    let active: Vec<_> = jobs
        .iter()
        .filter(|job| !is_finished(job))
        .map(|job| reference(&**job))
        .collect();
    let ends = jobs.iter().filter(|job| has_condition(job, "Complete"));
    let succeeded = ends
        .filter_map(|job| job.status.as_ref()?.completion_time.clone())
        .max_by_key(|time| time.0);
    let known = cron_job.status.clone().unwrap_or_default();
    let mut status =
        json!({"lastScheduleTime": last, "lastSuccessfulTime": succeeded.or(known.last_successful_time.clone())});
    // A merge patch replaces the list; null removes it.
    status["active"] = if active.is_empty() { json!(null) } else { json!(active) };
    Ok(context
        .update_status(&context.cron_jobs, cron_job, &known, status)
        .await?)
}
