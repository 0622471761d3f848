//! What decides about offerings besides the class: prices, missing capacity, discovered memory and zonal shifts, as one shared state.

use crate::discovered_memory::DiscoveredMemory;
use crate::errors::ApiError;
use crate::offering::UnavailableOfferings;
use crate::pricing::{
    PriceBook, PricesMissing, SPOT_PRODUCTS, SpotPrices, on_demand_prices, price_queries, skips_on_demand_refresh,
    spot_prices,
};
use crate::services::{Ec2, PriceList};
use crate::zonal_shift::ZonalShifts;
use jiff::Timestamp;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why prices stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] ApiError),
    /// An answer had no prices.
    #[error(transparent)]
    Missing(#[from] PricesMissing),
}

/// The state, each part behind a lock of its own. Every change raises the revision of its part, so that offerings are computed anew.
pub struct Market {
    region: String,
    isolated_vpc: bool,
    prices: Mutex<(PriceBook, u64)>,
    unavailable: Mutex<UnavailableOfferings>,
    memory: Mutex<(DiscoveredMemory, u64)>,
    shifts: Mutex<ZonalShifts>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Market {
    /// A market with the built-in prices of a region.
    pub fn new(region: &str, isolated_vpc: bool) -> Self {
        Self {
            region: region.to_owned(),
            isolated_vpc,
            prices: Mutex::new((PriceBook::new(region, SpotPrices::Unknown), 0)),
            unavailable: Mutex::default(),
            memory: Mutex::default(),
            shifts: Mutex::default(),
        }
    }

    /// The prices known now.
    pub fn prices(&self) -> PriceBook {
        locked(&self.prices).0.clone()
    }

    /// Offerings without capacity.
    pub fn unavailable(&self) -> MutexGuard<'_, UnavailableOfferings> {
        locked(&self.unavailable)
    }

    /// Zonal shifts.
    pub fn shifts(&self) -> MutexGuard<'_, ZonalShifts> {
        locked(&self.shifts)
    }

    /// The memory that nodes of a type with these images reported, in bytes.
    pub fn memory(&self, instance_type: &str, images: u64, now: Timestamp) -> Option<i64> {
        locked(&self.memory).0.memory(instance_type, images, now)
    }

    /// What nodes with these images reported.
    pub fn memory_of_images(&self, images: u64) -> DiscoveredMemory {
        locked(&self.memory).0.of_images(images)
    }

    /// Changes what is known of memory; `change` returns whether an amount that is used changed.
    pub fn change_memory(&self, change: impl FnOnce(&mut DiscoveredMemory) -> bool) {
        let mut memory = locked(&self.memory);
        if change(&mut memory.0) {
            memory.1 += 1;
        }
    }

    /// Numbers that change with prices, memory and missing capacity; what has expired at `now` is removed first.
    pub fn revision(&self, now: Timestamp) -> [u64; 3] {
        let mut unavailable = self.unavailable();
        unavailable.sweep(now);
        let changes = unavailable.revision();
        drop(unavailable);
        [locked(&self.prices).1, locked(&self.memory).1, changes]
    }

    /// Asks for on-demand prices. Both queries must answer prices; otherwise nothing changes (AWS-222, AWS-223, AWS-226).
    pub async fn refresh_on_demand(&self, price_list: &dyn PriceList) -> Result<(), PriceError> {
        if skips_on_demand_refresh(&self.region, self.isolated_vpc) {
            return Ok(());
        }
        let [shared, metal] = price_queries(&self.region);
        let (shared, metal) = futures::try_join!(price_list.products(&shared), price_list.products(&metal))?;
        let fresh = on_demand_prices([&shared, &metal], &self.region)?;
        let mut prices = locked(&self.prices);
        prices.0.merge_on_demand(fresh);
        prices.1 += 1;
        Ok(())
    }

    /// Asks for spot prices (AWS-224).
    pub async fn refresh_spot(&self, ec2: &dyn Ec2, now: Timestamp) -> Result<(), PriceError> {
        let rows = ec2.spot_price_history(now, &SPOT_PRODUCTS).await?;
        let fresh = spot_prices(&rows)?;
        let mut prices = locked(&self.prices);
        prices.0.merge_spot(fresh);
        prices.1 += 1;
        Ok(())
    }
}
