//! A cluster whose machines are moto's instances, with the controllers of production.

use crate::cluster_fixture::{empty_cluster, try_manager};
use crate::cluster_objects::ClusterObjects;
use crate::moto_machines::{InstanceMirror, live_instances};
use crate::moto_server::Moto;
use kerf_aws::instance::DescribedInstance;
use kerf_aws::services::Services;
use kerf_aws_sandbox::boot::Machines;
use kerf_controllers::{ManagerError, Tuning};
use kerf_runtime::metrics::LabelNames;
use kerf_runtime::{CancellationToken, Clock, Metrics, Seed};
use kerf_sandbox::Sandbox;
use kube::Client;

/// A cluster called `kerf` whose machines are moto's instances, with the controllers of production.
pub(crate) struct MotoCluster {
    pub(crate) moto: Moto,
    pub(crate) services: Services,
    sandbox: Sandbox,
    shutdown: CancellationToken,
    manager: tokio::task::JoinHandle<Result<(), ManagerError>>,
}

impl ClusterObjects for MotoCluster {
    fn client(&self) -> Client {
        self.sandbox.client()
    }

    async fn describe_cloud(&self) -> String {
        format!("{:#?}", self.instances().await)
    }
}

impl MotoCluster {
    /// Starts cluster, machines and controllers.
    pub(crate) async fn start() -> Self {
        let moto = Moto::of_environment();
        let services = moto.services();
        // moto's instances have the machine's time.
        let clock = Clock::simulated(Clock::system().now());
        let sandbox = empty_cluster(7).clock(clock.clone()).build().await.unwrap();
        let shutdown = CancellationToken::new();
        let mirror = InstanceMirror::new(&moto, &services, &clock).await;
        tokio::spawn(Machines::new(mirror.machines.clone(), sandbox.client()).run(shutdown.clone()));
        tokio::spawn(mirror.run(shutdown.clone()));
        let metrics = Metrics::new(LabelNames::default());
        let client = sandbox.client();
        let tuning = (Seed(7), Tuning::default());
        let manager = try_manager(services.clone(), (client, clock), &metrics, None, tuning).await;
        let manager = tokio::spawn(manager.unwrap().run(shutdown.clone()));
        Self {
            moto,
            services,
            sandbox,
            shutdown,
            manager,
        }
    }

    /// Instances of the cluster that neither end nor have ended.
    pub(crate) async fn instances(&self) -> Vec<DescribedInstance> {
        live_instances(&self.services).await
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.manager.await.unwrap().unwrap();
        self.sandbox.stop().await;
    }
}
