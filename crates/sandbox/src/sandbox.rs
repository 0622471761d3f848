//! The embedded cluster: API server and actors in this process.

use crate::actors::{ActorOptions, Actors};
use crate::faults::{FaultLayer, Faults};
use crate::kubelet::{KUBELET, KubeletOptions};
use crate::scheduler::Scoring;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_api::Provider;
use kerf_apiserver::ApiServer;
use kerf_runtime::{CancellationToken, Clock, Seed};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tower::Layer;

/// Why the sandbox could not start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The API server refused a CustomResourceDefinition.
    #[error("cannot create CustomResourceDefinition {name} in the embedded cluster: {source}")]
    Definition {
        /// Its name.
        name: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The request for a CustomResourceDefinition could not be built.
    #[error("cannot build the request that creates CustomResourceDefinition {name}: {source}")]
    Request {
        /// The definition's name.
        name: String,
        /// The invalid part.
        #[source]
        source: http::Error,
    },
}

/// Options of a sandbox.
#[derive(Debug)]
pub struct SandboxBuilder {
    seed: Seed,
    clock: Option<Clock>,
    api: Option<ApiServer>,
    actors: ActorOptions,
    provider: Provider,
}

impl SandboxBuilder {
    /// The seed of uids, generated names and faults; 0 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Seed(seed);
        self
    }

    /// Wall time; by default simulated, from the beginning of 2026.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// An existing API server. Its clock should be the sandbox's.
    #[must_use]
    pub fn api(mut self, api: ApiServer) -> Self {
        self.api = Some(api);
        self
    }

    /// The scheduler's scoring; by default the emptiest node wins.
    #[must_use]
    pub fn scheduler(mut self, scoring: Scoring) -> Self {
        self.actors.scheduler = Some(scoring);
        self
    }

    /// Starts no scheduler: pods stay unbound.
    #[must_use]
    pub fn without_scheduler(mut self) -> Self {
        self.actors.scheduler = None;
        self
    }

    /// Options of the kubelets.
    #[must_use]
    pub fn kubelets(mut self, options: KubeletOptions) -> Self {
        self.actors.kubelets = options;
        self
    }

    /// How long nodes take to become Ready and bound pods to run.
    #[must_use]
    pub fn kubelet_delays(mut self, node_ready_after: Duration, pod_ready_after: Duration) -> Self {
        self.actors.kubelets.node_ready_after = node_ready_after;
        self.actors.kubelets.pod_ready_after = pod_ready_after;
        self
    }

    /// Which actors run, with their options.
    #[must_use]
    pub fn actors(mut self, options: ActorOptions) -> Self {
        self.actors = options;
        self
    }

    /// The provider whose custom resources are installed; KWOK by default.
    #[must_use]
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = provider;
        self
    }

    /// Starts the cluster and returns once the caches of all actors are filled.
    pub async fn build(self) -> Result<Sandbox, SandboxError> {
        let clock = self.clock.unwrap_or_else(|| Clock::simulated(start_of_2026()));
        let api = self.api.unwrap_or_else(|| {
            let clock = clock.clone();
            ApiServer::builder()
                .clock(Arc::new(move || clock.now()))
                .seed(self.seed.0)
                .build()
        });
        let client = Client::new(api.clone(), "default");
        install_definitions(&client, self.provider).await?;
        let shutdown = CancellationToken::new();
        let actors = Actors::start(
            client.clone(),
            clock.clone(),
            self.seed.derive("actors"),
            &self.actors,
            shutdown.clone(),
        );
        let actors = actors.await;
        Ok(Sandbox {
            api,
            client,
            clock,
            seed: self.seed,
            shutdown,
            actors,
        })
    }
}

fn start_of_2026() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap_or(Timestamp::UNIX_EPOCH)
}

async fn install_definitions(client: &Client, provider: Provider) -> Result<(), SandboxError> {
    for definition in kerf_api::crds(provider) {
        let name = definition.name.to_owned();
        let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(definition.value.to_string().into_bytes())
            .map_err(|source| SandboxError::Request {
                name: name.clone(),
                source,
            })?;
        match client.request::<Value>(request).await {
            // An existing API server may have the definition already.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(source) => {
                return Err(SandboxError::Definition {
                    name,
                    source: Box::new(source),
                });
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// A running cluster. Its actors end when it is dropped.
pub struct Sandbox {
    api: ApiServer,
    client: Client,
    clock: Clock,
    seed: Seed,
    shutdown: CancellationToken,
    actors: Actors,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Options for a new sandbox.
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder {
            seed: Seed(0),
            clock: None,
            api: None,
            actors: ActorOptions::default(),
            provider: Provider::Kwok,
        }
    }

    /// A client without faults.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A separate client for the component called `tag`, with the handle of its faults.
    pub fn client_with_faults(&self, tag: &str) -> (Client, Faults) {
        let faults = Faults::new(tag, self.seed.derive("faults"));
        let service = FaultLayer(faults.clone()).layer(self.api.clone());
        (Client::new(service, "default"), faults)
    }

    /// The API server, for HTTPS listeners and the caller's own tower layers.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// The cluster's wall time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The seed everything else is derived from.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Cancelling it ends the actors.
    pub fn shutdown_token(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// Sets the annotation [`KUBELET`] of a node, which makes its kubelet misbehave; `None` removes it.
    pub async fn set_kubelet(&self, node: &str, mode: Option<&str>) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"annotations": {KUBELET: mode}}});
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Ends the actors and waits for them. The API server and its clients stay usable.
    pub async fn stop(self) -> ApiServer {
        self.shutdown.cancel();
        self.actors.ended().await;
        self.api
    }
}
