//! The inputs of decisions: a snapshot, and the actions in flight at the same moment.

use super::Mirror;
use jiff::Timestamp;
use kerf_api::NodePool;
use kerf_model::in_flight::{InFlight, PodKey, StaticPool};
use kerf_model::nodepool::Eligibility;
use kerf_model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Mirror {
    /// The snapshot as of `now` and what is in flight at that moment. [`Mirror::expire`] is called before, so that nothing in it has ended.
    pub fn decision_state(&mut self, now: Timestamp) -> (Arc<Snapshot>, InFlight) {
        let snapshot = self.snapshot(now);
        let in_flight = InFlight {
            command_machines: Arc::clone(self.in_flight.commands.held()),
            receiving: BTreeSet::new(),
            planned: self.planned(&snapshot),
            static_pools: self.static_pools(&snapshot),
            failed_replacements: self.in_flight.failed_replacements.pausing(now),
            launch_room: self.in_flight.launch_limits.room(now),
            moves: self.in_flight.consolidation_back_off.started(),
            undone: self.in_flight.consolidation_back_off.undone(now),
            // DIS-315: the snapshot shows everything up to this epoch, and nothing later.
            consolidation_epoch: self.consolidation_epoch(),
        };
        (snapshot, in_flight)
    }

    /// The claims onto which pods that are not bound were planned.
    fn planned(&self, snapshot: &Snapshot) -> BTreeMap<PodKey, Arc<str>> {
        let going = snapshot.nodes.iter().filter(|node| node.marked_for_deletion);
        let waiting = snapshot.pending.iter().chain(&snapshot.untried);
        let pods = waiting.chain(going.flat_map(|node| &node.pods));
        let times = &self.in_flight.pod_times;
        let planned = pods.filter_map(|pod| {
            let claim = times.get(&pod.namespace, &pod.name)?.claim.clone()?;
            Some(((Arc::clone(&pod.namespace), Arc::clone(&pod.name)), claim))
        });
        planned.collect()
    }

    /// How many claims the pools with a fixed number of nodes have, are to have and may get.
    fn static_pools(&self, snapshot: &Snapshot) -> BTreeMap<Arc<str>, StaticPool> {
        let pools = snapshot.pools.iter();
        let fixed = pools.filter(|pool| pool.eligibility == Eligibility::Static);
        let of_pool = fixed.filter_map(|pool| {
            let object: Arc<NodePool> = self.pools.table.object(&pool.name)?;
            let claims = self.pool_claims(&pool.name);
            let staying = claims.active.len() + claims.pending_disruption.len();
            let counts = StaticPool {
                replicas: object.spec.node_count()?,
                staying: u64::try_from(staying).unwrap_or(u64::MAX),
                room: self.room_for_claims(&pool.name, object.spec.node_limit()),
            };
            Some((Arc::clone(&pool.name), counts))
        });
        of_pool.collect()
    }
}
