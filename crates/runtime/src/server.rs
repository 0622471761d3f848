//! The plain HTTP listeners of the process: metrics on one port, probes on another.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::try_join_all;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::metrics::{CONTENT_TYPE, Metrics};

/// How long open requests may continue after the shutdown was requested.
const GRACE: Duration = Duration::from_secs(1);

/// What profiling asks for and this build cannot give.
const NO_PROFILES: &str = "profiles in pprof format are not available; use perf or a similar tool on the process\n";

/// Why a listener could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("port {port} for {purpose} cannot be opened, choose another with {option}: {source}")]
pub struct BindError {
    /// The port asked for.
    pub port: u16,
    /// What it is for.
    pub purpose: &'static str,
    /// The option that sets it.
    pub option: &'static str,
    /// The error of the system.
    pub source: io::Error,
}

/// Opens `port` on all interfaces; port 0 lets the system choose (OPS-041).
pub async fn bind(port: u16, purpose: &'static str, option: &'static str) -> Result<TcpListener, BindError> {
    // The IPv6 wildcard takes IPv4 as well, except where IPv6 is switched off.
    match TcpListener::bind(("::", port)).await {
        Ok(listener) => Ok(listener),
        Err(first) => match TcpListener::bind(("0.0.0.0", port)).await {
            Ok(listener) => Ok(listener),
            Err(_) => Err(BindError {
                port,
                purpose,
                option,
                source: first,
            }),
        },
    }
}

/// Serves `/metrics`. With `profiling`, the paths of the profiler answer that there is no profile.
pub fn metrics_router(metrics: Metrics, profiling: bool) -> Router {
    let router = Router::new().route("/metrics", get(scrape)).with_state(metrics);
    if !profiling {
        return router;
    }
    let refuse = || get(|| async { (StatusCode::NOT_IMPLEMENTED, NO_PROFILES) });
    router
        .route("/debug/pprof/", refuse())
        .route("/debug/pprof/{profile}", refuse())
}

async fn scrape(State(metrics): State<Metrics>) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], metrics.encode()).into_response()
}

/// Serves every router on its listener until `shutdown` is cancelled, on a thread of its own: kubelet and Prometheus get answers also while
/// all threads of the caller's runtime compute. On one processor that is a single thread, which the first list of a large cluster keeps busy
/// for seconds.
pub async fn serve_apart(sites: Vec<(TcpListener, Router)>, shutdown: &CancellationToken) -> io::Result<()> {
    let sites: io::Result<Vec<_>> = sites
        .into_iter()
        .map(|(listener, router)| Ok((listener.into_std()?, router)))
        .collect();
    let sites = sites?;
    let (ended, outcome) = oneshot::channel();
    let token = shutdown.child_token();
    // The thread ends also if this future is dropped.
    let _guard = token.clone().drop_guard();
    let work = move || {
        // Sending fails only if the task that waits was dropped.
        let _ = ended.send(serve_all(sites, &token));
    };
    std::thread::Builder::new().name("listeners".to_owned()).spawn(work)?;
    outcome
        .await
        .unwrap_or_else(|_| Err(io::Error::other("the thread of the listeners panicked")))
}

/// Serves all on this thread.
fn serve_all(sites: Vec<(std::net::TcpListener, Router)>, shutdown: &CancellationToken) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let servers = sites.into_iter().map(async |(listener, router)| {
            let listener = TcpListener::from_std(listener)?;
            serve(listener, router, shutdown.clone()).await
        });
        try_join_all(servers).await.map(drop)
    })
}

/// Serves until `shutdown` is cancelled.
async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    let ended = shutdown.clone();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { ended.cancelled().await });
    tokio::select! {
        biased;
        result = server.into_future() => result,
        () = async { shutdown.cancelled().await; tokio::time::sleep(GRACE).await } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc;

    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;
    use crate::health::{HealthChecks, health_router};

    async fn get_path(router: &Router, path: &str) -> (u16, String, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("never fails");
        let kind = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or("")
            .to_owned();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .expect("a body");
        (status, kind, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn metrics_are_served_as_text() {
        let metrics = Metrics::default();
        metrics.set_build_info("1", "rustc", "amd64", "");
        let router = metrics_router(metrics, false);
        // OPS-041
        let (status, kind, body) = get_path(&router, "/metrics").await;
        assert_eq!((status, kind.as_str()), (200, "text/plain; version=0.0.4"));
        assert!(body.contains("karpenter_build_info{"), "{body}");
        assert_eq!(get_path(&router, "/debug/pprof/heap").await.0, 404);
    }

    #[tokio::test]
    async fn profiles_are_refused_with_a_reason() {
        let router = metrics_router(Metrics::default(), true);
        // OPS-042, KWK-098
        for profile in [
            "",
            "heap",
            "goroutine",
            "cmdline",
            "profile?seconds=20",
            "symbol",
            "trace",
        ] {
            let (status, _, body) = get_path(&router, &format!("/debug/pprof/{profile}")).await;
            assert_eq!(status, 501, "{profile}");
            assert!(body.contains("not available"), "{body}");
        }
    }

    /// The answer to a GET by a client outside of any runtime.
    fn get_from(port: u16, path: &str) -> String {
        let mut stream = std::net::TcpStream::connect(("localhost", port)).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a time limit");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    // OPS-041, OPS-043
    #[test]
    fn listeners_answer_while_every_thread_of_the_runtime_computes() {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let shutdown = CancellationToken::new();
        let (sites, ports) = runtime.block_on(async {
            let mut ports = Vec::new();
            let mut opened = async || {
                let listener = bind(0, "tests", "--none").await.expect("a free port");
                ports.push(listener.local_addr().expect("an address").port());
                listener
            };
            let checks = HealthChecks::new()
                .ping("readyz")
                .remembered("crd", &runtime::Handle::current(), || async { Ok(()) });
            let sites = vec![
                (opened().await, metrics_router(Metrics::default(), false)),
                (opened().await, health_router(checks)),
            ];
            (sites, ports)
        });
        let token = shutdown.clone();
        let server = runtime.spawn(async move { serve_apart(sites, &token).await });
        let urls = [(ports[0], "/metrics"), (ports[1], "/healthz"), (ports[1], "/readyz")];
        for (port, path) in urls {
            assert!(
                get_from(port, path).starts_with("HTTP/1.1 200"),
                "{path} of an idle process"
            );
        }
        let ((begun, has_begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let computes = runtime.spawn(async move {
            begun.send(()).expect("the test waits");
            released.recv()
        });
        has_begun.recv().expect("the only worker is taken");
        for (port, path) in urls {
            assert!(
                get_from(port, path).starts_with("HTTP/1.1 200"),
                "{path} of a busy process"
            );
        }
        release.send(()).expect("it waits");
        shutdown.cancel();
        runtime.block_on(async {
            computes.await.expect("no panic").expect("released");
            server.await.expect("no panic").expect("a good end");
        });
        for port in ports {
            let refused = std::net::TcpStream::connect(("localhost", port));
            assert!(refused.is_err(), "the listeners are closed");
        }
    }

    #[tokio::test]
    async fn port_zero_binds_a_free_port_and_a_taken_one_is_named() {
        // OPS-041
        let listener = bind(0, "metrics", "--metrics-port").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        assert_ne!(port, 0);
        let error = bind(port, "metrics", "--metrics-port")
            .await
            .expect_err("taken")
            .to_string();
        assert!(
            error.contains(&port.to_string()) && error.contains("--metrics-port"),
            "{error}"
        );
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        serve(listener, metrics_router(Metrics::default(), false), shutdown)
            .await
            .expect("ends");
    }
}
