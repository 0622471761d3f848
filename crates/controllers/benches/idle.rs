//! What the controllers cost while nothing happens: `cargo bench -p kerf-controllers --bench idle`.
//!
//! 2,000 nodes with 30 pods each, all initialised and consolidatable, none of which can go: the controllers run on the embedded cluster in
//! virtual time, and what counts is the processor time a stretch of it takes. Kubelets send their heartbeats every five minutes; nothing
//! else changes. The same stretch without controllers shows what the cluster itself takes, and the controllers' calls are timed inside the
//! API server, so that its work for them is not taken for theirs. Processor time is Linux's, to ten milliseconds.
//!
//! `KERF_IDLE_NODES` and `KERF_IDLE_MINUTES` change the size and the length of the stretch.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Wakeup, Poll};
use std::time::{Duration, Instant};

use http::Request;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kerf_api::{KwokNodeClass, NodeClaim, NodePool};
use kerf_apiserver::ApiServer;
use kerf_controllers::{Manager, ManagerConfig, ManagerError};
use kerf_kwok::{KwokProvider, builtin_catalogue};
use kerf_model::intern::Interner;
use kerf_runtime::{CancellationToken, Clock};
use kerf_sandbox::Sandbox;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::Service;

/// That of the `kerf` binary.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS_PER_NODE: usize = 30;
/// Between two heartbeats of a kubelet, as real ones have it.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// How long the controllers are left to themselves before it counts.
const SETTLE: Duration = Duration::from_secs(20 * 60);
/// Of one core, in percent.
const AIM: f64 = 1.0;

fn main() {
    let size = |name: &str, otherwise: u64| {
        let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
        given.unwrap_or(otherwise)
    };
    let nodes = usize::try_from(size("KERF_IDLE_NODES", 2_000)).unwrap_or(1).max(1);
    let span = Duration::from_secs(60 * size("KERF_IDLE_MINUTES", 10).max(1));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(measure(nodes, span));
}

async fn measure(nodes: usize, span: Duration) {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let meter = Meter::default();
    populate(&sandbox, &meter, nodes).await;
    let beating = tokio::spawn(heartbeats(sandbox.client(), sandbox.clock().clone()));
    let alone = stretch(span, &meter).await;
    let controllers = Controllers::start(&sandbox, &meter);
    tokio::time::sleep(SETTLE).await;
    let both = stretch(span, &meter).await;
    controllers.stop().await;
    beating.abort();
    let left = list::<NodeClaim>(&sandbox.client()).await.len();
    assert_eq!(
        left,
        nodes,
        "nothing was to change: {:#?}",
        told(&sandbox.client()).await
    );
    report(nodes, span, &alone, &both);
}

/// What the controllers said, by how often.
async fn told(client: &Client) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    for event in list::<Event>(client).await {
        let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        *told.entry(format!("{reason}: {message}")).or_default() += 1;
    }
    told
}

fn report(nodes: usize, span: Duration, alone: &Stretch, both: &Stretch) {
    println!(
        "{nodes} nodes, {} pods, {} minutes",
        nodes * PODS_PER_NODE,
        span.as_secs() / 60
    );
    let line = |what: &str, took: Duration, aim: &str| {
        let share = 100.0 * took.as_secs_f64() / span.as_secs_f64();
        println!("{what:<52} {:>8.2} s {share:>7.3} %   {aim}", took.as_secs_f64());
    };
    line("the cluster alone", alone.cpu, "");
    line("the cluster with controllers", both.cpu, "");
    let serving = both
        .cpu
        .mul_f64(both.serving.as_secs_f64() / both.wall.as_secs_f64().max(f64::EPSILON));
    line("of it the API server's answers to the controllers", serving, "");
    let own = both.cpu.saturating_sub(alone.cpu).saturating_sub(serving);
    line("the controllers", own, &format!("< {AIM} %"));
    println!("calls of the controllers:");
    for (call, count) in &both.calls {
        println!("  {count:>8}  {call}");
    }
}

/// What a stretch of virtual time took.
struct Stretch {
    cpu: Duration,
    wall: Duration,
    serving: Duration,
    calls: BTreeMap<String, u64>,
}

async fn stretch(span: Duration, meter: &Meter) -> Stretch {
    meter.take();
    let (cpu, began) = (processor_time(), Instant::now());
    tokio::time::sleep(span).await;
    let taken = meter.take();
    Stretch {
        cpu: processor_time().saturating_sub(cpu),
        wall: began.elapsed(),
        serving: taken.serving,
        calls: taken.calls,
    }
}

/// Of all threads, those that ended included.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// The controllers, running.
struct Controllers {
    shutdown: CancellationToken,
    manager: JoinHandle<Result<(), ManagerError>>,
}

impl Controllers {
    fn start(sandbox: &Sandbox, meter: &Meter) -> Self {
        let client = Client::new(
            Metered {
                api: sandbox.api().clone(),
                meter: meter.clone(),
            },
            "default",
        );
        let interner = Arc::new(Interner::default());
        let catalogue = builtin_catalogue(&interner);
        let provider = Arc::new(KwokProvider::new(client.clone(), Arc::clone(&interner), catalogue));
        let mut config = ManagerConfig::alone(client, provider, interner, sandbox.clock().clone());
        config.tuning.compare = false;
        let manager = Manager::new(config);
        let shutdown = CancellationToken::new();
        Self {
            manager: tokio::spawn(manager.run(shutdown.clone())),
            shutdown,
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.manager.await.expect("no panic").expect("no error");
    }
}

/// Has the controllers launch one node for as many pods as it holds, and copies it.
async fn populate(sandbox: &Sandbox, meter: &Meter, nodes: usize) {
    let client = sandbox.client();
    create::<KwokNodeClass>(
        &Api::all(client.clone()),
        json!({"metadata": {"name": "default"}, "spec": {}}),
    )
    .await;
    let one = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let pool = json!({"metadata": {"name": "default"}, "spec": {
        "template": {"spec": {
            "requirements": [
                one("karpenter.sh/capacity-type", "on-demand"),
                one("node.kubernetes.io/instance-type", "c-16x-amd64-linux"),
            ],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        }},
        "disruption": {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized"},
    }});
    create::<NodePool>(&Api::all(client.clone()), pool).await;
    let controllers = Controllers::start(sandbox, meter);
    for index in 0..PODS_PER_NODE {
        create::<Pod>(&Api::namespaced(client.clone(), "default"), web_pod(index, None)).await;
    }
    let first = loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let claims = list::<NodeClaim>(&client).await;
        let is_consolidatable = |claim: &NodeClaim| {
            let conditions = claim.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|one| one.type_ == "Consolidatable" && one.is_true())
        };
        assert!(claims.len() < 2, "the pods fit on one node");
        if let Some(first) = claims.into_iter().find(is_consolidatable) {
            break first;
        }
    };
    let node = list::<Node>(&client).await.pop().expect("the claim has a node");
    controllers.stop().await;
    for index in 1..nodes {
        copy(&client, &first, &node, index).await;
    }
    for index in PODS_PER_NODE..nodes * PODS_PER_NODE {
        let node = match index / PODS_PER_NODE {
            0 => node.name_any(),
            copy => name(&node, copy),
        };
        create::<Pod>(&Api::namespaced(client.clone(), "default"), web_pod(index, Some(&node))).await;
    }
    // The pods start.
    tokio::time::sleep(Duration::from_secs(60)).await;
}

fn name<K: Resource<DynamicType = ()>>(of: &K, copy: usize) -> String {
    format!("{}-{copy:05}", of.name_any())
}

/// Thirty of them fill the 16 cores of a node: what is left is too little for one more.
fn web_pod(index: usize, node: Option<&str>) -> Value {
    // As the API server's admission has it.
    let for_a_while =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    json!({
        "metadata": {"name": format!("web-{index:06}"), "labels": {"app": format!("web-{:02}", index % PODS_PER_NODE)}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "525m", "memory": "512Mi"}}}],
            "tolerations": [for_a_while("node.kubernetes.io/not-ready"), for_a_while("node.kubernetes.io/unreachable")],
        },
    })
}

/// Another claim like the first, with its node.
async fn copy(client: &Client, claim: &NodeClaim, node: &Node, index: usize) {
    let claims: Api<NodeClaim> = Api::all(client.clone());
    let node_name = name(node, index);
    let mut another = claim.clone();
    another.metadata.name = Some(name(claim, index));
    fresh(&mut another.metadata);
    let status = another.status.take().map(|mut status| {
        status.provider_id = Some(format!("kwok://{node_name}"));
        status.node_name = Some(node_name.clone());
        status
    });
    let mut stored = claims.create(&PostParams::default(), &another).await.expect("created");
    stored.status = status;
    let stored = claims
        .replace_status(&stored.name_any(), &PostParams::default(), &stored)
        .await;
    let stored = stored.expect("the status is stored");
    let mut another = node.clone();
    another.metadata.name = Some(node_name.clone());
    fresh(&mut another.metadata);
    for owner in another.metadata.owner_references.iter_mut().flatten() {
        owner.name = stored.name_any();
        owner.uid = stored.uid().unwrap_or_default();
    }
    let labels = another.metadata.labels.get_or_insert_default();
    labels.insert("kubernetes.io/hostname".to_owned(), node_name.clone());
    let spec = another.spec.get_or_insert_default();
    spec.provider_id = Some(format!("kwok://{node_name}"));
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &another).await.expect("created");
}

/// What the API server gives.
fn fresh(metadata: &mut kube::api::ObjectMeta) {
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.managed_fields = None;
}

/// The kubelets' heartbeats, evenly spread.
async fn heartbeats(client: Client, clock: Clock) {
    let nodes: Api<Node> = Api::all(client.clone());
    let names: Vec<String> = list::<Node>(&client).await.iter().map(ResourceExt::name_any).collect();
    let pause = HEARTBEAT / u32::try_from(names.len()).unwrap_or(1).max(1);
    loop {
        for name in &names {
            tokio::time::sleep(pause).await;
            let now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let beat = json!({"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": now}]}});
            let (params, beat) = (PatchParams::default(), Patch::Strategic(beat));
            // A node that is gone is missed in the end.
            let _ = nodes.patch_status(name, &params, &beat).await;
        }
    }
}

async fn create<K: Serialize + DeserializeOwned + Clone + std::fmt::Debug>(api: &Api<K>, object: Value) {
    let object = serde_json::from_value(object).expect("an object of that kind");
    api.create(&PostParams::default(), &object).await.expect("created");
}

async fn list<K>(client: &Client) -> Vec<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
{
    let all = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    all.expect("listed").items
}

/// What calls were made, and how long the API server was busy with them.
#[derive(Clone, Default)]
struct Meter(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    serving: Duration,
    calls: BTreeMap<String, u64>,
}

impl Meter {
    fn with<T>(&self, change: impl FnOnce(&mut Taken) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self) -> Taken {
        self.with(std::mem::take)
    }
}

/// The API server behind a meter.
#[derive(Clone)]
struct Metered {
    api: ApiServer,
    meter: Meter,
}

impl Service<Request<Body>> for Metered {
    type Response = <ApiServer as Service<Request<Body>>>::Response;
    type Error = <ApiServer as Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Wakeup<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.api, cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let call = describe(&request);
        self.meter.with(|taken| *taken.calls.entry(call).or_default() += 1);
        let (meter, mut answer) = (self.meter.clone(), Box::pin(self.api.call(request)));
        Box::pin(poll_fn(move |cx| {
            let began = Instant::now();
            let polled = answer.as_mut().poll(cx);
            meter.with(|taken| taken.serving += began.elapsed());
            polled
        }))
    }
}

/// `PATCH nodes/status`, without names.
fn describe(request: &Request<Body>) -> String {
    let mut parts: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
    let of_group = parts.first() == Some(&"apis");
    parts.drain(..parts.len().min(if of_group { 3 } else { 2 }));
    if parts.len() > 2 && parts.first() == Some(&"namespaces") {
        parts.drain(..2);
    }
    let verb = match request.uri().query() {
        Some(query) if query.contains("watch=") => "WATCH",
        _ => request.method().as_str(),
    };
    let one = if parts.len() > 1 { "/one" } else { "" };
    let sub = parts.get(2).map(|sub| format!("/{sub}")).unwrap_or_default();
    format!("{verb} {}{one}{sub}", parts.first().copied().unwrap_or_default())
}
