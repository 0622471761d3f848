//! Merging of equal calls: when a window closes, which calls share a request, and how its answer is dealt out (section 16 of
//! `docs/behaviour/aws.md`).

use crate::launch::{FleetError, FleetOutcome, FleetRequest};
use std::collections::BTreeMap;
use std::time::Duration;

/// Limits of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchWindow {
    /// Value of the metric label.
    pub name: &'static str,
    /// The window closes after so long without a new call,
    pub idle: Duration,
    /// or after so long in all,
    pub max: Duration,
    /// or with so many calls.
    pub items: usize,
}

/// CreateFleet: short, because pods wait for it.
pub const CREATE_FLEET: BatchWindow = BatchWindow {
    name: "create_fleet",
    idle: Duration::from_millis(35),
    max: Duration::from_secs(1),
    items: 1000,
};
/// DescribeInstances.
pub const DESCRIBE_INSTANCES: BatchWindow = BatchWindow {
    name: "describe_instances",
    idle: Duration::from_millis(100),
    max: Duration::from_secs(1),
    items: 500,
};
/// TerminateInstances.
pub const TERMINATE_INSTANCES: BatchWindow = BatchWindow {
    name: "terminate_instances",
    idle: Duration::from_millis(100),
    max: Duration::from_secs(1),
    items: 500,
};

impl BatchWindow {
    /// How long after its begin a window closes that got its last call so long after its begin and holds so many calls.
    pub fn closes_after(&self, last: Duration, count: usize) -> Duration {
        if count >= self.items {
            last
        } else {
            (last + self.idle).min(self.max)
        }
    }
}

/// What fleet requests must have in common to be sent as one: everything but the order of lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetBucket(FleetRequest);

impl FleetBucket {
    /// The bucket of a request.
    pub fn new(request: &FleetRequest) -> Self {
        let mut request = request.clone();
        for config in &mut request.configs {
            config.overrides.sort();
        }
        request.configs.sort_by(|a, b| a.template_name.cmp(&b.template_name));
        Self(request)
    }

    /// The request that is sent for all of the bucket.
    pub const fn request(&self) -> &FleetRequest {
        &self.0
    }
}

/// What one caller of a merged CreateFleet call gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetShare {
    /// Its instance.
    pub instance: Option<FleetOutcome>,
    /// The errors of the call; all callers get all of them.
    pub errors: Vec<FleetError>,
}

/// The shares of so many callers, and the ids of instances that no caller asked for; garbage collection removes those. A caller without
/// instance and without error gets an error of our own (AWS-266, AWS-267).
pub fn deal_fleet(
    callers: usize,
    instances: Vec<FleetOutcome>,
    errors: &[FleetError],
) -> (Vec<FleetShare>, Vec<String>) {
    let missing = FleetError {
        error: crate::errors::ApiError::new(
            "too few instances returned",
            "the fleet has fewer instances than callers",
        ),
        instance_type: String::new(),
        zone: String::new(),
        subnet_id: None,
    };
    let mut instances = instances.into_iter();
    let shares = (0..callers).map(|_| {
        let instance = instances.next();
        let errors = match (&instance, errors) {
            (None, []) => vec![missing.clone()],
            (_, errors) => errors.to_vec(),
        };
        FleetShare { instance, errors }
    });
    let shares = shares.collect();
    (shares, instances.map(|surplus| surplus.instance_id).collect())
}

/// What is to be done for the ids of a merged call after its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dealt<T> {
    /// Answers by id.
    pub answered: BTreeMap<String, T>,
    /// Ids that need a call of their own.
    pub alone: Vec<String>,
}

/// Deals out the answer of DescribeInstances: ids that are missing, all of them after an error, are described one by one (AWS-268).
pub fn deal_described<T>(ids: &[String], answers: impl IntoIterator<Item = (String, T)>) -> Dealt<T> {
    let answered: BTreeMap<String, T> = answers.into_iter().filter(|(id, _)| ids.contains(id)).collect();
    let mut alone: Vec<String> = ids.iter().filter(|id| !answered.contains_key(*id)).cloned().collect();
    alone.sort();
    alone.dedup();
    Dealt { answered, alone }
}

/// Deals out the answer of TerminateInstances, states by id: an instance that shuts down or has terminated is done, and the rest is
/// terminated one by one (AWS-269).
pub fn deal_terminated(ids: &[String], states: impl IntoIterator<Item = (String, String)>) -> Dealt<String> {
    let ends = |state: &str| matches!(state, "shutting-down" | "terminated");
    deal_described(ids, states.into_iter().filter(|(_, state)| ends(state)))
}
