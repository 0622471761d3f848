//! Reports to the observation what happens to the account: each call of the controllers that changes something, and of the cluster's instances
//! each launch, each end that a call asks for, and each that EC2 brings about by itself.

use jiff::Timestamp;
use kerf_aws::provider_id::provider_id;
use kerf_aws::tags::{NODE_CLAIM, NODE_POOL, Tags, cluster_key};
use kerf_aws_sandbox::account::{Account, Call, InstanceState};
use kerf_chaos::Observation;
use std::collections::{BTreeMap, BTreeSet};

/// What was reported of an instance last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reported {
    Launched,
    Stopped,
    Ending,
    Gone,
}

/// Compares the account with what was reported; see the module.
pub(super) struct AccountReports {
    observation: Observation,
    /// By id.
    reported: BTreeMap<String, Reported>,
    calls_seen: usize,
}

/// Whether tags are those of the cluster's instances.
pub(super) fn is_own(tags: &Tags) -> bool {
    tags.get(&cluster_key("kerf")).is_some_and(|value| value == "owned") && tags.contains_key(NODE_POOL)
}

impl AccountReports {
    pub(super) fn new(observation: Observation) -> Self {
        Self {
            observation,
            reported: BTreeMap::new(),
            calls_seen: 0,
        }
    }

    /// Reports what is new.
    pub(super) fn look(&mut self, account: &Account, now: Timestamp) {
        let calls = self.new_calls(account);
        for call in calls.iter().filter(|call| changes_something(call)) {
            // Others have no number.
            if let Ok(life) = call.client.parse() {
                self.observation
                    .called(life, &format!("{}:{}", call.service, call.action));
            }
        }
        let asked = ended_by(calls);
        for one in account.instances.values().filter(|one| is_own(&one.tags)) {
            let provider_id = provider_id(&one.zone.name, &one.id);
            let reported = self.reported.entry(one.id.clone()).or_insert_with(|| {
                let claim = one.tags.get(NODE_CLAIM).map_or("", String::as_str);
                self.observation.launched(&provider_id, claim);
                Reported::Launched
            });
            let next = match (*reported, one.state(now)) {
                (Reported::Launched, InstanceState::Stopped) => Reported::Stopped,
                (Reported::Launched | Reported::Stopped, InstanceState::ShuttingDown | InstanceState::Terminated) => {
                    if asked.contains(one.id.as_str()) {
                        Reported::Ending
                    } else {
                        Reported::Gone
                    }
                }
                (Reported::Ending, InstanceState::Terminated) => Reported::Gone,
                (known, _) => known,
            };
            if next == *reported {
                continue;
            }
            *reported = next;
            match next {
                Reported::Launched => {}
                Reported::Stopped => self.observation.stopped(&provider_id),
                Reported::Ending => self.observation.ending(&provider_id),
                Reported::Gone => self.observation.gone(&provider_id),
            }
        }
    }

    /// The calls since the last look.
    fn new_calls<'a>(&mut self, account: &'a Account) -> &'a [Call] {
        let calls = &account.calls;
        // Whoever takes the calls takes all.
        let new = calls.get(self.calls_seen..).unwrap_or(calls);
        self.calls_seen = calls.len();
        new
    }
}

fn changes_something(call: &Call) -> bool {
    let reads = ["Describe", "Get", "List", "Receive"];
    let is_read = reads.iter().any(|verb| call.action.starts_with(verb));
    call.error.is_none() && !is_read && !call.parameters.contains_key("DryRun")
}

/// Ids of instances that calls ended.
fn ended_by(calls: &[Call]) -> BTreeSet<&str> {
    let ends = calls
        .iter()
        .filter(|call| call.action == "TerminateInstances" && call.error.is_none());
    let ids = ends.flat_map(|call| {
        let ids = call.parameters.iter().filter(|(key, _)| key.starts_with("InstanceId"));
        ids.map(|(_, id)| id.as_str())
    });
    ids.collect()
}
