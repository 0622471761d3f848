//! One list of requests with their answers (`requests.json`), played against the embedded server and against a real one.
//!
//! The embedded server must give the recorded answers. The differential test plays the same requests against `kube-apiserver` and compares,
//! so that a recorded answer cannot be kinder than a real one. Values that differ between runs are normalised.
//!
//! `KERF_RECORD=1 cargo test -p kerf-apiserver recorded` writes the answers of the server under test into the file: of the real server when
//! the ignored test runs.

mod normalize;
mod real_server;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};

use crate::support::Harness;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/recorded/requests.json")
}

fn requests() -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(file()).unwrap()).unwrap()
}

fn text<'a>(step: &'a Value, field: &str) -> Option<&'a str> {
    step.get(field).and_then(Value::as_str)
}

/// Sends one request; returns the normalised answer: code, warnings, and body (the list of events of a watch).
async fn answer(client: &Client, step: &Value) -> Value {
    let (method, uri) = text(step, "request").unwrap().split_once(' ').unwrap();
    let body = step.get("body").map(Value::to_string).unwrap_or_default();
    let request = http::Request::builder()
        .method(method)
        .uri(uri)
        .header("accept", text(step, "accept").unwrap_or("application/json"))
        .header("content-type", text(step, "contentType").unwrap_or("application/json"))
        .header("user-agent", "recorded")
        .body(Body::from(Bytes::from(body)))
        .unwrap();
    let (head, body) = client.send(request).await.unwrap().into_parts();
    let bytes = body.collect_bytes().await.unwrap();
    let mut answer = Map::new();
    answer.insert("code".to_owned(), head.status.as_u16().into());
    let warnings: Vec<&str> = head
        .headers
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    if !warnings.is_empty() {
        answer.insert("warnings".to_owned(), json!(warnings));
    }
    let body = if uri.contains("watch=1") && head.status.is_success() {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice::<Value>(line).unwrap())
            .collect()
    } else {
        serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into())
    };
    answer.insert("body".to_owned(), normalize::normalize(body));
    Value::Object(answer)
}

/// Plays all requests in order. Returns what differs from the recorded answers, or records them when `KERF_RECORD` is set.
async fn differences(client: &Client) -> Vec<String> {
    let mut steps = requests();
    let mut differences = Vec::new();
    for step in &mut steps {
        let found = answer(client, step).await;
        let expected = step.get("answer").cloned().unwrap_or_default();
        let mut paths = Vec::new();
        normalize::compare("", &expected, &found, &mut paths);
        if !paths.is_empty() {
            let name = text(step, "name").unwrap();
            differences.push(format!("{name}:\n  {}", paths.join("\n  ")));
        }
        step["answer"] = found;
    }
    if std::env::var_os("KERF_RECORD").is_some() {
        let text = serde_json::to_string_pretty(&steps).unwrap();
        std::fs::write(file(), text + "\n").unwrap();
        return Vec::new();
    }
    differences
}

#[tokio::test(start_paused = true)]
async fn the_embedded_server_gives_the_recorded_answers() {
    let differences = differences(&Harness::new().client()).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn a_real_server_gives_the_recorded_answers() {
    let server = real_server::RealServer::start().await;
    let differences = differences(&server.client()).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
