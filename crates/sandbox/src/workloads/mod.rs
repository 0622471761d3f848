//! The workload controllers: what turns Deployments, StatefulSets, DaemonSets and Jobs into pods and keeps it so.

mod daemon_set;
mod deployment;
mod job;
mod replica_set;
mod rollout;
mod stateful_set;
mod template;

pub(crate) use template::condition;

use crate::world::World;
use std::sync::Arc;
use tokio::task::JoinSet;

pub(crate) fn start(world: &Arc<World>, tasks: &mut JoinSet<()>) {
    deployment::start(world, tasks);
    replica_set::start(world, tasks);
    stateful_set::start(world, tasks);
    daemon_set::start(world, tasks);
    job::start(world, tasks);
}
