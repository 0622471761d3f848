//! Logs pods whose preferences can keep consolidation from emptying nodes (SCH-053).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_model::pod::Pod;
use tokio::time::Instant;

use crate::creation::create::listed;

/// How often a pod is named for one kind of preference.
const NAME_AGAIN_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Pods a line names.
const PODS_NAMED: usize = 10;
/// The number of remembered pods from which on expired ones are removed.
const SWEEP_AT: usize = 1024;

/// A kind of preference; each has a memory of its own, so that a pod with both is named once for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Preference {
    AntiAffinity,
    Spread,
}

impl Preference {
    const ALL: [Self; 2] = [Self::AntiAffinity, Self::Spread];

    fn is_of(self, pod: &Pod) -> bool {
        match self {
            Self::AntiAffinity => !pod.shape.preferred_anti_affinity.is_empty(),
            Self::Spread => pod.shape.spread.iter().any(|constraint| !constraint.required),
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::AntiAffinity => "pod(s) have a preferred Anti-Affinity which can prevent consolidation",
            Self::Spread => "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation",
        }
    }
}

/// The pods that were named, each with the time.
#[derive(Default, Debug)]
pub(super) struct PreferenceLog(Mutex<HashMap<(Arc<str>, Preference), Instant>>);

impl PreferenceLog {
    /// Logs the pods of a pass that were not named lately.
    pub(super) fn log(&self, pods: &[Arc<Pod>], now: Instant) {
        for preference in Preference::ALL {
            let names = self.new_ones(preference, pods, now);
            if !names.is_empty() {
                tracing::info!(pods = %listed(&names, PODS_NAMED), "{}", preference.message());
            }
        }
    }

    fn new_ones(&self, preference: Preference, pods: &[Arc<Pod>], now: Instant) -> Vec<String> {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if until.len() >= SWEEP_AT {
            until.retain(|_, end| *end > now);
        }
        let mut is_new = |pod: &&Arc<Pod>| {
            let key = (Arc::clone(&pod.uid), preference);
            let named = until.get(&key).is_some_and(|end| *end > now);
            if !named {
                until.insert(key, now + NAME_AGAIN_AFTER);
            }
            !named
        };
        let concerned = pods.iter().filter(|pod| preference.is_of(pod));
        concerned.filter(|pod| is_new(pod)).map(|pod| pod.key()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_state::lean::LeanPod;
    use kerf_testkit::objects;
    use serde_json::json;

    // DIS-298
    #[test]
    fn a_pod_is_named_again_after_a_day_and_a_new_one_of_its_name_at_once() {
        let notices = PreferenceLog::default();
        let pod = |uid: &str| {
            let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]);
            let mut pod = objects::stored("ns", objects::pod("p", "1"));
            pod["metadata"]["uid"] = json!(uid);
            pod["spec"]["topologySpreadConstraints"] = spread;
            let lean: LeanPod = serde_json::from_value(pod).expect("a pod");
            let interner = Arc::new(kerf_model::intern::Interner::default());
            kerf_state::Converter::new(interner, &kerf_state::Conventions::default())
                .pod(&lean)
                .expect("a name")
                .pod
        };
        let named = |uid: &str, at| notices.new_ones(Preference::Spread, &[Arc::new(pod(uid))], at).len();
        let begin = Instant::now();
        assert_eq!(
            (
                named("1", begin),
                named("1", begin + NAME_AGAIN_AFTER - Duration::from_secs(1))
            ),
            (1, 0)
        );
        assert_eq!((named("2", begin), named("1", begin + NAME_AGAIN_AFTER)), (1, 1));
        assert_eq!(
            notices.new_ones(Preference::AntiAffinity, &[Arc::new(pod("3"))], begin),
            [""; 0]
        );
    }
}
