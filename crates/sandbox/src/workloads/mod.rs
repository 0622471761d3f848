//! The workload controllers: they create, replace and delete the pods of Deployments, StatefulSets, DaemonSets, Jobs and CronJobs.

mod cron_job;
mod daemon_set;
mod deployment;
mod job;
mod pod_creation;
mod replica_set;
mod rollout;
mod stateful_set;
mod template;

pub(crate) use template::condition;

use crate::context::ActorContext;
use std::sync::Arc;
use tokio::task::JoinSet;

pub(crate) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    deployment::start(context, tasks);
    replica_set::start(context, tasks);
    stateful_set::start(context, tasks);
    daemon_set::start(context, tasks);
    job::start(context, tasks);
    cron_job::start(context, tasks);
}
