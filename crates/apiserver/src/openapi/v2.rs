//! The OpenAPI v2 document, for clients that ask for one before they do anything else, as `kubectl apply` does for a `List`.
//!
//! It describes nothing: such a client then leaves validation to the server, which validates every write.

use serde_json::{Value, json};

/// Media type of the protobuf document. Clients in Go ask for no other.
pub(crate) const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Whether a media type of an Accept header means the protobuf document. Older clients write the version after an `@`.
pub(crate) fn is_protobuf(media_type: &str) -> bool {
    media_type == PROTOBUF || media_type == "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
}

/// The document in JSON.
pub(crate) fn json() -> Value {
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "unversioned"}, "paths": {}})
}

/// The document in protobuf, a `openapi.v2.Document` of gnostic: fields 1 `swagger`, 2 `info` (1 `title`, 2 `version`) and 8 `paths`.
pub(crate) const fn protobuf() -> &'static [u8] {
    b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned\x42\x00"
}
