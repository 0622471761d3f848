//! CreateFleet of type `instant`, and RunInstances.

use super::Account;
use super::capacity::Purchase;
use super::launch::Launchable;
use super::refusal::{Answer, Refusal};
use super::templates::LaunchData;
use jiff::Timestamp;
use kerf_aws::launch::TargetCapacity;
use kerf_aws::tags::Tags;
use kerf_runtime::Seed;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A template that a fleet or a call of RunInstances names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateReference {
    /// Name.
    pub name: String,
    /// Version: a number, `$Latest` or `$Default`.
    pub version: String,
}

/// One way to launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Override {
    /// Instance type.
    pub instance_type: Option<String>,
    /// Zone.
    pub zone: Option<String>,
    /// Subnet.
    pub subnet_id: Option<String>,
    /// Image.
    pub image_id: Option<String>,
    /// Priority; the lowest number is tried first.
    pub priority: Option<f64>,
}

/// How a fleet chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The lowest price.
    LowestPrice,
    /// The priorities.
    Prioritized,
    /// Pools with spare capacity, then low prices.
    PriceCapacityOptimized,
    /// Pools with spare capacity, then the priorities.
    CapacityOptimizedPrioritized,
}

/// A request for a fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRequest {
    /// What makes a repeated request the same.
    pub client_token: Option<String>,
    /// Templates with their overrides.
    pub configs: Vec<(TemplateReference, Vec<Override>)>,
    /// What the instances count as.
    pub target: TargetCapacity,
    /// How many.
    pub count: u32,
    /// How to choose.
    pub strategy: Strategy,
    /// Tags of the instances.
    pub tags: Tags,
    /// Whether to answer only whether it would succeed.
    pub dry_run: bool,
}

/// What was launched, or failed, for one override.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetItem {
    /// The template.
    pub template: TemplateReference,
    /// The override.
    pub used: Override,
    /// Instance type.
    pub instance_type: String,
    /// `spot`, or what else the instances are.
    pub lifecycle: &'static str,
    /// The instances, or why there are none.
    pub outcome: Answer<Vec<String>>,
}

/// The answer of CreateFleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Id.
    pub id: String,
    /// Overrides that were tried.
    pub items: Vec<FleetItem>,
}

/// One override with all that its launch needs.
struct Way {
    template: TemplateReference,
    used: Override,
    data: LaunchData,
    launch: Answer<Launchable>,
}

/// What a dry run answers when the call would succeed.
pub(super) fn would_succeed() -> Refusal {
    let message = "Request would have succeeded, but DryRun flag is set.";
    Refusal::new("DryRunOperation", message).with_status(412)
}

/// A pool with spare capacity is preferred to others: about two of three have it.
fn is_deep(seed: Seed, instance_type: &str, zone: &str) -> bool {
    seed.derive(instance_type).derive(zone).rng().below(3) > 0
}

impl Account {
    /// Launches a fleet. Errors of single overrides are in the answer; a template that does not exist fails the whole call. A request with a
    /// token that was answered gets the same answer.
    pub fn create_fleet(&mut self, request: &FleetRequest, now: Timestamp) -> Answer<Fleet> {
        let known = request.client_token.as_ref().and_then(|token| self.fleets.get(token));
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let mut ways = self.ways(request, now)?;
        if request.dry_run {
            let refusal = match ways.iter().find_map(|way| way.launch.as_ref().err()) {
                Some(refusal) => refusal.clone(),
                None => would_succeed(),
            };
            return Err(refusal);
        }
        self.sort(&mut ways, request);
        let mut items = Vec::new();
        let mut left = request.count;
        for way in ways {
            if left == 0 {
                break;
            }
            let lifecycle = request.target.as_str();
            let occupied = self.occupied();
            let room = way
                .launch
                .clone()
                .and_then(|launch| Ok((self.room(&launch, &occupied)?, launch)));
            let instance_type = way
                .used
                .instance_type
                .clone()
                .or(way.data.instance_type.clone())
                .unwrap_or_default();
            let outcome = room.map(|(room, launch)| {
                let count = room.min(left);
                left -= count;
                (0..count)
                    .map(|_| self.launch(&launch, &way.data, request.tags.clone(), now))
                    .collect()
            });
            items.push(FleetItem {
                template: way.template,
                used: way.used,
                instance_type,
                lifecycle,
                outcome,
            });
        }
        let fleet = Fleet {
            id: self.ids.next("fleet"),
            items,
        };
        if let Some(token) = &request.client_token {
            self.fleets.insert(token.clone(), fleet.clone());
        }
        self.advance(now);
        Ok(fleet)
    }

    fn ways(&self, request: &FleetRequest, now: Timestamp) -> Answer<Vec<Way>> {
        let purchase = match request.target {
            TargetCapacity::Spot => Purchase::Spot,
            TargetCapacity::OnDemand => Purchase::OnDemand,
            TargetCapacity::CapacityBlock | TargetCapacity::ReservedCapacity => Purchase::Reserved,
        };
        if request.count == 0 {
            return Err(Refusal::invalid_value("TotalTargetCapacity", "0"));
        }
        let mut ways = Vec::new();
        for (template, overrides) in &request.configs {
            let base = self.template_data(&template.name, &template.version, now)?;
            let none = [Override::default()];
            for used in if overrides.is_empty() {
                &none
            } else {
                overrides.as_slice()
            } {
                let mut data = base.clone();
                data.instance_type = used.instance_type.clone().or(data.instance_type);
                data.image_id = used.image_id.clone().or(data.image_id);
                let (zone, subnet) = (used.zone.as_deref(), used.subnet_id.as_deref());
                let launch = self.launchable(&data, zone, subnet, purchase, now);
                ways.push(Way {
                    template: template.clone(),
                    used: used.clone(),
                    data,
                    launch,
                });
            }
        }
        if ways.is_empty() {
            return Err(Refusal::missing("LaunchTemplateConfigs"));
        }
        Ok(ways)
    }

    /// Puts the ways in the order in which the strategy tries them. Equal ones stay in the order of the request.
    fn sort(&self, ways: &mut [Way], request: &FleetRequest) {
        let is_spot = request.target == TargetCapacity::Spot;
        let price = |way: &Way| {
            let launch = way.launch.as_ref().ok()?;
            let zone = &launch.subnet.zone.name;
            if is_spot {
                self.spot_price(&launch.instance_type, zone)
            } else {
                self.on_demand_price(&launch.instance_type)
            }
        };
        let has_depth = |way: &Way| {
            let launch = way.launch.as_ref().ok();
            launch.is_some_and(|launch| is_deep(self.seed, &launch.instance_type, &launch.subnet.zone.name))
        };
        let by_price = |a: &Way, b: &Way| match (price(a), price(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        // An override without priority is tried last.
        let by_priority = |a: &Way, b: &Way| {
            let priority = |way: &Way| way.used.priority.unwrap_or(f64::INFINITY);
            priority(a).total_cmp(&priority(b))
        };
        let by_depth = |a: &Way, b: &Way| has_depth(b).cmp(&has_depth(a));
        ways.sort_by(|a, b| -> Ordering {
            match request.strategy {
                Strategy::LowestPrice => by_price(a, b),
                Strategy::Prioritized => by_priority(a, b),
                Strategy::PriceCapacityOptimized => by_depth(a, b).then_with(|| by_price(a, b)),
                Strategy::CapacityOptimizedPrioritized => by_depth(a, b).then_with(|| by_priority(a, b)),
            }
        });
    }

    /// Launches instances of a template with changes to its data. Only the dry run is of use to an autoscaler, but both work.
    pub fn run_instances(
        &mut self,
        template: &TemplateReference,
        changes: &LaunchData,
        count: u32,
        dry_run: bool,
        now: Timestamp,
    ) -> Answer<Vec<String>> {
        let mut data = self.template_data(&template.name, &template.version, now)?.clone();
        data.instance_type = changes.instance_type.clone().or(data.instance_type);
        data.image_id = changes.image_id.clone().or(data.image_id);
        if !changes.interfaces.is_empty() {
            data.interfaces.clone_from(&changes.interfaces);
        }
        let launch = self.launchable(&data, None, None, Purchase::OnDemand, now)?;
        if dry_run {
            return Err(would_succeed());
        }
        let room = self.room(&launch, &self.occupied())?;
        if room < count {
            let message = format!("Only {room} of {count} instances can be launched.");
            return Err(Refusal::new("InsufficientInstanceCapacity", message));
        }
        let tags = changes.tags.get("instance").cloned().unwrap_or_default();
        let ids = (0..count)
            .map(|_| self.launch(&launch, &data, tags.clone(), now))
            .collect();
        self.advance(now);
        Ok(ids)
    }
}

/// Answers of fleets by token.
pub(super) type Fleets = BTreeMap<String, Fleet>;
