//! Zones, subnets, security groups and placement groups.

use super::Account;
use super::filters::{Page, PageRequest, passes};
use super::refusal::{Answer, Refusal};
use kerf_aws::placement_group::Strategy;
use kerf_aws::selector::Filter;
use kerf_aws::tags::Tags;

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Name, such as `us-east-1a`.
    pub name: String,
    /// Id, such as `use1-az1`.
    pub id: String,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Id.
    pub id: String,
    /// Network it is part of.
    pub vpc_id: String,
    /// Zone.
    pub zone: Zone,
    /// Addresses, used ones included.
    pub addresses: u32,
    /// Tags.
    pub tags: Tags,
}

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Network it is part of.
    pub vpc_id: String,
    /// Tags.
    pub tags: Tags,
}

/// A placement group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementGroup {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// How instances are placed.
    pub strategy: Strategy,
    /// Number of partitions; zero for other strategies.
    pub partitions: u32,
    /// State; `available` once it can be used.
    pub state: String,
    /// Tags.
    pub tags: Tags,
}

/// Most instances of a spread placement group in a zone.
pub(super) const SPREAD_MAX: usize = 7;

impl Account {
    /// The subnets that pass the filters.
    pub fn describe_subnets(&self, filters: &[Filter], page: &PageRequest) -> Answer<Page<Subnet>> {
        let mut found = Vec::new();
        for subnet in &self.subnets {
            let fields = |name: &str| {
                Some(vec![match name {
                    "subnet-id" => subnet.id.clone(),
                    "vpc-id" => subnet.vpc_id.clone(),
                    "availability-zone" => subnet.zone.name.clone(),
                    "availability-zone-id" => subnet.zone.id.clone(),
                    "state" => "available".to_owned(),
                    _ => return None,
                }])
            };
            if passes(filters, &subnet.tags, fields)? {
                found.push(subnet.clone());
            }
        }
        page.of(found)
    }

    /// How many addresses of a subnet are free.
    pub fn free_addresses(&self, subnet: &Subnet) -> u32 {
        let used = self
            .instances
            .values()
            .filter(|one| one.subnet_id == subnet.id && one.occupies());
        let used = u32::try_from(used.count()).unwrap_or(u32::MAX);
        subnet.addresses.saturating_sub(used)
    }

    /// The security groups that pass the filters.
    pub fn describe_security_groups(&self, filters: &[Filter], page: &PageRequest) -> Answer<Page<SecurityGroup>> {
        let mut found = Vec::new();
        for group in &self.security_groups {
            let fields = |name: &str| {
                Some(vec![match name {
                    "group-id" => group.id.clone(),
                    "group-name" => group.name.clone(),
                    "vpc-id" => group.vpc_id.clone(),
                    _ => return None,
                }])
            };
            if passes(filters, &group.tags, fields)? {
                found.push(group.clone());
            }
        }
        page.of(found)
    }

    /// The placement groups with these ids and names that pass the filters; all without ids and names. One that does not exist is an error.
    pub fn describe_placement_groups(
        &self,
        ids: &[String],
        names: &[String],
        filters: &[Filter],
    ) -> Answer<Vec<PlacementGroup>> {
        let unknown = ids
            .iter()
            .find(|id| !self.placement_groups.iter().any(|group| group.id == **id));
        let unknown = unknown.or_else(|| {
            names
                .iter()
                .find(|name| !self.placement_groups.iter().any(|g| g.name == **name))
        });
        if let Some(unknown) = unknown {
            let message = format!("The Placement Group '{unknown}' is unknown.");
            return Err(Refusal::new("InvalidPlacementGroup.Unknown", message));
        }
        let mut found = Vec::new();
        for group in &self.placement_groups {
            let is_meant =
                (ids.is_empty() && names.is_empty()) || ids.contains(&group.id) || names.contains(&group.name);
            let fields = |name: &str| {
                Some(vec![match name {
                    "group-id" => group.id.clone(),
                    "group-name" => group.name.clone(),
                    "state" => group.state.clone(),
                    "strategy" => group.strategy.as_str().to_owned(),
                    _ => return None,
                }])
            };
            if is_meant && passes(filters, &group.tags, fields)? {
                found.push(group.clone());
            }
        }
        Ok(found)
    }
}
