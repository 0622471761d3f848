//! The state of an account, and what each call does to it: functions of the state, the request and the time.
//!
//! Nothing here knows protocols. `wire` reads requests and writes answers; the connector adds time.

mod capacity;
mod cluster;
mod filters;
mod fleet;
mod ids;
mod images;
mod instances;
mod launch;
mod network;
mod profiles;
mod queues;
mod refusal;
mod reservations;
mod signals;
mod templates;
mod throttle;
mod types;

pub use capacity::{Pool, PoolRule, Pools, Purchase};
pub use cluster::EksCluster;
pub use filters::{Page, PageRequest};
pub use fleet::{Fleet, FleetItem, FleetRequest, Override, Strategy, TemplateReference};
pub use ids::Ids;
pub use images::Image;
pub use instances::{Health, Instance, InstanceState, MaintenanceEvent};
pub use network::{PlacementGroup, SecurityGroup, Subnet, Zone};
pub use profiles::Profile;
pub use queues::{Delivery, Queue, QueuedMessage, Queues};
pub use refusal::{Answer, Refusal};
pub use reservations::Reservation;
pub use signals::{RECLAIM_WARNING, Signal};
pub use templates::{InterfaceSpec, LaunchData, LaunchTemplate, ReservationSpec};
pub use throttle::{CallKind, Limit, Throttle};

use jiff::{SignedDuration, Timestamp};
use kerf_model::price::Price;
use kerf_runtime::Seed;
use std::collections::{BTreeMap, BTreeSet};

/// How long it takes until other calls see what was made, and until instances run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Until an instance is described.
    pub instance: SignedDuration,
    /// Until EC2 sees an instance profile.
    pub profile: SignedDuration,
    /// Until a launch template is seen.
    pub template: SignedDuration,
    /// From the launch until an instance runs.
    pub boot: SignedDuration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            instance: SignedDuration::from_secs(1),
            profile: SignedDuration::from_secs(5),
            template: SignedDuration::ZERO,
            boot: SignedDuration::from_secs(10),
        }
    }
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When.
    pub at: Timestamp,
    /// Name of the client that made it, if it has one.
    pub client: String,
    /// Service as in IAM, such as `ec2`.
    pub service: &'static str,
    /// Action, such as `CreateFleet`.
    pub action: String,
    /// The caller's user agent.
    pub user_agent: String,
    /// Code of the error, if it failed.
    pub error: Option<String>,
    /// What the call said: parameters of the query protocol by path, or the JSON text under `body`.
    pub parameters: BTreeMap<String, String>,
}

/// An account in one region.
#[derive(Clone, Debug)]
pub struct Account {
    /// Account id.
    pub id: String,
    /// Region.
    pub region: String,
    /// Access key that calls must be signed with.
    pub access_key: String,
    /// Zones.
    pub zones: Vec<Zone>,
    /// Instance types that exist; all built-in ones if not given.
    pub only_types: Option<BTreeSet<String>>,
    /// Instance types and zones that do not go together.
    pub not_offered: BTreeSet<(String, String)>,
    /// Spot prices by type and zone that are not the usual ones.
    pub spot_prices: BTreeMap<(String, String), Price>,
    /// Subnets.
    pub subnets: Vec<Subnet>,
    /// Security groups.
    pub security_groups: Vec<SecurityGroup>,
    /// Placement groups.
    pub placement_groups: Vec<PlacementGroup>,
    /// Images.
    pub images: Vec<Image>,
    /// SSM parameters.
    pub parameters: BTreeMap<String, String>,
    /// The cluster version for which every release of images exists once it is requested by its version; none if not given.
    pub every_release_of: Option<String>,
    /// KMS keys that can be used for disks.
    pub kms_keys: BTreeSet<String>,
    /// Names of roles.
    pub roles: BTreeSet<String>,
    /// Instance profiles by name.
    pub profiles: BTreeMap<String, Profile>,
    /// Launch templates by name.
    pub templates: BTreeMap<String, LaunchTemplate>,
    /// Capacity reservations.
    pub reservations: Vec<Reservation>,
    /// Instances by id.
    pub instances: BTreeMap<String, Instance>,
    /// Queues by name. Each gets all events about instances.
    pub queues: Queues,
    /// EKS clusters.
    pub clusters: Vec<EksCluster>,
    /// Room for instances.
    pub pools: Pools,
    /// How many calls EC2 takes.
    pub throttle: Throttle,
    /// Actions that the caller may not do, as in IAM: `ec2:CreateFleet`; `iam:PassRole:NAME` is about one role.
    pub denied: BTreeSet<String>,
    /// How long things take.
    pub delays: Delays,
    /// Calls, the first one first. Nothing removes them but [`Self::take_calls`].
    pub calls: Vec<Call>,
    /// Whether calls are recorded.
    pub records_calls: bool,
    /// How many changes there were that a call may wait for.
    pub(crate) changes: u64,
    seed: Seed,
    ids: Ids,
    fleets: fleet::Fleets,
}

/// Id of the account.
const ACCOUNT_ID: &str = "111122223333";
/// Access key of the account.
const ACCESS_KEY: &str = "AKIAKERFSANDBOX00000";

impl Account {
    /// An empty account with zones `a` to `d` in a region.
    pub fn new(region: &str, seed: Seed) -> Self {
        let zones = ["a", "b", "c", "d"].iter().enumerate();
        let short: String = region
            .split('-')
            .filter_map(|part| if part.len() > 2 { part.get(..1) } else { Some(part) })
            .collect();
        Self {
            id: ACCOUNT_ID.to_owned(),
            region: region.to_owned(),
            access_key: ACCESS_KEY.to_owned(),
            zones: zones
                .map(|(at, letter)| Zone {
                    name: format!("{region}{letter}"),
                    id: format!("{short}-az{}", at + 1),
                })
                .collect(),
            only_types: None,
            not_offered: BTreeSet::new(),
            spot_prices: BTreeMap::new(),
            subnets: Vec::new(),
            security_groups: Vec::new(),
            placement_groups: Vec::new(),
            images: Vec::new(),
            parameters: BTreeMap::new(),
            every_release_of: None,
            kms_keys: BTreeSet::new(),
            roles: BTreeSet::new(),
            profiles: BTreeMap::new(),
            templates: BTreeMap::new(),
            reservations: Vec::new(),
            instances: BTreeMap::new(),
            queues: Queues::new(),
            clusters: Vec::new(),
            pools: Pools::default(),
            throttle: Throttle::realistic(),
            denied: BTreeSet::new(),
            delays: Delays::default(),
            calls: Vec::new(),
            records_calls: false,
            changes: 0,
            seed,
            ids: Ids::new(seed.derive("ids")),
            fleets: fleet::Fleets::new(),
        }
    }

    /// A queue by its name.
    pub fn queue(&mut self, name: &str) -> Answer<&mut Queue> {
        queues::queue(&mut self.queues, name)
    }

    /// Takes a call of EC2 from its bucket.
    #[cfg(feature = "sdk")]
    pub(crate) fn admit(&mut self, action: &str, now: Timestamp) -> Answer<()> {
        self.throttle.take(action, now)
    }

    /// The calls so far, and forgets them.
    pub fn take_calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }
}
