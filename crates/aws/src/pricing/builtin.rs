//! The built-in price tables (AWS-227).

use kerf_model::price::Price;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../../data/prices.csv");
/// The region whose prices stand in for regions without a table.
const FALLBACK: &str = "us-east-1";

/// The regions with a table.
pub const BUILTIN_REGIONS: [&str; 4] = ["us-east-1", "us-gov-east-1", "us-gov-west-1", "cn-north-1"];

/// On-demand prices by region and instance type.
type Tables = BTreeMap<String, BTreeMap<String, Price>>;

/// Reads a price table: lines of region, instance type, currency and price per hour. The first line is a heading. Lines that are no such
/// row are returned by number, counted from one.
pub fn parse_price_table(text: &str) -> (BTreeMap<String, BTreeMap<String, Price>>, Vec<usize>) {
    let mut tables = Tables::new();
    let mut wrong = Vec::new();
    for (at, line) in text.lines().enumerate().skip(1) {
        let mut cells = line.split(',');
        let row = (cells.next(), cells.next(), cells.next(), cells.next());
        let (Some(region), Some(kind), Some(_), Some(price)) = row else {
            wrong.push(at + 1);
            continue;
        };
        match price.trim().parse().ok().and_then(Price::from_per_hour) {
            Some(price) => {
                tables
                    .entry(region.to_owned())
                    .or_default()
                    .insert(kind.to_owned(), price);
            }
            None => wrong.push(at + 1),
        }
    }
    (tables, wrong)
}

fn tables() -> &'static Tables {
    static READ: LazyLock<Tables> = LazyLock::new(|| parse_price_table(TABLE).0);
    &READ
}

/// Whether a region has a table of its own.
pub fn has_builtin_prices(region: &str) -> bool {
    tables().contains_key(region)
}

/// The built-in on-demand price of a type: that of the region, else that of us-east-1 (AWS-221).
pub fn builtin_prices(region: &str, instance_type: &str) -> Option<Price> {
    let in_region = |region: &str| tables().get(region)?.get(instance_type).copied();
    in_region(region).or_else(|| in_region(FALLBACK))
}
