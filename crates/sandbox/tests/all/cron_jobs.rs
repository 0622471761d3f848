//! CronJobs: jobs by schedule, concurrency, history.

use crate::fixture::{Cluster, seconds};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

/// A cluster with one node and a CronJob every five minutes whose pods run for `run_for`.
async fn with_cron_job(run_for: &str, spec: Value) -> Cluster {
    let cluster = Cluster::start().await;
    cluster.nodes(&["n"]).await;
    let mut cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {
            "metadata": {"annotations": {"sandbox.kerf.sh/run-for": run_for}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        }}}},
    });
    for (key, value) in spec.as_object().expect("fields") {
        cron_job["spec"][key] = value.clone();
    }
    cluster.create(cron_job).await;
    cluster
}

/// Names of the jobs, and how many of them are complete.
async fn jobs(cluster: &Cluster) -> (Vec<String>, usize) {
    let api: Api<Job> = Api::namespaced(cluster.client.clone(), "default");
    let jobs = api.list(&ListParams::default()).await.expect("jobs").items;
    let complete = jobs.iter().filter(|job| {
        job.status
            .as_ref()
            .is_some_and(|status| status.completion_time.is_some())
    });
    (jobs.iter().map(ResourceExt::name_any).collect(), complete.count())
}

#[tokio::test(start_paused = true)]
async fn jobs_are_created_by_schedule_and_old_ones_deleted() {
    let cluster = with_cron_job("30s", json!({})).await;
    seconds(4 * 60).await;
    assert_eq!(jobs(&cluster).await.0.len(), 0);
    seconds(60 + 45).await;
    let (names, complete) = jobs(&cluster).await;
    // 2026-01-01T00:05 in minutes since 1970.
    assert_eq!(
        (names.as_slice(), complete),
        (["report-29453765".to_owned()].as_slice(), 1)
    );
    let status = &cluster.get("batch/v1", "CronJob", "report").await["status"];
    assert_eq!(status["lastScheduleTime"], "2026-01-01T00:05:00Z");
    assert!(
        status["active"].is_null() && !status["lastSuccessfulTime"].is_null(),
        "{status}"
    );
    seconds(3600).await;
    assert_eq!(jobs(&cluster).await.1, 3);
}

#[tokio::test(start_paused = true)]
async fn the_concurrency_policy_decides_about_a_job_that_still_runs() {
    for (policy, expected) in [("Allow", 3), ("Forbid", 1), ("Replace", 1)] {
        let cluster = with_cron_job("1h", json!({"concurrencyPolicy": policy})).await;
        seconds(16 * 60).await;
        let (names, complete) = jobs(&cluster).await;
        assert_eq!((names.len(), complete), (expected, 0), "{policy}: {names:?}");
        let newest = if policy == "Forbid" {
            "report-29453765"
        } else {
            "report-29453775"
        };
        assert_eq!(names.last().map(String::as_str), Some(newest), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspended_cron_job_creates_nothing() {
    let cluster = with_cron_job("30s", json!({"suspend": true})).await;
    seconds(3600).await;
    assert_eq!(jobs(&cluster).await.0.len(), 0);
}
