//! Deletions reach the object that was read, and no other of the same name.

use crate::fake::{Asked, Server, failure, json_response};
use k8s_openapi::api::core::v1::ConfigMap;
use kerf_runtime::client::{ApiErrorKind, delete_exactly, describe};
use kube::Api;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

fn config_map(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default", "uid": uid}})
}

/// What `delete_exactly` makes of an object with the uid `read`, while the API server holds the object with the uid `there`, if any. With
/// `conflicts`, deletions fail for a reason that has nothing to do with the uid.
async fn deleted(there: Option<&'static str>, conflicts: bool) -> (Result<Option<bool>, ApiErrorKind>, Vec<Asked>) {
    let server = Server::new(move |asked| {
        let Some(uid) = there else {
            return json_response(404, &failure(404, "NotFound"));
        };
        let wanted = asked.body.as_ref().map(|body| &body["preconditions"]["uid"]);
        match asked.method.as_str() {
            "DELETE" if conflicts || wanted != Some(&json!(uid)) => json_response(409, &failure(409, "Conflict")),
            _ => json_response(200, &config_map(uid)),
        }
    });
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    let read = ObjectMeta {
        name: Some("a".to_owned()),
        uid: Some("read".to_owned()),
        ..ObjectMeta::default()
    };
    let answer = delete_exactly(&api, &read).await;
    let outcome = answer
        .map(|deleted| deleted.map(|deleted| deleted.left.is_some()))
        .map_err(|error| ApiErrorKind::of(&error));
    (outcome, server.asked())
}

// LIF-082: what is deleted is the claim that was found, not one that has its name since.
#[tokio::test]
async fn a_deletion_reaches_no_namesake() {
    let (outcome, asked) = deleted(Some("read"), false).await;
    assert_eq!(outcome, Ok(Some(true)));
    assert_eq!(asked.len(), 1);
    let (outcome, asked) = deleted(Some("namesake"), false).await;
    assert_eq!(outcome, Ok(None), "the object that was read is gone");
    let methods: Vec<&str> = asked.iter().map(|asked| asked.method.as_str()).collect();
    assert_eq!(methods, ["DELETE", "GET"]);
}

#[tokio::test]
async fn an_object_without_name_or_unique_id_is_not_deleted() {
    let server = Server::new(|_| json_response(200, &config_map("read")));
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    let text = |text: &str| Some(text.to_owned());
    for (name, uid, error) in [
        (None, text("read"), "ConfigMap without metadata.name"),
        (text("a"), None, "ConfigMap without metadata.uid"),
    ] {
        let read = ObjectMeta {
            name,
            uid,
            ..ObjectMeta::default()
        };
        let refused = delete_exactly(&api, &read)
            .await
            .expect_err("nothing to identify it by");
        assert!(describe(&refused).contains(error), "{}", describe(&refused));
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn what_is_gone_is_no_error_and_a_conflict_of_another_cause_is_one() {
    assert_eq!(deleted(None, false).await.0, Ok(None));
    assert_eq!(deleted(Some("read"), true).await.0, Err(ApiErrorKind::Conflict));
}
