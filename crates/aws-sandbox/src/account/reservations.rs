//! Capacity reservations and blocks.

use super::Account;
use super::filters::{Page, PageRequest, passes};
use super::network::Zone;
use super::refusal::{Answer, Refusal};
use jiff::Timestamp;
use kerf_aws::selector::Filter;
use kerf_aws::tags::Tags;

/// A capacity reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Id.
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: Zone,
    /// Account of its owner.
    pub owner_id: String,
    /// `targeted` or `open`.
    pub match_criteria: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    /// Whether EC2 may take its instances back.
    pub interruptible: bool,
    /// How many instances it has room for.
    pub total: u32,
    /// When it ends.
    pub ends: Option<Timestamp>,
    /// Tags.
    pub tags: Tags,
}

impl Reservation {
    /// `active`, or `expired` once it has ended.
    pub fn state(&self, now: Timestamp) -> &'static str {
        if self.ends.is_some_and(|end| end <= now) {
            "expired"
        } else {
            "active"
        }
    }
}

fn no_reservation(id: &str) -> Refusal {
    let message = format!("The capacity reservation '{id}' does not exist");
    Refusal::new("InvalidCapacityReservationId.NotFound", message)
}

impl Account {
    /// How many more instances a reservation has room for.
    pub fn free_in_reservation(&self, reservation: &Reservation) -> u32 {
        let used = self
            .instances
            .values()
            .filter(|one| one.reservation_id.as_deref() == Some(&*reservation.id) && one.occupies());
        reservation
            .total
            .saturating_sub(u32::try_from(used.count()).unwrap_or(u32::MAX))
    }

    /// The reservations with these ids that pass the filters; all without ids.
    pub fn describe_reservations(
        &self,
        ids: &[String],
        filters: &[Filter],
        page: &PageRequest,
        now: Timestamp,
    ) -> Answer<Page<Reservation>> {
        for id in ids {
            self.reservation(id)?;
        }
        let mut found = Vec::new();
        for one in &self.reservations {
            let fields = |name: &str| {
                Some(vec![match name {
                    "state" => one.state(now).to_owned(),
                    "instance-type" => one.instance_type.clone(),
                    "owner-id" => one.owner_id.clone(),
                    "instance-match-criteria" => one.match_criteria.clone(),
                    "availability-zone" => one.zone.name.clone(),
                    "reservation-type" => one.kind.clone(),
                    _ => return None,
                }])
            };
            if (ids.is_empty() || ids.contains(&one.id)) && passes(filters, &one.tags, fields)? {
                found.push(one.clone());
            }
        }
        page.of(found)
    }

    /// A reservation.
    pub(super) fn reservation(&self, id: &str) -> Answer<&Reservation> {
        self.reservations
            .iter()
            .find(|one| one.id == id)
            .ok_or_else(|| no_reservation(id))
    }
}
