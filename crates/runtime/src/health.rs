//! Named health checks and the probe endpoints over them (section 3 of `docs/behaviour/operations.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::future::BoxFuture;
use tokio::sync::watch;

type Probe = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

#[derive(Clone)]
struct Check {
    probe: Probe,
    /// Whether the aggregate answer says why the check fails.
    shows_cause: bool,
}

/// Checks by name; all must pass. A check may wait for what it checks (OPS-046).
#[derive(Clone, Default)]
pub struct HealthChecks(BTreeMap<String, Check>);

impl HealthChecks {
    /// No checks: always healthy.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check. The error says what is wrong; the aggregate answer withholds it.
    #[must_use]
    pub fn with<F, Fut>(self, name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.insert(name, check, false)
    }

    /// Adds a check whose error the aggregate answer repeats: it must hold nothing that is secret.
    #[must_use]
    pub fn with_cause<F, Fut>(self, name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.insert(name, check, true)
    }

    fn insert<F, Fut>(mut self, name: &str, check: F, shows_cause: bool) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        let probe: Probe = Arc::new(move || Box::pin(check()));
        self.0.insert(name.to_owned(), Check { probe, shows_cause });
        self
    }

    /// Adds a check that always passes.
    #[must_use]
    pub fn ping(self, name: &str) -> Self {
        self.with(name, || async { Ok(()) })
    }

    /// Adds the check that passes once every watch has its first complete set.
    #[must_use]
    pub fn synced(self, name: &str, gate: &SyncGate) -> Self {
        let gate = gate.clone();
        self.with(name, move || {
            let gate = gate.clone();
            async move {
                gate.wait().await;
                Ok(())
            }
        })
    }
}

/// Which watches still lack their first complete set. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct SyncGate(Arc<watch::Sender<BTreeSet<String>>>);

impl Default for SyncGate {
    fn default() -> Self {
        Self::new()
    }
}

impl SyncGate {
    /// A gate without conditions.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeSet::new())))
    }

    /// Closes the gate until [`SyncGate::mark`] is called with the same name. Expect everything before starting it.
    pub fn expect(&self, name: impl Into<String>) {
        let name = name.into();
        self.0.send_modify(|pending| {
            pending.insert(name);
        });
    }

    /// Records that `name` has its complete set.
    pub fn mark(&self, name: &str) {
        self.0.send_if_modified(|pending| pending.remove(name));
    }

    /// What is still awaited.
    pub fn pending(&self) -> Vec<String> {
        self.0.borrow().iter().cloned().collect()
    }

    /// Waits until nothing is awaited.
    pub async fn wait(&self) {
        // The sender lives as long as we do, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(BTreeSet::is_empty).await;
    }
}

/// Serves `/healthz` (a ping, OPS-043) and `/readyz` (the checks given).
pub fn health_router(readiness: HealthChecks) -> Router {
    endpoint("/healthz", HealthChecks::new().ping("healthz")).merge(endpoint("/readyz", readiness))
}

fn endpoint(path: &str, checks: HealthChecks) -> Router {
    Router::new()
        .route(path, any(all))
        .route(&format!("{path}/"), any(all))
        .route(&format!("{path}/{{name}}"), any(one))
        .with_state(checks)
}

async fn one(State(checks): State<HealthChecks>, Path(name): Path<String>) -> Response {
    let Some(check) = checks.0.get(&name) else {
        return (StatusCode::NOT_FOUND, format!("no health check {name:?}\n")).into_response();
    };
    match (check.probe)().await {
        Ok(()) => "ok".into_response(),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {error}\n"),
        )
            .into_response(),
    }
}

async fn all(State(checks): State<HealthChecks>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let mut verbose = false;
    let mut excluded = BTreeSet::new();
    for (key, value) in query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
        match key {
            "verbose" => verbose = true,
            "exclude" => {
                excluded.insert(value.to_owned());
            }
            _ => {}
        }
    }
    let (mut report, mut failed) = (String::new(), false);
    for (name, check) in &checks.0 {
        let line = if excluded.remove(name) {
            format!("[+]{name} excluded: ok")
        } else if let Err(error) = (check.probe)().await {
            failed = true;
            tracing::info!(check = %name, error = %error, "health check failed");
            if check.shows_cause {
                format!("[-]{name} failed: {error}")
            } else {
                format!("[-]{name} failed: reason withheld")
            }
        } else {
            format!("[+]{name} ok")
        };
        // Writing to a string cannot fail.
        let _ = writeln!(report, "{line}");
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let _ = writeln!(
            report,
            "warn: some health checks cannot be excluded: no matches for {}",
            names.join(",")
        );
    }
    if failed {
        return (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{report}healthz check failed\n"),
        )
            .into_response();
    }
    if verbose {
        format!("{report}healthz check passed\n").into_response()
    } else {
        "ok".into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

    async fn get(router: &Router, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = router.clone().oneshot(request).await.expect("never fails");
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .expect("a body");
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    fn ok(text: &str) -> (u16, String) {
        (200, text.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn healthy_endpoints_say_ok() {
        let gate = SyncGate::new();
        let router = health_router(
            HealthChecks::new()
                .ping("readyz")
                .synced("manager", &gate)
                .with("crd", || async { Ok(()) }),
        );
        // OPS-043
        assert_eq!(get(&router, "/healthz").await, ok("ok"));
        assert_eq!(get(&router, "/readyz").await, ok("ok"));
        // OPS-044
        assert_eq!(
            get(&router, "/readyz?verbose").await,
            ok("[+]crd ok\n[+]manager ok\n[+]readyz ok\nhealthz check passed\n")
        );
        assert_eq!(
            get(&router, "/healthz?verbose").await,
            ok("[+]healthz ok\nhealthz check passed\n")
        );
        assert_eq!(get(&router, "/readyz/crd").await, ok("ok"));
        assert_eq!(get(&router, "/readyz/other").await.0, 404);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_check_is_listed_and_can_be_excluded() {
        let router = health_router(
            HealthChecks::new()
                .ping("readyz")
                .with("crd", || async { Err("no NodePool".to_owned()) }),
        );
        // OPS-043
        assert_eq!(
            get(&router, "/readyz").await,
            (
                500,
                "[-]crd failed: reason withheld\n[+]readyz ok\nhealthz check failed\n".to_owned()
            )
        );
        assert_eq!(get(&router, "/readyz/crd").await.0, 500);
        assert_eq!(get(&router, "/healthz").await, ok("ok"));
        // OPS-044
        assert_eq!(get(&router, "/readyz?exclude=crd").await, ok("ok"));
        assert_eq!(
            get(&router, "/readyz?verbose&exclude=crd&exclude=x").await,
            ok(
                "[+]crd excluded: ok\n[+]readyz ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\n\
                healthz check passed\n"
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_may_show_its_cause() {
        let router = health_router(HealthChecks::new().with_cause("lease", || async { Err("forbidden".to_owned()) }));
        let text = "[-]lease failed: forbidden\nhealthz check failed\n".to_owned();
        assert_eq!(get(&router, "/readyz").await, (500, text));
    }

    #[tokio::test(start_paused = true)]
    async fn the_manager_check_waits_for_the_watches() {
        let gate = SyncGate::new();
        gate.expect("pods");
        gate.expect("nodes");
        let router = health_router(HealthChecks::new().synced("manager", &gate));
        gate.mark("pods");
        assert_eq!(gate.pending(), ["nodes"]);
        // OPS-046
        let early = tokio::time::timeout(std::time::Duration::from_secs(30), get(&router, "/readyz")).await;
        assert!(early.is_err(), "the probe blocks");
        gate.mark("nodes");
        assert_eq!(get(&router, "/readyz").await, ok("ok"));
    }
}
