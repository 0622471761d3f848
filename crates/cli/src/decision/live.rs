//! From an API server to a cluster: every kind that decisions look at is listed once.

use super::{Input, input};
use crate::manifests::objects_of;
use anyhow::Context as _;
use kerf_runtime::client::{ApiLayers, Connection};
use kube::Client;
use kube::core::Request;
use kube::core::params::ListParams;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// Which cluster, as users of kubectl say it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
}

impl Access {
    /// Connects.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
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
enum Presence {
    Required,
    Optional,
}

const KINDS: [(&str, Presence); 13] = [
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
    let (objects, mut errors) = objects_of(&server, lists);
    let (cluster, input_errors) = input::read_admitted(objects);
    errors.extend(input_errors);
    let mut notes = Vec::new();
    let launching = cluster.launching();
    if launching > 0 {
        notes.push(format!(
            "note: {launching} NodeClaim(s) have no machine yet; which pods they were made for is known to the controller alone, and not counted here"
        ));
    }
    Ok(Input { cluster, errors, notes })
}

async fn list(client: &Client, path: &str, presence: Presence, lists: &mut Vec<Value>) -> anyhow::Result<()> {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let request = Request::new(path).list(&params)?;
        let answer = match client.request::<Value>(request).await {
            Ok(answer) => answer,
            Err(kube::Error::Api(status)) if status.code == 404 && presence == Presence::Optional => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                anyhow::bail!(
                    "the cluster does not know the kind; `kerf crds | kubectl apply --server-side -f -` installs it"
                )
            }
            Err(error) => return Err(error.into()),
        };
        let next = answer.pointer("/metadata/continue").and_then(Value::as_str);
        let next = next.filter(|token| !token.is_empty()).map(str::to_owned);
        lists.push(answer);
        match next {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}
