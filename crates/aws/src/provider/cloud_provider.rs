//! The provider as the controllers see it (sections 19 and 20 of `docs/behaviour/aws.md`).

use super::aws_cloud::{AwsCloud, TypesError};
use super::ended_classes::{LaunchedFor, StartedInstances};
use super::partition_hook::PlacementGroupRegistrationHook;
use super::signals::Signals;
use crate::ami::ami_for;
use crate::annotations::INSTANCE_PROFILE;
use crate::drift::{CurrentGroup, Drift, DriftClaim, DriftInstance, instance_drift, static_drift};
use crate::instance::{Instance, launched};
use crate::instance_end::ENDED_AT_LAUNCH;
use crate::labels::{PLACEMENT_GROUP_ID, RESERVATION_ID, vocabulary};
use crate::provider_id::instance_id;
use crate::repair::repair_policies;
use crate::tags;
use async_trait::async_trait;
use jiff::Timestamp;
use kerf_api::conditions::READY;
use kerf_api::ec2_node_class::{EC2NodeClass, GROUP, KIND, VERSION};
use kerf_api::{Condition, NodeClaim, NodeClassKind, NodePool, labels as core_labels};
use kerf_cloud::{
    CloudError, CloudProvider, DriftReason, Interruption, InterruptionKind, Launched, PoolOverlays, Profile,
    RegistrationHook,
};
use kerf_model::instance_type::{Catalogue, InstanceType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The provider's name (AWS-283).
pub const PROVIDER_NAME: &str = "aws";
/// The kind of its node classes (AWS-283).
pub const NODE_CLASS: NodeClassKind = NodeClassKind {
    group: GROUP,
    version: VERSION,
    kind: KIND,
    plural: "ec2nodeclasses",
};

/// What is fixed about the provider.
pub fn profile() -> Profile {
    Profile {
        name: PROVIDER_NAME,
        node_classes: vec![NODE_CLASS],
        vocabulary: vocabulary(),
        repair_policies: repair_policies(),
    }
}

/// Launches EC2 instances for claims.
pub struct AwsProvider {
    cloud: Arc<AwsCloud>,
    profile: Profile,
    hooks: Vec<Arc<dyn RegistrationHook>>,
    signals: Signals,
}

impl AwsProvider {
    /// The provider of an account.
    pub fn new(cloud: Arc<AwsCloud>) -> Self {
        Self {
            signals: Signals::new(Arc::clone(&cloud)),
            hooks: vec![
                Arc::new(PlacementGroupRegistrationHook::new(Arc::clone(&cloud))),
                Arc::new(StartedInstances(Arc::clone(&cloud))),
            ],
            cloud,
            profile: profile(),
        }
    }

    /// The types with the overlays of the claim's pool. A claim without pool has none (AWS-286).
    fn overlaid(&self, claim: &NodeClaim, types: Arc<Catalogue>) -> Arc<Catalogue> {
        let labels = claim.metadata.labels.as_ref();
        let pool = labels.and_then(|labels| labels.get(core_labels::NODE_POOL));
        let changed = pool.and_then(|pool| self.cloud.overlays.get()?.apply(pool, &types));
        changed.unwrap_or(types)
    }

    /// The class and type of an instance, where they are still known (AWS-290).
    async fn origin(&self, instance: &Instance) -> Result<(Option<EC2NodeClass>, Option<InstanceType>), CloudError> {
        let Some(name) = instance.described.tags.get(tags::NODE_CLASS) else {
            return Ok((None, None));
        };
        let Some(class) = self.cloud.class(name).await? else {
            return Ok((None, None));
        };
        let types = self.known_types(&class).await?;
        let kind = types.and_then(|types| self.kind(&types, &instance.described.instance_type).cloned());
        Ok((Some(class), kind))
    }

    /// The types of a class; `None` as long as they are not known. An error of a call is an error (AWS-290).
    async fn known_types(&self, class: &EC2NodeClass) -> Result<Option<Arc<Catalogue>>, CloudError> {
        match self.cloud.types_of(class).await {
            Ok((types, _)) => Ok(Some(types)),
            Err(TypesError::List(_)) => Ok(None),
            Err(error @ TypesError::Group(_)) => Err(CloudError::other(format!("getting instance types, {error}"))),
        }
    }

    fn kind<'a>(&self, types: &'a Catalogue, name: &str) -> Option<&'a InstanceType> {
        let name = self.cloud.interner.get(name)?;
        types.types.iter().find(|kind| kind.name == name)
    }

    fn describe(&self, instance: &Instance, class: Option<&EC2NodeClass>, kind: Option<&InstanceType>) -> Launched {
        let status = class.map(|class| &class.status);
        launched(instance, kind, status, BTreeMap::new(), &self.cloud.interner)
    }

    /// The annotations of a new claim (AWS-287).
    fn annotations(&self, class: &EC2NodeClass) -> BTreeMap<String, String> {
        let mut annotations = class.hash_annotations(&self.cloud.cluster.ca_bundle).to_map();
        let profile = class.status.instance_profile.clone().unwrap_or_default();
        annotations.insert(INSTANCE_PROFILE.to_owned(), profile);
        annotations
    }

    async fn drift(&self, claim: &NodeClaim, class: &EC2NodeClass) -> Result<Option<Drift>, CloudError> {
        let other = |error: String| CloudError::other(error);
        let no_map = BTreeMap::new();
        let labels = claim.metadata.labels.as_ref().unwrap_or(&no_map);
        let label = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
        let status = claim.status.as_ref();
        let view = DriftClaim {
            annotations: claim.metadata.annotations.as_ref().unwrap_or(&no_map),
            instance_type: label(core_labels::INSTANCE_TYPE),
            image_id: status.and_then(|status| status.image_id.as_deref()),
            group_id: label(PLACEMENT_GROUP_ID),
        };
        let types = self.cloud.types_of(class).await;
        let (types, _) = types.map_err(|error| other(format!("getting instance types, {error}")))?;
        let kind = self.kind(&types, view.instance_type);
        let current = kind.map(|kind| ami_for(kind, &class.status.amis, &self.cloud.interner));
        let class_annotations = class.metadata.annotations.as_ref().unwrap_or(&no_map);
        let drift = static_drift(&view, class_annotations, &class.status, current);
        if let Some(drift) = drift.map_err(|error| other(error.to_string()))? {
            return Ok(Some(drift));
        }
        let provider_id = status.and_then(|status| status.provider_id.as_deref());
        let id = provider_id.ok_or_else(|| other(crate::drift::DriftError::NoInstance.to_string()))?;
        let id = instance_id(id).map_err(|error| other(error.to_string()))?;
        let instance = self.cloud.instances.get(id).await?;
        let reservation = |instance: &Instance| instance.reservation.as_ref().map(|one| one.id.clone());
        let view_of = DriftInstance {
            security_group_ids: instance.described.security_group_ids.clone(),
            subnet_id: instance.described.subnet_id.clone(),
            reservation_id: reservation(&instance),
        };
        let is_known = |id: &String| class.status.capacity_reservations.iter().any(|one| one.id == *id);
        let fresh = match view_of.reservation_id.as_ref().filter(|id| !is_known(id)) {
            Some(_) => reservation(&self.cloud.instances.get_fresh(id).await?),
            None => None,
        };
        let group = self.cloud.groups.get(class).await;
        let group = match &group {
            Ok(Some(group)) => CurrentGroup::Id(&group.id),
            Ok(None) => CurrentGroup::None,
            Err(_) => CurrentGroup::Unknown,
        };
        let drift = instance_drift(&view_of, &view, &class.status, || fresh, group);
        drift.map_err(|error| other(error.to_string()))
    }
}

/// Why nothing may be launched with a class now (AWS-285).
fn readiness(class: &EC2NodeClass) -> Result<(), CloudError> {
    let not_ready = |text: &str| CloudError::NodeClassNotReady(text.into());
    let ready = class
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY);
    match ready {
        Some(ready) if ready.is_false() => return Err(not_ready(ready.message())),
        Some(ready) if ready.is_true() => {}
        _ => {
            return Err(CloudError::Create {
                reason: "NodeClassReadinessUnknown".into(),
                message: "NodeClass is in Ready=Unknown".into(),
            });
        }
    }
    let observed = ready.and_then(|ready: &Condition| ready.observed_generation);
    if observed != class.metadata.generation {
        return Err(not_ready(
            "nodeclass status has not been reconciled against the latest spec",
        ));
    }
    match tags::first_restricted(class.spec.tags.as_ref()) {
        Some(key) => Err(not_ready(&format!("the tag {key:?} may not be set by a class"))),
        None => Ok(()),
    }
}

#[async_trait]
impl CloudProvider for AwsProvider {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Launched, CloudError> {
        let class = self.cloud.class_of_claim(claim).await?;
        let class = class.ok_or_else(|| {
            let name = &claim.spec.node_class_ref.name;
            CloudError::insufficient_capacity(format!("resolving nodeclass, ec2nodeclass {name:?} not found"))
        })?;
        readiness(&class)?;
        // The condition of the class says so in a moment; until then claims wait.
        if let Some(message) = self.cloud.ended_classes.reason(&class) {
            return Err(CloudError::Create {
                reason: ENDED_AT_LAUNCH.into(),
                message: message.into(),
            });
        }
        let (types, group) = self.cloud.types_of(&class).await.map_err(|error| CloudError::Create {
            reason: "InstanceTypeResolutionFailed".into(),
            message: format!("Error resolving instance types, {error}").into(),
        })?;
        let types = self.overlaid(claim, types);
        let (instance, group_labels) = self.cloud.launch(claim, &class, &types, group.as_ref()).await?;
        if let Some(name) = &claim.metadata.name {
            let id = instance.described.id.clone();
            self.cloud.launched_for.insert(id, LaunchedFor::new(name, &class));
        }
        let kind = self.kind(&types, &instance.described.instance_type);
        let mut launched = self.describe(&instance, Some(&class), kind);
        launched.labels.extend(group_labels);
        launched.annotations = self.annotations(&class);
        Ok(launched)
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), CloudError> {
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let id = instance_id(provider_id.unwrap_or_default());
        let id = id.map_err(|error| CloudError::other(error.to_string()))?;
        let deleted = match self.cloud.instances.get_in_any_state(id).await {
            Ok(instance) => {
                self.cloud.report_end(claim, &instance);
                self.cloud.instances.terminate(&instance).await
            }
            Err(error) => Err(error),
        };
        let reservation = claim
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(RESERVATION_ID));
        if let (Some(reservation), true) = (reservation, deleted.as_ref().is_err_and(CloudError::is_not_found)) {
            self.cloud.reservations.counts().terminated(reservation);
        }
        deleted
    }

    async fn get(&self, provider_id: &str) -> Result<Launched, CloudError> {
        let id = instance_id(provider_id).map_err(|error| CloudError::other(error.to_string()))?;
        let instance = self.cloud.instances.get(id).await?;
        let (class, kind) = self.origin(&instance).await?;
        Ok(self.describe(&instance, class.as_ref(), kind.as_ref()))
    }

    async fn list(&self) -> Result<Vec<Launched>, CloudError> {
        let instances = self.cloud.instances.list().await?;
        fn named(instance: &Instance) -> Option<&String> {
            instance.described.tags.get(tags::NODE_CLASS)
        }
        let mut classes: BTreeMap<String, (EC2NodeClass, Option<Arc<Catalogue>>)> = BTreeMap::new();
        for name in instances.iter().filter_map(named).collect::<BTreeSet<&String>>() {
            if let Some(class) = self.cloud.class(name).await? {
                let types = self.known_types(&class).await?;
                classes.insert(name.clone(), (class, types));
            }
        }
        let describe = |instance: &Instance| {
            let known = named(instance).and_then(|name| classes.get(name));
            let types = known.and_then(|(_, types)| types.as_deref());
            let kind = types.and_then(|types| self.kind(types, &instance.described.instance_type));
            self.describe(instance, known.map(|(class, _)| class), kind)
        };
        Ok(instances.iter().map(describe).collect())
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        let Some(class) = self.cloud.class_of_pool(pool).await? else {
            return Ok(Arc::default());
        };
        let types = self.cloud.types_of(&class).await;
        types
            .map(|(types, _)| types)
            .map_err(|error| CloudError::other(error.to_string()))
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<DriftReason>, CloudError> {
        let labels = claim.metadata.labels.as_ref();
        let Some(pool) = labels.and_then(|labels| labels.get(core_labels::NODE_POOL)) else {
            return Ok(None);
        };
        let Some(pool) = self.cloud.pool(pool).await? else {
            return Ok(None);
        };
        let Some(class) = self.cloud.class_of_pool(&pool).await? else {
            return Ok(None);
        };
        let drift = self.drift(claim, &class).await?;
        Ok(drift.map(|drift| DriftReason(drift.reason().into())))
    }

    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        self.signals.receive().await
    }

    async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        self.signals.acknowledge(handled).await
    }

    fn note_interruption(&self, claim: &NodeClaim, kind: InterruptionKind, now: Timestamp) {
        self.signals.note(claim, kind, now);
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &self.hooks
    }

    fn use_overlays(&self, overlays: &Arc<PoolOverlays>) {
        // A second decorator would change nothing: the first one is nearest to the provider.
        let _ = self.cloud.overlays.set(Arc::clone(overlays));
    }
}
