//! What decisions of the controllers are made from: the cluster, the actions under way and the options of the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_decide::{Inputs, Settings, UnreadNodes};
use kerf_model::in_flight::{InFlight, PodKey, StaticPool};
use kerf_model::nodepool::Eligibility;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::options::Options;
use kerf_scheduler::ReservedMode;

use crate::context::{Context, Tuning};
use crate::static_capacity::{node_limit, replicas};

/// The inputs of one decision, owned, so that it can be made on another thread.
pub(crate) struct DecisionInputs {
    pub(crate) snapshot: Arc<Snapshot>,
    in_flight: InFlight,
    settings: Settings,
    pub(crate) now: Timestamp,
}

impl DecisionInputs {
    /// The cluster as it is now.
    pub(crate) fn take(context: &Context) -> Self {
        let now = context.now();
        // DIS-315: what changes after this is not taken as considered.
        let consolidation_epoch = context.cluster.consolidation_epoch();
        let snapshot = context.cluster.snapshot(now);
        let resting = {
            let mut back_off = context.back_off();
            back_off.look(&snapshot, now);
            back_off.resting(now)
        };
        let mut in_flight = InFlight {
            held: context.commands.held(),
            planned: planned(context, &snapshot),
            static_pools: static_pools(context, &snapshot),
            resting,
            consolidation_epoch,
        };
        in_flight.expire(now);
        Self {
            in_flight,
            settings: decision_settings(&context.options, &context.tuning),
            snapshot,
            now,
        }
    }

    pub(crate) fn view(&self) -> Inputs<'_> {
        Inputs {
            snapshot: &self.snapshot,
            in_flight: &self.in_flight,
            settings: &self.settings,
            now: self.now,
        }
    }
}

/// The claims onto which pods that are not bound were planned. Read only while a machine is on its way: no decision needs them otherwise.
fn planned(context: &Context, snapshot: &Snapshot) -> BTreeMap<PodKey, Arc<str>> {
    if !snapshot.nodes.iter().any(|node| node.managed && !node.initialized) {
        return BTreeMap::new();
    }
    let going = snapshot.nodes.iter().filter(|node| node.marked_for_deletion);
    let pods = snapshot.pending.iter().chain(going.flat_map(|node| &node.pods));
    context.cluster.with_times(|times| {
        let planned = pods.filter_map(|pod| {
            let claim = times.get(&pod.namespace, &pod.name)?.claim.clone()?;
            Some(((Arc::clone(&pod.namespace), Arc::clone(&pod.name)), claim))
        });
        planned.collect()
    })
}

/// The claims of pools with a fixed number of nodes.
fn static_pools(context: &Context, snapshot: &Snapshot) -> BTreeMap<Arc<str>, StaticPool> {
    let cluster = &context.cluster;
    let pools = snapshot.pools.iter();
    let fixed = pools.filter(|pool| pool.eligibility == Eligibility::Static);
    let of_pool = fixed.filter_map(|pool| {
        let object = cluster.pool(&pool.name)?;
        let claims = cluster.pool_claims(&pool.name);
        let staying = claims.active.len() + claims.pending_disruption.len();
        let counts = StaticPool {
            replicas: replicas(&object)?,
            staying: u64::try_from(staying).unwrap_or(u64::MAX),
            room: cluster.room_for_claims(&pool.name, node_limit(&object)),
        };
        Some((Arc::clone(&pool.name), counts))
    });
    of_pool.collect()
}

/// The options of a controller as decisions take them (SCH-050).
pub fn decision_settings(options: &Options, tuning: &Tuning) -> Settings {
    Settings {
        solver: kerf_scheduler::Options {
            preference_policy: options.preference_policy,
            min_values_policy: options.min_values_policy,
            reserved: match options.feature_gates.reserved_capacity {
                true => ReservedMode::Strict,
                false => ReservedMode::Off,
            },
            packing: options.packing,
            node_overhead: options.node_overhead_cost,
            // SCH-004
            threads: options.simulation_workers(),
            ..kerf_scheduler::Options::default()
        },
        spot_to_spot: options.feature_gates.spot_to_spot_consolidation,
        static_capacity: options.feature_gates.static_capacity,
        destinations: options.consolidation_destinations,
        compare: tuning.compare,
        unread: UnreadNodes::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_units::policy::{MinValuesPolicy, PreferencePolicy};

    // SCH-050
    #[test]
    fn provisioning_is_strict_about_reservations_and_follows_the_policies() {
        let mut options = Options::default();
        let of = |options: &Options| decision_settings(options, &Tuning::default()).solver;
        let plain = of(&options);
        assert_eq!(
            (plain.reserved, plain.min_values_policy, plain.preference_policy),
            (ReservedMode::Strict, MinValuesPolicy::Strict, PreferencePolicy::Respect)
        );
        options.min_values_policy = MinValuesPolicy::BestEffort;
        options.preference_policy = PreferencePolicy::Ignore;
        options.cpu_requests = 3500;
        let other = of(&options);
        assert_eq!(
            (
                other.reserved,
                other.min_values_policy,
                other.preference_policy,
                other.threads
            ),
            (
                ReservedMode::Strict,
                MinValuesPolicy::BestEffort,
                PreferencePolicy::Ignore,
                4
            )
        );
        options.feature_gates.reserved_capacity = false;
        assert_eq!(of(&options).reserved, ReservedMode::Off);
    }
}
