//! The server: built in memory or from a folder, a tower service in process, HTTPS on a loopback port.

mod builder;
mod https;
mod service;

pub use builder::ApiServerBuilder;
pub use https::{ServeError, ServingHandle, serve_https};
pub use service::ApiServer;
