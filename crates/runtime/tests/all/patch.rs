//! A change of an object sends what differs and nothing else, under the lock that it needs.

use crate::fake::{Asked, Server, failure, json_response};
use kerf_api::{ConditionSet, NodeClaim};
use kerf_runtime::client::{
    ApiErrorKind, Lock, Part, Written, patch_object, patch_status, send_patch, unless_conflict,
};
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const PATH: &str = "/apis/karpenter.sh/v1/nodeclaims/a?";
const STATUS: &str = "/apis/karpenter.sh/v1/nodeclaims/a/status?";

fn claim() -> NodeClaim {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "a", "resourceVersion": "7", "finalizers": ["others/one"], "labels": {"a": "1", "b": "1"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {"providerID": "p://1", "nodeName": "n"},
    });
    serde_json::from_value(claim).expect("a claim")
}

/// A copy with a label changed and one removed, a finalizer added, and a changed status.
fn changed() -> NodeClaim {
    let mut claim = claim();
    let labels = claim.labels_mut();
    labels.remove("b");
    labels.insert("a".to_owned(), "2".to_owned());
    claim.finalizers_mut().push("ours/one".to_owned());
    ConditionSet::new(&mut claim, jiff::Timestamp::UNIX_EPOCH).set_true("Launched");
    claim.status.get_or_insert_default().node_name = None;
    claim
}

/// An API server that accepts every patch and answers with a claim of a later version.
fn accepting() -> Server {
    let mut stored = claim();
    stored.metadata.resource_version = Some("8".to_owned());
    let stored = serde_json::to_value(stored).expect("JSON");
    Server::new(move |_| json_response(200, &stored))
}

fn refusing(code: u16, reason: &str) -> Server {
    Server::script(vec![(code, failure(code, reason))])
}

fn api(server: &Server) -> Api<NodeClaim> {
    Api::all(server.client())
}

/// The one request a server got.
fn only(server: &Server) -> Asked {
    let [asked] = <[Asked; 1]>::try_from(server.asked()).expect("one request");
    assert_eq!(asked.method, "PATCH");
    asked
}

// OPS-106
#[tokio::test]
async fn what_differs_is_sent_and_the_lock_when_asked() {
    let patch = |lock: Value| {
        let mut metadata = json!({"finalizers": ["others/one", "ours/one"], "labels": {"a": "2", "b": null}});
        if !lock.is_null() {
            metadata["resourceVersion"] = lock;
        }
        json!({"metadata": metadata})
    };
    for (lock, sent) in [(Lock::Optimistic, patch(json!("7"))), (Lock::None, patch(Value::Null))] {
        let server = accepting();
        let written = patch_object(&api(&server), &claim(), &changed(), lock)
            .await
            .expect("written");
        let stored = written.stored().expect("stored");
        assert_eq!(
            stored.metadata.resource_version.as_deref(),
            Some("8"),
            "the answer of the API server"
        );
        let asked = only(&server);
        assert_eq!((asked.path.as_str(), asked.body), (PATH, Some(sent)));
    }
}

// OPS-106
#[tokio::test]
async fn a_status_is_written_at_its_own_path_and_without_the_rest() {
    let server = accepting();
    let after = changed();
    let written = patch_status(&api(&server), &claim(), &after, Lock::Optimistic).await;
    assert!(matches!(written, Ok(Written::Stored(_))));
    let conditions = &after.status.as_ref().expect("a status").conditions;
    let status = json!({"conditions": conditions, "nodeName": null});
    let asked = only(&server);
    assert_eq!(asked.path, STATUS);
    assert_eq!(
        asked.body,
        Some(json!({"metadata": {"resourceVersion": "7"}, "status": status}))
    );
}

#[tokio::test]
async fn nothing_to_do_is_no_request() {
    let server = accepting();
    let api = api(&server);
    let (before, mut only_status) = (claim(), claim());
    only_status.status.get_or_insert_default().node_name = None;
    let mut only_labels = claim();
    only_labels.labels_mut().clear();
    for lock in [Lock::Optimistic, Lock::None] {
        for written in [
            patch_object(&api, &before, &before, lock).await,
            patch_status(&api, &before, &before, lock).await,
            // The difference is in the part that is not written.
            patch_object(&api, &before, &only_status, lock).await,
            patch_status(&api, &before, &only_labels, lock).await,
        ] {
            assert!(matches!(written, Ok(Written::Unchanged)), "{written:?}");
        }
    }
    assert_eq!(server.asked().len(), 0);
}

// OPS-105
#[tokio::test]
async fn an_object_that_is_gone_is_no_error() {
    let server = refusing(404, "NotFound");
    let api = api(&server);
    let (before, after) = (claim(), changed());
    let merge = Patch::Merge(json!({"metadata": {"labels": {"a": "2"}}}));
    for written in [
        patch_object(&api, &before, &after, Lock::Optimistic).await,
        patch_status(&api, &before, &after, Lock::None).await,
        send_patch(&api, "a", Part::Object, &merge).await,
    ] {
        assert!(matches!(written, Ok(Written::Gone)), "{written:?}");
    }
}

// OPS-105
#[tokio::test]
async fn a_conflict_is_an_error_unless_the_caller_reads_again() {
    let server = refusing(409, "Conflict");
    let (before, after) = (claim(), changed());
    let write = async || patch_object(&api(&server), &before, &after, Lock::Optimistic).await;
    let error = write().await.expect_err("a conflict");
    assert_eq!(ApiErrorKind::of(&error), ApiErrorKind::Conflict);
    assert_eq!(
        server.asked().len(),
        1,
        "it is not sent again: the same patch would be refused again"
    );
    assert!(matches!(unless_conflict(write().await), Ok(None)));
    let server = refusing(422, "Invalid");
    let refused = patch_object(&api(&server), &before, &after, Lock::Optimistic).await;
    assert!(unless_conflict(refused).is_err(), "another refusal stays an error");
}

#[tokio::test]
async fn a_patch_of_the_caller_is_sent_as_it_is() {
    for (part, path) in [(Part::Object, PATH), (Part::Status, STATUS)] {
        let server = accepting();
        let sent = json!({"metadata": {"labels": {"a": "1"}}});
        let written = send_patch(&api(&server), "a", part, &Patch::Merge(sent.clone())).await;
        assert!(matches!(written, Ok(Written::Stored(_))));
        let asked = only(&server);
        assert_eq!((asked.path.as_str(), asked.body), (path, Some(sent)));
    }
}
