//! Capacity reservations of a class (AWS-271 to AWS-273).

use crate::cache::Cache;
use crate::intervals::SHORT_LIVED;
use crate::reservation::{DescribedReservation, ReservationCounts, usable};
use crate::selector::{ReservationQuery, reservation_queries};
use crate::services::{CallResult, Ec2};
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Capacity reservations of classes, and how many instances are left in them.
pub struct ReservationLookup {
    ec2: Arc<dyn Ec2>,
    found: Cache<ReservationQuery, Vec<DescribedReservation>>,
    counts: Mutex<ReservationCounts>,
}

impl ReservationLookup {
    /// A look-up that calls EC2.
    pub fn new(ec2: Arc<dyn Ec2>) -> Self {
        Self {
            ec2,
            found: Cache::new(SHORT_LIVED),
            counts: Mutex::default(),
        }
    }

    /// The reservations that the class selects, by id, without those that have ended.
    pub async fn list(&self, class: &EC2NodeClass, now: Timestamp) -> CallResult<Vec<DescribedReservation>> {
        let mut all = Vec::new();
        for query in reservation_queries(&class.spec.capacity_reservation_selector_terms) {
            all.extend(self.query(query, now).await?);
        }
        Ok(usable(&all, now).into_iter().cloned().collect())
    }

    async fn query(&self, query: ReservationQuery, now: Timestamp) -> CallResult<Vec<DescribedReservation>> {
        if let Some(known) = self.found.get(&query) {
            return Ok(known);
        }
        let found = match self.ec2.capacity_reservations(&query).await {
            Err(error) if query.id.is_some() && error.is_not_found() => Vec::new(),
            answer => answer?,
        };
        self.counts().report(&found, now);
        self.found.insert(query, found.clone());
        Ok(found)
    }

    /// How many instances are left in each reservation.
    pub fn counts(&self) -> MutexGuard<'_, ReservationCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
