//! Reading Kubernetes objects from files, folders and standard input.
//!
//! Every problem becomes an [`InputError`] that names file, document, object, field and remedy; the next document is read all the same.

mod error;
mod expand;
mod kinds;
mod object;
mod parallel;
mod source;
mod split;
mod strict;
mod unread;

pub(crate) use error::InputError;
pub(crate) use expand::expand_workloads;
pub(crate) use object::{Object, Objects, objects_of, raw_documents, read_objects};
pub(crate) use source::{Input as Source, read_inputs};
pub(crate) use strict::refuse_unknown_fields;
pub(crate) use unread::{because, unread};
