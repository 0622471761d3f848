//! How long planning waits for claims that are not launched.
//!
//! A claim without an instance and without promised pods may have been made for any pod, so planning waits for it (SCH-075). Upstream
//! waits until it is launched or gone, so one claim that cannot launch stops the whole cluster. Here the wait ends when the provider
//! has refused the claim once, and after three quarters of a minute in any case. The claim is then a machine on its way with room for
//! whatever it was made for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The longest wait for one claim: most launches are answered sooner, and a pending pod should not wait a full minute for the claim of another pod.
const WAIT_MAX: Duration = Duration::from_secs(45);

/// A claim that planning waits for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Unlaunched {
    /// Its name.
    pub(crate) claim: Arc<str>,
    /// The provider was asked for a machine and did not launch one.
    pub(crate) refused: bool,
}

/// Since when each claim is waited for, as uptime.
#[derive(Debug, Default)]
pub(crate) struct UnlaunchedTimeouts(BTreeMap<Arc<str>, Duration>);

impl UnlaunchedTimeouts {
    /// Takes the claims that planning waits for now and returns those whose wait ends.
    pub(crate) fn expire(&mut self, unlaunched: &BTreeSet<Unlaunched>, uptime: Duration) -> Vec<Arc<str>> {
        let names: BTreeSet<&Arc<str>> = unlaunched.iter().map(|one| &one.claim).collect();
        self.0.retain(|claim, _| names.contains(claim));
        let has_ended = |one: &&Unlaunched| {
            let since = *self.0.entry(Arc::clone(&one.claim)).or_insert(uptime);
            one.refused || uptime.saturating_sub(since) >= WAIT_MAX
        };
        let ended = unlaunched.iter().filter(has_ended);
        ended.map(|one| Arc::clone(&one.claim)).collect()
    }
}
