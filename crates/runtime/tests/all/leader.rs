//! Elections over a lease that several electors share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::buffer::Buffer;
use crate::fake::{Asked, Reply, Server, failure, json_response};
use http::Response;
use kerf_runtime::leader::{ElectionConfig, Elector, LeaderError, LeaseAccess};
use kerf_runtime::logging::{LogConfig, LogLevel, Sinks};
use kerf_runtime::{CancellationToken, Clock, Metrics, Recorder, Seed};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A lease with the version check of a real API server, which can be made unreachable for one identity.
#[derive(Clone, Default)]
struct LeaseStore(Arc<Mutex<Store>>);

#[derive(Default)]
struct Store {
    lease: Option<Value>,
    version: u64,
    cut_off: Option<String>,
    /// Writes fail with this code and message.
    refuses_writes: Option<(u16, &'static str)>,
}

impl LeaseStore {
    fn server(&self) -> Server {
        let store = self.0.clone();
        Server::new(move |asked| store.lock().expect("no panic holds it").answer(asked))
    }

    fn holder(&self) -> String {
        let store = self.0.lock().expect("no panic holds it");
        store.lease.as_ref().map_or_else(String::new, |l| {
            l["spec"]["holderIdentity"].as_str().unwrap_or("").to_owned()
        })
    }

    fn refuse_writes(&self, failure: Option<(u16, &'static str)>) {
        self.0.lock().expect("no panic holds it").refuses_writes = failure;
    }

    fn cut_off(&self, user_agent: &str) {
        self.0.lock().expect("no panic holds it").cut_off = Some(user_agent.to_owned());
    }
}

impl Store {
    fn answer(&mut self, asked: &Asked) -> Response<Reply> {
        if self.cut_off.as_deref() == Some(&asked.user_agent) {
            return json_response(503, &failure(503, "ServiceUnavailable"));
        }
        if let Some((code, message)) = self.refuses_writes.filter(|_| asked.method != "GET") {
            let mut answer = failure(code, "Forbidden");
            answer["message"] = json!(message);
            return json_response(code, &answer);
        }
        match (asked.method.as_str(), &self.lease) {
            ("GET", None) => json_response(404, &failure(404, "NotFound")),
            ("GET", Some(lease)) => json_response(200, lease),
            ("POST", Some(_)) => json_response(409, &failure(409, "AlreadyExists")),
            ("POST", None) => self.store(asked),
            ("PUT", Some(lease)) => {
                let sent = asked
                    .body
                    .as_ref()
                    .map(|body| body["metadata"]["resourceVersion"].clone());
                if sent != Some(lease["metadata"]["resourceVersion"].clone()) {
                    return json_response(409, &failure(409, "Conflict"));
                }
                self.store(asked)
            }
            _ => json_response(405, &failure(405, "MethodNotAllowed")),
        }
    }

    fn store(&mut self, asked: &Asked) -> Response<Reply> {
        let mut lease = asked.body.clone().expect("a body");
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = json!("lease-uid");
        self.lease = Some(lease.clone());
        json_response(200, &lease)
    }
}

/// An elector called `name`, which is its user agent as well.
fn elector(server: &Server, name: &str, clock: &Clock) -> Elector {
    let client = kerf_runtime::client::ApiLayers::new()
        .user_agent(name)
        .client(server.service(), "kube-system");
    let config = ElectionConfig::new("karpenter-leader-election", "kube-system", name);
    Elector::new(client, config, clock.clone(), Seed(1).derive(name).rng())
}

fn clock() -> Clock {
    Clock::simulated("2026-01-01T00:00:00.123456789Z".parse().expect("a timestamp"))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn the_lease_has_the_contracts_shape() {
    let (store, clock, metrics, shutdown) = (
        LeaseStore::default(),
        clock(),
        Metrics::default(),
        CancellationToken::new(),
    );
    let (recorder, mut events) = Recorder::new();
    let server = store.server();
    let elector = elector(&server, "host_1", &clock).recorder(recorder).metrics(&metrics);
    let scrape = metrics.clone();
    let lead = async {
        tokio::time::sleep(seconds(5)).await;
        scrape.encode()
    };
    let text = elector.run(&shutdown, lead).await.expect("leads").expect("has led");
    // OPS-179
    assert!(
        text.contains("leader_election_master_status{name=\"karpenter-leader-election\"} 1"),
        "{text}"
    );
    let text = metrics.encode();
    assert!(
        text.contains("leader_election_master_status{name=\"karpenter-leader-election\"} 0"),
        "{text}"
    );
    let first = server
        .asked()
        .into_iter()
        .find(|asked| asked.method == "POST")
        .expect("a lease was made");
    // OPS-047
    assert_eq!(
        first.path,
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?"
    );
    let lease = first.body.expect("a lease");
    assert_eq!(lease["metadata"]["name"], "karpenter-leader-election");
    // OPS-053
    assert_eq!(lease["metadata"].get("labels"), None);
    // OPS-048
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(lease["spec"]["holderIdentity"], "host_1");
    assert_eq!(lease["spec"]["renewTime"], "2026-01-01T00:00:00.123456Z");
    let renewals: Vec<_> = server
        .asked()
        .into_iter()
        .filter(|a| a.method != "GET")
        .map(|a| a.at)
        .collect();
    // OPS-048
    assert_eq!(renewals[1] - renewals[0], seconds(2));
    let event = events.try_recv().expect("an event");
    // OPS-052
    assert_eq!(
        (event.reason.as_ref(), event.message.as_str()),
        ("LeaderElection", "host_1 became leader")
    );
    assert_eq!(
        (event.object.kind.as_str(), event.object.namespace.as_deref()),
        ("Lease", Some("kube-system"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_gives_the_lease_back() {
    let (store, clock, shutdown) = (LeaseStore::default(), clock(), CancellationToken::new());
    let server = store.server();
    let began = Instant::now();
    let first = elector(&server, "a", &clock);
    let result = first.run(&shutdown, tokio::time::sleep(seconds(60))).await;
    assert!(matches!(result, Ok(Some(()))));
    // OPS-051
    assert_eq!(store.holder(), "");
    let mut second = elector(&server, "b", &clock);
    second.acquire().await;
    assert_eq!(began.elapsed(), seconds(60), "the successor need not wait");
    assert_eq!(store.holder(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_within_two_seconds_of_a_graceful_stop() {
    for led in 0..20 {
        let (store, clock, shutdown) = (LeaseStore::default(), clock(), CancellationToken::new());
        let server = store.server();
        let first = elector(&server, "a", &clock);
        let mut second = elector(&server, "b", &clock);
        // The first one leads before the second one begins to poll, and stops at another point between its polls each time.
        let lead = tokio::time::sleep(seconds(60) + Duration::from_millis(100 * led));
        let stops = async {
            first
                .run(&shutdown, lead)
                .await
                .expect("it leads")
                .expect("it was not cancelled");
            Instant::now()
        };
        let takes_over = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            second.acquire().await;
            Instant::now()
        };
        let (stopped, took_over) = tokio::join!(stops, takes_over);
        assert_eq!(store.holder(), "b");
        let waited = took_over - stopped;
        assert!(waited < seconds(2), "{waited:?} after {led}00 ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_succeeded_after_the_lease_whatever_the_clocks_say() {
    let (store, clock) = (LeaseStore::default(), clock());
    let server = store.server();
    elector(&server, "a", &clock).acquire().await;
    // The successor's clock is a day ahead: by its reading the lease expired long ago.
    let ahead = self::clock();
    ahead.jump(jiff::SignedDuration::from_hours(24));
    let began = Instant::now();
    let mut second = elector(&server, "b", &ahead);
    second.acquire().await;
    let waited = began.elapsed();
    // OPS-048
    assert!(waited >= seconds(15) && waited < seconds(18), "{waited:?}");
    assert_eq!(store.holder(), "b");
}

#[tokio::test(start_paused = true)]
async fn two_candidates_never_both_lead() {
    let (store, clock) = (LeaseStore::default(), clock());
    let server = store.server();
    let (mut a, mut b) = (elector(&server, "a", &clock), elector(&server, "b", &clock));
    let both = async { tokio::join!(a.acquire(), b.acquire()) };
    assert!(
        tokio::time::timeout(seconds(10), both).await.is_err(),
        "only one acquires"
    );
    let holder = store.holder();
    assert!(holder == "a" || holder == "b");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_its_successor_starts() {
    let (store, clock, shutdown) = (LeaseStore::default(), clock(), CancellationToken::new());
    let server = store.server();
    let began = Instant::now();
    let first = elector(&server, "a", &clock).run(&shutdown, std::future::pending::<()>());
    let second = async {
        tokio::time::sleep(seconds(20)).await;
        store.cut_off("a");
        let mut second = elector(&server, "b", &clock);
        second.acquire().await;
        began.elapsed()
    };
    let first = async { (first.await, began.elapsed()) };
    let ((result, stopped), started) = tokio::join!(first, second);
    // OPS-050
    let error = result.expect_err("leadership is lost");
    assert!(matches!(error, LeaderError::Lost));
    assert_eq!(error.to_string(), "leader election lost");
    // OPS-048
    assert!(
        stopped <= seconds(31) && started > stopped,
        "stopped {stopped:?}, started {started:?}"
    );
}

/// How renewals without an answer end.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Unanswered {
    /// They are carried out.
    Stored,
    /// They are not.
    Dropped,
}

/// Lets a leader renew for 20 seconds, then leaves `count` of its writes without an answer. Gives how long it led at most until second 60.
async fn leads_for(count: usize, unanswered: Unanswered) -> Duration {
    let (store, clock) = (LeaseStore::default(), clock());
    let server = store.server();
    let began = Instant::now();
    let hung = Arc::new(Mutex::new(0));
    let inner = server.service();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let mut hung = hung.lock().expect("no panic holds it");
        let hangs = began.elapsed() >= seconds(20) && request.method() == "PUT" && *hung < count;
        *hung += usize::from(hangs);
        let mut inner = inner.clone();
        async move {
            if hangs && unanswered == Unanswered::Stored {
                let _ = tower::Service::call(&mut inner, request).await;
                return std::future::pending().await;
            }
            if hangs {
                return std::future::pending().await;
            }
            tower::Service::call(&mut inner, request).await
        }
    });
    let client = kerf_runtime::client::ApiLayers::new().client(service, "kube-system");
    let config = ElectionConfig::new("karpenter-leader-election", "kube-system", "a");
    let elector = Elector::new(client, config, clock, Seed(1).rng());
    let shutdown = CancellationToken::new();
    let leads = elector.run(&shutdown, std::future::pending::<()>());
    let _ = tokio::time::timeout(seconds(60), leads).await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_does_not_cost_the_lease() {
    for unanswered in [Unanswered::Stored, Unanswered::Dropped] {
        assert_eq!(leads_for(2, unanswered).await, seconds(60), "{unanswered:?}");
    }
    // OPS-050: renewals that are not stored end it within the renew deadline.
    let led = leads_for(usize::MAX, Unanswered::Dropped).await;
    assert!(led > seconds(20) && led <= seconds(31), "{led:?}");
    // Every renewal is stored, and reading shows it.
    assert_eq!(leads_for(usize::MAX, Unanswered::Stored).await, seconds(60));
}

/// Lets a candidate use an API server whose calls take so long. Gives how long it led until second 120, and how many calls it made.
async fn leads_with_calls_that_take(delay: Duration) -> (Duration, usize) {
    let (store, clock) = (LeaseStore::default(), clock());
    let server = store.server();
    let inner = server.service();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let mut inner = inner.clone();
        async move {
            // Half of the time goes by before the call is carried out, and the other half after it.
            tokio::time::sleep(delay / 2).await;
            let answer = tower::Service::call(&mut inner, request).await;
            tokio::time::sleep(delay / 2).await;
            answer
        }
    });
    let client = kerf_runtime::client::ApiLayers::new().client(service, "kube-system");
    let config = ElectionConfig::new("karpenter-leader-election", "kube-system", "a");
    let elector = Elector::new(client, config, clock, Seed(1).rng());
    let shutdown = CancellationToken::new();
    let (led, leading) = (Arc::new(Mutex::new(Duration::ZERO)), Instant::now());
    let noted = Arc::clone(&led);
    let lead = async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            *noted.lock().expect("no panic holds it") = leading.elapsed();
        }
    };
    let _ = tokio::time::timeout(seconds(120), elector.run(&shutdown, lead)).await;
    let led = *led.lock().expect("no panic holds it");
    (led, server.asked().len())
}

// OPS-050: an answer that comes late is an answer.
#[tokio::test(start_paused = true)]
async fn slow_answers_do_not_cost_the_lease() {
    for delay in [10, 1000, 2400, 3000, 4000, 5000, 6000] {
        let (led, calls) = leads_with_calls_that_take(Duration::from_millis(delay)).await;
        assert!(led >= seconds(119), "{delay} ms: led until {led:?}");
        assert!(calls <= 80, "{delay} ms: {calls} calls");
    }
    // A renewal that takes longer than the lease lasts cannot be waited for.
    let (led, _) = leads_with_calls_that_take(seconds(20)).await;
    assert!(led < seconds(70), "led until {led:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_candidate_never_leads() {
    let (store, clock, shutdown) = (LeaseStore::default(), clock(), CancellationToken::new());
    let server = store.server();
    elector(&server, "a", &clock).acquire().await;
    shutdown.cancel();
    let result = elector(&server, "b", &clock)
        .run(&shutdown, async { unreachable!("b never leads") })
        .await;
    assert!(matches!(result, Ok(None::<()>)));
    assert_eq!(store.holder(), "a");
}

#[tokio::test(start_paused = true)]
async fn the_first_late_answer_is_logged_as_information_and_the_second_as_an_error() {
    for (delay, is_error) in [(3000, false), (4900, false), (9000, true)] {
        let buffer = Buffer::default();
        let _guard = log_into(&buffer).on_this_thread();
        leads_with_calls_that_take(Duration::from_millis(delay)).await;
        assert_eq!(
            !errors(&buffer).is_empty(),
            is_error,
            "{delay} ms: {:?}",
            errors(&buffer)
        );
        let mut lines = buffer.lines().into_iter();
        let is_told = |line: Value| {
            let message = line["message"].as_str().unwrap_or_default();
            line["level"] == "INFO" && message.contains("lease had no answer within 2.5s")
        };
        assert!(lines.any(is_told), "{delay} ms");
    }
}

/// A log as controllers write it.
fn log_into(buffer: &Buffer) -> LogConfig {
    LogConfig {
        level: LogLevel::Info,
        sinks: Sinks::to(buffer.clone()),
        error_sinks: Sinks::to(std::io::sink()),
        commit: None,
        clock: clock(),
    }
}

/// The error lines of a log.
fn errors(buffer: &Buffer) -> Vec<Value> {
    let lines = buffer.lines().into_iter();
    lines.filter(|line| line["level"] == "ERROR").collect()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_written_is_logged_at_once_and_every_minute_and_fails_the_check() {
    const DENIED: &str = "leases.coordination.k8s.io is forbidden: cannot create in the namespace \"kube-system\"";
    let (store, clock, buffer) = (LeaseStore::default(), clock(), Buffer::default());
    let _guard = log_into(&buffer).on_this_thread();
    store.refuse_writes(Some((403, DENIED)));
    let access = LeaseAccess::default();
    let server = store.server();
    let mut elector = elector(&server, "a", &clock).access(&access);
    assert_eq!(access.check(), Ok(()));
    assert!(tokio::time::timeout(seconds(1), elector.acquire()).await.is_err());
    let said = errors(&buffer);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["error"], DENIED);
    assert_eq!(said[0]["namespace"], "kube-system");
    let cause = format!("lease karpenter-leader-election in namespace kube-system cannot be written: {DENIED}");
    assert_eq!(access.check(), Err(cause));
    assert!(tokio::time::timeout(seconds(299), elector.acquire()).await.is_err());
    let said = errors(&buffer).len();
    assert!((4..=5).contains(&said), "{said} lines in five minutes");
    // Another process leads: there is nothing this one has to write.
    store.refuse_writes(None);
    self::elector(&server, "b", &clock).acquire().await;
    assert!(tokio::time::timeout(seconds(4), elector.acquire()).await.is_err());
    assert_eq!(access.check(), Ok(()));
}
