//! Follows zonal shifts, and says on NodePools where one begins or ends (AWS-329 to AWS-332).

use crate::errors::ApiError;
use crate::labels::{ZONE_ID, label_rules};
use crate::provider::AwsCloud;
use crate::zonal_shift::Transition;
use kerf_api::{EC2NodeClass, NodePool};
use kerf_cloud::requirements;
use kerf_model::intern::sym;
use kerf_runtime::{Event, EventType, ObjectRef, ReconcileError};
use kube::Api;
use kube::api::ListParams;
use std::sync::Arc;

/// The controller `zonalshift`.
pub struct ZonalShiftController {
    cloud: Arc<AwsCloud>,
    cluster_arn: String,
}

impl ZonalShiftController {
    /// Reads the shifts of the cluster for the first time. `None` without the option; an error if the cluster is not registered with ARC,
    /// with which the process cannot start (AWS-329).
    pub async fn start(cloud: &Arc<AwsCloud>) -> Result<Option<Self>, ApiError> {
        if !cloud.options.enable_zonal_shift {
            return Ok(None);
        }
        let controller = Self {
            cloud: Arc::clone(cloud),
            cluster_arn: cloud.services.eks.cluster(&cloud.cluster.name).await?.arn,
        };
        controller.refresh().await?;
        Ok(Some(controller))
    }

    async fn refresh(&self) -> Result<(), ApiError> {
        let shifts = self.cloud.services.zonal_shift.shifts(&self.cluster_arn).await?;
        self.cloud.market.shifts().report(&shifts);
        Ok(())
    }

    /// Reads the shifts, and publishes what changed since the last time. What cannot be published is tried again.
    pub async fn reconcile(&self) -> Result<(), ReconcileError> {
        self.refresh().await?;
        let transitions = self.cloud.market.shifts().transitions(self.cloud.clock.now());
        if transitions.is_empty() {
            return Ok(());
        }
        let classes = self.cloud.classes().list(&ListParams::default()).await?.items;
        let pools = Api::<NodePool>::all(self.cloud.client.clone())
            .list(&ListParams::default())
            .await?
            .items;
        for transition in transitions {
            for pool in pools
                .iter()
                .filter(|pool| self.is_affected(pool, &classes, &transition))
            {
                self.publish(pool, &transition);
            }
            self.cloud.market.shifts().published(&transition);
        }
        Ok(())
    }

    /// Whether a pool can have nodes in the zone: its class has a subnet there, and it allows the zone.
    fn is_affected(&self, pool: &NodePool, classes: &[EC2NodeClass], transition: &Transition) -> bool {
        let zone_id = transition.zone_id();
        let name = &pool.spec.template.spec.node_class_ref.name;
        let class = classes.iter().find(|class| class.name() == Some(name));
        let mut subnets = class.into_iter().flat_map(|class| &class.status.subnets);
        let Some(subnet) = subnets.find(|subnet| subnet.zone_id.as_deref() == Some(zone_id)) else {
            return false;
        };
        let interner = &*self.cloud.interner;
        let wanted = requirements(&pool.spec.template.spec.requirements, &label_rules(), interner);
        let admits = |key, value: &str| {
            let requirement = wanted.get(key);
            requirement.is_none_or(|requirement| requirement.has(interner.intern(value), interner))
        };
        admits(sym::ZONE, &subnet.zone) && admits(interner.intern(ZONE_ID), zone_id)
    }

    fn publish(&self, pool: &NodePool, transition: &Transition) {
        let Some(object) = ObjectRef::of(pool) else { return };
        let zone = transition.zone_id();
        let (kind, reason, message) = match transition {
            Transition::Active(_) => (
                EventType::Warning,
                "ZonalShiftActive",
                format!("traffic is shifted away from zone {zone}, no nodes are launched there"),
            ),
            Transition::Cleared(_) => (
                EventType::Normal,
                "ZonalShiftCleared",
                format!("the zonal shift of zone {zone} has ended"),
            ),
        };
        self.cloud.recorder.publish(Event {
            dedupe: vec![object.uid.clone(), zone.to_owned()],
            object,
            kind,
            reason: reason.into(),
            message,
            dedupe_timeout: None,
        });
    }
}
