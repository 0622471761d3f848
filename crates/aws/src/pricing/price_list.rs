//! On-demand prices from the Price List API (AWS-222, AWS-223, AWS-226).

use crate::partition::Partition;
use crate::selector::Filter;
use kerf_model::price::Price;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A call of GetProducts: every filter must match exactly.
pub type PriceQuery = Vec<Filter>;

/// The two queries for a region: ordinary types on shared hardware, and bare metal, which counts as dedicated.
pub fn price_queries(region: &str) -> [PriceQuery; 2] {
    let query = |tenancy: &str, family: &str| {
        [
            ("regionCode", region),
            ("serviceCode", "AmazonEC2"),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", family),
        ]
        .map(|(name, value)| Filter::new(name, [value]))
        .into()
    };
    [
        query("Shared", "Compute Instance"),
        query("Dedicated", "Compute Instance (bare metal)"),
    ]
}

/// The currency of a region's prices.
pub fn currency(region: &str) -> &'static str {
    if region.starts_with("cn-") { "CNY" } else { "USD" }
}

/// The region whose Price List endpoint serves a region.
pub fn pricing_endpoint_region(region: &str) -> &'static str {
    match region {
        _ if region.starts_with("ap-") => "ap-south-1",
        _ if region.starts_with("cn-") => "cn-northwest-1",
        _ if region.starts_with("eu-") => "eu-central-1",
        _ => "us-east-1",
    }
}

/// Whether on-demand prices cannot be asked for: the API is not reachable from an isolated VPC, and there is none for GovCloud and other
/// partitions (AWS-500).
pub fn skips_on_demand_refresh(region: &str, isolated_vpc: bool) -> bool {
    isolated_vpc || !Partition::of_region(region).has_price_list
}

/// A query that found no prices: nothing is taken over then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no on-demand pricing found")]
pub struct PricesMissing;

#[derive(Deserialize)]
struct Item {
    product: Product,
    #[serde(default)]
    terms: Terms,
}

#[derive(Deserialize)]
struct Product {
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Terms {
    #[serde(default, rename = "OnDemand")]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    #[serde(default)]
    price_dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dimension {
    #[serde(default)]
    price_per_unit: BTreeMap<String, String>,
}

impl Item {
    /// Type and price; `None` without a price above zero.
    fn price(&self, currency: &str) -> Option<(String, Price)> {
        let kind = self.product.attributes.get("instanceType")?;
        let dimensions = self
            .terms
            .on_demand
            .values()
            .flat_map(|term| term.price_dimensions.values());
        let mut prices = dimensions.filter_map(|dimension| dimension.price_per_unit.get(currency)?.parse().ok());
        let price = prices.find(|price: &f64| *price > 0.0).and_then(Price::from_per_hour)?;
        Some((kind.clone(), price))
    }
}

/// The prices in the answers of both queries, each a list of JSON texts. Items that cannot be read, and prices of zero, are skipped.
pub fn on_demand_prices(answers: [&[String]; 2], region: &str) -> Result<BTreeMap<String, Price>, PricesMissing> {
    let currency = currency(region);
    let mut all = BTreeMap::new();
    for answer in answers {
        let items = answer.iter().filter_map(|text| serde_json::from_str::<Item>(text).ok());
        let prices: BTreeMap<String, Price> = items.filter_map(|item| item.price(currency)).collect();
        if prices.is_empty() {
            return Err(PricesMissing);
        }
        all.extend(prices);
    }
    Ok(all)
}
