//! Capacity reservations and placement groups of an account, and when classes use them. Some worlds have them.

use super::scenario::{FIRST_CLASS, LIFE, SECOND_CLASS, Scenario, Step};
use super::trouble::Trouble;
use jiff::Timestamp;
use kerf_aws::placement_group::Strategy;
use kerf_aws_sandbox::account::{Account, PlacementGroup, Reservation, Signal, Zone};
use kerf_chaos::{Dice, WORLD_START};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// What an account has of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserved {
    pub(super) reservations: Vec<Reservation>,
    groups: Vec<PlacementGroup>,
}

impl Reserved {
    /// Puts all into an account.
    pub(super) fn settle(&self, account: &mut Account) {
        account.reservations.clone_from(&self.reservations);
        account.placement_groups.clone_from(&self.groups);
    }

    /// How many things a class may have to look up.
    pub(super) fn lookups(&self) -> usize {
        self.reservations.len() + usize::from(!self.groups.is_empty())
    }
}

/// Adds reservations and groups to some scenarios.
pub(super) fn reserve(seed: u64, scenario: &mut Scenario) {
    let dice = Dice::new(seed, "reservations");
    if dice.chance(35) {
        reservations(&dice, scenario);
    }
    if dice.chance(30) {
        groups(&dice, scenario);
    }
    scenario.steps.sort_by_key(|(at, _)| *at);
}

fn reservations(dice: &Dice, scenario: &mut Scenario) {
    let all: Vec<Reservation> = (0..dice.between(1, 3)).map(|at| drawn(dice, at)).collect();
    let terms = |dice: &Dice| {
        let chosen = all.iter().filter(|_| dice.chance(75));
        let terms: Vec<Value> = chosen.map(|one| json!({"id": one.id})).collect();
        // The definition refuses an empty list.
        let terms = if terms.is_empty() { Value::Null } else { json!(terms) };
        json!({"capacityReservationSelectorTerms": terms})
    };
    for class in &mut scenario.classes {
        if dice.chance(80) {
            set(&mut class["spec"], terms(dice));
        }
    }
    for pool in &mut scenario.pools {
        let values = &mut pool["spec"]["template"]["spec"]["requirements"][1]["values"];
        if dice.chance(80) {
            values.as_array_mut().unwrap().push(json!("reserved"));
        }
    }
    for _ in 0..dice.between(0, 2) {
        let class = dice.one(&[FIRST_CLASS, SECOND_CLASS]);
        scenario
            .steps
            .push((during(dice), Step::ChangeClass(class, terms(dice))));
    }
    for _ in 0..dice.between(0, 2) {
        let which = dice.below(1000);
        let reclaim = Step::Signal(which, Signal::ReservationReclaim);
        scenario.steps.push((during(dice), reclaim));
    }
    let is_cancellable = |one: &Reservation| one.kind == "default" && !one.interruptible;
    for (at, one) in all.iter().enumerate() {
        if is_cancellable(one) && dice.chance(30) {
            let cancel = Step::Trouble(Trouble::Cancel(at));
            scenario.steps.push((during(dice), cancel));
        }
    }
    scenario.reserved.reservations = all;
}

fn during(dice: &Dice) -> Duration {
    dice.seconds(120, LIFE.as_secs())
}

fn set(spec: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else { return };
    spec.as_object_mut().unwrap().extend(fields);
}

fn drawn(dice: &Dice, at: u64) -> Reservation {
    let after =
        |minutes: u64| Some(Timestamp::from_second(WORLD_START + i64::try_from(60 * minutes).unwrap()).unwrap());
    let (kind, interruptible, ends) = match dice.below(3) {
        0 => ("default", false, None),
        1 => ("default", true, None),
        // Nodes go forty minutes before it.
        _ => ("capacity-block", false, after(dice.between(50, 140))),
    };
    let zone = dice.below(4);
    let letter = ["a", "b", "c", "d"][usize::try_from(zone).unwrap()];
    let is_open = kind == "default" && !interruptible && dice.chance(30);
    let types = ["m5.large", "m5.xlarge", "c5.xlarge", "r6i.xlarge", "m6g.xlarge"];
    let zone = Zone {
        name: format!("us-east-1{letter}"),
        id: format!("use1-az{}", zone + 1),
    };
    Reservation {
        instance_type: dice.one(&types).to_owned(),
        match_criteria: if is_open { "open" } else { "targeted" }.to_owned(),
        interruptible,
        total: u32::try_from(dice.between(1, 3)).unwrap(),
        ..reservation(&format!("cr-{at:017x}"), kind, zone, ends)
    }
}

/// A reservation for one instance.
pub(super) fn reservation(id: &str, kind: &str, zone: Zone, ends: Option<Timestamp>) -> Reservation {
    Reservation {
        id: id.to_owned(),
        instance_type: "m5.large".to_owned(),
        zone,
        owner_id: "111122223333".to_owned(),
        match_criteria: "targeted".to_owned(),
        kind: kind.to_owned(),
        interruptible: false,
        total: 1,
        ends,
        tags: BTreeMap::new(),
    }
}

fn groups(dice: &Dice, scenario: &mut Scenario) {
    let group = |name: &str, strategy, partitions: u64| PlacementGroup {
        id: format!("pg-{name}"),
        name: format!("pg-the-{name}"),
        strategy,
        partitions: u32::try_from(partitions).unwrap(),
        state: "available".to_owned(),
        tags: BTreeMap::new(),
    };
    scenario.reserved.groups = vec![
        group("partition", Strategy::Partition, dice.between(1, 4)),
        group("cluster", Strategy::Cluster, 0),
        group("spread", Strategy::Spread, 0),
    ];
    for class in &mut scenario.classes {
        if dice.chance(70) {
            let is_first = class["metadata"]["name"] == FIRST_CLASS;
            set(&mut class["spec"], selector(dice, is_first));
        }
    }
    for _ in 0..dice.between(0, 2) {
        let class = dice.one(&[FIRST_CLASS, SECOND_CLASS]);
        let change = if dice.chance(30) {
            json!({"placementGroupSelector": null})
        } else {
            selector(dice, class == FIRST_CLASS)
        };
        scenario.steps.push((during(dice), Step::ChangeClass(class, change)));
    }
    for deployment in &mut scenario.deployments {
        if dice.chance(30) {
            let spread = json!([{
                "maxSkew": 1, "topologyKey": "karpenter.k8s.aws/placement-group-partition",
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": deployment["spec"]["selector"],
            }]);
            deployment["spec"]["template"]["spec"]["topologySpreadConstraints"] = spread;
        }
    }
}

/// A spread group has room for few machines. The first pool has to take every pod in the end, so its class does not use it.
fn selector(dice: &Dice, is_first: bool) -> Value {
    let groups: &[&str] = if is_first {
        &["partition", "cluster"]
    } else {
        &["partition", "cluster", "spread"]
    };
    let name = dice.one(groups);
    if dice.chance(50) {
        json!({"placementGroupSelector": {"id": format!("pg-{name}"), "name": null}})
    } else {
        json!({"placementGroupSelector": {"name": format!("pg-the-{name}"), "id": null}})
    }
}
