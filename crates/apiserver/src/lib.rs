//! the embedded Kubernetes API server.
