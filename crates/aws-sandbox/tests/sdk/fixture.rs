//! An account with subnets, groups, images and a role, and the services of production on it, in virtual time.

use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::AmiFamily;
use kerf_aws::launch::{
    AllocationStrategy, FleetConfig, FleetOverride, FleetRequest, FleetTagSpecification, InterfaceRequest,
    MetadataRequest, PlacementRequest, TargetCapacity, TemplateData, Tenancy,
};
use kerf_aws::sdk::Connection;
use kerf_aws::services::Services;
use kerf_aws::tags::Tags;
use kerf_aws_sandbox::account::{Account, Call, SecurityGroup, Subnet};
use kerf_aws_sandbox::faults::AwsFaults;
use kerf_aws_sandbox::{AwsSandbox, connect};
use kerf_model::price::Price;
use kerf_runtime::{Clock, Metrics, Seed};

pub(crate) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub(crate) struct World {
    pub(crate) sandbox: AwsSandbox,
    pub(crate) faults: AwsFaults,
    pub(crate) connection: Connection,
    pub(crate) services: Services,
    pub(crate) metrics: Metrics,
}

pub(crate) fn tags<const N: usize>(tags: [(&str, &str); N]) -> Tags {
    tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// An account in us-east-1 with a subnet in each zone.
pub(crate) fn account() -> Account {
    let mut account = Account::new("us-east-1", Seed(7));
    account.records_calls = true;
    account.subnets = account
        .zones
        .iter()
        .map(|zone| Subnet {
            id: format!("subnet-{}", zone.name),
            vpc_id: "vpc-1".to_owned(),
            zone: zone.clone(),
            addresses: 250,
            tags: tags([("karpenter.sh/discovery", "prod"), ("zone", &zone.name)]),
        })
        .collect();
    account.security_groups = vec![
        SecurityGroup {
            id: "sg-1".to_owned(),
            name: "nodes".to_owned(),
            vpc_id: "vpc-1".to_owned(),
            tags: tags([("karpenter.sh/discovery", "prod")]),
        },
        SecurityGroup {
            id: "sg-2".to_owned(),
            name: "others".to_owned(),
            vpc_id: "vpc-2".to_owned(),
            tags: Tags::new(),
        },
    ];
    account.roles.insert("KarpenterNodeRole-prod".to_owned());
    account.publish_images(AmiFamily::Al2023, "1.33", "v20260101", start());
    account
}

pub(crate) fn world_of(account: Account) -> World {
    // The SDK draws its pauses from this generator.
    fastrand::seed(7);
    let sandbox = AwsSandbox::new(account, Clock::simulated(start()));
    let faults = AwsFaults::new(Seed(1));
    let metrics = Metrics::default();
    let connection = connect(&sandbox, &faults, &metrics).unwrap();
    World {
        services: connection.services.clone(),
        sandbox,
        faults,
        connection,
        metrics,
    }
}

pub(crate) fn world() -> World {
    world_of(account())
}

/// Lets virtual time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
}

pub(crate) fn later(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

impl World {
    /// The calls of an action since calls were taken last.
    pub(crate) fn calls(&self, action: &str) -> Vec<Call> {
        let calls = self.sandbox.with(|account, _| account.take_calls());
        calls.into_iter().filter(|call| call.action == action).collect()
    }

    /// The id of the standard image of an architecture.
    pub(crate) fn image(&self, machine: &str) -> String {
        let path =
            format!("/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/{machine}/standard/recommended/image_id");
        self.sandbox.with(|account, _| account.parameters[&path].clone())
    }

    /// A template without anything special, for the image of x86_64.
    pub(crate) fn data(&self) -> TemplateData {
        TemplateData {
            block_devices: Vec::new(),
            nested_virtualization: None,
            instance_profile: None,
            monitoring: None,
            user_data: "aGVsbG8=".to_owned(),
            image_id: self.image("x86_64"),
            metadata: MetadataRequest::default(),
            interfaces: vec![InterfaceRequest {
                security_group_ids: vec!["sg-1".to_owned()],
                ..InterfaceRequest::default()
            }],
            placement: PlacementRequest {
                tenancy: Tenancy::Default,
                group_id: None,
                partition: None,
            },
            enclaves: false,
            reservation: None,
            market: None,
            tagged_resources: vec!["network-interface"],
            tags: tags([("team", "a")]),
        }
    }

    pub(crate) async fn put_template(&self, name: &str, data: &TemplateData) {
        self.services.ec2.create_launch_template(name, data).await.unwrap();
    }

    /// A fleet of these types and zones, with priorities in this order.
    pub(crate) fn fleet(&self, target: TargetCapacity, pools: &[(&str, &str)]) -> FleetRequest {
        let overrides = pools.iter().enumerate().map(|(at, (kind, zone))| FleetOverride {
            instance_type: (*kind).to_owned(),
            zone: (*zone).to_owned(),
            subnet_id: Some(format!("subnet-{zone}")),
            image_id: self.image("x86_64"),
            priority: Price::from_per_hour((at + 1) as f64).unwrap(),
        });
        FleetRequest {
            configs: vec![FleetConfig {
                template_name: "one".to_owned(),
                overrides: overrides.collect(),
            }],
            target,
            strategy: match target {
                TargetCapacity::Spot => AllocationStrategy::PriceCapacityOptimized,
                TargetCapacity::OnDemand => AllocationStrategy::LowestPrice,
                TargetCapacity::CapacityBlock => AllocationStrategy::None,
                TargetCapacity::ReservedCapacity => AllocationStrategy::InterruptibleReservation,
            },
            tags: ["instance", "volume", "fleet"]
                .map(|resource| FleetTagSpecification {
                    resource,
                    tags: tags([("karpenter.sh/nodepool", "default")]),
                })
                .into(),
            context: None,
        }
    }
}
