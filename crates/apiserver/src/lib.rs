//! The embedded Kubernetes API server.
//!
//! Tests, simulation and `kerf up` use it as a real Kubernetes API without etcd or a container. The server
//! is a [`tower::Service`], so that `kube::Client::new(server, "default")` works in process and a paused tokio runtime
//! gives virtual time; [`serve_https`] puts the same server on a loopback port for `kubectl`.
//!
//! Input: HTTP requests of the Kubernetes API. Output: JSON objects, lists, Tables, watch streams and `Status` errors. There is no scheduler,
//! no controller and no kubelet. The server itself does defaulting, validation, finalizers and garbage collection by owner, all inside the
//! request that causes it, so that runs are deterministic.
//!
//! Units: timestamps come from one clock callback ([`Clock`]), durations are tokio time, `resourceVersion` is one counter
//! over all resources.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::iter_over_hash_type)
)]

mod admission;
mod discovery;
mod error;
mod garbage_collection;
mod handlers;
mod json;
mod openapi;
mod patch;
mod printing;
mod quota;
mod registry;
mod request;
mod schema;
mod server;
mod server_side_apply;
mod state;
mod storage;
mod verbs;
mod view;
mod watch;
mod write;

pub use admission::{Admission, Problem, UnknownField};
pub use handlers::ResponseBody;
pub use server::{ApiServer, ApiServerBuilder, ServeError, ServingHandle, serve_https};
pub use state::{Backup, Clock, Write};
pub use storage::{Change, OpenError};
