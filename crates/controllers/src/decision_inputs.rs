//! The inputs of the controllers' decisions: the cluster, the actions in flight and the options of the process.

use std::sync::Arc;

use jiff::Timestamp;
use kerf_decide::{Inputs, Settings, UnreadNodes};
use kerf_model::in_flight::InFlight;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::options::Options;
use kerf_scheduler::ReservedMode;
use kerf_units::policy::ForecastBinding;

use crate::context::{Context, Tuning};

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
        // Before the snapshot: an object that becomes readable in between counts as both.
        let unread = context.cluster.unread();
        let (snapshot, mut in_flight) = context.cluster.decision_state(now);
        if !context.tuning.remembers_moves {
            in_flight.moves.clear();
            in_flight.undone.clear();
        }
        let mut settings = decision_settings(&context.options, &context.tuning);
        settings.solver.nominated_pods_max = context.nominated_pods_max();
        Self {
            in_flight,
            settings: Settings {
                unread: UnreadNodes::new(unread, &snapshot, now),
                ..settings
            },
            snapshot,
            now,
        }
    }

    /// The same where more pods will follow those of the snapshot.
    pub(crate) fn with_more_pods_coming(mut self) -> Self {
        self.settings.solver.more_pods_coming = true;
        self
    }

    /// The same about another cluster.
    pub(crate) fn with_snapshot(self, snapshot: Arc<Snapshot>) -> Self {
        Self { snapshot, ..self }
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
            forecast_binding: options.forecast_binding == ForecastBinding::On,
            nominated_pods_max: options.nominated_pods_max,
            launch_price_range: options.launch_price_range_percent,
            node_scoring: options.scheduler_config.node_scoring,
            // SCH-004
            threads: options.simulation_workers(),
            ..kerf_scheduler::Options::default()
        },
        spot_to_spot: options.feature_gates.spot_to_spot_consolidation,
        savings_per_pod: options.consolidation_savings_per_pod,
        min_savings: options.consolidation_min_savings_percent,
        replacements: options.consolidation_replacements,
        commands_per_pass: options.commands_per_pass,
        static_capacity: options.feature_gates.static_capacity,
        destinations: options.consolidation_destinations,
        compare: tuning.compare,
        unread: UnreadNodes::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_units::nominated_pods::NominatedPodsMax;
    use kerf_units::policy::{MinValuesPolicy, PreferencePolicy};
    use std::sync::atomic::Ordering;

    #[tokio::test]
    async fn plans_do_not_count_with_nominations_that_the_api_server_refuses() {
        let options = Options {
            nominated_pods_max: NominatedPodsMax::from(500),
            ..Options::default()
        };
        let context = Context {
            options: Arc::new(options),
            ..Context::without_api()
        };
        let max = || DecisionInputs::take(&context).settings.solver.nominated_pods_max;
        assert_eq!(max(), NominatedPodsMax::from(500));
        context.nominations_refused.store(true, Ordering::Relaxed);
        assert_eq!(max(), NominatedPodsMax::NONE);
    }

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
