//! One list of requests with the answers of a real server (`requests.json`), played against the embedded server and against a real one.
//!
//! The embedded server must give the recorded answers, so that it is not kinder than a real one. Where it is known to differ, the request
//! lists the paths in its answer (`differs`). Values that differ between runs are normalised.
//!
//! `KERF_RECORD=1 KUBEBUILDER_ASSETS=<folder> cargo test -p kerf-apiserver recorded -- --ignored` records the answers of the real server;
//! without `--ignored` it records the paths at which the embedded one differs.

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

/// Whose answers are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Real,
    Embedded,
}

/// Plays all requests in order and returns what is not as recorded. The embedded server has to differ from the recorded answer at the
/// paths in `differs`, and nowhere else. With `KERF_RECORD`, the real server's answers, or the paths at which the embedded one differs,
/// are written into the file.
async fn differences(client: &Client, server: Server) -> Vec<String> {
    let mut steps = requests();
    let mut differences = Vec::new();
    for step in &mut steps {
        let found = answer(client, step).await;
        let expected = step.get("answer").cloned().unwrap_or_default();
        let mut differing = normalize::Differences::new();
        normalize::compare("", &expected, &found, &mut differing);
        let name = text(step, "name").unwrap().to_owned();
        let known = step
            .get("differs")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let known: Vec<&str> = known.iter().filter_map(Value::as_str).collect();
        let known = if server == Server::Embedded { known } else { Vec::new() };
        for (path, difference) in differing.iter().filter(|(path, _)| !known.contains(&path.as_str())) {
            differences.push(format!("{name}: {path}: {difference}"));
        }
        for path in known.iter().filter(|path| !differing.contains_key(**path)) {
            differences.push(format!("{name}: {path}: does not differ any more"));
        }
        match server {
            Server::Real => step["answer"] = found,
            Server::Embedded if differing.is_empty() => drop(step.as_object_mut().unwrap().remove("differs")),
            Server::Embedded => step["differs"] = differing.into_keys().collect(),
        }
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
    let differences = differences(&Harness::new().client(), Server::Embedded).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_server_gives_the_recorded_answers() {
    let server = real_server::RealServer::start().await;
    let differences = differences(&server.client(), Server::Real).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
