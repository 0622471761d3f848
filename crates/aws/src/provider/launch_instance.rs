//! Launches the instance of a claim (section 14 of `docs/behaviour/aws.md`).

use super::aws_cloud::AwsCloud;
use super::template::{TemplateError, TemplateRequest};
use crate::errors::{ApiError, classify};
use crate::instance::{DescribedInstance, Instance, InstanceReservation};
use crate::labels::{
    PLACEMENT_GROUP_PARTITION, RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE, label_rules,
};
use crate::launch::{
    FleetConfig, FleetError, FleetInput, FleetOutcome, FleetRequest, FleetScope, LaunchClaim, Mark, TemplateKey,
    Tenancy, capacity_type, failure, fleet_request, is_risky_on_demand_fallback, launch_failures, marks, overrides,
    select, template_groups, tenancy,
};
use crate::offering::{CapacityType, GroupScope};
use crate::placement_group::PlacementGroup;
use crate::resources::EFA;
use crate::subnet::ChosenSubnet;
use crate::tags::{Tags, launch_tags};
use crate::user_data::{NodeTaint, UserDataError, node_taints};
use k8s_openapi::api::core::v1::Taint;
use kerf_api::{EC2NodeClass, NodeClaim, labels as core_labels};
use kerf_cloud::{CloudError, requirements};
use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Interner, sym};
use kerf_model::resources::Resources;
use kerf_runtime::client::{describe, name_of};
use kerf_runtime::{Event, EventType, ObjectRef};
use std::collections::BTreeMap;

/// A launch that is decided, except for its subnets and templates.
struct Launch<'a> {
    claim: &'a NodeClaim,
    wanted: &'a LaunchClaim<'a>,
    class: &'a EC2NodeClass,
    types: &'a [InstanceType],
    bought: CapacityType,
    tenancy: Tenancy,
    tags: &'a Tags,
    group: Option<&'a PlacementGroup>,
    partition: Option<u32>,
}

/// Why an attempt gave no instance.
enum AttemptError {
    /// A launch template is gone; another attempt makes it anew.
    TemplateGone(CloudError),
    /// Anything else.
    Final(CloudError),
}

impl AttemptError {
    fn into_cloud(self) -> CloudError {
        match self {
            Self::TemplateGone(error) | Self::Final(error) => error,
        }
    }
}

/// A failed launch with the reason that its text has.
fn create_error(doing: &str, text: &str) -> CloudError {
    let found = classify(text);
    CloudError::Create {
        reason: found.reason.into(),
        message: format!("{doing}: {} ({text})", found.message).into(),
    }
}

/// What the claim asks for, in the terms of the model.
pub(super) fn launch_claim<'a>(claim: &NodeClaim, interner: &'a Interner) -> LaunchClaim<'a> {
    let mut requests = Resources::new();
    for (name, quantity) in claim.spec.resources.iter().flat_map(|resources| &resources.requests) {
        let name = interner.intern(name);
        let amount = if name == sym::CPU {
            quantity.milli_ceil()
        } else {
            quantity.units_ceil()
        };
        requests.set(name, amount);
    }
    let wanted = requirements(&claim.spec.requirements, &label_rules(), interner);
    let mut wanted = LaunchClaim::new(wanted, requests, interner);
    wanted.annotations = claim.metadata.annotations.clone().unwrap_or_default();
    wanted
}

fn node_taint(taint: &Taint) -> NodeTaint {
    NodeTaint::new(&taint.key, taint.value.as_deref().unwrap_or_default(), &taint.effect)
}

/// The partition that the claim asks for.
fn targeted_partition(wanted: &LaunchClaim<'_>, group: &PlacementGroup) -> Option<u32> {
    let interner = wanted.interner();
    let requirement = wanted.requirements.get(interner.intern(PLACEMENT_GROUP_PARTITION))?;
    let values = requirement.values.iter().filter(|_| !requirement.complement);
    group.targeted_partition(values.map(|value| interner.text(*value)))
}

/// The fewest pods of a type that can be launched this way in a zone: so many addresses a launch takes at least. Zero without such a type.
fn least_pods(types: &[InstanceType], bought: CapacityType, zone: &str, interner: &Interner) -> i64 {
    let (bought, zone) = (interner.intern(bought.as_str()), interner.intern(zone));
    let is_offered = |offering: &Offering| {
        offering.available && offering.capacity_type() == Some(bought) && offering.zone() == Some(zone)
    };
    let offered = types.iter().filter(|kind| kind.offerings.iter().any(is_offered));
    offered.map(|kind| kind.capacity.get(sym::PODS)).min().unwrap_or(0)
}

/// The reservation of a type in a zone. The filters leave one for each of them.
fn reservation(types: &[InstanceType], kind: &str, zone: &str, interner: &Interner) -> Option<InstanceReservation> {
    let (kind, zone) = (interner.intern(kind), interner.intern(zone));
    let kind = types.iter().find(|one| one.name == kind)?;
    let in_zone =
        |offering: &&Offering| offering.capacity_type() == Some(sym::RESERVED) && offering.zone() == Some(zone);
    let offering = kind.offerings.iter().find(in_zone)?;
    let text = |key: &str| offering.value(interner.intern(key)).map(|value| interner.text(value));
    Some(InstanceReservation {
        id: text(RESERVATION_ID)?.to_owned(),
        reservation_type: match text(RESERVATION_TYPE) {
            Some("capacity-block") => "capacity-block",
            _ => "default",
        },
        interruptible: text(RESERVATION_INTERRUPTIBLE) == Some("true"),
    })
}

impl AwsCloud {
    /// Launches an instance of one of the types that the claim allows. The result has the labels of the placement group.
    pub(super) async fn launch(
        &self,
        claim: &NodeClaim,
        class: &EC2NodeClass,
        catalogue: &Catalogue,
        group: Option<&PlacementGroup>,
    ) -> Result<(Instance, BTreeMap<String, String>), CloudError> {
        let interner = &*self.interner;
        let wanted = launch_claim(claim, interner);
        let named = wanted.requirements.get(sym::INSTANCE_TYPE);
        let is_named = |kind: &&InstanceType| named.is_none_or(|names| names.has(kind.name, interner));
        let types = catalogue.types.iter().filter(is_named).cloned().collect();
        let selection = select(&wanted, types, self.min_values)
            .map_err(|none| CloudError::insufficient_capacity(none.to_string()))?;
        for (filter, names) in &selection.removed {
            tracing::debug!(filter, types = ?names, "filtered out instance types from launch");
        }
        let bought = capacity_type(&wanted, &selection.types);
        if is_risky_on_demand_fallback(&wanted, bought, selection.types.len()) {
            tracing::error!(
                types = selection.types.len(),
                "a launch on demand that could be spot has few instance types, give the NodePool more of them"
            );
        }
        let pool = claim
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(core_labels::NODE_POOL));
        let pool = pool.map(String::as_str).unwrap_or_default();
        let class_name = name_of(class).map_err(|error| CloudError::other(describe(&error)))?;
        let launch = Launch {
            claim,
            wanted: &wanted,
            class,
            types: &selection.types,
            bought,
            tenancy: tenancy(&wanted),
            tags: &launch_tags(class.spec.tags.as_ref(), &self.cluster.name, pool, class_name),
            group,
            partition: group.and_then(|group| targeted_partition(&wanted, group)),
        };
        let outcome = match self.attempt(&launch).await {
            Err(AttemptError::TemplateGone(_)) => self.attempt(&launch).await,
            outcome => outcome,
        };
        let instance = self.instance(&launch, outcome.map_err(AttemptError::into_cloud)?);
        let described = &instance.described;
        self.market
            .unavailable()
            .launched(&described.instance_type, &described.zone, bought);
        if let Some(reservation) = &instance.reservation {
            self.reservations.counts().launched(&reservation.id, self.clock.now());
        }
        let labels = group.map(|group| group.claim_labels(launch.partition));
        Ok((instance, labels.unwrap_or_default()))
    }

    async fn attempt(&self, launch: &Launch<'_>) -> Result<FleetOutcome, AttemptError> {
        let subnets = &launch.class.status.subnets;
        if subnets.is_empty() {
            return Err(AttemptError::Final(CloudError::Create {
                reason: "SubnetResolutionFailed".into(),
                message: "no subnets found in the status of the EC2NodeClass".into(),
            }));
        }
        let fewest = |zone: &str| least_pods(launch.types, launch.bought, zone, &self.interner);
        let chosen = self.subnets.choose(subnets, fewest);
        let request = match self.request(launch, &chosen).await {
            Ok(request) => request,
            Err(error) => {
                self.subnets.settle(&chosen, None);
                return Err(AttemptError::Final(error));
            }
        };
        let share = match self.instances.batchers().create_fleet(&request).await {
            Ok(share) => share,
            Err(error) => {
                self.subnets.settle(&chosen, None);
                return Err(self.fleet_error(&request, &error));
            }
        };
        let used = share.instance.as_ref().and_then(|one| one.subnet_id.as_deref());
        self.subnets.settle(&chosen, used);
        self.remember(launch, &share.errors);
        share
            .instance
            .ok_or_else(|| AttemptError::Final(failure(&share.errors)))
    }

    fn fleet_error(&self, request: &FleetRequest, error: &ApiError) -> AttemptError {
        let text = error.to_string();
        if error.is_launch_template_not_found() {
            self.templates
                .forget(request.configs.iter().map(|config| config.template_name.as_str()));
            return AttemptError::TemplateGone(create_error("launch templates not found", &text));
        }
        AttemptError::Final(create_error("creating fleet request", &text))
    }

    /// The request of a launch, with its templates made.
    async fn request(
        &self,
        launch: &Launch<'_>,
        chosen: &BTreeMap<String, ChosenSubnet>,
    ) -> Result<FleetRequest, CloudError> {
        let preparing = |text: &str| create_error("preparing the launch", text);
        let reserved = self.reserved_by_expressions(launch.class);
        let amis = &launch.class.status.amis;
        let groups = template_groups(launch.wanted, launch.types, amis, launch.bought, &reserved);
        let groups = groups.ok_or_else(|| preparing("no AMIs exist given constraints"))?;
        let subnets: BTreeMap<String, String> = chosen
            .iter()
            .map(|(zone, subnet)| (zone.clone(), subnet.id.clone()))
            .collect();
        let no_labels = BTreeMap::new();
        let spec = &launch.claim.spec;
        let taints = |taints: &[Taint]| taints.iter().map(node_taint).collect::<Vec<_>>();
        let template = TemplateRequest {
            labels: launch.claim.metadata.labels.as_ref().unwrap_or(&no_labels),
            taints: &node_taints(&taints(spec.taints()), &taints(spec.startup_taints())),
            capacity_type: launch.bought,
            tenancy: launch.tenancy,
            tags: launch.tags,
            group: launch.group,
            partition: launch.partition,
            enclaves: launch.wanted.wants_enclaves(),
        };
        let (mut configs, mut key) = (Vec::new(), None::<TemplateKey>);
        for group in groups {
            let ensured = self.ensure_template(launch.class, &group.key, &template).await;
            let (template_name, _) = ensured.map_err(|error| {
                let text = error.to_string();
                if error == TemplateError::UserData(UserDataError::ClusterCidrUnknown) {
                    CloudError::NodeClassNotReady(text.into())
                } else {
                    preparing(&text)
                }
            })?;
            let overrides = overrides(
                launch.wanted,
                &group.types,
                &subnets,
                &group.key.ami,
                launch.bought,
                group.key.reservation_id.as_deref(),
                None,
            );
            configs.push(FleetConfig {
                template_name,
                overrides,
            });
            key.get_or_insert(group.key);
        }
        let input = FleetInput {
            claim: launch.wanted,
            capacity_type: launch.bought,
            reservation_type: key.as_ref().and_then(|key| key.reservation_type.as_deref()),
            interruptible: key.as_ref().is_some_and(|key| key.interruptible),
            configs,
            tags: launch.tags.clone(),
            context: launch.class.spec.context.as_deref(),
        };
        fleet_request(&input)
            .ok_or_else(|| preparing("no capacity offerings are currently available given the constraints"))
    }

    /// Remembers what the errors of a fleet say about later launches (AWS-252 to AWS-254).
    fn remember(&self, launch: &Launch<'_>, errors: &[FleetError]) {
        let interner = &*self.interner;
        let zone_ids = launch.class.status.subnets.iter();
        let zone_ids: BTreeMap<String, String> = zone_ids
            .filter_map(|subnet| Some((subnet.zone.clone(), subnet.zone_id.clone()?)))
            .collect();
        for (zone, zone_id, reason) in launch_failures(errors, &zone_ids) {
            let labels = [zone, zone_id, launch.bought.as_str(), reason];
            self.metrics.launch_failures.inc(&labels);
        }
        let names: Vec<&str> = launch.types.iter().map(|kind| interner.text(kind.name)).collect();
        let reservations = errors.iter().filter_map(|error| {
            let found = reservation(launch.types, &error.instance_type, &error.zone, interner)?;
            Some(((error.instance_type.clone(), error.zone.clone()), found.id))
        });
        let scope = FleetScope {
            capacity_type: launch.bought,
            instance_types: &names,
            group: launch.group.map(|group| GroupScope {
                id: group.id.clone(),
                partition: launch.partition,
            }),
            reservations: &reservations.collect(),
        };
        let now = self.clock.now();
        for mark in marks(errors, &scope) {
            match mark {
                Mark::Offering(key) => self.market.unavailable().mark_exhausted(key, now),
                Mark::CapacityType(kind) => {
                    self.market.unavailable().mark_capacity_type(kind, now);
                    self.publish_missing_role(launch.claim);
                }
                Mark::Subnet(id) => {
                    self.market.unavailable().mark_subnet(&id, now);
                    self.subnets.exhaust(&id);
                }
                Mark::Reservation(id) => self.reservations.counts().exhausted(&id),
            }
        }
    }

    /// Says on the claim that spot instances cannot be launched (AWS-388).
    fn publish_missing_role(&self, claim: &NodeClaim) {
        let Some(object) = ObjectRef::of(claim) else { return };
        self.recorder.publish(Event {
            dedupe: vec![object.uid.clone()],
            object,
            kind: EventType::Warning,
            reason: "".into(),
            message: "Attempted to launch a spot instance but failed due to \"AuthFailure.ServiceLinkedRoleCreationNotPermitted\"".to_owned(),
            dedupe_timeout: None,
        });
    }

    /// The new instance, as far as the answer of CreateFleet describes it.
    fn instance(&self, launch: &Launch<'_>, outcome: FleetOutcome) -> Instance {
        let interner = &*self.interner;
        let reservation = match launch.bought {
            CapacityType::Reserved => reservation(launch.types, &outcome.instance_type, &outcome.zone, interner),
            CapacityType::OnDemand | CapacityType::Spot => None,
        };
        let efa = interner.intern(EFA);
        let name = interner.intern(&outcome.instance_type);
        let kind = launch.types.iter().find(|kind| kind.name == name);
        let has_efa = launch.wanted.wants_efa() || launch.class.spec.network_interfaces.is_some();
        let subnets = &launch.class.status.subnets;
        let zone_id = subnets.iter().find(|subnet| subnet.zone == outcome.zone);
        Instance {
            capacity_type: launch.bought,
            reservation,
            tenancy: launch.tenancy.as_str().to_owned(),
            efa_count: kind.filter(|_| has_efa).map_or(0, |kind| kind.capacity.get(efa)),
            partition: launch.partition,
            described: DescribedInstance {
                id: outcome.instance_id,
                state: "pending".to_owned(),
                state_reason: None,
                instance_type: outcome.instance_type,
                image_id: outcome.image_id,
                zone_id: zone_id.and_then(|subnet| subnet.zone_id.clone()),
                zone: outcome.zone,
                launched: self.clock.now(),
                tags: launch.tags.clone(),
                spot_request_id: None,
                lifecycle: String::new(),
                reservation_id: None,
                reservation_preference: None,
                tenancy: launch.tenancy.as_str().to_owned(),
                interface_types: Vec::new(),
                partition: launch.partition.unwrap_or(0),
                subnet_id: outcome.subnet_id.unwrap_or_default(),
                security_group_ids: launch
                    .class
                    .status
                    .security_groups
                    .iter()
                    .map(|group| group.id.clone())
                    .collect(),
            },
        }
    }
}
