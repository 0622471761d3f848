//! Everything that the provider and its controllers share.

use super::cluster_facts::ClusterFacts;
use super::ended_classes::{EndedClasses, LaunchedFor};
use super::kept_memory::KeptMemory;
use crate::cache::Cache;
use crate::catalogue::{InstanceTypes, ListError};
use crate::errors::ApiError;
use crate::instance_type::ResolveSettings;
use crate::instances::Instances;
use crate::intervals::{LAUNCHED_FOR, REPORTED_ENDS};
use crate::launch_templates::LaunchTemplates;
use crate::lookup::{ImageLookup, PlacementGroupLookup, ReservationLookup, SecurityGroupLookup, SubnetLookup};
use crate::market::Market;
use crate::metrics::AwsMetrics;
use crate::options::AwsOptions;
use crate::placement_group::PlacementGroup;
use crate::profiles::Profiles;
use crate::services::Services;
use kerf_api::{EC2NodeClass, NodePool};
use kerf_cloud::PoolOverlays;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_runtime::client::SharedReads;
use kerf_runtime::{Clock, Metrics, Recorder, Rng};
use kerf_units::policy::MinValuesPolicy;
use kube::Client;
use std::sync::{Arc, OnceLock};

/// What the provider is made from.
pub struct AwsParts {
    /// The services of the account.
    pub services: Services,
    /// The cluster.
    pub cluster: ClusterFacts,
    /// The provider's options.
    pub options: AwsOptions,
    /// Whether capacity reservations are used.
    pub reserved_capacity: bool,
    /// What a launch does about `minValues`.
    pub min_values: MinValuesPolicy,
    /// The way to the Kubernetes API.
    pub client: Client,
    /// Wall time.
    pub clock: Clock,
    /// The generator of names of instance profiles.
    pub rng: Rng,
    /// The interner of all ids.
    pub interner: Arc<Interner>,
    /// The metrics registry.
    pub metrics: Metrics,
    /// Where Kubernetes Events go.
    pub recorder: Recorder,
}

/// Look-ups, caches and calls of one account, shared by the provider and its controllers.
pub struct AwsCloud {
    /// The services of the account.
    pub services: Services,
    /// The cluster.
    pub cluster: ClusterFacts,
    /// The provider's options.
    pub options: AwsOptions,
    /// Whether capacity reservations are used.
    pub reserved_capacity: bool,
    /// What a launch does about `minValues`.
    pub min_values: MinValuesPolicy,
    /// The way to the Kubernetes API.
    pub client: Client,
    /// Wall time.
    pub clock: Clock,
    /// The interner of all ids.
    pub interner: Arc<Interner>,
    /// The metrics registry.
    pub metrics: AwsMetrics,
    /// Where Kubernetes Events go.
    pub recorder: Recorder,
    /// Prices, missing capacity, discovered memory, zonal shifts.
    pub market: Arc<Market>,
    /// Instance types by class.
    pub types: InstanceTypes,
    /// Subnets of classes.
    pub subnets: SubnetLookup,
    /// Security groups of classes.
    pub security_groups: SecurityGroupLookup,
    /// Images of classes.
    pub images: ImageLookup,
    /// Capacity reservations of classes.
    pub reservations: ReservationLookup,
    /// Placement groups of classes.
    pub groups: PlacementGroupLookup,
    /// Launch templates.
    pub templates: LaunchTemplates,
    /// Instances.
    pub instances: Instances,
    /// Instance profiles.
    pub profiles: Profiles,
    /// The NodeOverlays of all pools, with the feature gate NodeOverlay.
    pub(super) overlays: OnceLock<Arc<PoolOverlays>>,
    /// Reads of classes.
    pub(super) classes: SharedReads<Option<EC2NodeClass>>,
    /// Reads of pools.
    pub(super) pools: SharedReads<Option<NodePool>>,
    /// The memory that annotations of classes keep.
    pub(super) kept_memory: KeptMemory,
    /// What each instance was launched for by this process. The provider id of the claim is stored later.
    pub(crate) launched_for: Cache<String, LaunchedFor>,
    /// Instances that EC2 ended right after their launch, and whose end was reported.
    pub(super) reported_ends: Cache<String, ()>,
    /// Classes whose instances end so.
    pub(crate) ended_classes: EndedClasses,
}

/// Why a class has no instance types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TypesError {
    /// Something is not known yet.
    #[error(transparent)]
    List(#[from] ListError),
    /// The placement group could not be asked for.
    #[error("resolving placement group, {0}")]
    Group(ApiError),
}

impl AwsCloud {
    /// Puts the parts together. No call is made.
    pub fn new(parts: AwsParts) -> Arc<Self> {
        let AwsParts {
            services,
            cluster,
            options,
            reserved_capacity,
            min_values,
            client,
            clock,
            rng,
            interner,
            metrics,
            recorder,
        } = parts;
        let metrics = AwsMetrics::new(&metrics, &interner);
        let market = Arc::new(Market::new(&cluster.region, options.isolated_vpc));
        let settings = ResolveSettings {
            region: cluster.region.clone(),
            vm_memory_overhead_percent: options.vm_memory_overhead_percent,
            reserved_enis: options.reserved_enis,
            reserved_capacity,
            node_class_cel: options.feature_gates.node_class_cel,
        };
        let ec2 = &services.ec2;
        let instances = Instances::new(
            ec2,
            Arc::clone(&market),
            metrics.clone(),
            clock.clone(),
            &cluster.name,
            reserved_capacity,
        );
        Arc::new(Self {
            types: InstanceTypes::new(settings, Arc::clone(&interner)),
            subnets: SubnetLookup::new(Arc::clone(ec2), options.subnet_refresh_interval.to_std()),
            security_groups: SecurityGroupLookup::new(Arc::clone(ec2)),
            images: ImageLookup::new(
                Arc::clone(ec2),
                Arc::clone(&services.ssm),
                options.ami_refresh_interval.to_std(),
            ),
            reservations: ReservationLookup::new(Arc::clone(ec2)),
            groups: PlacementGroupLookup::new(Arc::clone(ec2)),
            templates: LaunchTemplates::new(Arc::clone(ec2), &cluster.name),
            profiles: Profiles::new(Arc::clone(&services.iam), &cluster.name, &cluster.region, rng),
            overlays: OnceLock::new(),
            classes: SharedReads::default(),
            pools: SharedReads::default(),
            kept_memory: KeptMemory::default(),
            launched_for: Cache::new(LAUNCHED_FOR),
            reported_ends: Cache::new(REPORTED_ENDS),
            ended_classes: EndedClasses::new(),
            instances,
            market,
            metrics,
            services,
            cluster,
            options,
            reserved_capacity,
            min_values,
            client,
            clock,
            interner,
            recorder,
        })
    }

    /// The instance types of a class, and its placement group.
    pub(crate) async fn types_of(
        &self,
        class: &EC2NodeClass,
    ) -> Result<(Arc<Catalogue>, Option<PlacementGroup>), TypesError> {
        self.restore_memory(class);
        let group = self.groups.resolve(class).await.map_err(TypesError::Group)?;
        let now = self.clock.now();
        let overlay_prices = self.overlays.get().map(|overlays| overlays.type_prices());
        let list = self.types.list(
            class,
            group.as_ref(),
            &self.market,
            &self.reservations.counts(),
            overlay_prices.unwrap_or_default(),
            now,
        )?;
        Ok((list, group))
    }
}
