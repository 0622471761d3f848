//! The patch formats of the Kubernetes API.
