//! Subnets and security groups of a class (AWS-102 to AWS-104).

use super::{ClassKey, class_key};
use crate::cache::Cache;
use crate::intervals::SHORT_LIVED;
use crate::selector::{security_group_queries, subnet_queries};
use crate::services::{CallResult, Ec2};
use crate::subnet::{ChosenSubnet, FreeAddresses, Subnet, report_lifetime};
use kerf_api::EC2NodeClass;
use kerf_api::ec2_node_class::{NodeClassSecurityGroup, NodeClassSubnet};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Subnets of classes, and how many addresses are free in them.
pub struct SubnetLookup {
    ec2: Arc<dyn Ec2>,
    found: Cache<ClassKey, Vec<Subnet>>,
    addresses: Mutex<FreeAddresses>,
}

impl SubnetLookup {
    /// A look-up whose answers stay valid for `interval`.
    pub fn new(ec2: Arc<dyn Ec2>, interval: Duration) -> Self {
        Self {
            ec2,
            found: Cache::new(interval),
            addresses: Mutex::new(FreeAddresses::new(report_lifetime(interval))),
        }
    }

    /// The subnets that the class selects, each once.
    pub async fn list(&self, class: &EC2NodeClass) -> CallResult<Vec<Subnet>> {
        let key = class_key(class);
        if let Some(known) = self.found.get(&key) {
            return Ok(known);
        }
        let mut by_id = BTreeMap::new();
        for query in subnet_queries(&class.spec.subnet_selector_terms) {
            let found = self.ec2.subnets(&query).await?;
            by_id.extend(found.into_iter().map(|subnet| (subnet.id.clone(), subnet)));
        }
        let found: Vec<Subnet> = by_id.into_values().collect();
        self.addresses().report(&found);
        self.found.insert(key, found.clone());
        Ok(found)
    }

    fn addresses(&self) -> MutexGuard<'_, FreeAddresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The subnet to launch into in each zone (AWS-105, AWS-106).
    pub fn choose(
        &self,
        subnets: &[NodeClassSubnet],
        least_pods: impl Fn(&str) -> i64,
    ) -> BTreeMap<String, ChosenSubnet> {
        self.addresses().choose(subnets, least_pods)
    }

    /// Gives back the addresses of subnets that a launch did not use (AWS-107).
    pub fn settle(&self, chosen: &BTreeMap<String, ChosenSubnet>, used: Option<&str>) {
        self.addresses().settle(chosen, used);
    }

    /// A subnet had no address (AWS-108).
    pub fn exhaust(&self, subnet: &str) {
        self.addresses().exhaust(subnet);
    }
}

/// Security groups of classes.
pub struct SecurityGroupLookup {
    ec2: Arc<dyn Ec2>,
    found: Cache<ClassKey, Vec<NodeClassSecurityGroup>>,
}

impl SecurityGroupLookup {
    /// A look-up that calls EC2.
    pub const fn new(ec2: Arc<dyn Ec2>) -> Self {
        Self {
            ec2,
            found: Cache::new(SHORT_LIVED),
        }
    }

    /// The security groups that the class selects, each once, by id (AWS-061).
    pub async fn list(&self, class: &EC2NodeClass) -> CallResult<Vec<NodeClassSecurityGroup>> {
        let key = class_key(class);
        if let Some(known) = self.found.get(&key) {
            return Ok(known);
        }
        let mut by_id = BTreeMap::new();
        for query in security_group_queries(&class.spec.security_group_selector_terms) {
            let found = self.ec2.security_groups(&query).await?;
            by_id.extend(found.into_iter().map(|group| (group.id.clone(), group)));
        }
        let found: Vec<NodeClassSecurityGroup> = by_id.into_values().collect();
        self.found.insert(key, found.clone());
        Ok(found)
    }
}
