//! The server as its clients see it: objects, watches, defaults, refusals, subresources, custom resources, discovery, state on disk.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is wrong")]

mod apply;
mod autoscalers;
mod custom_resources;
mod data_folder;
mod defaults;
mod discovery;
mod eviction;
mod kubectl;
mod limit_ranges;
mod objects;
mod recorded;
mod refusals;
mod resource_quotas;
mod robustness;
mod scale;
mod serving;
mod support;
mod watch;

use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use support::{code, message, reason};

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()})
}

async fn refusal<K>(api: &Api<K>, object: Value) -> String
where
    K: kube::Resource + Clone,
{
    // The objects are wrong on purpose: they go out as they are.
    let request = kube::api::Request::new(api.resource_url())
        .create(&PostParams::default(), serde_json::to_vec(&object).unwrap())
        .unwrap();
    let error = api.clone().into_client().request::<Value>(request).await.unwrap_err();
    format!("{} {}: {}", code(&error), reason(&error), message(&error))
}
