//! The embedded Kubernetes API server.
//!
//! What it is for: tests, simulation and `kerf up` talk to a real Kubernetes API without etcd or a container. The server
//! is a [`tower::Service`], so that `kube::Client::new(server, "default")` works in process and a paused tokio runtime
//! gives virtual time; [`serve_https`] puts the same server on a loopback port for `kubectl`.
//!
//! What comes in: HTTP requests of the Kubernetes API. What goes out: JSON objects, lists, Tables, watch streams and
//! `Status` errors as clients expect them. There are no actors here: no scheduler, no controllers, no kubelet. The only
//! work the server does by itself is what a control plane owes every object: defaulting, validation, finalizers and
//! garbage collection by owner, all of it inside the request that causes it, so that runs are deterministic.
//!
//! Units: timestamps come from one clock callback ([`Clock`]), durations are tokio time, `resourceVersion` is one counter
//! over all resources.

mod admit;
mod answer;
mod apply;
mod body;
mod crd;
mod discovery;
mod dispatch;
mod error;
mod events;
mod gc;
mod https;
mod json;
mod observe;
mod offline;
mod openapi;
mod patch;
mod persist;
mod random;
mod registry;
mod request;
mod schema;
mod server;
mod state;
mod storage;
mod subresource;
mod table;
mod verbs;
mod view;

pub use body::ResponseBody;
pub use https::{ServeError, ServingHandle, serve_https};
pub use observe::{Change, Write};
pub use offline::{Admission, Problem};
pub use persist::OpenError;
pub use server::{ApiServer, ApiServerBuilder, Clock};
