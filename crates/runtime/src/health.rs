//! Named health checks and the probe endpoints over them (section 3 of `docs/behaviour/operations.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long a remembered check may take before its last result counts: kubelet gives a probe one second unless told otherwise.
const FRESH_RESULT_WAIT: Duration = Duration::from_millis(500);

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

    /// Adds a check that runs on another runtime than that of the listener, because its connections belong there. While it takes long, as on
    /// a busy processor, the last result counts; the first result is waited for.
    #[must_use]
    pub fn remembered<F, Fut>(self, name: &str, runtime: &Handle, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        let last = Arc::new(LastResult {
            runtime: runtime.clone(),
            running: Mutex::default(),
            results: watch::Sender::new(None),
        });
        self.with(name, move || {
            let last = Arc::clone(&last);
            let results = last.refresh(&check);
            async move { last.read(results).await }
        })
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

/// The last result of a check that runs elsewhere, once at a time.
struct LastResult {
    runtime: Handle,
    running: Mutex<Option<JoinHandle<()>>>,
    results: watch::Sender<Option<Result<(), String>>>,
}

impl LastResult {
    /// Starts the check unless it runs. What is returned notices its next result.
    fn refresh<Fut>(self: &Arc<Self>, check: impl Fn() -> Fut) -> watch::Receiver<Option<Result<(), String>>>
    where
        Fut: Future<Output = Result<(), String>> + Send + 'static,
    {
        let results = self.results.subscribe();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_none_or(JoinHandle::is_finished) {
            let (this, check) = (Arc::clone(self), check());
            *running = Some(self.runtime.spawn(async move {
                this.results.send_replace(Some(check.await));
            }));
        }
        results
    }

    /// The next result if it comes soon, else the last one.
    async fn read(&self, mut results: watch::Receiver<Option<Result<(), String>>>) -> Result<(), String> {
        // The sender is a field, so the channel cannot be closed.
        let _ = tokio::time::timeout(FRESH_RESULT_WAIT, results.changed()).await;
        let known = results.wait_for(Option::is_some).await;
        known.map_or_else(|error| Err(error.to_string()), |known| known.clone().unwrap_or(Ok(())))
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
    async fn the_last_result_of_a_check_counts_while_the_next_one_takes_long() {
        // So long each call takes, and what it results in.
        let calls = [(2, Ok(())), (60, Err("no NodePool".to_owned())), (0, Ok(()))];
        let calls = Arc::new(Mutex::new(std::collections::VecDeque::from(calls)));
        let check = move || {
            let next = calls.lock().expect("no test panics inside").pop_front();
            async move {
                let (seconds, result) = next.expect("no call more");
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                result
            }
        };
        let router = health_router(HealthChecks::new().remembered("crd", &Handle::current(), check));
        let began = tokio::time::Instant::now();
        assert_eq!(
            get(&router, "/readyz").await,
            ok("ok"),
            "the first result is waited for"
        );
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        for _ in 0..10 {
            assert_eq!(get(&router, "/readyz").await, ok("ok"), "one slow call, asked for once");
        }
        assert_eq!(began.elapsed(), Duration::from_secs(7));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let known = began.elapsed();
        assert_eq!(get(&router, "/readyz").await, ok("ok"), "a result at once");
        assert_eq!(began.elapsed(), known);
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
