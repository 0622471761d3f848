//! Compares decisions with what another autoscaler did. Pure: the input is records, the output is sums.

use jiff::{SignedDuration, Timestamp};
use kerf_controllers::{Machine, ShadowRecord};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The other autoscaler counts as having carried out a command if its nodes were deleted at most so long before the command was decided
/// (Kerf decides every ten seconds and validates for 15) or after the command ended (Nodes are deleted before their NodeClaims).
const TOLERANCE: SignedDuration = SignedDuration::from_secs(60);

/// The sums over the records. Prices are in dollars per hour.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comparison {
    /// The first and the last record.
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
    /// The cost of the cluster.
    pub(super) cost: Option<Cost>,
    /// The scale-ups during which no machine was deleted.
    pub(super) scale_ups: ScaleUps,
    /// The others: some of the other's machines may be replacements.
    pub(super) disturbed_scale_ups: ScaleUps,
    /// Disruption by reason.
    pub(super) disruption: BTreeMap<String, Disruption>,
    /// What the commands that the other autoscaler did not carry out would have saved while they were right, in dollars.
    pub(super) missed_savings: f64,
    /// The same per hour of observation.
    pub(super) missed_savings_per_hour: f64,
}

/// What the cluster cost, weighted by time.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cost {
    pub(super) average: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// Sums over scale-ups.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScaleUps {
    pub(super) count: usize,
    pub(super) pods: usize,
    pub(super) kerf: Launched,
    pub(super) other: Launched,
}

/// What one side launched.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Launched {
    pub(super) machines: usize,
    pub(super) price_per_hour: f64,
    /// Machines whose price is not known; the price is without them.
    pub(super) without_price: usize,
    /// Pods without a place.
    pub(super) left_over: usize,
}

/// Nodes of one reason, and their prices.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Disruption {
    /// Commands that Kerf decided.
    pub(super) commands: usize,
    /// Those whose nodes the other autoscaler ended, all of them.
    pub(super) carried_out: usize,
    /// What the others would have saved per hour, summed over commands.
    pub(super) not_carried_out_savings: f64,
    /// Nodes that the other autoscaler ended, and those of them that no command of Kerf names.
    pub(super) other_nodes: usize,
    pub(super) other_only_nodes: usize,
    pub(super) other_only_price: f64,
}

/// A command of Kerf with the time in which it held.
struct Command<'a> {
    began: Timestamp,
    ended: Option<Timestamp>,
    reason: &'a str,
    claims: BTreeSet<&'a str>,
    savings: f64,
}

impl Comparison {
    /// Compares the records of one or several files.
    pub(super) fn of(records: &[ShadowRecord]) -> Self {
        let mut sorted: Vec<&ShadowRecord> = records.iter().collect();
        sorted.sort_by_key(|record| record.time());
        let mut comparison = Self {
            from: sorted.first().map(|record| record.time()),
            to: sorted.last().map(|record| record.time()),
            ..Self::default()
        };
        let Some(to) = comparison.to else { return comparison };
        comparison.cost = cost(&sorted, to);
        for record in &sorted {
            comparison.add_scale_up(record);
        }
        let commands = commands(&sorted);
        let ended: BTreeMap<&str, Timestamp> = sorted.iter().filter_map(|record| ended_claim(record)).collect();
        for command in &commands {
            comparison.add_command(command, &ended, to);
        }
        let named: BTreeSet<&str> = commands
            .iter()
            .flat_map(|command| command.claims.iter().copied())
            .collect();
        for record in &sorted {
            comparison.add_ended(record, &named);
        }
        let hours = comparison.hours();
        if hours > 0.0 {
            comparison.missed_savings_per_hour = comparison.missed_savings / hours;
        }
        comparison
    }

    /// How long was observed, in hours.
    pub(super) fn hours(&self) -> f64 {
        let (Some(from), Some(to)) = (self.from, self.to) else {
            return 0.0;
        };
        hours(from, to)
    }

    fn add_scale_up(&mut self, record: &ShadowRecord) {
        let ShadowRecord::ScaleUp {
            pods,
            kerf,
            kerf_left_over,
            other,
            other_left_over,
            disturbed,
            ..
        } = record
        else {
            return;
        };
        let sums = match disturbed {
            true => &mut self.disturbed_scale_ups,
            false => &mut self.scale_ups,
        };
        sums.count += 1;
        sums.pods += pods;
        sums.kerf.add(kerf, *kerf_left_over);
        sums.other.add(other, *other_left_over);
    }

    fn add_command(&mut self, command: &Command<'_>, ended: &BTreeMap<&str, Timestamp>, to: Timestamp) {
        let sums = self.disruption.entry(command.reason.to_owned()).or_default();
        sums.commands += 1;
        let until = command.ended.unwrap_or(to);
        let is_ended = |claim: &&str| {
            let at = ended.get(claim);
            at.is_some_and(|at| command.began - TOLERANCE <= *at && *at <= until + TOLERANCE)
        };
        if command.claims.iter().all(is_ended) {
            sums.carried_out += 1;
        } else {
            sums.not_carried_out_savings += command.savings;
            self.missed_savings += command.savings * hours(command.began, until);
        }
    }

    fn add_ended(&mut self, record: &ShadowRecord, named: &BTreeSet<&str>) {
        let ShadowRecord::Ended { reason, machine, .. } = record else {
            return;
        };
        let reason = reason.as_deref().unwrap_or("other");
        let sums = self.disruption.entry(reason.to_owned()).or_default();
        sums.other_nodes += 1;
        if machine.claim.as_deref().is_none_or(|claim| !named.contains(claim)) {
            sums.other_only_nodes += 1;
            sums.other_only_price += machine.price_per_hour.unwrap_or_default();
        }
    }
}

impl Launched {
    fn add(&mut self, machines: &[Machine], left_over: usize) {
        self.machines += machines.len();
        self.left_over += left_over;
        for machine in machines {
            match machine.price_per_hour {
                Some(price) => self.price_per_hour += price,
                None => self.without_price += 1,
            }
        }
    }
}

fn hours(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0) / 3600.0
}

fn ended_claim(record: &ShadowRecord) -> Option<(&str, Timestamp)> {
    let ShadowRecord::Ended { time, machine, .. } = record else {
        return None;
    };
    Some((machine.claim.as_deref()?, *time))
}

/// The average, least and highest price. A price holds until the next one, a start or the last record: while no process observes, nothing is
/// known.
fn cost(sorted: &[&ShadowRecord], to: Timestamp) -> Option<Cost> {
    let (mut weighted, mut observed) = (0.0, 0.0);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut last: Option<(Timestamp, f64)> = None;
    let mut known_until: Option<Timestamp> = None;
    let mut close = |last: Option<(Timestamp, f64)>, until: Timestamp| {
        if let Some((since, price)) = last {
            weighted += price * hours(since, until);
            observed += hours(since, until);
        }
    };
    for record in sorted {
        match record {
            ShadowRecord::Cost {
                time, price_per_hour, ..
            } => {
                close(last, *time);
                last = Some((*time, *price_per_hour));
                least = least.min(*price_per_hour);
                most = most.max(*price_per_hour);
            }
            ShadowRecord::Start { .. } => close(last.take(), known_until.unwrap_or(record.time())),
            ShadowRecord::ScaleUp { .. }
            | ShadowRecord::Command { .. }
            | ShadowRecord::CommandEnded { .. }
            | ShadowRecord::Ended { .. } => {}
        }
        known_until = Some(record.time());
    }
    close(last, to);
    (least <= most).then(|| Cost {
        average: if observed > 0.0 { weighted / observed } else { most },
        least,
        most,
    })
}

/// The commands, each with its end. A process that starts ends those of the one before.
fn commands<'a>(sorted: &[&'a ShadowRecord]) -> Vec<Command<'a>> {
    let mut commands: Vec<Command<'a>> = Vec::new();
    let mut open: BTreeMap<u64, usize> = BTreeMap::new();
    let mut last = Timestamp::UNIX_EPOCH;
    for record in sorted {
        let mut end = |at: Option<usize>, time: Timestamp| {
            if let Some(command) = at.and_then(|at| commands.get_mut(at)) {
                command.ended = Some(time);
            }
        };
        match record {
            ShadowRecord::Start { .. } => {
                for at in std::mem::take(&mut open).into_values() {
                    end(Some(at), last);
                }
            }
            ShadowRecord::CommandEnded { time, id } => end(open.remove(id), *time),
            ShadowRecord::Command {
                time,
                id,
                reason,
                nodes,
                savings_per_hour,
                ..
            } => {
                open.insert(*id, commands.len());
                commands.push(Command {
                    began: *time,
                    ended: None,
                    reason,
                    claims: nodes.iter().filter_map(|node| node.claim.as_deref()).collect(),
                    savings: *savings_per_hour,
                });
            }
            ShadowRecord::ScaleUp { .. } | ShadowRecord::Ended { .. } | ShadowRecord::Cost { .. } => {}
        }
        last = record.time();
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + 60 * minute).expect("a time")
    }

    fn machine(claim: Option<&str>, price: f64) -> Machine {
        Machine {
            claim: claim.map(str::to_owned),
            pool: "web".to_owned(),
            price_per_hour: Some(price),
            ..Machine::default()
        }
    }

    fn start(minute: i64) -> ShadowRecord {
        ShadowRecord::Start {
            time: at(minute),
            version: "0.1.0".to_owned(),
        }
    }

    fn cost_of(minute: i64, price_per_hour: f64) -> ShadowRecord {
        ShadowRecord::Cost {
            time: at(minute),
            nodes: 1,
            price_per_hour,
        }
    }

    fn command(minute: i64, id: u64, claims: &[&str], savings_per_hour: f64) -> ShadowRecord {
        ShadowRecord::Command {
            time: at(minute),
            id,
            reason: "Underutilized".to_owned(),
            nodes: claims.iter().map(|claim| machine(Some(claim), 1.0)).collect(),
            replacements: Vec::new(),
            savings_per_hour,
        }
    }

    fn ended(minute: i64, claim: &str, reason: Option<&str>) -> ShadowRecord {
        ShadowRecord::Ended {
            time: at(minute),
            reason: reason.map(str::to_owned),
            machine: machine(Some(claim), 1.0),
        }
    }

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-9, "{left} is not {right}");
    }

    #[test]
    fn nothing_comes_to_nothing() {
        assert_eq!(Comparison::of(&[]), Comparison::default());
    }

    #[test]
    fn scale_ups_are_summed_apart_where_machines_went() {
        let scale_up = |disturbed, kerf: f64, other: f64| ShadowRecord::ScaleUp {
            time: at(5),
            began: at(1),
            pods: 10,
            kerf: vec![machine(None, kerf)],
            kerf_left_over: 1,
            other: vec![
                machine(Some("a"), other),
                Machine {
                    price_per_hour: None,
                    ..machine(Some("b"), 0.0)
                },
            ],
            other_left_over: 2,
            disturbed,
        };
        let records = [
            scale_up(false, 1.0, 1.5),
            scale_up(false, 2.0, 2.5),
            scale_up(true, 9.0, 9.0),
        ];
        let comparison = Comparison::of(&records);
        let calm = &comparison.scale_ups;
        assert_eq!(
            (calm.count, calm.pods, comparison.disturbed_scale_ups.count),
            (2, 20, 1)
        );
        close(calm.kerf.price_per_hour, 3.0);
        close(calm.other.price_per_hour, 4.0);
        assert_eq!((calm.kerf.machines, calm.other.machines), (2, 4));
        assert_eq!((calm.kerf.without_price, calm.other.without_price), (0, 2));
        assert_eq!((calm.kerf.left_over, calm.other.left_over), (2, 4));
    }

    #[test]
    fn a_command_is_carried_out_when_all_its_nodes_went_while_it_held() {
        let records = [
            start(0),
            command(1, 1, &["a", "b"], 0.5),
            ended(2, "a", Some("Underutilized")),
            ended(2, "b", Some("Underutilized")),
            ShadowRecord::CommandEnded { time: at(2), id: 1 },
            // One of two is not enough; it holds for half an hour.
            command(10, 2, &["c", "d"], 0.4),
            ended(39, "c", Some("Underutilized")),
            ShadowRecord::CommandEnded { time: at(40), id: 2 },
            // Long after the command ended.
            command(41, 3, &["e"], 0.2),
            ShadowRecord::CommandEnded { time: at(44), id: 3 },
            ended(60, "e", None),
            ended(60, "f", Some("Empty")),
        ];
        let comparison = Comparison::of(&records);
        let of = &comparison.disruption["Underutilized"];
        assert_eq!(
            (of.commands, of.carried_out, of.other_nodes, of.other_only_nodes),
            (3, 1, 3, 0)
        );
        close(of.not_carried_out_savings, 0.6);
        close(comparison.missed_savings, 0.4 * 0.5 + 0.2 * 0.05);
        close(comparison.missed_savings_per_hour, comparison.missed_savings);
        assert_eq!(comparison.disruption["Empty"].other_only_nodes, 1);
        close(comparison.disruption["Empty"].other_only_price, 1.0);
        assert_eq!(comparison.disruption["other"].other_only_nodes, 0, "a command names it");
    }

    #[test]
    fn a_new_process_ends_the_commands_of_the_one_before() {
        let records = [
            start(0),
            command(0, 1, &["a"], 1.0),
            cost_of(30, 2.0),
            start(120),
            command(120, 1, &["b"], 1.0),
            cost_of(150, 4.0),
        ];
        let comparison = Comparison::of(&records);
        close(comparison.missed_savings, 0.5 + 0.5);
    }

    #[test]
    fn prices_are_weighted_by_the_time_they_hold() {
        let records = [start(0), cost_of(0, 2.0), cost_of(30, 4.0), ended(40, "a", None)];
        let cost = Comparison::of(&records).cost.expect("a cost");
        close(cost.average, (2.0 * 30.0 + 4.0 * 10.0) / 40.0);
        assert_eq!((cost.least, cost.most), (2.0, 4.0));
        // Nobody observed from 40 to 100.
        let again = [
            records.as_slice(),
            &[start(100), cost_of(100, 8.0), ended(120, "b", None)],
        ]
        .concat();
        let cost = Comparison::of(&again).cost.expect("a cost");
        close(cost.average, (2.0 * 30.0 + 4.0 * 10.0 + 8.0 * 20.0) / 60.0);
    }
}
