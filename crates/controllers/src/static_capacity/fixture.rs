//! Claims of the pool `web` for tests.

use kerf_api::NodeClaim;
use kerf_cloud::FAKE_NODE_CLASS;
use serde_json::{Value, from_value, json};

use crate::cluster::Watched;
use crate::context::Context;

pub(super) fn class() -> Value {
    json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"})
}

pub(super) fn claim(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {"karpenter.sh/nodepool": "web"}},
        "spec": {"requirements": [], "nodeClassRef": class()}, "status": {"providerID": format!("p://{name}")},
    })
}

/// Makes claims known.
pub(super) fn know(context: &Context, names: &[&str]) {
    for name in names {
        let claim: NodeClaim = from_value(claim(name)).expect("a claim");
        context.cluster.notify(Watched::apply(&context.cluster, claim));
    }
}
