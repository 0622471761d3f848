//! The instance types of a class as its account has them now, for commands without a running controller: what EC2 describes, prices, subnets
//! and reservations. Nothing is changed.

use crate::catalogue::{InstanceTypes, ListError};
use crate::error_advice::explain;
use crate::errors::ApiError;
use crate::intervals::SELECTED;
use crate::lookup::{PlacementGroupLookup, ReservationLookup, SubnetLookup};
use crate::market::Market;
use crate::offline::OfflineSettings;
use crate::reservation::status_reservation;
use crate::services::Services;
use crate::subnet::status_subnets;
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use kerf_api::ec2_node_class::NodeClassSubnet;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use std::sync::Arc;

/// Why there are no instance types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// A call failed.
    #[error("{doing}, {}", explain(.error))]
    Call {
        /// What the call was for.
        doing: &'static str,
        /// What AWS said.
        error: ApiError,
    },
    /// The class selects nothing that the account has.
    #[error(
        "EC2NodeClass/{class}: spec.{field} selects nothing in {region}; correct it, or name another region with --region or AWS_REGION"
    )]
    NothingSelected {
        /// Name of the class.
        class: String,
        /// Field of its spec.
        field: &'static str,
        /// The region.
        region: String,
    },
    /// EC2 described too little.
    #[error(transparent)]
    List(#[from] ListError),
}

/// What the account has for a class.
#[derive(Clone, Debug)]
pub struct LiveCatalogue {
    /// The instance types, as the provider would compute them now.
    pub catalogue: Arc<Catalogue>,
    /// Where something stands for what AWS did not say.
    pub notes: Vec<String>,
}

fn failed(doing: &'static str) -> impl Fn(ApiError) -> LiveError {
    move |error| LiveError::Call { doing, error }
}

/// Asks AWS for the instance types of a class. A class that selects no subnets counts as one with subnets in all zones; the other selectors
/// are resolved, whatever its status says. Prices and counts of `settings` do not count: the account has others.
pub async fn live_catalogue(
    services: &Services,
    class: &EC2NodeClass,
    settings: &OfflineSettings,
    now: Timestamp,
    interner: &Arc<Interner>,
) -> Result<LiveCatalogue, LiveError> {
    let (resolve, ec2) = (&settings.resolve, &services.ec2);
    let (mut class, mut notes) = (class.clone(), Vec::new());
    let nothing = |class: &EC2NodeClass, field| LiveError::NothingSelected {
        class: class.shown_name().to_owned(),
        field,
        region: resolve.region.clone(),
    };
    let market = Market::new(&resolve.region, false);
    match settings.memory(&class, now) {
        Ok(learned) => market.change_memory(|known| known.merge(&learned, now)),
        Err(problem) => notes.push(problem),
    }
    let types = InstanceTypes::new(resolve.clone(), Arc::clone(interner));
    let (described, on_demand, spot) = futures::join!(
        types.refresh(&**ec2),
        market.refresh_on_demand(&*services.price_list),
        market.refresh_spot(&**ec2, now)
    );
    described.map_err(failed("describing instance types"))?;
    if let Err(error) = on_demand {
        notes.push(format!("on-demand prices are those built in: {error}"));
    }
    if let Err(error) = spot {
        notes.push(format!("spot prices are those built in for on-demand: {error}"));
    }
    class.status.subnets = if class.spec.subnet_selector_terms.is_empty() {
        let in_zone = |zone: String| NodeClassSubnet {
            id: format!("subnet-{zone}"),
            zone,
            zone_id: None,
        };
        types.zones().into_iter().map(in_zone).collect()
    } else {
        let found = SubnetLookup::new(Arc::clone(ec2), SELECTED).list(&class).await;
        status_subnets(&found.map_err(failed("describing subnets"))?)
    };
    if class.status.subnets.is_empty() {
        return Err(nothing(&class, "subnetSelectorTerms"));
    }
    let reservations = ReservationLookup::new(Arc::clone(ec2));
    class.status.capacity_reservations.clear();
    if resolve.reserved_capacity {
        let found = reservations.list(&class, now).await;
        for described in found.map_err(failed("describing capacity reservations"))? {
            match status_reservation(&described, now) {
                Ok(reservation) => class.status.capacity_reservations.push(reservation),
                Err(error) => notes.push(format!("{error}; it is left out")),
            }
        }
    }
    let group = PlacementGroupLookup::new(Arc::clone(ec2)).get(&class).await;
    let group = group.map_err(failed("describing placement groups"))?;
    if group.is_none() && class.spec.placement_group_selector.is_some() {
        return Err(nothing(&class, "placementGroupSelector"));
    }
    let catalogue = types.list(
        &class,
        group.as_ref(),
        &market,
        &reservations.counts(),
        Arc::default(),
        now,
    )?;
    Ok(LiveCatalogue { catalogue, notes })
}
