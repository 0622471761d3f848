//! Prices: the Price List API, the spot price history, and built-in tables where neither has answered (section 12 of
//! `docs/behaviour/aws.md`).

mod book;
mod builtin;
mod price_list;
mod spot_history;

pub use book::{PriceBook, SpotPrices, TypePrices};
pub use builtin::{BUILTIN_REGIONS, builtin_prices, has_builtin_prices, parse_price_table};
pub use price_list::{
    PriceQuery, PricesMissing, currency, on_demand_prices, price_queries, pricing_endpoint_region,
    skips_on_demand_refresh,
};
pub use spot_history::{SPOT_PRODUCTS, SpotPriceRow, spot_prices};
