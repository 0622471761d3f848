//! Instances in EC2: read, listed, terminated, tagged (AWS-258 to AWS-263).

use crate::batcher::Batchers;
use crate::errors::ApiError;
use crate::instance::{Instance, LIVE_STATES, list_query};
use crate::market::Market;
use crate::metrics::AwsMetrics;
use crate::selector::{Filter, Query};
use crate::services::{Ec2, InstanceQuery};
use crate::tags::Tags;
use kerf_cloud::CloudError;
use kerf_runtime::Clock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The instances of one cluster.
pub struct Instances {
    ec2: Arc<dyn Ec2>,
    batchers: Batchers,
    market: Arc<Market>,
    metrics: AwsMetrics,
    clock: Clock,
    cluster: String,
    reserved_capacity: bool,
    /// Kept until a list or a description says otherwise (AWS-431).
    known: Mutex<BTreeMap<String, Instance>>,
}

/// The state of an instance that counts as gone.
const TERMINATED: &str = "terminated";

fn does_not_exist(id: &str) -> CloudError {
    CloudError::not_found(format!("instance {id} does not exist"))
}

/// The error of a call as the controllers see it.
fn call_error(doing: &str, error: &ApiError) -> CloudError {
    let message = format!("{doing}, {error}").into();
    if error.is_rate_limited() || error.server_fault {
        CloudError::Retryable { message, after: None }
    } else {
        CloudError::Other(message)
    }
}

impl Instances {
    /// The instances of a cluster, none known yet.
    pub fn new(
        ec2: &Arc<dyn Ec2>,
        market: Arc<Market>,
        metrics: AwsMetrics,
        clock: Clock,
        cluster: &str,
        reserved_capacity: bool,
    ) -> Self {
        Self {
            batchers: Batchers::new(ec2, &metrics.window_observer()),
            ec2: Arc::clone(ec2),
            market,
            metrics,
            clock,
            cluster: cluster.to_owned(),
            reserved_capacity,
            known: Mutex::default(),
        }
    }

    /// Merges calls with those of others.
    pub const fn batchers(&self) -> &Batchers {
        &self.batchers
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Instance>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_instance(&self, id: &str) -> Option<Instance> {
        self.known().get(id).cloned()
    }

    /// Whether traffic is shifted away from the zone of an instance, so that EC2 must not be called for it (AWS-331).
    fn is_shifted(&self, instance: &Instance) -> bool {
        let zone_id = instance.described.zone_id.as_deref();
        zone_id.is_some_and(|id| self.market.shifts().is_shifted(id, self.clock.now()))
    }

    /// An instance, from memory if it is known.
    pub async fn get(&self, id: &str) -> Result<Instance, CloudError> {
        match self.known_instance(id) {
            Some(known) => Ok(known),
            None => self.get_fresh(id).await,
        }
    }

    /// An instance as EC2 describes it now; from memory in a shifted zone.
    pub async fn get_fresh(&self, id: &str) -> Result<Instance, CloudError> {
        let live = vec![Filter::new("instance-state-name", LIVE_STATES)];
        self.described_now(id, live).await
    }

    /// The same, also for an instance that has terminated, which EC2 shows for about an hour.
    pub async fn get_in_any_state(&self, id: &str) -> Result<Instance, CloudError> {
        self.described_now(id, Vec::new()).await
    }

    async fn described_now(&self, id: &str, filters: Query) -> Result<Instance, CloudError> {
        if let Some(known) = self.known_instance(id).filter(|known| self.is_shifted(known)) {
            return Ok(known);
        }
        let found = self.describe(id, filters).await?;
        found.ok_or_else(|| does_not_exist(id))
    }

    async fn describe(&self, id: &str, filters: Query) -> Result<Option<Instance>, CloudError> {
        match self.batchers.describe(id, filters).await {
            Ok(found) => {
                let found = found.map(|described| Instance::new(described, self.reserved_capacity));
                match found.as_ref().filter(|found| found.described.state != TERMINATED) {
                    Some(found) => self.known().insert(id.to_owned(), found.clone()),
                    None => self.known().remove(id),
                };
                Ok(found)
            }
            Err(error) if error.is_not_found() => {
                self.known().remove(id);
                Err(CloudError::not_found(error.to_string()))
            }
            Err(error) => Err(call_error("describing an instance", &error)),
        }
    }

    /// All instances of the cluster. Those no longer listed are forgotten, except in shifted zones.
    pub async fn list(&self) -> Result<Vec<Instance>, CloudError> {
        let query = InstanceQuery {
            ids: Vec::new(),
            filters: list_query(&self.cluster),
        };
        let described = self.ec2.instances(&query).await;
        let described = described.map_err(|error| call_error("listing instances", &error))?;
        let instances = described
            .into_iter()
            .map(|one| Instance::new(one, self.reserved_capacity));
        let instances: Vec<Instance> = instances.collect();
        let fresh: BTreeMap<String, Instance> = instances
            .iter()
            .map(|one| (one.described.id.clone(), one.clone()))
            .collect();
        let mut known = self.known();
        known.retain(|id, one| fresh.contains_key(id) || self.is_shifted(one));
        known.extend(fresh);
        Ok(instances)
    }

    /// Terminates an instance. `Ok` means that it terminates; the error that it is gone comes only when EC2 says so (AWS-262, AWS-490).
    pub async fn delete(&self, id: &str) -> Result<(), CloudError> {
        let instance = self.get_in_any_state(id).await?;
        self.terminate(&instance).await
    }

    /// The same for an instance that was just described in any state.
    pub async fn terminate(&self, instance: &Instance) -> Result<(), CloudError> {
        let id = instance.described.id.as_str();
        if instance.described.state == TERMINATED {
            return Err(does_not_exist(id));
        }
        if self.is_shifted(instance) {
            return Err(CloudError::other(format!(
                "instance {id} is in the shifted zone {}, it is not terminated",
                instance.described.zone
            )));
        }
        if instance.described.state == "shutting-down" {
            return Ok(());
        }
        match self.batchers.terminate(id).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let zone_id = instance.described.zone_id.as_deref().unwrap_or_default();
                self.metrics
                    .termination_failures
                    .inc(&[&instance.described.zone, zone_id]);
                Err(call_error("terminating an instance", &error))
            }
        }
    }

    /// Adds tags to an instance (AWS-263).
    pub async fn create_tags(&self, id: &str, tags: &Tags) -> Result<(), CloudError> {
        if self.known_instance(id).is_some_and(|known| self.is_shifted(&known)) {
            return Err(CloudError::other(format!(
                "instance {id} is in a shifted zone, it is not tagged"
            )));
        }
        match self.ec2.create_tags(id, tags).await {
            Err(error) if error.is_not_found() => Err(CloudError::not_found(format!("tagging an instance, {error}"))),
            Err(error) => Err(call_error("tagging an instance", &error)),
            Ok(()) => Ok(()),
        }
    }
}
