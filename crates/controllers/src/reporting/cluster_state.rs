//! Reports whether the cluster is synced, how many objects it has (SCH-077), and which of them cannot be read.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kerf_runtime::metrics::{Gauge, catalogue};
use kerf_runtime::{CancellationToken, Event, EventType};
use tokio::time::Instant;

use crate::changes::Change;
use crate::cluster::Unreadable;
use crate::context::Context;
use crate::reconciler::LeaderTask;

/// How often the state of the cluster is reported.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// How long the cluster may be out of sync before a log line says so.
const UNSYNCED_ERROR_AFTER: Duration = Duration::from_secs(30);
/// The time between two of these lines (OPS-061).
const UNSYNCED_ERROR_EVERY: Duration = Duration::from_secs(10);

/// The time between two events about an unreadable object.
const UNREADABLE_EVENT_EVERY: Duration = Duration::from_secs(600);

/// The event on an unreadable object, since its owner does not read our log. `None` if its name cannot be read: the log has it all the same.
fn invalid(unreadable: &Unreadable) -> Option<Event> {
    let (object, error) = (unreadable.reference()?, unreadable.error());
    Some(Event {
        dedupe: vec![
            object.kind.clone(),
            object.namespace.clone().unwrap_or_default(),
            object.name.clone(),
            error.to_owned(),
        ],
        object,
        kind: EventType::Warning,
        reason: "InvalidObject".into(),
        message: format!(
            "{error}. Correct it: until then Kerf goes by what it could last read of this object, if anything"
        ),
        dedupe_timeout: Some(UNREADABLE_EVENT_EVERY),
    })
}

/// Reports on the state in memory.
pub(crate) struct ClusterState {
    context: Context,
    synced: Gauge,
    unsynced_for: Gauge,
    nodes: Gauge,
}

impl ClusterState {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let gauge = |def| context.metrics.gauge(def);
        Arc::new(Self {
            synced: gauge(&catalogue::CLUSTER_STATE_SYNCED),
            unsynced_for: gauge(&catalogue::CLUSTER_STATE_UNSYNCED_TIME),
            nodes: gauge(&catalogue::CLUSTER_STATE_NODE_COUNT),
            context: context.clone(),
        })
    }

    /// Reports once, and updates since when the cluster has been out of sync. Returns for how long; zero if it is synced.
    fn look(&self, unsynced_since: &mut Option<Instant>) -> Duration {
        self.context.cluster.expire(self.context.now());
        let synced = self.context.cluster.is_synced();
        *unsynced_since = (!synced).then(|| unsynced_since.unwrap_or_else(Instant::now));
        let lasted = unsynced_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.synced.set(&[], if synced { 1.0 } else { 0.0 });
        self.unsynced_for.set(&[], lasted.as_secs_f64());
        let snapshot = self.context.cluster.snapshot(self.context.now());
        let machines = snapshot.nodes.iter();
        let known = machines.filter(|node| node.provider_id.is_some() || node.node_name.is_some());
        self.nodes.set(&[], known.count() as f64);
        for event in self.context.cluster.unreadable().iter().filter_map(invalid) {
            self.context.recorder.publish(event);
        }
        lasted
    }
}

#[async_trait]
impl LeaderTask for ClusterState {
    fn name(&self) -> &'static str {
        "state.report"
    }

    fn notify(&self, _change: &Change) {}

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let (mut unsynced_since, mut reported) = (None, None::<Instant>);
        loop {
            let lasted = self.look(&mut unsynced_since);
            if lasted > UNSYNCED_ERROR_AFTER && reported.is_none_or(|at| at.elapsed() >= UNSYNCED_ERROR_EVERY) {
                reported = Some(Instant::now());
                let missing = self.context.cluster.sync_report();
                let duration = format!("{}s", lasted.as_secs());
                tracing::error!(duration, ?missing, "cluster is waiting on sync for extended duration");
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(REPORT_EVERY) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kerf_sandbox::CapturedLog;

    use super::*;

    // OPS-061
    #[tokio::test(start_paused = true)]
    async fn a_cluster_out_of_sync_is_an_error_after_half_a_minute_and_every_ten_seconds() {
        let log = CapturedLog::start();
        let report = ClusterState::new(&Context::without_api());
        let forever = report.run(CancellationToken::new());
        let ended = tokio::time::timeout(Duration::from_secs(61), forever).await;
        assert!(ended.is_err(), "it goes on");
        let told = log.lines("cluster is waiting on sync for extended duration");
        let durations: Vec<&str> = told.iter().filter_map(|line| line["duration"].as_str()).collect();
        assert_eq!(durations, ["35s", "45s", "55s"]);
        assert!(told.iter().all(|line| line["level"] == "ERROR"), "{told:?}");
    }
}
