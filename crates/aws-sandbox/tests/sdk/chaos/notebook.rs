//! What was seen in a world: its calls, its steps and what was wrong.

use kerf_aws::iam::CALLS;
use kerf_aws_sandbox::account::Call;
use kerf_chaos::Observation;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Length of the window in which calls are counted, in seconds.
const WINDOW: i64 = 300;
/// Most calls of an action in a window. Tries of the SDK count; calls that read the queue do not.
const CALLS_MAX: usize = 600;
/// Most launches in a window. Calls of CreateFleet that fail are none.
const LAUNCHES_MAX: usize = 150;

/// See the module.
pub(super) struct Notebook {
    whole: bool,
    /// Keeps the log.
    observation: Observation,
    pub(super) violations: Vec<String>,
    pub(super) calls: usize,
    pub(super) launches: usize,
    allowed: BTreeSet<String>,
    /// When calls of each action, and launches, were made, in seconds.
    recent: BTreeMap<String, VecDeque<i64>>,
}

impl Notebook {
    /// `whole` keeps every call in the log of the observation.
    pub(super) fn new(whole: bool, observation: Observation) -> Self {
        let needs = CALLS.iter().flat_map(|call| call.needs);
        Self {
            whole,
            observation,
            violations: Vec::new(),
            calls: 0,
            launches: 0,
            allowed: needs.map(|need| need.action.to_owned()).collect(),
            recent: BTreeMap::new(),
        }
    }

    /// Something is wrong. The same is written once.
    pub(super) fn complain(&mut self, at: f64, text: &str) {
        self.observation.remark(&format!("!!!! {text}"));
        if self.violations.len() < 20 && !self.violations.iter().any(|known| known.ends_with(text)) {
            self.violations.push(format!("{at:.0} s: {text}"));
        }
    }

    /// Counts one more call, and returns how many there are in the window.
    fn count(&mut self, name: &str, second: i64) -> usize {
        let recent = self.recent.entry(name.to_owned()).or_default();
        recent.push_back(second);
        while recent.front().is_some_and(|first| second - first > WINDOW) {
            recent.pop_front();
        }
        recent.len()
    }

    /// Calls that were made.
    pub(super) fn note(&mut self, at: f64, calls: Vec<Call>) {
        for call in calls {
            self.calls += 1;
            let name = format!("{}:{}", call.service, call.action);
            if !self.allowed.contains(&name) {
                self.complain(at, &format!("a call that no permission is asked for: {name}"));
            }
            let is_dry = call.parameters.contains_key("DryRun");
            let is_launch = call.action == "CreateFleet" && !is_dry && call.error.is_none();
            let is_counted = call.service != "sqs";
            if is_counted && self.count(&name, call.at.as_second()) > CALLS_MAX {
                self.complain(at, &format!("a storm of {name}"));
            }
            if is_launch {
                self.launches += 1;
                if self.count("launches", call.at.as_second()) > LAUNCHES_MAX {
                    self.complain(at, "a storm of launches");
                }
            }
            if self.whole {
                let error = call.error.map(|error| format!(" = {error}")).unwrap_or_default();
                let parameters: Vec<String> = call
                    .parameters
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                self.observation
                    .remark(&format!("{} call {name}{error} {}", call.at, parameters.join(" ")));
            }
        }
    }
}
