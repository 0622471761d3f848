//! No disruption budget is exceeded: when a claim is marked for a voluntary reason, no more claims of its pool are marked than the budgets for
//! that reason allow.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Invariant;
use crate::caller::Caller;
use crate::view::{Budget, Claim, Event, Pool, View};

/// A decision is made on what was listed at most this long ago.
const STALE_MAX: Duration = Duration::from_secs(11 * 60);
/// A decision may be carried out this many minutes after its window closed.
const WINDOW_SLACK_MIN: i64 = 2;

#[derive(Default)]
pub(crate) struct Budgets {
    /// How many claims a pool had, and when, newest last.
    totals: BTreeMap<String, Vec<(Duration, usize)>>,
}

impl Budgets {
    /// The most claims the pool had lately.
    fn total(&self, seen: &View, pool: &str) -> usize {
        let history = self.totals.get(pool).map(Vec::as_slice).unwrap_or_default();
        let mut lately = history.iter().rev();
        let mut most = 0;
        // The first one before the time counts too: it was in force until the next.
        for (at, total) in lately.by_ref() {
            most = most.max(*total);
            if seen.elapsed.saturating_sub(*at) > STALE_MAX {
                break;
            }
        }
        most
    }

    fn allowed(&self, seen: &View, pool: &Pool, reason: &str) -> usize {
        let total = self.total(seen, &pool.name);
        let minute = seen.now.as_second().rem_euclid(86_400) / 60;
        let applies = |budget: &&Budget| {
            let for_reason = budget.reasons.is_empty() || budget.reasons.iter().any(|named| named == reason);
            // Only where it is surely in force.
            let active = budget
                .window
                .is_none_or(|(from, to)| minute > from + WINDOW_SLACK_MIN && minute < to - WINDOW_SLACK_MIN);
            for_reason && active
        };
        let shares = pool
            .budgets
            .iter()
            .filter(applies)
            .map(|budget| share(&budget.nodes, total));
        shares.min().unwrap_or(usize::MAX)
    }
}

fn share(nodes: &str, total: usize) -> usize {
    match nodes.strip_suffix('%') {
        Some(percent) => (total * percent.parse().unwrap_or(0)).div_ceil(100),
        None => nodes.parse().unwrap_or(0),
    }
}

impl Invariant for Budgets {
    fn name(&self) -> &'static str {
        "disruption budgets hold"
    }

    fn after(&mut self, seen: &View, caller: Caller, event: &Event) -> Option<String> {
        let Event::Claim(diff) = event else { return None };
        let claim = diff.after.as_ref().or(diff.before.as_ref())?;
        if diff.before.is_none() || diff.after.is_none() {
            let total = seen.claims_of(&claim.pool).count();
            self.totals
                .entry(claim.pool.clone())
                .or_default()
                .push((seen.elapsed, total));
        }
        let reason = diff.after.as_ref()?.disruption_reason.as_ref()?;
        let was = diff
            .before
            .as_ref()
            .and_then(|before| before.disruption_reason.as_ref());
        let pool = seen.pools.get(&claim.pool)?;
        // A process that has not received a claim cannot count it.
        if was.is_some() || !caller.is_kerf() || claim.deleting || seen.may_be_misled() {
            return None;
        }
        // A machine that is ending or whose Node is gone is no disruption of anything any more.
        let has_node = |claim: &Claim| seen.nodes.values().any(|node| node.provider_id == claim.provider_id);
        let counts = |claim: &&Claim| {
            claim.disruption_reason.is_some() && !claim.is_true("InstanceTerminating") && has_node(claim)
        };
        let marked = seen.claims_of(&claim.pool).filter(counts).count();
        let allowed = self.allowed(seen, pool, reason);
        (marked > allowed).then(|| {
            format!(
                "{marked} claims of {} are disrupted, {allowed} may be ({reason})",
                pool.name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Diff, Node};

    fn judge(nodes: &str, marked: usize, reasons: &[&str]) -> Option<String> {
        let mut seen = View::default();
        let budget = Budget {
            nodes: nodes.into(),
            reasons: reasons.iter().map(ToString::to_string).collect(),
            window: None,
        };
        let pool = Pool {
            name: "p".into(),
            budgets: vec![budget],
            ..Pool::default()
        };
        seen.pools.insert("p".into(), pool);
        seen.nodes.insert(String::new(), Node::default());
        let mut budgets = Budgets::default();
        let mut last = None;
        for index in 0..4 {
            let plain = Claim {
                name: index.to_string(),
                pool: "p".into(),
                ..Claim::default()
            };
            seen.claims.insert(index.to_string(), plain.clone());
            let created = Event::Claim(Diff {
                before: None,
                after: Some(plain.clone()),
            });
            budgets.after(&seen, Caller::Kerf, &created);
            if index < marked {
                let claim = Claim {
                    disruption_reason: Some("Drifted".into()),
                    ..plain.clone()
                };
                seen.claims.insert(index.to_string(), claim.clone());
                last = Some(Event::Claim(Diff {
                    before: Some(plain),
                    after: Some(claim),
                }));
            }
        }
        budgets.after(&seen, Caller::Kerf, &last?)
    }

    #[test]
    fn one_more_than_allowed_is_too_many() {
        assert!(judge("2", 2, &[]).is_none());
        assert!(judge("2", 3, &[]).is_some());
        assert!(judge("50%", 2, &["Drifted"]).is_none());
        assert!(judge("50%", 3, &["Drifted"]).is_some());
        assert!(judge("0", 3, &["Empty"]).is_none());
    }
}
