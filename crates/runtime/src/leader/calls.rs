//! Calls about the lease that are under way at the same time.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;

use crate::client::found;

/// The answer to a call.
pub(super) enum Answer {
    /// The lease, or that there is none.
    Read(Result<Option<Box<Lease>>, kube::Error>),
    /// The lease as written, or why it was not.
    Written {
        /// When the call began, on the time scale of the elector.
        began: Duration,
        /// Its result.
        result: Result<Box<Lease>, kube::Error>,
    },
}

/// Calls that wait for their answers. Dropping them ends them.
pub(super) struct LeaseCalls {
    api: Api<Lease>,
    name: String,
    under_way: FuturesUnordered<BoxFuture<'static, Answer>>,
}

impl LeaseCalls {
    /// No calls.
    pub(super) fn new(api: &Api<Lease>, name: &str) -> Self {
        Self {
            api: api.clone(),
            name: name.to_owned(),
            under_way: FuturesUnordered::new(),
        }
    }

    /// Begins to read the lease.
    pub(super) fn read(&mut self) {
        let (api, name) = (self.api.clone(), self.name.clone());
        self.under_way.push(Box::pin(async move {
            Answer::Read(found(api.get(&name).await).map(|lease| lease.map(Box::new)))
        }));
    }

    /// Begins to write the lease at `began`, based on the version in it.
    pub(super) fn write(&mut self, lease: Lease, began: Duration) {
        let (api, name) = (self.api.clone(), self.name.clone());
        let exists = lease.metadata.resource_version.is_some();
        self.under_way.push(Box::pin(async move {
            let post = PostParams::default();
            let written = if exists {
                api.replace(&name, &post, &lease).await
            } else {
                api.create(&post, &lease).await
            };
            Answer::Written {
                began,
                result: written.map(Box::new),
            }
        }));
    }

    /// The next answer; `None` if no call is under way.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        self.under_way.next().await
    }
}
