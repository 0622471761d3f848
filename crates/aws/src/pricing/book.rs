//! All prices known for a region.

use super::builtin::builtin_prices;
use kerf_cloud::modelled_spot_price;
use kerf_model::price::Price;
use std::collections::BTreeMap;

/// What is known of spot prices.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SpotPrices {
    /// Nothing yet: the built-in on-demand price stands in, in every zone.
    #[default]
    Unknown,
    /// Prices by instance type and zone. What is missing has no price (AWS-499).
    Seen(BTreeMap<String, BTreeMap<String, Price>>),
    /// Prices modelled from the on-demand price, for decisions without a call of AWS.
    Modelled,
}

/// The prices of a region.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceBook {
    region: String,
    on_demand: BTreeMap<String, Price>,
    spot: SpotPrices,
}

impl PriceBook {
    /// A book with the built-in prices of a region.
    pub fn new(region: &str, spot: SpotPrices) -> Self {
        Self {
            region: region.to_owned(),
            on_demand: BTreeMap::new(),
            spot,
        }
    }

    /// Takes over new on-demand prices; types that are missing keep the old ones (AWS-225).
    pub fn merge_on_demand(&mut self, prices: BTreeMap<String, Price>) {
        self.on_demand.extend(prices);
    }

    /// Takes over new spot prices; types and zones that are missing keep the old ones (AWS-225).
    pub fn merge_spot(&mut self, prices: BTreeMap<String, BTreeMap<String, Price>>) {
        if let SpotPrices::Seen(known) = &mut self.spot {
            for (kind, zones) in prices {
                known.entry(kind).or_default().extend(zones);
            }
        } else {
            self.spot = SpotPrices::Seen(prices);
        }
    }

    /// The prices of a type: on demand the last one seen, else the built-in one (AWS-221).
    pub fn of_type<'a>(&'a self, instance_type: &'a str) -> TypePrices<'a> {
        let builtin = || builtin_prices(&self.region, instance_type);
        let on_demand = self.on_demand.get(instance_type).copied().or_else(builtin);
        let spot = match &self.spot {
            SpotPrices::Unknown => TypeSpotPrices::InEveryZone(builtin()),
            SpotPrices::Seen(seen) => TypeSpotPrices::ByZone(seen.get(instance_type)),
            SpotPrices::Modelled => TypeSpotPrices::Modelled(instance_type),
        };
        TypePrices { on_demand, spot }
    }

    /// The on-demand price of a type.
    pub fn on_demand(&self, instance_type: &str) -> Option<Price> {
        self.of_type(instance_type).on_demand()
    }
}

/// The prices of one instance type.
#[derive(Clone, Copy, Debug)]
pub struct TypePrices<'a> {
    on_demand: Option<Price>,
    spot: TypeSpotPrices<'a>,
}

#[derive(Clone, Copy, Debug)]
enum TypeSpotPrices<'a> {
    InEveryZone(Option<Price>),
    ByZone(Option<&'a BTreeMap<String, Price>>),
    /// Made up for the type of this name.
    Modelled(&'a str),
}

impl TypePrices<'_> {
    /// The price on demand.
    pub fn on_demand(&self) -> Option<Price> {
        self.on_demand
    }

    /// The spot price in a zone.
    pub fn spot(&self, zone: &str) -> Option<Price> {
        match self.spot {
            TypeSpotPrices::InEveryZone(price) => price,
            TypeSpotPrices::ByZone(prices) => prices?.get(zone).copied(),
            TypeSpotPrices::Modelled(name) => Some(modelled_spot_price(name, zone, self.on_demand?)),
        }
    }
}
