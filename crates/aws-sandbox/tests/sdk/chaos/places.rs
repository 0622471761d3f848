//! Where instances may run: in which reservations and placement groups, and what claims and Nodes say of it.

use super::invariants::{Sight, id_of};
use jiff::{SignedDuration, Timestamp};
use kerf_api::labels::CAPACITY_TYPE;
use kerf_api::{Conditioned, EC2NodeClass, NodeClaim};
use kerf_aws::labels::{PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION, RESERVATION_ID};
use kerf_aws::provider_id::instance_id;
use kerf_aws_sandbox::account::{Account, Instance, Purchase};
use kube::ResourceExt;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long before its end a capacity block must begin to be emptied.
const BLOCK_CLOSES: SignedDuration = SignedDuration::from_mins(40);
/// How long after that a launch may still arrive: classes read their reservations once a minute.
const LATE_LAUNCH: SignedDuration = SignedDuration::from_mins(2);
/// How long it may take to empty a block. EC2 ends its instances after ten minutes.
const EMPTYING_MAX: Duration = Duration::from_secs(7 * 60);

/// Where an instance runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    capacity_type: &'static str,
    reservation: Option<String>,
    preference: Option<String>,
    group: Option<String>,
    partition: Option<u32>,
    launched: Timestamp,
    /// From when on nothing may run here.
    closes: Option<Timestamp>,
}

impl Place {
    pub(super) fn of(one: &Instance, account: &Account) -> Self {
        let reservations = || {
            account
                .reservations
                .iter()
                .filter(|other| Some(&other.id) == one.reservation_id.as_ref())
        };
        let end = reservations()
            .find(|other| other.kind == "capacity-block")
            .and_then(|block| block.ends);
        Self {
            capacity_type: match one.purchase {
                Purchase::Spot => "spot",
                Purchase::OnDemand => "on-demand",
                Purchase::Reserved => "reserved",
            },
            reservation: one.reservation_id.clone(),
            preference: one.reservation_preference.clone(),
            group: one.placement_group.clone(),
            partition: one.partition,
            launched: one.launched,
            closes: end.map(|end| end - BLOCK_CLOSES),
        }
    }
}

/// Placement groups of an account: ids by id and by name.
pub(super) fn group_ids(account: &Account) -> BTreeMap<String, String> {
    let groups = account.placement_groups.iter();
    groups
        .flat_map(|group| [&group.id, &group.name].map(|key| (key.clone(), group.id.clone())))
        .collect()
}

/// What must never be. `calm` is how long nothing has hindered the controllers.
pub(super) fn misplaced(sight: &Sight, calm: Option<Duration>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (id, place) in &sight.places {
        let may_reserve = place.preference.as_deref() == Some("capacity-reservations-only");
        if let Some(reservation) = place.reservation.as_ref().filter(|_| !may_reserve) {
            wrong.push(format!("{id} takes room in {reservation}, which it did not ask for"));
        }
        let Some(closed) = place.closes.filter(|closes| *closes <= sight.now) else {
            continue;
        };
        let was_calm = calm.is_some_and(|calm| calm > sight.now.duration_since(closed).unsigned_abs());
        if was_calm && place.launched > closed + LATE_LAUNCH {
            wrong.push(format!("{id} was launched into a block that ends"));
        }
    }
    wrong
}

/// Whether the class of a claim no longer selects its reservation. Nothing tells Kerf when that ends (AWS-276), and the claim goes as drift and
/// budgets allow.
fn is_unselected(claim: &NodeClaim) -> bool {
    let drifted = claim.condition("Drifted");
    drifted.is_some_and(|drifted| drifted.reason.as_deref() == Some("CapacityReservationDrift"))
}

/// What must not last, and how long it may.
pub(super) fn passing(sight: &Sight) -> impl Iterator<Item = (String, Duration)> {
    let may_stay = |id: &str| {
        let mut of = sight.claims.iter().filter(|claim| id_of(claim) == Some(id));
        of.any(|claim| sight.held.contains(&claim.name_any()) || is_unselected(claim))
    };
    let closed = sight
        .places
        .iter()
        .filter(move |(id, place)| place.closes.is_some_and(|closes| closes <= sight.now) && !may_stay(id));
    closed.map(|(id, _)| (format!("{id} stays in a block that ends"), EMPTYING_MAX))
}

/// What is not as it must be once the world is quiet.
pub(super) fn unsettled(sight: &Sight) -> Vec<String> {
    let mut wrong = Vec::new();
    for claim in &sight.claims {
        let Some((id, place)) = id_of(claim).and_then(|id| Some((id, sight.places.get(id)?))) else {
            continue;
        };
        wrong.extend(labels(claim.labels(), place).map(|text| format!("claim {}: {text}", claim.name_any())));
        let has_id = |other: &&k8s_openapi::api::core::v1::Node| {
            let provider_id = other.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            provider_id.and_then(|text| instance_id(text).ok()) == Some(id)
        };
        if let Some(node) = sight.nodes.iter().find(has_id) {
            wrong.extend(labels(node.labels(), place).map(|text| format!("node {}: {text}", node.name_any())));
        }
        if let Some(class) = class_of(claim, sight) {
            wrong.extend(selected(id, place, class, sight));
        }
    }
    wrong
}

fn class_of<'a>(claim: &NodeClaim, sight: &'a Sight) -> Option<&'a EC2NodeClass> {
    let name = &claim.spec.node_class_ref.name;
    sight.classes.iter().find(|class| class.name_any() == *name)
}

/// Labels that say something else than what is.
fn labels(labels: &BTreeMap<String, String>, place: &Place) -> impl Iterator<Item = String> {
    let partition = place.partition.map(|number| number.to_string());
    let expected = [
        (CAPACITY_TYPE, Some(place.capacity_type)),
        (RESERVATION_ID, place.reservation.as_deref()),
        (PLACEMENT_GROUP_ID, place.group.as_deref()),
        (PLACEMENT_GROUP_PARTITION, partition.as_deref()),
    ];
    let wrong = expected.map(|(key, value)| {
        let is = labels.get(key).map(String::as_str);
        (is != value).then(|| format!("{key} is {is:?} for {place:?}"))
    });
    wrong.into_iter().flatten()
}

/// What an instance has that its class does not select.
fn selected(id: &str, place: &Place, class: &EC2NodeClass, sight: &Sight) -> Vec<String> {
    let mut wrong = Vec::new();
    let selector = class.spec.placement_group_selector.as_ref();
    let key = selector.and_then(|selector| selector.id.as_ref().or(selector.name.as_ref()));
    let group = key.and_then(|key| sight.groups.get(key));
    if place.group.as_ref() != group {
        wrong.push(format!(
            "{id} is in placement group {:?}, and not in {group:?}",
            place.group
        ));
    }
    if let Some(reservation) = &place.reservation {
        let all = &class.status.capacity_reservations;
        if !all.iter().any(|one| one.id == *reservation) {
            wrong.push(format!("{id} is in {reservation}, which its class does not select"));
        }
    }
    wrong
}
