//! Spot prices from the price history (AWS-224).

use super::price_list::PricesMissing;
use jiff::Timestamp;
use kerf_model::price::Price;
use std::collections::BTreeMap;

/// The products whose prices are asked for.
pub const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// One row of the history, as EC2 answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpotPriceRow {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// Price per hour as text.
    pub price: String,
    /// From when on it holds.
    pub since: Option<Timestamp>,
}

/// The newest price by type and zone. Rows without time or with an unreadable price are skipped.
pub fn spot_prices(rows: &[SpotPriceRow]) -> Result<BTreeMap<String, BTreeMap<String, Price>>, PricesMissing> {
    let mut newest: BTreeMap<(&str, &str), (Timestamp, Price)> = BTreeMap::new();
    for row in rows {
        let price = row.price.parse().ok().and_then(Price::from_per_hour);
        let (Some(since), Some(price)) = (row.since, price) else {
            continue;
        };
        let known = newest.entry((&row.instance_type, &row.zone)).or_insert((since, price));
        if since >= known.0 {
            *known = (since, price);
        }
    }
    if newest.is_empty() {
        return Err(PricesMissing);
    }
    let mut prices: BTreeMap<String, BTreeMap<String, Price>> = BTreeMap::new();
    for ((kind, zone), (_, price)) in newest {
        prices
            .entry(kind.to_owned())
            .or_default()
            .insert(zone.to_owned(), price);
    }
    Ok(prices)
}
