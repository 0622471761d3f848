//! Reading Kubernetes objects from files, folders and standard input.
//!
//! Every problem becomes an [`InputError`] that names file, document, object, field and remedy; reading goes on with the next document.

mod error;
mod expand;
mod kinds;
mod object;
mod source;
mod split;
mod unread;

pub(crate) use error::InputError;
pub(crate) use expand::expand_workloads;
pub(crate) use object::{Object, Objects, objects_of, read_objects};
pub(crate) use source::{Input as Source, read_inputs};
pub(crate) use unread::{Place, Unread};
