//! The Events as they are written to the API.

use std::time::Duration;

use crate::fake::{Server, failure, json_response};
use kerf_runtime::events::write_events;
use kerf_runtime::{CancellationToken, Clock, Event, EventType, ObjectRef, Recorder, Seed};
use serde_json::json;

fn event(kind: &str, namespace: &str, message: &str) -> Event {
    Event {
        object: ObjectRef {
            api_version: "v1".into(),
            kind: kind.into(),
            namespace: (!namespace.is_empty()).then(|| namespace.into()),
            name: "web".into(),
            uid: "u-1".into(),
        },
        kind: EventType::Warning,
        reason: "FailedScheduling".into(),
        message: message.into(),
        dedupe: Vec::new(),
        dedupe_timeout: None,
    }
}

/// Publishes with ten seconds between and returns what the server was asked.
async fn written(server: &Server, events: Vec<Event>) -> Vec<crate::fake::Asked> {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().expect("a timestamp"));
    let (recorder, receiver) = Recorder::new();
    let shutdown = CancellationToken::new();
    let write = write_events(server.client(), receiver, clock, Seed(1).rng(), shutdown.clone());
    let publish = async move {
        for event in events {
            recorder.publish(event);
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    };
    tokio::join!(write, publish);
    server.asked()
}

#[tokio::test(start_paused = true)]
async fn an_event_is_a_core_event_by_karpenter() {
    let server = Server::new(|asked| json_response(201, asked.body.as_ref().expect("a body")));
    let asked = written(
        &server,
        vec![event("Pod", "shop", "no room"), event("Node", "", "no room")],
    )
    .await;
    let body = asked[0].body.clone().expect("a body");
    // OPS-181
    assert!(
        asked[0].path.starts_with("/api/v1/namespaces/shop/events"),
        "{}",
        asked[0].path
    );
    assert_eq!(body["source"], json!({"component": "karpenter"}));
    assert_eq!(body["reportingComponent"], "karpenter");
    // OPS-181
    assert!(
        asked[1].path.starts_with("/api/v1/namespaces/default/events"),
        "{}",
        asked[1].path
    );
    assert_eq!(
        body["involvedObject"],
        json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "shop", "uid": "u-1"})
    );
    assert_eq!(
        (&body["type"], &body["reason"]),
        (&json!("Warning"), &json!("FailedScheduling"))
    );
    assert_eq!(
        (&body["count"], &body["firstTimestamp"]),
        (&json!(1), &json!("2026-01-01T00:00:00Z"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_repetition_is_counted_on_the_first() {
    let server = Server::new(|asked| json_response(200, asked.body.as_ref().unwrap_or(&json!({}))));
    let same = event("Pod", "shop", "no room");
    let asked = written(
        &server,
        vec![same.clone(), same.clone(), event("Pod", "shop", "other"), same],
    )
    .await;
    let methods: Vec<&str> = asked.iter().map(|asked| asked.method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "PATCH"]);
    let name = asked[0].body.as_ref().expect("a body")["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    assert!(asked[1].path.contains(&name), "{}", asked[1].path);
    assert_eq!(
        asked[1].body,
        Some(json!({"count": 2, "lastTimestamp": "2026-01-01T00:00:10Z"}))
    );
    assert_eq!(asked[3].body.as_ref().expect("a body")["count"], 3);
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_is_made_anew_and_a_refused_one_is_dropped() {
    let server = Server::new(|asked| match asked.method.as_str() {
        "PATCH" => json_response(404, &failure(404, "NotFound")),
        _ if asked.path.contains("/closing/") => json_response(403, &failure(403, "Forbidden")),
        _ => json_response(201, asked.body.as_ref().expect("a body")),
    });
    let same = event("Pod", "shop", "no room");
    let asked = written(&server, vec![same.clone(), same, event("Pod", "closing", "x")]).await;
    let methods: Vec<&str> = asked.iter().map(|asked| asked.method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "POST"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_server_is_tried_again() {
    let mut calls = 0;
    let server = Server::new(move |asked| {
        calls += 1;
        if calls < 3 {
            return json_response(500, &failure(500, "InternalError"));
        }
        json_response(201, asked.body.as_ref().expect("a body"))
    });
    assert_eq!(written(&server, vec![event("Pod", "shop", "no room")]).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_one_cause_is_one_call_in_two_minutes() {
    let server = Server::new(|asked| json_response(200, asked.body.as_ref().unwrap_or(&json!({}))));
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().expect("a timestamp"));
    let (recorder, receiver) = Recorder::new();
    let write = write_events(
        server.client(),
        receiver,
        clock,
        Seed(1).rng(),
        CancellationToken::new(),
    );
    let cause = Event {
        dedupe: vec!["u-1".to_owned()],
        ..event("Pod", "shop", "no room")
    };
    let storm = async move {
        for _ in 0..250 {
            for _ in 0..40 {
                recorder.publish(cause.clone());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::join!(write, storm);
    let methods: Vec<String> = server.asked().into_iter().map(|asked| asked.method).collect();
    // OPS-182: 10,000 times in 250 seconds.
    assert_eq!(methods, ["POST", "PATCH", "PATCH"]);
}
