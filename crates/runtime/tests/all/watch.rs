//! The watch against a server that behaves, misbehaves and goes away.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fake::{Asked, Reply, Server, failure, json_response, watch_line, watch_response};
use bytes::Bytes;
use futures::channel::mpsc::UnboundedSender;
use http::Response;
use http_body_util::{BodyExt, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use kerf_runtime::watch::{Callback, WatchError, WatchEvent, WatchOptions, watch};
use kerf_runtime::{CancellationToken, Seed, Unreadable};
use kube::ResourceExt;
use serde_json::{Value, json};

fn object(name: &str, version: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()}})
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn bookmark(version: u32) -> Value {
    event(
        "BOOKMARK",
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"resourceVersion": version.to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"}}}),
    )
}

fn list(names: &[&str], version: u32) -> Response<Reply> {
    let items: Vec<Value> = names.iter().map(|name| object(name, version)).collect();
    json_response(
        200,
        &json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": version.to_string()},
            "items": items}),
    )
}

fn is_streaming_start(asked: &Asked) -> bool {
    asked.path.contains("sendInitialEvents=true")
}

fn is_watch(asked: &Asked) -> bool {
    asked.path.contains("watch=true")
}

/// A list of which only the first page came; `token` continues it.
fn page(names: &[&str], version: u32, token: &str) -> Response<Reply> {
    let items: Vec<Value> = names.iter().map(|name| object(name, version)).collect();
    let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items});
    json_response(200, &list)
}

/// An answer of which only this much came before the connection ended.
fn cut(text: &str) -> Response<Reply> {
    Response::new(Full::new(Bytes::from(text.to_owned())).boxed_unsync())
}

fn paging() -> WatchOptions {
    WatchOptions {
        streaming: false,
        ..quiet()
    }
}

/// Runs a watch for `seconds` of virtual time and returns what it delivered, in short form.
async fn deliveries(server: &Server, options: WatchOptions, seconds: u64) -> (Vec<String>, Result<(), WatchError>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let seen = seen.clone();
        Callback(move |event: WatchEvent<ConfigMap>| {
            let text = match event {
                WatchEvent::InitStart => "start".to_owned(),
                WatchEvent::Init(object) => format!("init {}", object.name_any()),
                WatchEvent::InitDone => "done".to_owned(),
                WatchEvent::Apply(object) => format!("apply {}", object.name_any()),
                WatchEvent::Delete(object) => format!("delete {}", object.name_any()),
                WatchEvent::Malformed(unreadable) => {
                    let Unreadable { metadata, .. } = &*unreadable;
                    let text = |field: &Option<String>| field.clone().unwrap_or_else(|| "-".to_owned());
                    format!("malformed {}/{}", text(&metadata.namespace), text(&metadata.name))
                }
            };
            seen.lock().expect("no panic holds it").push(text);
        })
    };
    let shutdown = CancellationToken::new();
    let run = watch(server.client(), options, Seed(1).rng(), sink, shutdown.clone());
    let stop = async {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        shutdown.cancel();
    };
    let (result, ()) = tokio::join!(run, stop);
    let seen = seen.lock().expect("no panic holds it").clone();
    (seen, result)
}

fn quiet() -> WatchOptions {
    WatchOptions {
        relist: None,
        ..WatchOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_followed() {
    let mut open: Vec<UnboundedSender<Value>> = Vec::new();
    let server = Server::new(move |asked| {
        assert!(is_watch(asked), "no list is needed: {}", asked.path);
        let (response, sender) = watch_response(&[
            event("ADDED", &object("a", 1)),
            event("ADDED", &object("b", 2)),
            bookmark(2),
            event("MODIFIED", &object("a", 3)),
            event("DELETED", &object("b", 4)),
        ]);
        open.push(sender);
        response
    });
    let (seen, result) = deliveries(&server, quiet(), 5).await;
    assert_eq!(seen, ["start", "init a", "init b", "done", "apply a", "delete b"]);
    assert!(result.is_ok());
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streamed_lists_is_listed() {
    let mut open = Vec::new();
    let server = Server::new(move |asked| {
        if is_streaming_start(asked) {
            return json_response(422, &failure(422, "Invalid"));
        }
        if is_watch(asked) {
            let (response, sender) = watch_response(&[event("ADDED", &object("b", 8))]);
            open.push(sender);
            return response;
        }
        list(&["a"], 7)
    });
    let (seen, _) = deliveries(&server, quiet(), 1).await;
    assert_eq!(
        seen,
        ["start", "init a", "done", "apply b"],
        "at once, without a back-off"
    );
    assert_eq!(
        server.asked().iter().filter(|asked| is_streaming_start(asked)).count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_streaming_parameters_is_listed() {
    let mut open = Vec::new();
    let server = Server::new(move |asked| {
        if is_watch(asked) {
            // Old servers take the unknown parameter and never send the closing bookmark.
            let (response, sender) = watch_response(&[]);
            open.push(sender);
            return response;
        }
        list(&["a"], 7)
    });
    let (seen, _) = deliveries(&server, quiet(), 40).await;
    assert_eq!(seen, ["start", "start", "init a", "done"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_whose_end_is_lost_is_listed() {
    let open = Arc::new(Mutex::new(Vec::<UnboundedSender<Value>>::new()));
    let senders = Arc::clone(&open);
    let server = Server::new(move |asked| {
        if is_watch(asked) {
            let (response, sender) = watch_response(&[event("ADDED", &object("a", 1))]);
            senders.lock().expect("no panic").push(sender);
            return response;
        }
        list(&["a"], 7)
    });
    let busy = async {
        for version in 2_u32.. {
            tokio::time::sleep(Duration::from_secs(10)).await;
            for sender in &*open.lock().expect("no panic") {
                // Nobody may listen any more.
                let _ = sender.unbounded_send(event("MODIFIED", &object("a", version)));
            }
        }
    };
    let options = WatchOptions {
        first_sync: None,
        ..quiet()
    };
    let (seen, _) = tokio::select! {
        seen = deliveries(&server, options, 90) => seen,
        () = busy => return,
    };
    let done = seen.iter().position(|event| event == "done").expect("a complete set");
    assert!(seen[done..].iter().any(|event| event == "apply a"), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_leads_to_a_new_set() {
    let mut open = Vec::new();
    let mut starts = 0;
    let server = Server::new(move |asked| {
        if is_streaming_start(asked) {
            starts += 1;
            let name = if starts == 1 { "old" } else { "new" };
            let mut lines = vec![event("ADDED", &object(name, starts)), bookmark(starts)];
            if starts == 1 {
                lines.push(event("ERROR", &failure(410, "Expired")));
            }
            let (response, sender) = watch_response(&lines);
            open.push(sender);
            return response;
        }
        json_response(500, &failure(500, "InternalError"))
    });
    let (seen, _) = deliveries(&server, quiet(), 1).await;
    assert_eq!(seen, ["start", "init old", "done", "start", "init new", "done"]);
}

#[tokio::test(start_paused = true)]
async fn sets_that_cannot_be_followed_are_asked_for_less_and_less() {
    let starts = Arc::new(Mutex::new(0));
    let count = Arc::clone(&starts);
    let mut open = Vec::new();
    let server = Server::new(move |_| {
        *count.lock().expect("no panic holds it") += 1;
        let gone = event("ERROR", &failure(410, "Expired"));
        let (response, sender) = watch_response(&[event("ADDED", &object("a", 1)), bookmark(1), gone]);
        open.push(sender);
        response
    });
    let (seen, result) = deliveries(&server, quiet(), 600).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(seen[..3], ["start", "init a", "done"]);
    let starts = *starts.lock().expect("no panic holds it");
    assert!((15..=30).contains(&starts), "{starts} starts in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_is_resumed_without_a_new_set() {
    let mut open = Vec::new();
    let mut resumed = 0;
    let server = Server::new(move |asked| {
        if is_streaming_start(asked) {
            // The sender is dropped here, so the connection ends after the bookmark.
            return watch_response(&[event("ADDED", &object("a", 1)), bookmark(5)]).0;
        }
        resumed += 1;
        if resumed < 4 {
            return json_response(503, &failure(503, "ServiceUnavailable"));
        }
        assert!(asked.path.contains("resourceVersion=5"), "{}", asked.path);
        let (response, sender) = watch_response(&[event("MODIFIED", &object("a", 6))]);
        open.push(sender);
        response
    });
    let (seen, _) = deliveries(&server, quiet(), 30).await;
    assert_eq!(seen, ["start", "init a", "done", "apply a"]);
    let times: Vec<_> = server.asked().iter().map(|asked| asked.at).collect();
    let waits: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    assert!(
        waits[1] >= 0.8 && waits[2] >= 1.6 && waits[3] >= 3.2,
        "failures back off: {waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn half_a_list_is_no_list() {
    let (mut open, mut lists) = (Vec::new(), 0);
    let server = Server::new(move |asked| {
        if is_watch(asked) {
            let (response, sender) = watch_response(&[]);
            open.push(sender);
            return response;
        }
        lists += 1;
        match lists {
            1 => cut(
                r#"{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"#,
            ),
            _ => list(&["a", "b"], 7),
        }
    });
    let (seen, result) = deliveries(&server, paging(), 30).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(
        seen,
        ["start", "start", "init a", "init b", "done"],
        "nothing of the half"
    );
    let asked = server.asked();
    assert!(
        asked[1].at - asked[0].at >= Duration::from_millis(400),
        "it is asked again after a pause"
    );
}

#[tokio::test(start_paused = true)]
async fn half_an_event_is_taken_again_in_full() {
    let mut open = Vec::new();
    let server = Server::new(move |asked| {
        if is_streaming_start(asked) {
            let lines = [
                event("ADDED", &object("a", 1)),
                bookmark(5),
                event("MODIFIED", &object("a", 6)),
            ];
            let text: String = lines.iter().map(watch_line).collect();
            return cut(&text[..text.len() - 40]);
        }
        assert!(asked.path.contains("resourceVersion=5"), "{}", asked.path);
        let (response, sender) = watch_response(&[event("MODIFIED", &object("a", 6))]);
        open.push(sender);
        response
    });
    let (seen, result) = deliveries(&server, quiet(), 30).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(seen, ["start", "init a", "done", "apply a"]);
}

#[tokio::test(start_paused = true)]
async fn pages_are_one_set_and_a_token_that_is_gone_begins_it_anew() {
    let (mut open, mut firsts) = (Vec::new(), 0);
    let server = Server::new(move |asked| {
        if is_watch(asked) {
            assert!(asked.path.contains("resourceVersion=9"), "{}", asked.path);
            let (response, sender) = watch_response(&[event("ADDED", &object("d", 10))]);
            open.push(sender);
            return response;
        }
        assert!(asked.path.contains("limit=500"), "{}", asked.path);
        if asked.path.contains("continue=old") {
            return json_response(410, &failure(410, "Expired"));
        }
        if asked.path.contains("continue=new") {
            return list(&["c"], 9);
        }
        firsts += 1;
        match firsts {
            1 => page(&["a", "gone"], 7, "old"),
            _ => page(&["a", "b"], 9, "new"),
        }
    });
    let (seen, result) = deliveries(&server, paging(), 30).await;
    assert!(result.is_ok(), "{result:?}");
    let again = ["start", "init a", "init b", "init c", "done", "apply d"];
    let begin = seen.len() - again.len();
    assert_eq!(seen[begin..], again, "{seen:?}");
    assert!(
        seen[..begin].iter().all(|text| text != "done"),
        "no half set is whole: {seen:?}"
    );
    let asked = server.asked();
    assert_eq!(
        asked[2].at, asked[1].at,
        "an expired token is ordinary, and asked anew at once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_is_reported_and_the_rest_goes_on() {
    let mut open = Vec::new();
    let server = Server::new(move |_| {
        let mut bad = object("bad", 2);
        bad["data"] = json!("not a map");
        let (response, sender) = watch_response(&[
            event("ADDED", &bad),
            event("ADDED", &object("good", 3)),
            bookmark(3),
            event("MODIFIED", &bad),
            event("MODIFIED", &object("good", 4)),
        ]);
        open.push(sender);
        response
    });
    let (seen, _) = deliveries(&server, quiet(), 1).await;
    assert_eq!(
        seen,
        [
            "start",
            "malformed default/bad",
            "init good",
            "done",
            "malformed default/bad",
            "apply good"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lies_heals_with_the_next_list() {
    let mut open = Vec::new();
    let mut starts = 0;
    let server = Server::new(move |_| {
        starts += 1;
        // The second list shows an object whose event was never delivered.
        let mut lines = vec![event("ADDED", &object("a", 1))];
        if starts > 1 {
            lines.push(event("ADDED", &object("lost", 1)));
        }
        lines.push(bookmark(2));
        let (response, sender) = watch_response(&lines);
        open.push(sender);
        response
    });
    let options = WatchOptions {
        relist: Some(Duration::from_secs(60)),
        ..WatchOptions::default()
    };
    let (seen, _) = deliveries(&server, options, 100).await;
    assert_eq!(
        seen,
        ["start", "init a", "done", "start", "init a", "init lost", "done"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_in_two_minutes_is_an_error() {
    // OPS-058
    let server = Server::script(vec![(404, failure(404, "NotFound"))]);
    let (seen, result) = deliveries(&server, quiet(), 600).await;
    assert_eq!(seen, Vec::<String>::new());
    let error = result.expect_err("the watch gives up").to_string();
    assert!(error.contains("ConfigMap") && error.contains("120 s"), "{error}");
    assert!(error.contains("kerf crds | kubectl apply"), "{error}");
    let asked = server.asked();
    let span = asked.last().expect("asked").at - asked[0].at;
    assert!(
        span <= Duration::from_secs(120) && asked.len() < 20,
        "{span:?}, {} requests",
        asked.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_kind_if_it_is_to() {
    let ends = "ConfigMap is unknown to the API server, its CRD seems to be deleted";
    for (until_absent, answers, expected) in [
        (true, &[404, 404, 404][..], Err((ends, 4))),
        (true, &[404, 404, 500, 404, 404, 404], Err((ends, 7))),
        (false, &[404; 5], Ok(())),
    ] {
        let mut left = answers.iter().copied();
        let server = Server::new(move |asked| {
            if is_streaming_start(asked) {
                return watch_response(&[event("ADDED", &object("a", 1)), bookmark(5)]).0;
            }
            let code = left.next().unwrap_or(404);
            json_response(
                code,
                &failure(code, if code == 404 { "NotFound" } else { "InternalError" }),
            )
        });
        let options = WatchOptions {
            until_absent,
            ..quiet()
        };
        let (seen, result) = deliveries(&server, options, 600).await;
        assert_eq!(seen, ["start", "init a", "done"]);
        let result = result.map_err(|error| (error.to_string(), server.asked().len()));
        assert_eq!(result, expected.map_err(|(text, asked)| (text.to_owned(), asked)));
    }
}
