//! The layers under the client: limits, retries, user agent, metrics.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::fake::{Answers, Reply, Server, failure, json_response, watch_response};
use bytes::Bytes;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kerf_runtime::client::{ApiErrorKind, ApiLayers, ReadOnlyError, Retry, read_only};
use kerf_runtime::{Clock, Metrics, Seed};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
}

fn api(server: &Server, layers: &ApiLayers) -> Api<ConfigMap> {
    Api::default_namespaced(layers.client(server.service(), "default"))
}

fn retrying() -> ApiLayers {
    ApiLayers::new().retry(Retry::new(Seed(1).rng()))
}

#[tokio::test(start_paused = true)]
async fn requests_are_limited_to_rate_and_burst() {
    // OPS-005, OPS-006
    let cases = [
        (10, 5, 15, 1.0),
        // OPS-031
        (0, 300, 20, 2.0),
        (-1, 5, 500, 0.0),
    ];
    for (qps, burst, requests, seconds) in cases {
        let server = Server::script(vec![(200, config_map())]);
        let api = api(&server, &ApiLayers::new().rate_limit(qps, burst));
        let began = Instant::now();
        for _ in 0..requests {
            api.get("a").await.expect("answers");
        }
        let took = began.elapsed().as_secs_f64();
        assert!((took - seconds).abs() < 0.05, "qps {qps}: {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_hears_what_time_the_server_says_it_is() {
    let clock = Clock::simulated("2026-01-01T12:00:00Z".parse().expect("a timestamp"));
    for (date, shows) in [
        ("not a date", "2026-01-01T12:00:00Z"),
        ("Sat, 03 Jan 2026 12:00:00 GMT", "2026-01-03T12:00:00Z"),
        ("Thu, 01 Jan 2026 12:00:29 GMT", "2026-01-01T12:00:00Z"),
    ] {
        let dated = move |mut response: http::Response<crate::fake::Reply>| {
            let date = http::HeaderValue::from_static(date);
            response.headers_mut().insert(http::header::DATE, date);
            response
        };
        // One of several servers may be wrong: so many answers have to agree.
        let answers = vec![(200, config_map()); 10];
        let service = Server::script(answers).service().map_response(dated);
        let client = ApiLayers::new().clock(&clock).client(service, "default");
        let maps = Api::<ConfigMap>::default_namespaced(client);
        for _ in 0..10 {
            maps.get("a").await.expect("answers");
        }
        assert_eq!(clock.now().to_string(), shows, "{date}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_user_agent_is_sent() {
    let server = Server::script(vec![(200, config_map())]);
    api(&server, &ApiLayers::new().user_agent("karpenter/1.14.1"))
        .get("a")
        .await
        .expect("answers");
    // OPS-054
    assert_eq!(server.asked()[0].user_agent, "karpenter/1.14.1");
}

#[tokio::test(start_paused = true)]
async fn the_election_has_no_limit_in_common_with_others() {
    let server = Server::script(vec![(200, config_map())]);
    let main = ApiLayers::new().user_agent("karpenter/1.14.1").rate_limit(1, 1);
    let (main_api, election) = (api(&server, &main), api(&server, &main.for_election()));
    let began = Instant::now();
    let busy = async {
        for _ in 0..5 {
            main_api.get("a").await.expect("answers");
        }
    };
    let renew = async {
        for _ in 0..20 {
            election.get("a").await.expect("answers");
        }
        began.elapsed()
    };
    let ((), took) = tokio::join!(busy, renew);
    // OPS-049, OPS-255
    assert_eq!(took, Duration::ZERO);
    // OPS-048
    assert!(
        server
            .asked()
            .iter()
            .any(|asked| asked.user_agent == "karpenter/1.14.1/leader-election")
    );
}

#[tokio::test(start_paused = true)]
async fn reads_and_idempotent_writes_outlive_a_short_outage() {
    let outage = || {
        vec![
            (503, failure(503, "ServiceUnavailable")),
            (502, failure(502, "")),
            (200, config_map()),
        ]
    };
    let layers = retrying();
    let server = Server::script(outage());
    api(&server, &layers).get("a").await.expect("a read is repeated");
    let server = Server::script(outage());
    let patch = Patch::Merge(json!({"data": {}}));
    api(&server, &layers)
        .patch("a", &PatchParams::default(), &patch)
        .await
        .expect("a merge patch is repeated");
    assert_eq!(
        server.asked()[2].body,
        Some(json!({"data": {}})),
        "the body is sent again"
    );
    let server = Server::script(outage());
    api(&server, &layers)
        .delete("a", &DeleteParams::default())
        .await
        .expect("a delete is repeated");

    let server = Server::script(outage());
    let create = api(&server, &layers)
        .create(&PostParams::default(), &ConfigMap::default())
        .await;
    let error = create.expect_err("a create may have happened");
    assert_eq!(
        (ApiErrorKind::of(&error), server.asked().len()),
        (ApiErrorKind::Retryable, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_lasting_outage_is_reported_after_a_few_attempts() {
    let server = Server::script(vec![(503, failure(503, "ServiceUnavailable"))]);
    let error = api(&server, &retrying()).get("a").await.expect_err("the outage lasts");
    assert_eq!(
        (ApiErrorKind::of(&error), server.asked().len()),
        (ApiErrorKind::Retryable, 4)
    );
    let server = Server::script(vec![(500, failure(500, "InternalError"))]);
    api(&server, &retrying())
        .get("a")
        .await
        .expect_err("an answer, not an outage");
    assert_eq!(server.asked().len(), 1);
}

/// The answers of a server, each so much later: `delay` takes the number of the call, and `None` is for ever.
fn delayed(server: &Server, delay: impl Fn(usize) -> Option<Duration> + Clone + Send + 'static) -> Answers {
    let (service, calls) = (server.service(), Arc::new(AtomicUsize::new(0)));
    let answer = move |request: Request<Body>| {
        let answer = service.clone().oneshot(request);
        let delay = delay(calls.fetch_add(1, Ordering::Relaxed));
        async move {
            let answer = answer.await;
            match delay {
                Some(delay) => tokio::time::sleep(delay).await,
                None => std::future::pending().await,
            }
            answer
        }
    };
    Answers::new(tower::service_fn(answer))
}

/// No answer to the first calls.
fn unanswered_at_first(calls: usize) -> impl Fn(usize) -> Option<Duration> + Clone + Send + 'static {
    move |call| (call >= calls).then_some(Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_and_is_repeated_where_that_is_safe() {
    let patch = Patch::Merge(json!({"data": {}}));
    let server = Server::script(vec![(200, config_map())]);
    let client = retrying().client(delayed(&server, unanswered_at_first(2)), "default");
    let began = Instant::now();
    Api::<ConfigMap>::default_namespaced(client)
        .patch("a", &PatchParams::default(), &patch)
        .await
        .expect("the third attempt is answered");
    assert_eq!(server.asked().len(), 3);
    let took = began.elapsed();
    assert!(
        (60..62).contains(&took.as_secs()),
        "30 s for each attempt without an answer: {took:?}"
    );

    let server = Server::script(vec![(201, config_map())]);
    let client = retrying().client(delayed(&server, unanswered_at_first(1)), "default");
    let error = Api::<ConfigMap>::default_namespaced(client)
        .create(&PostParams::default(), &ConfigMap::default())
        .await
        .expect_err("it may have happened");
    assert_eq!(
        (ApiErrorKind::of(&error), server.asked().len()),
        (ApiErrorKind::Retryable, 1)
    );
    assert!(
        error.to_string().contains("no answer from the API server within 30 s"),
        "{error}"
    );
}

/// An answer whose parts come one by one, each after a time; it ends only after the last one of a complete answer.
fn in_parts(parts: Vec<(Duration, &str)>, ends: bool) -> Response<Reply> {
    let parts: Vec<_> = parts.into_iter().map(|(wait, part)| (wait, part.to_owned())).collect();
    let frames = stream::iter(parts).then(|(wait, part)| async move {
        tokio::time::sleep(wait).await;
        Ok::<_, Infallible>(Frame::data(Bytes::from(part)))
    });
    let end = stream::once(async move {
        if !ends {
            std::future::pending::<()>().await;
        }
        Ok(Frame::data(Bytes::new()))
    });
    Response::new(StreamBody::new(frames.chain(end)).boxed_unsync())
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_in_the_middle_fails_and_a_slow_one_is_read_to_its_end() {
    let (soon, late) = (Duration::ZERO, Duration::from_secs(25));
    let half = Server::new(move |_| in_parts(vec![(soon, r#"{"apiVersion": "v1", "#)], false));
    let began = Instant::now();
    let error = api(&half, &retrying()).get("a").await.expect_err("half an answer");
    assert_eq!(ApiErrorKind::of(&error), ApiErrorKind::Retryable, "{error}");
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    let text = "the API server stopped in the middle of an answer, no more came within 30 s";
    assert!(error.to_string().contains(text), "{error}");

    let parts = vec![
        (late, r#"{"apiVersion": "v1", "kind": "ConfigMap", "#),
        (late, r#""metadata": {"name": "#),
        (late, r#""a"}}"#),
    ];
    let slow = Server::new(move |_| in_parts(parts.clone(), true));
    let map = api(&slow, &retrying()).get("a").await.expect("it goes on");
    assert_eq!(map.metadata.name.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_deliver_nothing_for_hours() {
    let event = json!({"type": "ADDED", "object": config_map()});
    let senders = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&senders);
    let server = Server::new(move |_| {
        let (response, sender) = watch_response(&[]);
        kept.lock().expect("no test panics inside").push(sender);
        response
    });
    // Its head may come late, too: it waits for the API server's own cache.
    let service = delayed(&server, |_| Some(Duration::from_secs(45)));
    let client = retrying().client(service, "default");
    for query in ["watch=true", "watch=true&sendInitialEvents=true"] {
        let request = Request::get(format!("/api/v1/configmaps?{query}")).body(Vec::new());
        let lines = client
            .request_stream(request.expect("a request"))
            .await
            .expect("it begins");
        let next = tokio::spawn(async move { lines.lines().try_next().await });
        tokio::time::sleep(Duration::from_secs(7200)).await;
        let sender = senders.lock().expect("no test panics inside").pop().expect("a watch");
        sender.unbounded_send(event.clone()).expect("still open");
        let line = next.await.expect("no panic").expect("no error").expect("an event");
        assert!(line.contains("ADDED"), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn throttling_is_honoured_up_to_ten_attempts() {
    let server = Server::new(|_| {
        let mut response = json_response(429, &failure(429, "TooManyRequests"));
        response
            .headers_mut()
            .insert("retry-after", http::HeaderValue::from_static("3"));
        response
    });
    let create = api(&server, &retrying())
        .create(&PostParams::default(), &ConfigMap::default())
        .await;
    assert_eq!(
        ApiErrorKind::of(&create.expect_err("refused")),
        ApiErrorKind::TooManyRequests
    );
    let asked = server.asked();
    // OPS-107
    assert_eq!(asked.len(), 10);
    assert!(
        asked
            .windows(2)
            .all(|pair| pair[1].at - pair[0].at >= Duration::from_secs(3))
    );
}

/// The pauses between the attempts of a GET that always meets this answer.
async fn pauses(seed: u64, answer: impl Fn() -> Response<Reply> + Send + 'static) -> Vec<f64> {
    let server = Server::new(move |_| answer());
    let layers = ApiLayers::new().retry(Retry::new(Seed(seed).rng()));
    api(&server, &layers).get("a").await.expect_err("it never succeeds");
    let asked = server.asked();
    let pauses = asked.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64());
    pauses.collect()
}

#[tokio::test(start_paused = true)]
async fn pauses_between_attempts_grow_and_differ_between_processes() {
    let outage = || json_response(503, &failure(503, "ServiceUnavailable"));
    let throttled = || {
        let mut response = json_response(429, &failure(429, "TooManyRequests"));
        let seconds = http::HeaderValue::from_static("10");
        response.headers_mut().insert("retry-after", seconds);
        response
    };
    let distinct = |pauses: &[Vec<f64>]| {
        let firsts = pauses.iter().map(|pauses| (pauses[0] * 1000.0).round() as u64);
        firsts.collect::<std::collections::BTreeSet<_>>().len()
    };
    let (mut outages, mut refusals) = (Vec::new(), Vec::new());
    for seed in 0..20 {
        outages.push(pauses(seed, outage).await);
        refusals.push(pauses(seed, throttled).await);
    }
    for pauses in &outages {
        let shares: Vec<f64> = pauses.iter().zip([0.1, 0.2, 0.4]).map(|(is, mean)| is / mean).collect();
        assert!(
            shares.len() == 3 && shares.iter().all(|share| (0.99..1.22).contains(share)),
            "{pauses:?}"
        );
    }
    assert!(
        distinct(&outages) >= 10,
        "clients do not come back together: {outages:?}"
    );
    let asked_for = |pause: &f64| (10.0..11.01).contains(pause);
    assert!(
        refusals.iter().flatten().all(asked_for),
        "never before the server's time: {refusals:?}"
    );
    assert!(distinct(&refusals) >= 10, "{refusals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_eviction_is_an_answer() {
    let server = Server::new(|_| {
        let mut response = json_response(429, &failure(429, "TooManyRequests"));
        response
            .headers_mut()
            .insert("retry-after", http::HeaderValue::from_static("10"));
        response
    });
    let pods: Api<Pod> = Api::default_namespaced(retrying().client(server.service(), "default"));
    let error = pods
        .evict("p", &EvictParams::default())
        .await
        .expect_err("a budget forbids it");
    // OPS-107
    assert_eq!(
        (ApiErrorKind::of(&error), server.asked().len()),
        (ApiErrorKind::TooManyRequests, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_and_timed() {
    let metrics = Metrics::default();
    let server = Server::script(vec![(200, config_map()), (404, failure(404, "NotFound"))]);
    let api = api(&server, &ApiLayers::new().metrics(&metrics));
    api.get("a").await.expect("answers");
    api.delete("a", &DeleteParams::default()).await.expect_err("gone");
    let text = metrics.encode();
    // OPS-178
    for line in [
        "client_go_request_total{code=\"200\",method=\"GET\"} 1",
        "client_go_request_total{code=\"404\",method=\"DELETE\"} 1",
        "client_go_request_duration_seconds_count{group=\"\",kind=\"configmaps\",subresource=\"\",verb=\"GET\",version=\"v1\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} not in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_only_client_sends_no_request_that_writes() {
    let server = Server::script(vec![(200, config_map())]);
    let client = read_only(ApiLayers::new().client(server.service(), "default"));
    let api = Api::<ConfigMap>::default_namespaced(client.clone());
    let object: ConfigMap = serde_json::from_value(config_map()).expect("a ConfigMap");
    let post = PostParams::default();
    let patch = Patch::Merge(json!({"data": {"key": "value"}}));
    let errors = [
        api.create(&post, &object).await.expect_err("create"),
        api.replace("a", &post, &object).await.expect_err("update"),
        api.patch("a", &PatchParams::default(), &patch)
            .await
            .expect_err("patch"),
        api.delete("a", &DeleteParams::default())
            .await
            .map(drop)
            .expect_err("delete"),
        api.delete_collection(&DeleteParams::default(), &kube::api::ListParams::default())
            .await
            .map(drop)
            .expect_err("delete all"),
        Api::<Pod>::default_namespaced(client.clone())
            .evict("a", &EvictParams::default())
            .await
            .map(drop)
            .expect_err("evict"),
    ];
    for error in errors {
        let kube::Error::Service(error) = error else {
            panic!("{error:?}")
        };
        assert!(error.is::<ReadOnlyError>(), "{error}");
    }
    // A shell in a pod begins with a GET.
    let exec = http::Request::get("/api/v1/namespaces/default/pods/a/exec?command=sh").body(Vec::new());
    let exec = client.request_text(exec.expect("a request")).await.expect_err("exec");
    let refused = "this client only reads, so GET /api/v1/namespaces/default/pods/a/exec is not sent";
    assert!(exec.to_string().contains(refused), "{exec}");
    assert!(server.asked().is_empty(), "nothing was sent");
    api.get("a").await.expect("reads");
    api.get_opt("a").await.expect("reads");
    assert_eq!(server.asked().len(), 2);
}
