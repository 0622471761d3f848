//! Controllers that are killed at a chosen call, and a record of every object that ever existed.

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_runtime::Options;
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{Faults, KillMoment};
use tokio::time::Instant;

use crate::simulation::harness::Simulation;

/// The call at which the controllers are killed, and whether it is still executed; `None` for never.
pub(crate) type KillPoint = Option<(u64, KillMoment)>;

/// Starts controllers on a cluster that are killed at a call. Also returns the control of their faults.
pub(crate) fn with_kill(sandbox: Sandbox, kill: KillPoint, change: fn(&mut Options)) -> (Simulation, Faults) {
    let (client, faults) = sandbox.client_with_faults("controller");
    if let Some((call, moment)) = kill {
        faults.kill_at(call, moment);
    }
    (Simulation::join_as(sandbox, client, change), faults)
}

/// All objects that ever existed, by uid.
#[derive(Default, Debug)]
pub(crate) struct EverSeen {
    pub(crate) claims: BTreeSet<String>,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) pods: BTreeSet<String>,
    /// The most claims there were at one time.
    pub(crate) most_claims: usize,
}

impl EverSeen {
    pub(crate) async fn look(&mut self, simulation: &Simulation) {
        let uid = |meta: kube::api::ObjectMeta| meta.uid.unwrap_or_default();
        let claims = simulation.claims().await;
        self.most_claims = self.most_claims.max(claims.len());
        self.claims.extend(claims.into_iter().map(|claim| uid(claim.metadata)));
        self.nodes
            .extend(simulation.nodes().await.into_iter().map(|node| uid(node.metadata)));
        self.pods
            .extend(simulation.pods().await.into_iter().map(|pod| uid(pod.metadata)));
    }
}

/// Runs until `done` has held for five seconds. Killed controllers are started again, and not killed a second time.
pub(crate) async fn run_until(
    mut simulation: Simulation,
    faults: &Faults,
    change: fn(&mut Options),
    seen: &mut EverSeen,
    done: impl AsyncFn(&Simulation) -> bool,
) -> Simulation {
    let end = Instant::now() + Duration::from_secs(40 * 60);
    let (mut since, mut died) = (None, false);
    loop {
        seen.look(&simulation).await;
        if !died && faults.killed().is_cancelled() {
            died = true;
            simulation = with_kill(simulation.crash().await, None, change).0;
            since = None;
        }
        if done(&simulation).await {
            if since.get_or_insert_with(Instant::now).elapsed() >= Duration::from_secs(5) {
                return simulation;
            }
        } else {
            since = None;
        }
        assert!(
            Instant::now() < end,
            "it does not settle\n{:?}\n{}",
            faults.trace(),
            simulation.picture().await
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How the first controllers of a run ended.
pub(crate) struct Run {
    calls: u64,
    killed: bool,
}

impl Run {
    pub(crate) fn of(faults: &Faults) -> Self {
        Self {
            calls: faults.calls(),
            killed: faults.killed().is_cancelled(),
        }
    }
}

/// Runs once undisturbed, then once for each call of that run, killed before it and after it.
pub(crate) async fn kill_at_every_call(run: impl AsyncFn(KillPoint) -> Run) {
    let calls = run(None).await.calls;
    let mut kills = 0;
    for call in 1..=calls {
        for moment in [KillMoment::Before, KillMoment::After] {
            kills += u64::from(run(Some((call, moment))).await.killed);
        }
    }
    // The last calls of a run may be made after `done` is true.
    assert!(calls > 10 && kills >= 2 * calls - 8, "{kills} kills at {calls} calls");
}
