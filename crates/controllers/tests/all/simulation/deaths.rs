//! Controllers that die at a chosen call, and whatever was there at any time of their cluster's life.

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_runtime::Options;
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{Faults, KillMoment};
use tokio::time::Instant;

use crate::simulation::harness::Simulation;

/// The call the controllers die at, and whether it still counts; `None` for never.
pub(crate) type Death = Option<(u64, KillMoment)>;

/// Controllers on a cluster, and the switch of their faults.
pub(crate) fn mortal(sandbox: Sandbox, death: Death, change: fn(&mut Options)) -> (Simulation, Faults) {
    let (client, faults) = sandbox.client_with_faults("controller");
    if let Some((call, moment)) = death {
        faults.kill_at(call, moment);
    }
    (Simulation::join_as(sandbox, client, change), faults)
}

/// Everything that was ever there, by uid.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) claims: BTreeSet<String>,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) pods: BTreeSet<String>,
    /// The most claims there were at one time.
    pub(crate) most_claims: usize,
}

impl Seen {
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

/// Watches until it has been done for five seconds; controllers that die meanwhile come back, immortal.
pub(crate) async fn survive(
    mut simulation: Simulation,
    faults: &Faults,
    change: fn(&mut Options),
    seen: &mut Seen,
    done: impl AsyncFn(&Simulation) -> bool,
) -> Simulation {
    let end = Instant::now() + Duration::from_secs(40 * 60);
    let (mut since, mut died) = (None, false);
    loop {
        seen.look(&simulation).await;
        if !died && faults.killed().is_cancelled() {
            died = true;
            simulation = mortal(simulation.crash().await, None, change).0;
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

/// How the first controllers of a life ended.
pub(crate) struct Life {
    calls: u64,
    killed: bool,
}

impl Life {
    pub(crate) fn of(faults: &Faults) -> Self {
        Self {
            calls: faults.calls(),
            killed: faults.killed().is_cancelled(),
        }
    }
}

/// Lives once undisturbed, then dies at each call of that life, before and after it.
pub(crate) async fn die_everywhere(live: impl AsyncFn(Death) -> Life) {
    let calls = live(None).await.calls;
    let mut deaths = 0;
    for call in 1..=calls {
        for moment in [KillMoment::Before, KillMoment::After] {
            deaths += u64::from(live(Some((call, moment))).await.killed);
        }
    }
    // The last calls of a life may come after the end of what is looked at.
    assert!(
        calls > 10 && deaths >= 2 * calls - 8,
        "{deaths} deaths at {calls} calls"
    );
}
