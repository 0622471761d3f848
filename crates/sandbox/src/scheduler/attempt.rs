//! One attempt to place one pod.

use super::nominations::nominated_node;
use super::report::{Reports, message};
use super::scheduling_loop::{Shared, is_waiting};
use super::score::{Scoring, SoftSpreadCounts, score};
use crate::context::ActorContext;
use crate::node_match::{fields_hold, required_terms};
use crate::store::key_of;
use crate::volumes::{SELECTED_NODE, claim_names, class_of, is_bound, waits_for_consumer};
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_check::filter::{Filter, FilterReason};
use kerf_model::node::Node;
use kerf_runtime::ObjectKey;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;

/// The result of the search for a node.
enum Verdict {
    Node(String),
    /// No node fits, with the reasons.
    Nowhere(String),
}

/// Tries to schedule one pod and reports the result to the queue.
pub(super) async fn attempt(
    context: &ActorContext,
    shared: &Shared,
    scoring: Scoring,
    reports: &mut Reports,
    key: &ObjectKey,
) {
    let Some(pod) = context.pods.get(key).filter(|pod| is_waiting(pod)) else {
        shared.queue().remove(key);
        return;
    };
    let verdict = match claims_refusal(context, &pod) {
        Some(refusal) => Verdict::Nowhere(refusal),
        None => find(shared, scoring, &pod),
    };
    let result = match verdict {
        Verdict::Node(node) => {
            let placed = place(context, shared, &pod, &node).await;
            match placed {
                Ok(true) => {
                    shared.queue().remove(key);
                    reports.scheduled(context, &pod, &node).await
                }
                Ok(false) => {
                    shared.queue().again(key);
                    Ok(())
                }
                Err(error) => Err(error),
            }
        }
        Verdict::Nowhere(message) => {
            let reported = reports.unschedulable(context, &pod, &message).await;
            shared.queue().failed(key);
            reported
        }
    };
    if let Err(error) = result {
        tracing::debug!(pod = key.name, %error, "scheduling attempt failed");
        shared.queue().again(key);
    }
}

/// The reason why the pod's volume claims fit no node at all, if there is one.
fn claims_refusal(context: &ActorContext, pod: &Pod) -> Option<String> {
    let namespace = pod.namespace().unwrap_or_default();
    let nodes = context.nodes.all().len();
    for name in claim_names(pod) {
        let Some(claim) = context.claims.get(&ObjectKey::new(&*namespace, &*name)) else {
            return Some(on_every_node(
                nodes,
                &format!("persistentvolumeclaim \"{name}\" not found"),
            ));
        };
        let waits = class_of(context, &claim).is_some_and(|class| waits_for_consumer(&class));
        if !is_bound(&claim) && !waits {
            return Some(on_every_node(nodes, "pod has unbound immediate PersistentVolumeClaims"));
        }
    }
    None
}

fn on_every_node(nodes: usize, reason: &str) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    format!(
        "0/{nodes} nodes are available: {reason}. preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    )
}

fn find(shared: &Shared, scoring: Scoring, api_pod: &Pod) -> Verdict {
    let mut cache = shared.cache();
    let Some(pod) = cache.waiting(api_pod) else {
        return Verdict::Nowhere("the pod cannot be read".to_owned());
    };
    // Daemon pods differ only in their node affinity by field, which the model does not have.
    let plain = api_pod.spec.as_ref().and_then(required_terms).is_none();
    let nominated = nominated_node(api_pod);
    let alike = plain && nominated.is_none();
    if let Some(message) = cache.refusal(&pod).filter(|_| alike) {
        return Verdict::Nowhere(message.to_owned());
    }
    let (cluster, repelling, nominations) = cache.snapshot();
    let filter = Filter::knowing(&pod, cluster, |node| repelling.contains(&node.name));
    let soft_spread_counts = SoftSpreadCounts::new(&pod, cluster);
    let judge = |node: &Node| {
        if pinned_elsewhere(api_pod, &node.name) {
            return Err(vec![FilterReason::NodeAffinity]);
        }
        if let Some(with_nominated) = nominations.with_nominated_pods(node, &pod) {
            filter.node(&with_nominated)?;
        }
        filter.node(node)
    };
    let preferred = cluster.nodes.iter().find(|node| Some(&*node.name) == nominated);
    if let Some(node) = preferred.filter(|node| judge(node).is_ok()) {
        return Verdict::Node(node.name.to_string());
    }
    let mut best: Option<(i64, &Arc<str>)> = None;
    let mut reasons = Vec::new();
    for node in &cluster.nodes {
        match judge(node) {
            Ok(()) => {
                let score = score(scoring, &pod, node, cluster, &soft_spread_counts);
                // Nodes are sorted by name: the first of equal scores wins.
                if best.is_none_or(|(highest, _)| score > highest) {
                    best = Some((score, &node.name));
                }
            }
            Err(of_node) => reasons.push(of_node),
        }
    }
    match best {
        Some((_, name)) => Verdict::Node(name.to_string()),
        None => {
            let text = message(cluster.nodes.len(), &reasons);
            if alike {
                cache.refused(Arc::clone(&pod), &text);
            }
            Verdict::Nowhere(text)
        }
    }
}

/// Whether required node affinity by field excludes the node, as that of daemon pods does. The model has no field requirements.
fn pinned_elsewhere(pod: &Pod, node: &str) -> bool {
    let terms = pod.spec.as_ref().and_then(required_terms);
    terms.is_some_and(|terms| !terms.iter().any(|term| fields_hold(term, node)))
}

/// Binds the pod. Returns false if its volumes have to be provisioned first.
async fn place(context: &ActorContext, shared: &Shared, pod: &Pod, node: &str) -> Result<bool, kube::Error> {
    if !claims_ready(context, pod, node).await? {
        return Ok(false);
    }
    let key = key_of(pod);
    shared.cache().assume(pod, node);
    let bound = bind(context, pod, node).await;
    if bound.is_err() {
        shared.cache().forget(&key);
    }
    bound.map(|()| true)
}

/// Sets the selected node of claims that wait for one. Returns true once every claim is bound.
async fn claims_ready(context: &ActorContext, pod: &Pod, node: &str) -> Result<bool, kube::Error> {
    let namespace = pod.namespace().unwrap_or_default();
    let mut ready = true;
    for name in claim_names(pod) {
        let key = ObjectKey::new(&*namespace, &*name);
        let Some(claim) = context.claims.get(&key).filter(|claim| !is_bound(claim)) else {
            continue;
        };
        ready = false;
        if crate::object::annotation(&*claim, SELECTED_NODE) != Some(node) {
            let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
            context.patch(&context.claims, &key, &patch).await?;
        }
    }
    Ok(ready)
}

async fn bind(context: &ActorContext, pod: &Pod, node: &str) -> Result<(), kube::Error> {
    let namespace = pod.namespace().unwrap_or_default();
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(pod.name_any()),
            namespace: Some(namespace.clone()),
            uid: pod.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    let _: Value = api
        .create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding)
        .await?;
    Ok(())
}
