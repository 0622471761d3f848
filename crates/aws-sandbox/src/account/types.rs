//! Instance types, their zones and prices.

use super::Account;
use super::filters::{Page, PageRequest, passes};
use super::refusal::{Answer, Refusal};
use jiff::{SignedDuration, Timestamp};
use kerf_aws::instance_type::{InstanceTypeDescription, builtin_types};
use kerf_aws::pricing::{SpotPriceRow, builtin_prices};
use kerf_aws::selector::Filter;
use kerf_aws::tags::Tags;
use kerf_cloud::modelled_spot_price;
use kerf_model::price::Price;
use serde_json::json;

/// How often spot prices change.
const SPOT_PRICE_PERIOD: SignedDuration = SignedDuration::from_hours(6);
/// Products that spot prices are for.
const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

impl Account {
    /// A type that the account knows.
    pub(crate) fn instance_type(&self, name: &str) -> Option<&'static InstanceTypeDescription> {
        let known = builtin_types().get(name)?;
        self.only_types
            .as_ref()
            .is_none_or(|only| only.contains(name))
            .then_some(known)
    }

    fn types(&self) -> impl Iterator<Item = &'static InstanceTypeDescription> {
        builtin_types().keys().filter_map(|name| self.instance_type(name))
    }

    /// Whether a zone offers a type.
    pub fn offers(&self, instance_type: &str, zone: &str) -> bool {
        let pair = (instance_type.to_owned(), zone.to_owned());
        self.instance_type(instance_type).is_some()
            && self.zones.iter().any(|known| known.name == zone)
            && !self.not_offered.contains(&pair)
    }

    /// The types that pass the filters.
    pub fn describe_types(
        &self,
        filters: &[Filter],
        page: &PageRequest,
    ) -> Answer<Page<&'static InstanceTypeDescription>> {
        let mut found = Vec::new();
        for kind in self.types() {
            let fields = |name: &str| {
                Some(match name {
                    "instance-type" => vec![kind.name.clone()],
                    "processor-info.supported-architecture" => kind.architectures.clone(),
                    // Types before HVM are not in the table.
                    "supported-virtualization-type" => vec!["hvm".to_owned()],
                    "hypervisor" => kind.hypervisor.clone().into_iter().collect(),
                    "bare-metal" => vec![kind.hypervisor.is_none().to_string()],
                    _ => return None,
                })
            };
            if passes(filters, &Tags::new(), fields)? {
                found.push(kind);
            }
        }
        page.of(found)
    }

    /// Types with the zones that offer them.
    pub fn describe_type_zones(&self, location_type: &str, page: &PageRequest) -> Answer<Page<(String, String)>> {
        if location_type != "availability-zone" {
            return Err(Refusal::invalid_value("LocationType", location_type));
        }
        let pairs = self
            .types()
            .flat_map(|kind| self.zones.iter().map(|zone| (kind.name.clone(), zone.name.clone())));
        page.of(pairs.filter(|(kind, zone)| self.offers(kind, zone)))
    }

    /// The on-demand price of a type.
    pub fn on_demand_price(&self, instance_type: &str) -> Option<Price> {
        builtin_prices(&self.region, instance_type)
    }

    /// The spot price of a type in a zone now.
    pub fn spot_price(&self, instance_type: &str, zone: &str) -> Option<Price> {
        let pair = (instance_type.to_owned(), zone.to_owned());
        let set = self.spot_prices.get(&pair).copied();
        set.or_else(|| {
            Some(modelled_spot_price(
                instance_type,
                zone,
                self.on_demand_price(instance_type)?,
            ))
        })
    }

    /// The spot prices that hold from a time on, for these products. The history has what held at its beginning, too.
    pub fn spot_history(
        &self,
        from: Option<Timestamp>,
        products: &[String],
        page: &PageRequest,
        now: Timestamp,
    ) -> Answer<Page<SpotPriceRow>> {
        let is_wanted = products.is_empty() || products.iter().any(|product| SPOT_PRODUCTS.contains(&product.as_str()));
        let since = now - SPOT_PRICE_PERIOD;
        if !is_wanted || from.is_some_and(|from| from > now) {
            return Ok(Page {
                items: Vec::new(),
                next: None,
            });
        }
        let pairs = self
            .types()
            .flat_map(|kind| self.zones.iter().map(|zone| (kind.name.clone(), zone.name.clone())));
        let offered = pairs.filter(|(kind, zone)| self.offers(kind, zone));
        let rows = offered.filter_map(|(instance_type, zone)| {
            let price = self.spot_price(&instance_type, &zone)?;
            Some(SpotPriceRow {
                price: format!("{:.6}", price.per_hour()),
                since: Some(since),
                instance_type,
                zone,
            })
        });
        page.of(rows)
    }

    /// Products of EC2 whose attributes have these values, as the Price List prints them.
    pub fn products(&self, filters: &[(String, String)], page: &PageRequest) -> Answer<Page<String>> {
        let currency = kerf_aws::pricing::currency(&self.region);
        let products = self.types().filter_map(|kind| {
            let price = self.on_demand_price(&kind.name)?;
            let is_metal = kind.hypervisor.is_none();
            let (tenancy, family) = if is_metal {
                ("Dedicated", "Compute Instance (bare metal)")
            } else {
                ("Shared", "Compute Instance")
            };
            let attributes = [
                ("instanceType", kind.name.as_str()),
                ("regionCode", &self.region),
                ("serviceCode", "AmazonEC2"),
                ("preInstalledSw", "NA"),
                ("operatingSystem", "Linux"),
                ("capacitystatus", "Used"),
                ("marketoption", "OnDemand"),
                ("tenancy", tenancy),
            ];
            let has = |(field, value): &(String, String)| match field.as_str() {
                "productFamily" => value == family,
                field => attributes.iter().any(|(name, is)| *name == field && is == value),
            };
            if !filters.iter().all(has) {
                return None;
            }
            let attributes: serde_json::Map<String, serde_json::Value> = attributes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(value)))
                .collect();
            let product = json!({
                "product": {"productFamily": family, "attributes": attributes, "sku": kind.name},
                "serviceCode": "AmazonEC2",
                "terms": {"OnDemand": {format!("{}.T", kind.name): {"priceDimensions": {format!("{}.T.D", kind.name): {
                    "unit": "Hrs", "pricePerUnit": {currency: format!("{:.10}", price.per_hour())},
                }}}}},
            });
            Some(product.to_string())
        });
        page.of(products)
    }
}
