//! The machines of moto's instances.

use crate::cluster_fixture::CERTIFICATE;
use crate::moto_server::Moto;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::AmiFamily;
use kerf_aws::instance::DescribedInstance;
use kerf_aws::services::{InstanceQuery, Services};
use kerf_aws_sandbox::account::{Health, Image, Instance, Profile, Purchase, Zone};
use kerf_aws_sandbox::{AwsSandbox, StarterCluster};
use kerf_runtime::{CancellationToken, Clock, Seed};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often the machines are compared with moto's instances.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// From the launch until an instance runs; moto's run at once.
const STARTS_IN: SignedDuration = SignedDuration::from_secs(10);

/// Instances of the cluster that neither end nor have ended.
pub(crate) async fn live_instances(services: &Services) -> Vec<DescribedInstance> {
    let all = services.ec2.instances(&InstanceQuery::default()).await.unwrap();
    let lives = |one: &DescribedInstance| {
        matches!(one.state.as_str(), "pending" | "running") && one.tags.contains_key("karpenter.sh/nodepool")
    };
    all.into_iter().filter(lives).collect()
}

/// Boots moto's instances: an account of the embedded AWS has one like each, and machines boot from its user data.
pub(crate) struct InstanceMirror {
    moto: Moto,
    services: Services,
    pub(crate) machines: AwsSandbox,
    clock: Clock,
    launched: u8,
}

impl InstanceMirror {
    pub(crate) async fn new(moto: &Moto, services: &Services, clock: &Clock) -> Self {
        let cluster = services.eks.cluster("kerf").await.unwrap();
        let starter = StarterCluster {
            name: "kerf".to_owned(),
            endpoint: cluster.endpoint,
            certificate: CERTIFICATE.to_owned(),
            version: cluster.version,
        };
        let account = starter.account(Seed(7), clock.now());
        Self {
            moto: moto.clone(),
            services: services.clone(),
            machines: AwsSandbox::new(account, clock.clone()),
            clock: clock.clone(),
            launched: 0,
        }
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        while shutdown
            .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
            .await
            .is_some()
        {
            let live = live_instances(&self.services).await;
            self.machines.with(|account, now| {
                let ended = |one: &&mut Instance| one.ends.is_none() && !live.iter().any(|other| other.id == one.id);
                account
                    .instances
                    .values_mut()
                    .filter(ended)
                    .for_each(|one| one.ends = Some(now));
            });
            for described in live {
                let is_known = self
                    .machines
                    .with(|account, _| account.instances.contains_key(&described.id));
                if !is_known {
                    self.launch(described).await;
                }
            }
        }
    }

    /// Takes over an instance with its image and profile.
    async fn launch(&mut self, described: DescribedInstance) {
        let profile = self.moto.profile(&described.id);
        let role = match &profile {
            Some(name) => self.services.iam.instance_profile(name).await.unwrap().role,
            None => None,
        };
        let user_data = self.moto.user_data(&described.id);
        assert!(STANDARD.decode(&user_data).is_ok(), "{user_data}");
        self.launched += 1;
        let now = self.clock.now();
        let instance = self.instance(described, user_data, profile.clone(), now);
        self.machines.with(|account, now| {
            account.images.push(Image {
                id: instance.image_id.clone(),
                name: instance.image_id.clone(),
                architecture: instance.architecture.clone(),
                family: AmiFamily::Al2023,
                owner_id: String::new(),
                owner_alias: None,
                created: now,
                deprecated_from: None,
                state: "available".to_owned(),
                tags: BTreeMap::new(),
            });
            if let Some(name) = profile {
                let profile = Profile {
                    name: name.clone(),
                    path: "/".to_owned(),
                    role,
                    created: now,
                    tags: BTreeMap::new(),
                };
                account.profiles.insert(name, profile);
            }
            account.instances.insert(instance.id.clone(), instance);
        });
    }

    fn instance(&self, one: DescribedInstance, user_data: String, profile: Option<String>, now: Timestamp) -> Instance {
        Instance {
            architecture: "x86_64".to_owned(),
            zone: Zone {
                id: one.zone_id.unwrap_or_else(|| one.zone.clone()),
                name: one.zone,
            },
            vpc_id: String::new(),
            group_ids: one.security_group_ids.into_iter().collect(),
            address: format!("10.0.0.{}", self.launched),
            purchase: match one.spot_request_id {
                Some(_) => Purchase::Spot,
                None => Purchase::OnDemand,
            },
            spot_request_id: one.spot_request_id,
            lifecycle: None,
            placement_group: None,
            partition: None,
            profile,
            user_data,
            volumes: BTreeMap::new(),
            launched: now,
            runs_from: now + STARTS_IN,
            stopped: None,
            ends: None,
            state_reason: None,
            health: Health::default(),
            announced: None,
            id: one.id,
            instance_type: one.instance_type,
            image_id: one.image_id,
            subnet_id: one.subnet_id,
            reservation_id: one.reservation_id,
            reservation_preference: one.reservation_preference,
            tenancy: one.tenancy,
            interface_types: one.interface_types,
            tags: one.tags,
        }
    }
}
