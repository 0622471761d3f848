//! Types and schemas of objects: the table of built-in types, and CRD schemas that prune, default and validate objects.
//!
//! In: a CustomResourceDefinition, then objects of it, as JSON. Out: the same objects as a server would store them, or
//! every reason why it would not, in the words of the real server. Nothing here knows storage, requests or time.

pub(crate) mod builtin;
mod cel;
mod crd;
mod crd_checks;
mod defaults;
mod field_error;
mod formats;
mod pattern;
mod place;
pub(crate) mod protobuf;
mod prune;
mod structural;
mod validate;

pub(crate) use crd::{CompiledCrd, CompiledVersion, FieldValidation};
pub(crate) use field_error::{ErrorKind, FieldError};
pub(crate) use place::Place;
pub(crate) use structural::{ListType, SchemaNode};

#[cfg(test)]
mod tests;
