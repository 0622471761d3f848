//! Capacity reservations: which a class uses, and how many instances are left in them (section 17 of `docs/behaviour/aws.md`).

use crate::labels::{RESERVATION, RESERVATION_ID};
use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::NodeClassReservation;
use kerf_api::labels::{CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How long before the end of a capacity block its nodes go (AWS-274).
pub const BLOCK_ENDS_EARLY: SignedDuration = SignedDuration::from_mins(40);

/// A reservation as EC2 describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedReservation {
    /// Id.
    pub id: String,
    /// Zone.
    pub zone: String,
    /// Instance type.
    pub instance_type: String,
    /// Account that owns it.
    pub owner_id: String,
    /// `open` or `targeted`.
    pub instance_match_criteria: String,
    /// `default` or `capacity-block`; empty for the default.
    pub reservation_type: String,
    /// Whether EC2 may take its instances back.
    pub interruptible: Option<bool>,
    /// When it ends.
    pub end: Option<Timestamp>,
    /// Instances left.
    pub available: u32,
}

/// The reservations of a class: each once, without those that have ended (AWS-272).
pub fn usable(described: &[DescribedReservation], now: Timestamp) -> Vec<&DescribedReservation> {
    let mut by_id: BTreeMap<&str, &DescribedReservation> = BTreeMap::new();
    for reservation in described.iter().filter(|one| one.end.is_none_or(|end| end > now)) {
        by_id.entry(&reservation.id).or_insert(reservation);
    }
    by_id.into_values().collect()
}

/// A reservation with a kind that is not known; it is left out and logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("capacity reservation {id} has the unsupported {field} {value:?}")]
pub struct UnknownReservation {
    /// Id.
    pub id: String,
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: String,
}

/// Whether a reservation is a capacity block that ends so soon that its nodes go (AWS-274).
fn ends_soon(reservation_type: &str, end: Option<Timestamp>, now: Timestamp) -> bool {
    reservation_type == "capacity-block" && end.is_some_and(|end| now.duration_until(end) <= BLOCK_ENDS_EARLY)
}

/// The reservation as the status of a class lists it.
pub fn status_reservation(
    described: &DescribedReservation,
    now: Timestamp,
) -> Result<NodeClassReservation, UnknownReservation> {
    let unknown = |field, value: &str| UnknownReservation {
        id: described.id.clone(),
        field,
        value: value.to_owned(),
    };
    if !matches!(described.instance_match_criteria.as_str(), "open" | "targeted") {
        return Err(unknown("instanceMatchCriteria", &described.instance_match_criteria));
    }
    let reservation_type = match described.reservation_type.as_str() {
        "" | "default" => "default",
        "capacity-block" => "capacity-block",
        other => return Err(unknown("reservationType", other)),
    };
    let is_expiring = ends_soon(reservation_type, described.end, now);
    Ok(NodeClassReservation {
        availability_zone: described.zone.clone(),
        end_time: described.end,
        id: described.id.clone(),
        instance_match_criteria: described.instance_match_criteria.clone(),
        instance_type: described.instance_type.clone(),
        owner_id: described.owner_id.clone(),
        reservation_type: reservation_type.to_owned(),
        interruptible: described.interruptible.unwrap_or(false),
        state: if is_expiring { "expiring" } else { "active" }.to_owned(),
    })
}

/// When the reservations of a class must be read again: after a minute, or when the first of them ends (AWS-063).
pub fn requeue_after(reservations: &[NodeClassReservation], now: Timestamp) -> SignedDuration {
    let ends = reservations.iter().filter_map(|reservation| reservation.end_time);
    let first = ends.map(|end| now.duration_until(end)).min();
    let minute = SignedDuration::from_mins(1);
    first.map_or(minute, |first| first.clamp(SignedDuration::ZERO, minute))
}

/// Instances left in reservations, with the launches since EC2 reported them (AWS-273).
#[derive(Clone, Debug, Default)]
pub struct ReservationCounts {
    counts: BTreeMap<String, (u32, Timestamp)>,
}

impl ReservationCounts {
    /// Takes over what EC2 reported at `now`.
    pub fn report(&mut self, described: &[DescribedReservation], now: Timestamp) {
        let reported = described.iter().map(|one| (one.id.clone(), (one.available, now)));
        self.counts.extend(reported);
    }

    /// A launch at `now`; a report after that has counted it already.
    pub fn launched(&mut self, id: &str, now: Timestamp) {
        if let Some((count, _)) = self.counts.get_mut(id).filter(|(_, reported)| *reported <= now) {
            *count = count.saturating_sub(1);
        }
    }

    /// The end of an instance.
    pub fn terminated(&mut self, id: &str) {
        if let Some((count, _)) = self.counts.get_mut(id) {
            *count = count.saturating_add(1);
        }
    }

    /// EC2 had no capacity left.
    pub fn exhausted(&mut self, id: &str) {
        if let Some((count, _)) = self.counts.get_mut(id) {
            *count = 0;
        }
    }

    /// Instances left; none in a reservation that is not known.
    pub fn available(&self, id: &str) -> u32 {
        self.counts.get(id).map_or(0, |(count, _)| *count)
    }
}

/// The answer of `aws ec2 describe-capacity-reservations`.
#[derive(Deserialize)]
struct Description {
    #[serde(rename = "CapacityReservations")]
    reservations: Vec<DescribedCount>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedCount {
    capacity_reservation_id: String,
    available_instance_count: u32,
}

/// Instances left in reservations by id, as the JSON that `aws ec2 describe-capacity-reservations` prints says.
pub fn described_counts(json: &str) -> Result<BTreeMap<String, u32>, serde_json::Error> {
    let description: Description = serde_json::from_str(json)?;
    let each = description.reservations.into_iter();
    Ok(each
        .map(|one| (one.capacity_reservation_id, one.available_instance_count))
        .collect())
}

/// Whether a claim runs in a reservation that ends soon, so that the claim is deleted (AWS-276). The state in the status is not enough: no controller
/// updates the status of a class that is being deleted, or whose reservations cannot be listed.
pub fn is_expiring(
    claim_labels: &BTreeMap<String, String>,
    reservations: &[NodeClassReservation],
    now: Timestamp,
) -> bool {
    let is_expiring =
        |one: &NodeClassReservation| one.state == "expiring" || ends_soon(&one.reservation_type, one.end_time, now);
    let id = claim_labels.get(RESERVATION_ID);
    id.is_some_and(|id| reservations.iter().any(|one| one.id == *id && is_expiring(one)))
}

/// The labels of a claim or Node whose instance is on demand now, because its reservation ended; `None` if they are right already (AWS-277,
/// AWS-278).
pub fn demoted_labels(labels: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    labels
        .get(CAPACITY_TYPE)
        .filter(|value| *value == CAPACITY_TYPE_RESERVED)?;
    let mut changed = labels.clone();
    changed.insert(CAPACITY_TYPE.to_owned(), CAPACITY_TYPE_ON_DEMAND.to_owned());
    changed.retain(|key, _| !RESERVATION.contains(&key.as_str()));
    Some(changed)
}
