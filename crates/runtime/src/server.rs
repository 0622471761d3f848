//! The plain HTTP listeners of the process: metrics on one port, probes on another.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
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
    pub source: std::io::Error,
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

/// Serves until `shutdown` is cancelled.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> std::io::Result<()> {
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
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

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
        // OPS-042
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
