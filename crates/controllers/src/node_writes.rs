//! Changes Nodes and lets the cluster know the answer at once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use kerf_runtime::client::{ApiErrorKind, Lock, Part, Written, found, name_of, patch_object, send_patch};
use kerf_state::lean::{LeanNode, LeanTaint};
use kube::Api;
use kube::api::Patch;
use serde_json::json;

use crate::context::Context;

/// Writes what `after` changes in `before`, unless the Node has changed since it was read.
pub(crate) async fn write_node(context: &Context, before: &Node, after: &Node) -> Result<Written<Node>, kube::Error> {
    let written = patch_object(&api(context), before, after, Lock::Optimistic).await?;
    Ok(take_over(context, written))
}

/// A Node after an edit.
pub(crate) struct Edited {
    /// As it is now, as far as the cluster knows Nodes.
    pub(crate) node: Node,
    /// Whether there was something to write.
    pub(crate) changed: bool,
}

/// Changes a Node that the cluster knows. After a conflict the edit is repeated on the version the cluster knows by then. The Node is read from
/// the API server only if that fails too, or if it seems to need no change. `None` if the Node is gone or another one has its name.
pub(crate) async fn edit_node(
    context: &Context,
    known: &LeanNode,
    edit: impl Fn(&mut Node),
) -> Result<Option<Edited>, kube::Error> {
    let name = name_of(known)?;
    let is_newer = |node: &Arc<LeanNode>| {
        let (old, new) = (&known.metadata, &node.metadata);
        old.uid == new.uid && old.resource_version != new.resource_version
    };
    let mut first = edited(context, &as_read(known), &edit).await;
    let newer = match &first {
        // The watch may have delivered the change while the call was under way.
        Err(error) if ApiErrorKind::of(error) == ApiErrorKind::Conflict => context.cluster.node(name).filter(is_newer),
        _ => None,
    };
    let known = newer.as_deref().unwrap_or(known);
    if newer.is_some() {
        first = edited(context, &as_read(known), &edit).await;
    }
    let conflict = match first {
        Ok(None) => return Ok(None),
        Ok(Some(edited)) if edited.changed => return Ok(Some(edited)),
        Ok(Some(_)) => None,
        Err(error) if ApiErrorKind::of(&error) == ApiErrorKind::Conflict => Some(error),
        Err(error) => return Err(error),
    };
    let live = found(api(context).get(name).await)?;
    let Some(live) = live.filter(|live| live.metadata.uid == known.metadata.uid) else {
        return Ok(None);
    };
    match conflict {
        // What is known is the newest: to write it again at once would not help.
        Some(error) if live.metadata.resource_version == known.metadata.resource_version => Err(error),
        _ => edited(context, &live, &edit).await,
    }
}

/// The Node after an edit of `before`; `None` if it is gone.
async fn edited(context: &Context, before: &Node, edit: &impl Fn(&mut Node)) -> Result<Option<Edited>, kube::Error> {
    let mut node = before.clone();
    edit(&mut node);
    let changed = match write_node(context, before, &node).await? {
        Written::Gone => return Ok(None),
        Written::Unchanged => false,
        Written::Stored(_) => true,
    };
    Ok(Some(Edited { node, changed }))
}

fn api(context: &Context) -> Api<Node> {
    Api::all(context.client.clone())
}

/// Lets the cluster know the stored Node.
fn take_over(context: &Context, written: Written<Node>) -> Written<Node> {
    if let Written::Stored(stored) = &written {
        context.cluster.wrote_node(stored);
    }
    written
}

/// A Node with what the cluster knows of it: metadata, provider id and taints. Everything else is absent, so it may not be changed.
pub(crate) fn as_read(known: &LeanNode) -> Node {
    let taint = |taint: &LeanTaint| Taint {
        key: taint.key.clone(),
        value: (!taint.value.is_empty()).then(|| taint.value.clone()),
        effect: taint.effect.clone(),
        time_added: taint.time_added.clone(),
    };
    let taints: Vec<Taint> = known.spec.taints.iter().map(taint).collect();
    Node {
        metadata: known.metadata.clone(),
        spec: Some(NodeSpec {
            provider_id: Some(known.spec.provider_id.clone()).filter(|id| !id.is_empty()),
            taints: (!taints.is_empty()).then_some(taints),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

/// Sets one label of a Node, whatever else has changed. Returns the Node as it is stored, `None` if it is gone.
pub(crate) async fn label_node(
    context: &Context,
    name: &str,
    key: &str,
    value: &str,
) -> Result<Option<Node>, kube::Error> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
    let written = send_patch(&api(context), name, Part::Object, &patch).await?;
    Ok(take_over(context, written).stored())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::{Method, Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::Value;

    use super::*;
    use crate::cluster::Watched;

    fn node(version: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node", "spec": {"providerID": "p://1"},
            "metadata": {"name": "n", "uid": "n", "resourceVersion": version},
        })
    }

    fn lean(version: &str) -> LeanNode {
        serde_json::from_value(node(version)).expect("a node")
    }

    /// The methods of the calls that an edit makes if its first meets a conflict, and if `delivered`, the watch has the newer Node.
    async fn calls(delivered: bool) -> Vec<Method> {
        let mut context = Context::without_api();
        let cluster = context.cluster.clone();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut seen = seen.lock().expect("no panic");
            seen.push(request.method().clone());
            let (code, body) = match seen.len() {
                1 => (
                    409,
                    json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}),
                ),
                2 => (200, node("2")),
                _ => (200, node("3")),
            };
            if delivered && seen.len() == 1 {
                cluster.notify(Watched::apply(&cluster, lean("2")));
            }
            let answer = Response::builder()
                .status(code)
                .body(Body::from(body.to_string().into_bytes()));
            async { Ok::<_, Infallible>(answer.expect("an answer")) }
        });
        context.client = Client::new(service, "default");
        let edit = |node: &mut Node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert("edited".to_owned(), "true".to_owned());
        };
        let edited = edit_node(&context, &lean("1"), edit).await.expect("written");
        assert!(edited.is_some_and(|edited| edited.changed));
        let calls = calls.lock().expect("no panic");
        calls.clone()
    }

    #[tokio::test]
    async fn a_conflict_that_the_watch_explains_needs_no_read() {
        assert_eq!(calls(true).await, [Method::PATCH, Method::PATCH]);
        assert_eq!(calls(false).await, [Method::PATCH, Method::GET, Method::PATCH]);
    }
}
