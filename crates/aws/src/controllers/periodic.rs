//! The controllers that run periodically (section 32 of `docs/behaviour/aws.md`).

use super::loops::AwsLoops;
use super::{
    InstanceGarbage, collect_profiles, correct_capacity_types, expire_reservations, keep_memory,
    refresh_instance_types, refresh_prices, refresh_version, report_offerings,
};
use crate::intervals::{
    MINUTE_PERIOD, PRICES_AND_TYPES_PERIOD, SSM_AND_PROFILE_PERIOD, SWEEP, UNAVAILABLE_SWEEP, VERSION_PERIOD,
    ZONAL_SHIFT_PERIOD,
};
use crate::provider::AwsCloud;
use futures::future::BoxFuture;
use kerf_runtime::{CancellationToken, Outcome, Queue, RateLimit, ReconcileError};
use kube::api::ListParams;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// When a pass is due again; an error is repeated with back-off.
type Passed = Result<Duration, ReconcileError>;

impl AwsLoops {
    /// A controller without objects. It runs at once, and again when a pass says.
    fn periodic<T, Fut>(
        &self,
        name: &str,
        shutdown: &CancellationToken,
        of: &Arc<T>,
        pass: impl Fn(Arc<T>) -> Fut + Send + Sync + 'static,
    ) -> BoxFuture<'static, ()>
    where
        T: Send + Sync + 'static,
        Fut: Future<Output = Passed> + Send + 'static,
    {
        let queue = Queue::new(RateLimit::SINGLETON);
        queue.add(());
        let reconcile = move |of, ()| {
            let pass = pass(of);
            async move { Ok(Outcome::RequeueAfter(pass.await?)) }
        };
        let controller = self.controller(name);
        Box::pin(controller.run(queue, Arc::clone(of), reconcile, shutdown.clone()))
    }

    /// All of them.
    pub(super) fn all_periodic(&self, shutdown: &CancellationToken) -> Vec<BoxFuture<'static, ()>> {
        let cloud = &self.cloud;
        let garbage = Arc::new(InstanceGarbage::new(Arc::clone(cloud)));
        let templates = Arc::new(Templates::new(cloud));
        let mut all = vec![
            self.periodic("providers.pricing", shutdown, cloud, prices),
            self.periodic("providers.instancetype", shutdown, cloud, instance_types),
            self.periodic("providers.version", shutdown, cloud, version),
            self.periodic("providers.ssm.invalidation", shutdown, cloud, parameters),
            self.periodic("capacityreservation.expiration", shutdown, cloud, expiration),
            self.periodic("capacityreservation.capacitytype", shutdown, cloud, capacity_types),
            self.periodic("cloudprovider.metrics", shutdown, cloud, offerings),
            self.periodic("instance.garbagecollection", shutdown, &garbage, |garbage| async move {
                garbage.reconcile().await
            }),
            self.periodic(
                "launchtemplate.eviction",
                shutdown,
                &templates,
                |templates| async move { templates.pass().await },
            ),
            self.periodic("sweep.offerings", shutdown, cloud, unavailable),
            self.periodic("sweep", shutdown, cloud, sweep),
        ];
        // AWS-100
        if !cloud.options.isolated_vpc {
            all.push(self.periodic("instanceprofile.garbagecollection", shutdown, cloud, profiles));
        }
        if let Some(shifts) = &self.shifts {
            all.push(self.periodic("zonalshift", shutdown, shifts, |shifts| async move {
                shifts.reconcile().await?;
                Ok(ZONAL_SHIFT_PERIOD)
            }));
        }
        all
    }
}

async fn prices(cloud: Arc<AwsCloud>) -> Passed {
    refresh_prices(&cloud).await?;
    Ok(PRICES_AND_TYPES_PERIOD)
}

async fn instance_types(cloud: Arc<AwsCloud>) -> Passed {
    refresh_instance_types(&cloud).await?;
    Ok(PRICES_AND_TYPES_PERIOD)
}

async fn version(cloud: Arc<AwsCloud>) -> Passed {
    refresh_version(&cloud).await?;
    Ok(VERSION_PERIOD)
}

async fn parameters(cloud: Arc<AwsCloud>) -> Passed {
    cloud.images.forget_deprecated(cloud.clock.now()).await?;
    Ok(SSM_AND_PROFILE_PERIOD)
}

async fn profiles(cloud: Arc<AwsCloud>) -> Passed {
    collect_profiles(&cloud).await?;
    Ok(SSM_AND_PROFILE_PERIOD)
}

async fn expiration(cloud: Arc<AwsCloud>) -> Passed {
    expire_reservations(&cloud).await?;
    Ok(MINUTE_PERIOD)
}

async fn capacity_types(cloud: Arc<AwsCloud>) -> Passed {
    let is_stale = correct_capacity_types(&cloud).await?;
    Ok(if is_stale { Duration::ZERO } else { MINUTE_PERIOD })
}

async fn offerings(cloud: Arc<AwsCloud>) -> Passed {
    report_offerings(&cloud).await?;
    Ok(MINUTE_PERIOD)
}

/// Removes the marks of unavailable offerings that have expired (AWS-424).
async fn unavailable(cloud: Arc<AwsCloud>) -> Passed {
    let now = cloud.clock.now();
    cloud.market.unavailable().sweep(now);
    Ok(UNAVAILABLE_SWEEP)
}

/// Forgets the instance types of classes that are gone or changed (AWS-432), and writes down what was learned about memory.
async fn sweep(cloud: Arc<AwsCloud>) -> Passed {
    let classes = cloud.classes().list(&ListParams::default()).await?.items;
    cloud.types.retain_classes(&classes);
    keep_memory(&cloud, &classes).await?;
    Ok(SWEEP)
}

/// Ends launch templates that no launch needs. Only a leader runs it, and it takes over those of the leader before first (AWS-491).
struct Templates {
    cloud: Arc<AwsCloud>,
    is_taken_over: AtomicBool,
}

impl Templates {
    fn new(cloud: &Arc<AwsCloud>) -> Self {
        Self {
            cloud: Arc::clone(cloud),
            is_taken_over: AtomicBool::new(false),
        }
    }

    async fn pass(&self) -> Passed {
        if !self.is_taken_over.load(Ordering::Relaxed) {
            self.cloud.templates.take_over().await?;
            self.is_taken_over.store(true, Ordering::Relaxed);
        }
        self.cloud.templates.delete_unused().await;
        Ok(SWEEP)
    }
}
