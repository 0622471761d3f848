//! An AWS in memory behind the traits of the services: it keeps what it is given, records calls and fails when it is told to.

use async_trait::async_trait;
use jiff::Timestamp;
use kerf_api::ec2_node_class::NodeClassSecurityGroup;
use kerf_aws::ami::Image;
use kerf_aws::errors::ApiError;
use kerf_aws::instance::DescribedInstance;
use kerf_aws::instance_type::{InstanceTypeDescription, builtin_types};
use kerf_aws::launch::{FleetError, FleetOutcome, FleetOverride, FleetRequest, TargetCapacity, TemplateData};
use kerf_aws::placement_group::{PlacementGroup, PlacementGroupQuery};
use kerf_aws::pricing::{PriceQuery, SpotPriceRow};
use kerf_aws::reservation::DescribedReservation;
use kerf_aws::selector::{Filter, ImageQuery, Query, ReservationQuery};
use kerf_aws::services::{
    CallResult, ClusterDescription, Ec2, Eks, FleetAnswer, FleetDryRun, Iam, InstanceProfile, InstanceQuery,
    InstanceStatus, InstanceTypeZone, InstancesDryRun, PriceList, QueueMessage, Services, Sqs, Ssm, TemplateQuery,
    ZonalShiftService,
};
use kerf_aws::subnet::Subnet;
use kerf_aws::tags::Tags;
use kerf_aws::zonal_shift::Shift;
use kerf_runtime::Clock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What the account holds. Tests change it at any time.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) subnets: Vec<Subnet>,
    pub(crate) security_groups: Vec<NodeClassSecurityGroup>,
    pub(crate) images: Vec<Image>,
    pub(crate) reservations: Vec<DescribedReservation>,
    pub(crate) groups: Vec<PlacementGroup>,
    pub(crate) types: Vec<InstanceTypeDescription>,
    pub(crate) type_zones: Vec<InstanceTypeZone>,
    pub(crate) spot_rows: Vec<SpotPriceRow>,
    pub(crate) products: Vec<String>,
    pub(crate) instances: Vec<DescribedInstance>,
    pub(crate) status: Vec<InstanceStatus>,
    pub(crate) templates: BTreeMap<String, TemplateData>,
    /// Capacity type, instance type and zone of pools without capacity.
    pub(crate) empty_pools: BTreeSet<(String, String, String)>,
    /// The code of errors of empty pools.
    pub(crate) pool_error: Option<ApiError>,
    pub(crate) parameters: BTreeMap<String, String>,
    /// Profiles with their path.
    pub(crate) profiles: BTreeMap<String, (String, InstanceProfile, Tags)>,
    pub(crate) messages: Vec<QueueMessage>,
    pub(crate) cluster: ClusterDescription,
    pub(crate) shifts: Vec<Shift>,
    pub(crate) fleets: Vec<(FleetRequest, u32)>,
    pub(crate) dry_runs: Vec<String>,
    /// How long the deletion of a launch template takes.
    pub(crate) template_deletion: Duration,
    /// The next errors of a call, by its name.
    failures: BTreeMap<String, VecDeque<ApiError>>,
    calls: Vec<String>,
    launched: u32,
}

pub(crate) struct FakeAws {
    clock: Clock,
    account: Mutex<Account>,
}

impl FakeAws {
    /// An account with six zones' worth of nothing but the given types in two zones.
    pub(crate) fn new(clock: &Clock, types: &[&str]) -> Arc<Self> {
        let zones = ["us-east-1a", "us-east-1b"];
        let account = Account {
            types: types.iter().map(|name| builtin_types()[*name].clone()).collect(),
            type_zones: types
                .iter()
                .flat_map(|name| {
                    zones.iter().map(|zone| InstanceTypeZone {
                        instance_type: (*name).to_owned(),
                        zone: (*zone).to_owned(),
                    })
                })
                .collect(),
            ..Account::default()
        };
        Arc::new(Self {
            clock: clock.clone(),
            account: Mutex::new(account),
        })
    }

    pub(crate) fn services(self: &Arc<Self>) -> Services {
        Services {
            ec2: self.clone(),
            ssm: self.clone(),
            iam: self.clone(),
            sqs: self.clone(),
            eks: self.clone(),
            price_list: self.clone(),
            zonal_shift: self.clone(),
        }
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    /// The calls so far, by name and what they were about, and forgets them.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.account().calls)
    }

    /// How often a call was made since calls were taken.
    pub(crate) fn count(&self, name: &str) -> usize {
        let account = self.account();
        account
            .calls
            .iter()
            .filter(|call| call.split(' ').next() == Some(name))
            .count()
    }

    /// The next call of this name fails with a code and a message.
    pub(crate) fn fail(&self, call: &str, code: &str, message: &str) {
        let mut account = self.account();
        let failures = account.failures.entry(call.to_owned()).or_default();
        failures.push_back(ApiError {
            server_fault: code == "InternalError",
            ..ApiError::new(code, message)
        });
    }

    /// Calls succeed again.
    pub(crate) fn clear_failures(&self) {
        self.account().failures.clear();
    }

    /// Records a call.
    fn call(&self, name: &str, about: &str) -> CallResult<MutexGuard<'_, Account>> {
        let mut account = self.account();
        account.calls.push(format!("{name} {about}").trim_end().to_owned());
        match account.failures.get_mut(name).and_then(VecDeque::pop_front) {
            Some(error) => Err(error),
            None => Ok(account),
        }
    }
}

/// The filters as text.
fn text(filters: &[Filter]) -> String {
    let each = filters
        .iter()
        .map(|filter| format!("{}={}", filter.name, filter.values.join(",")));
    each.collect::<Vec<_>>().join(" ")
}

/// Whether a value passes the filter of this name, if there is one.
fn passes(filters: &[Filter], name: &str, value: &str) -> bool {
    filters
        .iter()
        .filter(|filter| filter.name == name)
        .all(|filter| filter.values.iter().any(|wanted| wanted == value))
}

/// Whether tags pass the filters about tags.
fn tags_pass(filters: &[Filter], tags: &Tags) -> bool {
    filters.iter().all(|filter| match filter.name.strip_prefix("tag:") {
        Some(key) => tags.get(key).is_some_and(|value| filter.values.contains(value)),
        None if filter.name == "tag-key" => filter.values.iter().any(|key| tags.contains_key(key)),
        None => true,
    })
}

#[async_trait]
impl Ec2 for FakeAws {
    async fn subnets(&self, query: &Query) -> CallResult<Vec<Subnet>> {
        let account = self.call("DescribeSubnets", &text(query))?;
        let found = account.subnets.iter().filter(|one| passes(query, "subnet-id", &one.id));
        Ok(found.cloned().collect())
    }

    async fn security_groups(&self, query: &Query) -> CallResult<Vec<NodeClassSecurityGroup>> {
        let account = self.call("DescribeSecurityGroups", &text(query))?;
        let found = account
            .security_groups
            .iter()
            .filter(|one| passes(query, "group-id", &one.id));
        Ok(found.cloned().collect())
    }

    async fn images(&self, query: &ImageQuery) -> CallResult<Vec<Image>> {
        let account = self.call("DescribeImages", &text(&query.filters))?;
        let found = account
            .images
            .iter()
            .filter(|one| passes(&query.filters, "image-id", &one.id));
        Ok(found.cloned().collect())
    }

    async fn capacity_reservations(&self, query: &ReservationQuery) -> CallResult<Vec<DescribedReservation>> {
        let account = self.call("DescribeCapacityReservations", query.id.as_deref().unwrap_or_default())?;
        let found = account
            .reservations
            .iter()
            .filter(|one| query.id.as_ref().is_none_or(|id| *id == one.id));
        Ok(found.cloned().collect())
    }

    async fn placement_groups(&self, query: &PlacementGroupQuery) -> CallResult<Vec<PlacementGroup>> {
        let account = self.call("DescribePlacementGroups", &query.names.join(","))?;
        let is_meant = |one: &&PlacementGroup| query.ids.contains(&one.id) || query.names.contains(&one.name);
        Ok(account.groups.iter().filter(is_meant).cloned().collect())
    }

    async fn instance_types(&self, filters: &[Filter]) -> CallResult<Vec<InstanceTypeDescription>> {
        Ok(self.call("DescribeInstanceTypes", &text(filters))?.types.clone())
    }

    async fn instance_type_zones(&self) -> CallResult<Vec<InstanceTypeZone>> {
        Ok(self.call("DescribeInstanceTypeOfferings", "")?.type_zones.clone())
    }

    async fn spot_price_history(&self, _from: Timestamp, _products: &[&str]) -> CallResult<Vec<SpotPriceRow>> {
        Ok(self.call("DescribeSpotPriceHistory", "")?.spot_rows.clone())
    }

    async fn instances(&self, query: &InstanceQuery) -> CallResult<Vec<DescribedInstance>> {
        let account = self.call("DescribeInstances", &query.ids.join(","))?;
        let known = |id: &String| account.instances.iter().any(|one| one.id == *id);
        if !query.ids.iter().all(known) {
            return Err(ApiError::new("InvalidInstanceID.NotFound", "an id does not exist"));
        }
        let is_meant = |one: &&DescribedInstance| {
            (query.ids.is_empty() || query.ids.contains(&one.id))
                && passes(&query.filters, "instance-state-name", &one.state)
                && tags_pass(&query.filters, &one.tags)
        };
        Ok(account.instances.iter().filter(is_meant).cloned().collect())
    }

    async fn instance_status(&self, query: &Query) -> CallResult<Vec<InstanceStatus>> {
        Ok(self.call("DescribeInstanceStatus", &text(query))?.status.clone())
    }

    async fn launch_templates(&self, query: &TemplateQuery) -> CallResult<Vec<String>> {
        let account = self.call("DescribeLaunchTemplates", &query.names.join(","))?;
        if query.names.iter().any(|name| !account.templates.contains_key(name)) {
            return Err(ApiError::new(
                "InvalidLaunchTemplateName.NotFoundException",
                "no such template",
            ));
        }
        let is_meant = |(name, data): &(&String, &TemplateData)| {
            (query.names.is_empty() || query.names.contains(*name)) && tags_pass(&query.filters, &data.tags)
        };
        Ok(account
            .templates
            .iter()
            .filter(is_meant)
            .map(|(name, _)| name.clone())
            .collect())
    }

    async fn create_launch_template(&self, name: &str, data: &TemplateData) -> CallResult<()> {
        let mut account = self.call("CreateLaunchTemplate", "")?;
        if account.templates.contains_key(name) {
            return Err(ApiError::new(
                "InvalidLaunchTemplateName.AlreadyExistsException",
                "the name is taken",
            ));
        }
        account.templates.insert(name.to_owned(), data.clone());
        Ok(())
    }

    async fn delete_launch_template(&self, name: &str) -> CallResult<()> {
        let duration = self.account().template_deletion;
        if !duration.is_zero() {
            tokio::time::sleep(duration).await;
        }
        let mut account = self.call("DeleteLaunchTemplate", "")?;
        match account.templates.remove(name) {
            Some(_) => Ok(()),
            None => Err(ApiError::new(
                "InvalidLaunchTemplateName.NotFoundException",
                "no such template",
            )),
        }
    }

    async fn create_fleet(&self, request: &FleetRequest, count: u32) -> CallResult<FleetAnswer> {
        let mut account = self.call("CreateFleet", &count.to_string())?;
        account.fleets.push((request.clone(), count));
        let missing = request
            .configs
            .iter()
            .any(|config| !account.templates.contains_key(&config.template_name));
        if missing {
            return Err(ApiError::new(
                "InvalidLaunchTemplateName.NotFoundException",
                "no such template",
            ));
        }
        let capacity_type = match request.target {
            TargetCapacity::Spot => "spot",
            TargetCapacity::OnDemand => "on-demand",
            TargetCapacity::CapacityBlock | TargetCapacity::ReservedCapacity => "reserved",
        };
        let mut overrides: Vec<(&FleetOverride, &str)> = request
            .configs
            .iter()
            .flat_map(|config| config.overrides.iter().map(|one| (one, config.template_name.as_str())))
            .collect();
        overrides.sort_by_key(|(one, _)| one.priority);
        let is_empty = |one: &FleetOverride| {
            let pool = (capacity_type.to_owned(), one.instance_type.clone(), one.zone.clone());
            account.empty_pools.contains(&pool)
        };
        let error = account.pool_error.clone();
        let error = error.unwrap_or_else(|| ApiError::new("InsufficientInstanceCapacity", "no capacity"));
        let errors = overrides
            .iter()
            .filter(|(one, _)| is_empty(one))
            .map(|(one, _)| FleetError {
                error: error.clone(),
                instance_type: one.instance_type.clone(),
                zone: one.zone.clone(),
                subnet_id: one.subnet_id.clone(),
            });
        let errors: Vec<FleetError> = errors.collect();
        let Some((chosen, template)) = overrides.into_iter().find(|(one, _)| !is_empty(one)) else {
            return Ok(FleetAnswer {
                instances: Vec::new(),
                errors,
            });
        };
        let data = account.templates[template].clone();
        let mut instances = Vec::new();
        for _ in 0..count {
            account.launched += 1;
            let id = format!("i-{:08x}", account.launched);
            account.instances.push(DescribedInstance {
                id: id.clone(),
                state: "running".to_owned(),
                state_reason: None,
                instance_type: chosen.instance_type.clone(),
                image_id: chosen.image_id.clone(),
                zone: chosen.zone.clone(),
                zone_id: Some(chosen.zone.replace("us-east-1", "use1-")),
                launched: self.clock.now(),
                tags: request.tags[0].tags.clone(),
                spot_request_id: (capacity_type == "spot").then(|| "sir-1".to_owned()),
                lifecycle: String::new(),
                reservation_id: None,
                reservation_preference: None,
                tenancy: "default".to_owned(),
                interface_types: vec!["interface".to_owned()],
                partition: 0,
                subnet_id: chosen.subnet_id.clone().unwrap_or_default(),
                security_group_ids: data.interfaces[0].security_group_ids.iter().cloned().collect(),
            });
            instances.push(FleetOutcome {
                instance_id: id,
                instance_type: chosen.instance_type.clone(),
                image_id: chosen.image_id.clone(),
                zone: chosen.zone.clone(),
                subnet_id: chosen.subnet_id.clone(),
            });
        }
        Ok(FleetAnswer { instances, errors })
    }

    async fn dry_run_fleet(&self, request: &FleetDryRun) -> CallResult<()> {
        let mut account = self.call("CreateFleet", "dry run")?;
        account
            .dry_runs
            .push(format!("{} {}", request.instance_type, request.subnet_ids.join(",")));
        Err(ApiError::new("DryRunOperation", "it would have succeeded"))
    }

    async fn dry_run_instances(&self, request: &InstancesDryRun) -> CallResult<()> {
        let mut account = self.call("RunInstances", "dry run")?;
        account
            .dry_runs
            .push(format!("{} {}", request.instance_type, request.subnet_id));
        Err(ApiError::new("DryRunOperation", "it would have succeeded"))
    }

    async fn terminate_instances(&self, ids: &[String]) -> CallResult<Vec<(String, String)>> {
        let mut account = self.call("TerminateInstances", &ids.join(","))?;
        let known = |id: &String| account.instances.iter().any(|one| one.id == *id);
        if !ids.iter().all(known) {
            return Err(ApiError::new("InvalidInstanceID.NotFound", "an id does not exist"));
        }
        for instance in account.instances.iter_mut().filter(|one| ids.contains(&one.id)) {
            instance.state = "shutting-down".to_owned();
        }
        Ok(ids.iter().map(|id| (id.clone(), "shutting-down".to_owned())).collect())
    }

    async fn create_tags(&self, instance_id: &str, tags: &Tags) -> CallResult<()> {
        let keys: Vec<&str> = tags.keys().map(String::as_str).collect();
        let mut account = self.call("CreateTags", &format!("{instance_id} {}", keys.join(",")))?;
        let instance = account.instances.iter_mut().find(|one| one.id == instance_id);
        let gone = || ApiError::new("InvalidInstanceID.NotFound", "the id does not exist");
        instance.ok_or_else(gone)?.tags.extend(tags.clone());
        Ok(())
    }
}

#[async_trait]
impl Ssm for FakeAws {
    async fn parameter(&self, name: &str) -> CallResult<String> {
        let account = self.call("GetParameter", name)?;
        let missing = || ApiError::new("ParameterNotFound", name);
        account.parameters.get(name).cloned().ok_or_else(missing)
    }
}

fn no_entity(text: &str) -> ApiError {
    ApiError::new("NoSuchEntity", text)
}

#[async_trait]
impl Iam for FakeAws {
    async fn instance_profile(&self, name: &str) -> CallResult<InstanceProfile> {
        let account = self.call("GetInstanceProfile", "")?;
        let found = account.profiles.get(name).map(|(_, profile, _)| profile.clone());
        found.ok_or_else(|| no_entity("the instance profile does not exist"))
    }

    async fn create_instance_profile(&self, name: &str, path: &str, tags: &Tags) -> CallResult<()> {
        let mut account = self.call("CreateInstanceProfile", "")?;
        let profile = InstanceProfile {
            name: name.to_owned(),
            role: None,
        };
        account
            .profiles
            .insert(name.to_owned(), (path.to_owned(), profile, tags.clone()));
        Ok(())
    }

    async fn add_role(&self, profile: &str, role: &str) -> CallResult<()> {
        let mut account = self.call("AddRoleToInstanceProfile", role)?;
        let found = account.profiles.get_mut(profile);
        found
            .ok_or_else(|| no_entity("the instance profile does not exist"))?
            .1
            .role = Some(role.to_owned());
        Ok(())
    }

    async fn remove_role(&self, profile: &str, role: &str) -> CallResult<()> {
        let mut account = self.call("RemoveRoleFromInstanceProfile", role)?;
        let found = account.profiles.get_mut(profile);
        found
            .ok_or_else(|| no_entity("the instance profile does not exist"))?
            .1
            .role = None;
        Ok(())
    }

    async fn delete_instance_profile(&self, name: &str) -> CallResult<()> {
        let mut account = self.call("DeleteInstanceProfile", name)?;
        let found = account.profiles.remove(name);
        found
            .map(drop)
            .ok_or_else(|| no_entity("the instance profile does not exist"))
    }

    async fn instance_profiles(&self, path: &str) -> CallResult<Vec<InstanceProfile>> {
        let account = self.call("ListInstanceProfiles", path)?;
        let under = account.profiles.values().filter(|(of, _, _)| of.starts_with(path));
        Ok(under.map(|(_, profile, _)| profile.clone()).collect())
    }
}

#[async_trait]
impl Sqs for FakeAws {
    async fn queue_url(&self, name: &str) -> CallResult<String> {
        drop(self.call("GetQueueUrl", name)?);
        Ok(format!("https://sqs/{name}"))
    }

    async fn receive(&self, _queue_url: &str) -> CallResult<Vec<QueueMessage>> {
        let messages = self.call("ReceiveMessage", "")?.messages.clone();
        if messages.is_empty() {
            // Long polling.
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        Ok(messages)
    }

    async fn delete(&self, _queue_url: &str, receipt: &str) -> CallResult<()> {
        let mut account = self.call("DeleteMessage", receipt)?;
        account.messages.retain(|message| message.receipt != receipt);
        Ok(())
    }
}

#[async_trait]
impl Eks for FakeAws {
    async fn cluster(&self, name: &str) -> CallResult<ClusterDescription> {
        Ok(self.call("DescribeCluster", name)?.cluster.clone())
    }
}

#[async_trait]
impl PriceList for FakeAws {
    async fn products(&self, _query: &PriceQuery) -> CallResult<Vec<String>> {
        Ok(self.call("GetProducts", "")?.products.clone())
    }
}

#[async_trait]
impl ZonalShiftService for FakeAws {
    async fn shifts(&self, cluster_arn: &str) -> CallResult<Vec<Shift>> {
        Ok(self.call("GetManagedResource", cluster_arn)?.shifts.clone())
    }
}

/// A reservation of m5.large in us-east-1a.
pub(crate) fn reservation(id: &str, available: u32) -> DescribedReservation {
    DescribedReservation {
        id: id.to_owned(),
        zone: "us-east-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        owner_id: "123456789012".to_owned(),
        instance_match_criteria: "targeted".to_owned(),
        reservation_type: String::new(),
        interruptible: None,
        end: None,
        available,
    }
}
