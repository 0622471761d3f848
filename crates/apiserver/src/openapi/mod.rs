//! OpenAPI v3 documents.
