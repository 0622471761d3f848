//! Writes per second with twenty watchers, and memory per stored pod.
//!
//! Workload: the life of small pods (2 containers, requests, labels, tolerations by default) in one namespace: create, bind,
//! two status patches, delete with grace 0: five writes each, over the tower service in one thread, while twenty watchers
//! of all pods read every event as bytes. The time includes that the last watcher has seen the last event. Decoding events
//! is the clients' cost and not part of it. The targets are 5,000 writes/s and less than 4 KB per stored pod.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http_body_util::{BodyExt, Full};
use kerf_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

const WATCHERS: usize = 20;
const WRITES_PER_POD: usize = 5;
const PODS_IN_MEMORY: usize = 20_000;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn web_pod(name: &str) -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example.com/shop/web:v1.2.3",
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "ports": [{"containerPort": 8080}],
        })
    };
    json!({
        "metadata": {"name": name, "labels": {"app": "web", "tier": "front", "pod-template-hash": "6d4cf56db6"}},
        "spec": {"containers": [container("web"), container("proxy")], "nodeSelector": {"disk": "ssd"}},
    })
}

async fn send(server: &ApiServer, method: &str, path: &str, content_type: &str, body: &Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Full::new(bytes::Bytes::from(body.to_string())))
        .expect("a request");
    let response = server.clone().oneshot(request).await.expect("infallible");
    assert!(response.status().is_success(), "{method} {path}: {}", response.status());
    black_box(response.into_body().collect().await.expect("infallible"));
}

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn live_and_die(server: &ApiServer, name: &str) {
    let path = format!("{PODS}/{name}");
    send(server, "POST", PODS, "application/json", &web_pod(name)).await;
    let binding = json!({"target": {"kind": "Node", "name": "node-1"}});
    send(server, "POST", &format!("{path}/binding"), "application/json", &binding).await;
    for (phase, ready) in [("Pending", "False"), ("Running", "True")] {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let status = json!({"status": {"phase": phase, "conditions": conditions, "podIP": "10.0.0.1"}});
        send(
            server,
            "PATCH",
            &format!("{path}/status"),
            "application/merge-patch+json",
            &status,
        )
        .await;
    }
    send(
        server,
        "DELETE",
        &path,
        "application/json",
        &json!({"gracePeriodSeconds": 0}),
    )
    .await;
}

/// Starts the watchers; the counter counts the events all of them have read.
async fn watch(server: &ApiServer) -> Arc<AtomicUsize> {
    let seen = Arc::new(AtomicUsize::new(0));
    for _ in 0..WATCHERS {
        let request = http::Request::get("/api/v1/pods?watch=1&resourceVersion=0")
            .body(Full::new(bytes::Bytes::new()))
            .expect("a request");
        let mut body = server.clone().oneshot(request).await.expect("infallible").into_body();
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                black_box(frame);
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    seen
}

async fn lives(pods: usize) -> Duration {
    let server = ApiServer::new();
    let seen = watch(&server).await;
    let start = Instant::now();
    for i in 0..pods {
        live_and_die(&server, &format!("web-6d4cf56db6-{i}")).await;
        // In one thread the watchers read when the writer lets them; a client's own tasks do that in real use.
        tokio::task::yield_now().await;
    }
    // A watcher that fell behind would have got an error in place of its events: the loop would not end.
    while seen.load(Ordering::Relaxed) < pods * WRITES_PER_POD * WATCHERS {
        tokio::task::yield_now().await;
    }
    start.elapsed()
}

fn writes(c: &mut Criterion) {
    memory();
    let mut group = c.benchmark_group("apiserver");
    group.throughput(Throughput::Elements(WRITES_PER_POD as u64));
    group.bench_function("five writes of a pod's life, 20 watchers", |b| {
        b.iter_custom(|pods| runtime().block_on(lives(usize::try_from(pods).expect("a small count"))));
    });
    group.finish();
}

/// Resident bytes of this process, from Linux.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

fn memory() {
    runtime().block_on(async {
        let server = ApiServer::new();
        let before = resident();
        for i in 0..PODS_IN_MEMORY {
            send(
                &server,
                "POST",
                PODS,
                "application/json",
                &web_pod(&format!("web-6d4cf56db6-{i}")),
            )
            .await;
        }
        if let (Some(before), Some(after)) = (before, resident()) {
            let each = after.saturating_sub(before) / PODS_IN_MEMORY;
            println!("memory: {each} bytes per stored pod ({PODS_IN_MEMORY} pods, target 4096)");
        }
        black_box(server);
    });
}

criterion_group!(benches, writes);
criterion_main!(benches);
