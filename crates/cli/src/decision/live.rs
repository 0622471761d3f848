//! Reads a cluster from an API server: lists every kind that decisions read once.

use super::{Input, input, nominations};
use crate::args::ClusterArgs;
use crate::listed::listed;
use crate::manifests::objects_of;
use anyhow::Context as _;
use kerf_runtime::client::{ApiLayers, Connection};
use kube::Client;
use kube::core::Request;
use kube::core::params::ListParams;
use serde_json::Value;
use std::sync::Arc;

impl ClusterArgs {
    /// Connects to the cluster, and returns what `read` returns.
    pub(crate) fn read<T>(&self, read: impl AsyncFnOnce(&Connection) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting the runtime")?;
        runtime.block_on(async { read(&self.connect().await?).await })
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        let context = self.context.as_deref();
        Ok(match (&self.kubeconfig, context) {
            (Some(path), _) => Connection::from_file(path, context).await?,
            (None, Some(context)) => Connection::with_context(context).await?,
            (None, None) => Connection::infer().await?,
        })
    }
}

/// Whether a cluster may lack a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Every cluster that can be decided about serves it.
    Required,
    /// Nothing is wrong where it is not served.
    Optional,
}

/// The paths of the kinds that decisions read.
pub const KINDS: [(&str, Presence); 15] = [
    ("/api/v1/namespaces", Presence::Required),
    ("/api/v1/nodes", Presence::Required),
    ("/api/v1/pods", Presence::Required),
    ("/api/v1/persistentvolumeclaims", Presence::Required),
    ("/api/v1/persistentvolumes", Presence::Required),
    ("/apis/apps/v1/daemonsets", Presence::Required),
    ("/apis/storage.k8s.io/v1/storageclasses", Presence::Required),
    ("/apis/storage.k8s.io/v1/csinodes", Presence::Required),
    ("/apis/policy/v1/poddisruptionbudgets", Presence::Required),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", Presence::Required),
    ("/apis/karpenter.sh/v1/nodepools", Presence::Required),
    ("/apis/karpenter.sh/v1/nodeclaims", Presence::Required),
    ("/apis/karpenter.sh/v1alpha1/nodeoverlays", Presence::Optional),
    ("/apis/kerf.sh/v1alpha1/noderepairpolicies", Presence::Optional),
    (CAPACITY_BUFFERS, Presence::Optional),
];

const CAPACITY_BUFFERS: &str = "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers";
/// What CapacityBuffers refer to. Listed only if there are any.
const REFERENTS: [&str; 4] = [
    "/api/v1/podtemplates",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/replicasets",
];

/// Objects per answer.
const PAGE: u32 = 500;

/// Lists a cluster.
pub(crate) async fn from_cluster(connection: &Connection) -> anyhow::Result<Input> {
    let client = connection.client(&ApiLayers::new().user_agent(concat!("kerf/", env!("CARGO_PKG_VERSION"))))?;
    let server: Arc<str> = connection.server().into();
    let mut lists = Vec::new();
    for (path, presence) in KINDS {
        list(&client, path, presence, &mut lists)
            .await
            .with_context(|| format!("listing {path} of {server}"))?;
    }
    if lists.iter().any(|list| has_items_of(list, "CapacityBufferList")) {
        for path in REFERENTS {
            list(&client, path, Presence::Required, &mut lists)
                .await
                .with_context(|| format!("listing {path} of {server}"))?;
        }
    }
    let mut input = from_lists(&server, lists);
    let cluster = &mut input.cluster;
    if !cluster.launching().is_empty() {
        cluster.nominations = nominations::read(&events(&client).await?);
    }
    let unknown = cluster.launching();
    let unknown = unknown
        .into_iter()
        .filter(|claim| !cluster.nominations.contains_key(*claim));
    let unknown: Vec<&str> = unknown.collect();
    let note = (!unknown.is_empty()).then(|| passed_over(&unknown));
    input.notes.extend(note);
    Ok(input)
}

fn has_items_of(list: &Value, kind: &str) -> bool {
    let items = list.get("items").and_then(Value::as_array);
    list.get("kind").and_then(Value::as_str) == Some(kind) && items.is_some_and(|items| !items.is_empty())
}

/// Reads the answers of an API server to requests for lists.
pub(crate) fn from_lists(server: &Arc<str>, lists: Vec<Value>) -> Input {
    input::read_admitted(objects_of(server, lists))
}

/// How many names the note has.
const NAMES_SHOWN: usize = 5;

/// The note about claims whose pods are not known.
fn passed_over(claims: &[&str]) -> String {
    if let [claim] = claims {
        return format!(
            "NodeClaim {claim} has no machine yet, and no event tells which pods it was made for; it is passed over, and those pods count as waiting"
        );
    }
    format!(
        "NodeClaims {} have no machine yet, and no event tells which pods they were made for; they are passed over, and those pods count as waiting",
        listed(claims, NAMES_SHOWN)
    )
}

/// The events that may name the pods of unlaunched claims; none where the user may not read events.
async fn events(client: &Client) -> anyhow::Result<Vec<Value>> {
    let mut lists = Vec::new();
    match pages(client, "/api/v1/events", nominations::SELECTOR, &mut lists).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(Vec::new()),
        Err(error) => Err(error).context("listing events"),
        Ok(()) => Ok(lists),
    }
}

async fn list(client: &Client, path: &str, presence: Presence, lists: &mut Vec<Value>) -> anyhow::Result<()> {
    match pages(client, path, "", lists).await {
        Err(kube::Error::Api(status)) if status.code == 404 && presence == Presence::Optional => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 && path.starts_with("/apis/karpenter.sh/") => {
            anyhow::bail!(
                "the cluster does not know the kind; `kerf crds | kubectl apply --server-side -f -` installs it"
            )
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            anyhow::bail!("the API server does not serve {path}; check that the kubeconfig names a Kubernetes cluster")
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let resource = path.rsplit('/').next().unwrap_or(path);
            anyhow::bail!("{}; your user needs `list` on {resource}, cluster-wide", status.message)
        }
        answer => Ok(answer?),
    }
}

/// Lists page by page. An empty field selector selects everything.
async fn pages(client: &Client, path: &str, fields: &str, lists: &mut Vec<Value>) -> kube::Result<()> {
    let mut params = ListParams::default().limit(PAGE);
    if !fields.is_empty() {
        params = params.fields(fields);
    }
    loop {
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        let answer: Value = client.request(request).await?;
        let next = answer.pointer("/metadata/continue").and_then(Value::as_str);
        let next = next.filter(|token| !token.is_empty()).map(str::to_owned);
        lists.push(answer);
        match next {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_first_claims() {
        assert!(passed_over(&["a"]).starts_with("NodeClaim a has no machine yet, "));
        let several = passed_over(&["a", "b", "c", "d", "e", "f", "g"]);
        assert!(
            several.starts_with("NodeClaims a, b, c, d, e and 2 more have no machine yet, "),
            "{several}"
        );
    }
}
