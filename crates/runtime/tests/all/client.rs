//! The layers under the client: limits, retries, user agent, metrics.

use std::time::Duration;

use crate::fake::{Server, failure, json_response};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kerf_runtime::client::{ApiErrorKind, ApiLayers, ReadOnlyError, Retry, read_only};
use kerf_runtime::{Clock, Metrics, Seed};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
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
