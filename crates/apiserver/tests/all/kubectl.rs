//! Protobuf bodies as `kubectl` 1.32 sends them: `kubectl create …` and `kubectl auth …`, recorded in `kubectl_bodies.json`.

use base64::Engine as _;
use kube::client::Body;
use serde_json::Value;

use crate::support::Harness;

#[tokio::test(start_paused = true)]
async fn bodies_of_kubectl_create_and_auth_are_read() {
    let client = Harness::new().client();
    let recorded: Vec<Value> = serde_json::from_str(include_str!("kubectl_bodies.json")).unwrap();
    assert_eq!(recorded.len(), 17);
    for call in &recorded {
        let text = |field: &str| call[field].as_str().unwrap();
        let body = base64::engine::general_purpose::STANDARD.decode(text("body")).unwrap();
        let request = http::Request::post(format!(
            "{}?fieldManager=kubectl-create&fieldValidation=Strict",
            text("path")
        ))
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .header("accept", "application/vnd.kubernetes.protobuf,application/json")
        .body(Body::from(body))
        .unwrap();
        let (head, body) = client.send(request).await.unwrap().into_parts();
        let answer: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
        assert_eq!(head.status, 201, "{}: {answer}", text("command"));
        assert_eq!(head.headers["content-type"], "application/json");
        for (path, expected) in call["expect"].as_object().unwrap() {
            assert_eq!(
                answer.pointer(path),
                Some(expected),
                "{}: {path}: {answer}",
                text("command")
            );
        }
    }
}
