//! An account as Karpenter's getting-started guide leaves it.

use crate::account::{Account, EksCluster, Queue, SecurityGroup, Subnet};
use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::AmiFamily;
use kerf_aws::ami::check_alias_support;
use kerf_aws::services::ClusterDescription;
use kerf_aws::tags::Tags;
use kerf_runtime::Seed;

/// The cluster of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StarterCluster {
    /// Name.
    pub name: String,
    /// URL of the API server.
    pub endpoint: String,
    /// CA bundle as base64 text.
    pub certificate: String,
    /// Version, such as `1.33`.
    pub version: String,
}

/// Region of the account. All built-in prices are known there.
const REGION: &str = "us-east-1";
/// Release of the first images of Amazon Linux and Windows, and that of Bottlerocket.
const FIRST_RELEASES: (&str, &str) = ("v20260101", "1.50.0");
/// Addresses of a subnet of 19 bits, less those that AWS keeps.
const ADDRESSES: u32 = 8187;
/// Tag by which classes find subnets and security groups.
const DISCOVERY: &str = "karpenter.sh/discovery";

impl StarterCluster {
    /// An account in us-east-1 with the cluster; the role `KarpenterNodeRole-NAME`; subnets and a security group with the tag
    /// `karpenter.sh/discovery: NAME`; a queue called NAME that gets all events; and the images of EKS in every
    /// release.
    pub fn account(&self, seed: Seed, now: Timestamp) -> Account {
        let mut account = Account::new(REGION, seed);
        let tags = Tags::from([(DISCOVERY.to_owned(), self.name.clone())]);
        account.subnets = account
            .zones
            .iter()
            .enumerate()
            .map(|(at, zone)| Subnet {
                id: format!("subnet-0{at:016x}"),
                vpc_id: "vpc-00000000000000001".to_owned(),
                zone: zone.clone(),
                addresses: ADDRESSES,
                tags: tags.clone(),
            })
            .collect();
        account.security_groups = vec![SecurityGroup {
            id: "sg-00000000000000001".to_owned(),
            name: format!("eks-cluster-sg-{}", self.name),
            vpc_id: "vpc-00000000000000001".to_owned(),
            tags,
        }];
        account.roles.insert(format!("KarpenterNodeRole-{}", self.name));
        account.queues.insert(self.name.clone(), Queue::default());
        account.clusters = vec![EksCluster {
            name: self.name.clone(),
            description: ClusterDescription {
                endpoint: self.endpoint.clone(),
                version: self.version.clone(),
                arn: format!("arn:aws:eks:{REGION}:{}:cluster/{}", account.id, self.name),
                service_ipv4_cidr: Some("10.100.0.0/16".to_owned()),
                service_ipv6_cidr: None,
            },
            certificate: self.certificate.clone(),
            shifts: None,
        }];
        let released = now - SignedDuration::from_hours(24);
        for family in [
            AmiFamily::Al2,
            AmiFamily::Al2023,
            AmiFamily::Bottlerocket,
            AmiFamily::Windows2019,
            AmiFamily::Windows2022,
            AmiFamily::Windows2025,
        ] {
            let is_bottlerocket = family == AmiFamily::Bottlerocket;
            let release = if is_bottlerocket {
                FIRST_RELEASES.1
            } else {
                FIRST_RELEASES.0
            };
            if check_alias_support(family, &self.version).is_ok() {
                account.publish_images(family, &self.version, release, released);
            }
        }
        account.every_release_of = Some(self.version.clone());
        account
    }
}
