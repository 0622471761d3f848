//! OpenAPI v3 documents, one per group and version, as `/openapi/v3` serves them. The only v2 document describes nothing (`v2.rs`).
//!
//! In: the resources a server serves. Out: documents good enough for what clients do with them: `kubectl explain` walks
//! the schemas, `kubectl apply` and `diff` read merge keys and look for the `fieldValidation` and `dryRun` parameters of a
//! patch. Built-in kinds come from the type table, custom kinds from their CRD.

mod builtin_schemas;
mod descriptions;
mod documents;
mod paths;
pub(crate) mod v2;

pub(crate) use documents::{DocumentedResource, document, document_path, index};
